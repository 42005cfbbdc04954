/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tool is ended at random moments, by signals and by its output: the target runs on, and no
 * process is left over. Moments are spread over the whole usual time of a run.
 */
#include "soak.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORDS = 8, RECORD_US = 40000, AIM_US = 1000 };

/* Runs of different kinds in turn; a recording ends when it is told to. */
struct plan {
	const char *words[MOST_WORDS];
	bool record, untraced;
	long usual_us;
};

struct attack {
	const struct soak *soak;
	struct soak_victim victim;
	struct soak_rest rest;
	struct plan plans[4];
	long hits, traced, ended; /* attacks that came in time; with the target traced; too late */
};

static void attack_init(struct attack *attack, const struct soak *soak)
{
	const char *pid;

	*attack = (struct attack){ .soak = soak, .victim = soak_victim_start() };
	pid = soak_number(attack->victim.pid);
	attack->plans[0] = (struct plan){ .words = { "-p", pid, "--timeout=100000" } };
	attack->plans[1] = (struct plan){ .words = { "record", "-d", "0", pid }, .record = true };
	attack->plans[2] = (struct plan){ .words = { "--json", "-p", pid, "--timeout=100000" } };
	attack->plans[3] = (struct plan){ .words = { "--no-stop", "-p", pid, "--timeout=100000" },
					  .untraced = true };
	for (size_t i = 0; i < SOAK_ARRAY_SIZE(attack->plans); i++) {
		struct plan *plan = &attack->plans[i];

		plan->usual_us = plan->record ? attack->plans[0].usual_us + RECORD_US
					      : soak_usual_us(soak, plan->words);
	}
}

static void attack_deinit(struct attack *attack)
{
	soak_figure("hits", attack->hits);
	soak_figure("hits_while_traced", attack->traced);
	soak_figure("too_late", attack->ended);
	soak_report_rest(&attack->rest);
	soak_victim_end(&attack->victim);
}

static bool is_traced(const struct soak_victim *victim)
{
	pid_t tracer;

	soak_state(victim->pid, victim->tids[SOAK_THREADS - 1], &tracer);
	return tracer != 0;
}

/* What must hold when a run is over, however it ended. */
static void expect_peace(struct attack *attack, struct soak_run *run, const char *what)
{
	soak_expect_free(&attack->victim, &attack->rest, what);
	soak_expect_no_leftovers(run, what);
	soak_close(run);
}

/* A recording that is told to end before its first tick has nothing: 2. */
static void expect_end(const struct plan *plan, int status, int number)
{
	int most = strcmp(plan->words[0], "record") == 0 ? 2 : 1;

	if (WIFSIGNALED(status) && WTERMSIG(status) != number)
		soak_bad("signal %d: ended by signal %d", number, WTERMSIG(status));
	else if (WIFEXITED(status) && WEXITSTATUS(status) > most)
		soak_bad("signal %d: %s ended with status %d", number, plan->words[0],
			 WEXITSTATUS(status));
}

/*
 * Every second attack is aimed at the short time in which the target is traced, the others fall
 * anywhere between the first instruction and the usual end.
 */
static void wait_for_moment(const struct attack *attack, const struct plan *plan,
			    const struct soak_run *run, bool aimed)
{
	int64_t until = run->start_ns + 2 * plan->usual_us * 1000;

	if (!aimed || plan->untraced) {
		soak_sleep_us(soak_random(plan->usual_us));
		return;
	}
	while (!is_traced(&attack->victim) && soak_now() < until)
		;
	until = soak_now() + soak_random(AIM_US) * 1000;
	while (soak_now() < until)
		;
}

static void signal_once(struct attack *attack, const struct plan *plan, int number, bool aimed)
{
	struct soak_run run = soak_start(attack->soak, plan->words, -1);
	char what[64];
	int status;

	wait_for_moment(attack, plan, &run, aimed);
	attack->traced += is_traced(&attack->victim);
	kill(run.pid, number);
	status = soak_wait(&run);
	/* A recording that is asked to end does, in order. */
	if (WIFSIGNALED(status) || plan->record)
		attack->hits++;
	else
		attack->ended++;
	expect_end(plan, status, number);
	snprintf(what, sizeof(what), "%s after signal %d", plan->words[0], number);
	expect_peace(attack, &run, what);
}

static void signal_all(const struct soak *soak, int number)
{
	struct attack attack;

	attack_init(&attack, soak);
	for (long turn = 0; attack.hits < soak->count && turn < 4 * soak->count; turn++)
		signal_once(&attack, &attack.plans[turn % 4], number, turn / 4 % 2);
	if (attack.hits < soak->count)
		soak_bad("only %ld of %ld came in time", attack.hits, soak->count);
	attack_deinit(&attack);
}

void soak_kills(const struct soak *soak)
{
	signal_all(soak, SIGKILL);
}

void soak_interrupts(const struct soak *soak, int number)
{
	signal_all(soak, number);
}

/* Half of the readers leave before the tool starts, the others while it runs. */
static void close_once(struct attack *attack, const struct plan *plan, bool before)
{
	struct soak_run run;
	int ends[2], status;
	char *complaint;

	if (pipe2(ends, O_CLOEXEC))
		soak_broken("pipe");
	if (before)
		close(ends[0]);
	run = soak_start(attack->soak, plan->words, ends[1]);
	close(ends[1]);
	soak_sleep_us(soak_random(plan->usual_us));
	if (!before)
		close(ends[0]);
	if (plan->record)
		kill(run.pid, SIGTERM);
	status = soak_wait(&run);
	complaint = soak_text(run.err);
	if (!WIFEXITED(status) && !plan->record)
		soak_bad("closed output: ended by signal %d", WTERMSIG(status));
	if (strstr(complaint, "roken pipe"))
		soak_bad("closed output: not quiet: %s", complaint);
	free(complaint);
	attack->hits++;
	expect_peace(attack, &run, "closed output");
}

void soak_closed_output(const struct soak *soak)
{
	struct attack attack;

	attack_init(&attack, soak);
	for (long turn = 0; turn < soak->count; turn++)
		close_once(&attack, &attack.plans[turn % 4], turn & 4);
	attack_deinit(&attack);
}

static void fill(int fd)
{
	static const char zeros[4096];
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	while (write(fd, zeros, 1) > 0)
		;
	fcntl(fd, F_SETFL, flags);
}

/* Whether it sits in a write to its standard output. */
static bool is_writing(pid_t pid)
{
	char path[64], text[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	/* write(1, ...), by the number of the call on this processor */
#if defined(__x86_64__)
	return strncmp(text, "1 0x1 ", 6) == 0;
#else
	return strncmp(text, "64 0x1 ", 7) == 0;
#endif
}

static void block_once(struct attack *attack, const struct plan *plan, int number)
{
	/* Signals that come within a second of the first are one with it (stacksnap-record(1)). */
	enum { APART_US = 1100000 };
	int64_t until = soak_now() + SOAK_HANG_MS * 1000000ll;
	struct soak_run run;
	int ends[2], status;

	if (pipe2(ends, O_CLOEXEC))
		soak_broken("pipe");
	fill(ends[1]);
	run = soak_start(attack->soak, plan->words, ends[1]);
	close(ends[1]);
	if (plan->record) {
		soak_sleep_us(soak_random(plan->usual_us) + RECORD_US / 4);
		kill(run.pid, SIGINT);
	}
	while (!is_writing(run.pid) && !soak_is_over(&run) && soak_now() < until)
		soak_sleep_us(200);
	if (is_writing(run.pid)) {
		attack->hits++;
		/* While the tool hangs in its output. */
		soak_expect_free(&attack->victim, &attack->rest, "full pipe");
	} else if (!soak_is_over(&run)) {
		soak_bad("full pipe: %s does not come to its output", plan->words[0]);
	}
	if (plan->record && number != SIGKILL)
		soak_sleep_us(APART_US);
	kill(run.pid, number);
	status = soak_wait(&run);
	if (!plan->record)
		expect_end(plan, status, number);
	close(ends[0]);
	expect_peace(attack, &run, "full pipe");
}

void soak_full_pipe(const struct soak *soak)
{
	static const int numbers[] = { SIGTERM, SIGKILL, SIGINT };
	struct attack attack;

	attack_init(&attack, soak);
	for (long turn = 0; attack.hits < soak->count && turn < 4 * soak->count; turn++)
		block_once(&attack, &attack.plans[turn % 4], numbers[turn / 4 % 3]);
	if (attack.hits < soak->count)
		soak_bad("only %ld of %ld met a full pipe", attack.hits, soak->count);
	attack_deinit(&attack);
}
