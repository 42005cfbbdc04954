/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process that its parent has stopped stays stopped through snapshots and through their violent
 * ends; its parent hears of its own SIGSTOP, and of nothing else until it sends SIGCONT.
 */
#include "soak.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { KILLS_PER_RUN = 4 /* one kill for so many whole snapshots */ };

/* A thread that was just let go is for a moment on its way back into its stop. */
static bool all_stand(const struct soak_victim *victim)
{
	int64_t until = soak_now() + SOAK_GONE_MS * 1000000ll;
	pid_t tracer;

	for (size_t i = 0; i < SOAK_THREADS; i++)
		while (soak_state(victim->pid, victim->tids[i], &tracer) != 'T' || tracer) {
			if (soak_now() > until)
				return false;
			soak_sleep_us(100);
		}
	return true;
}

static void expect_standing(struct soak_victim *victim, const unsigned long *before,
			    const char *what)
{
	if (!all_stand(victim))
		soak_bad("%s: not all threads are stopped any more", what);
	for (size_t i = 0; i < SOAK_THREADS; i++)
		if (victim->counters[i][0] != before[i])
			soak_bad("%s: thread %zu ran", what, i);
	soak_listen(victim);
	if (victim->stops != 1 || victim->continues)
		soak_bad("%s: the parent heard of %ld stops, %ld continues", what, victim->stops,
			 victim->continues);
}

static void snapshot_once(const struct soak *soak, const char *const *arguments, long kill_after_us)
{
	struct soak_run run = soak_start(soak, arguments, -1);
	int status;

	if (kill_after_us >= 0) {
		soak_sleep_us(kill_after_us);
		kill(run.pid, SIGKILL);
	}
	status = soak_wait(&run);
	if (kill_after_us < 0 && status != 0) {
		char *err = soak_text(run.err);

		soak_bad("status %#x: %s", status, err);
		free(err);
	}
	soak_expect_no_leftovers(&run, "a stopped target");
	soak_close(&run);
}

void soak_group_stop(const struct soak *soak)
{
	struct soak_victim victim = soak_victim_start();
	const char *const arguments[] = { "-p", soak_number(victim.pid), NULL };
	long usual = soak_usual_us(soak, arguments), snapshots = 0, kills = 0;
	unsigned long before[SOAK_THREADS];
	struct soak_rest rest = { 0 };

	kill(victim.pid, SIGSTOP);
	if (!all_stand(&victim))
		soak_broken("SIGSTOP");
	for (size_t i = 0; i < SOAK_THREADS; i++)
		before[i] = victim.counters[i][0];
	while (snapshots < soak->count) {
		bool violent = kills < snapshots / KILLS_PER_RUN;

		snapshot_once(soak, arguments, violent ? soak_random(usual) : -1);
		if (violent)
			kills++;
		else
			snapshots++;
		expect_standing(&victim, before, violent ? "killed" : "snapshot");
	}
	soak_figure("snapshots", snapshots);
	soak_figure("kills", kills);
	soak_figure("stops_seen", victim.stops);
	soak_figure("continues_seen", victim.continues);
	kill(victim.pid, SIGCONT);
	soak_sleep_us(10000);
	soak_listen(&victim);
	if (victim.continues != 1)
		soak_bad("after SIGCONT the parent heard of %ld continues", victim.continues);
	victim.stops = victim.continues = 0;
	soak_expect_free(&victim, &rest, "after SIGCONT");
	soak_victim_end(&victim);
}
