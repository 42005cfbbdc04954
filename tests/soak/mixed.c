/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tool among all hostile programs at once: snapshots one after the other, and in the mixed run
 * recordings besides. Whatever those programs do, the service and each bystander has all its stacks
 * in every report, with names; nobody of them stays stopped; and the tool ends when it is told to.
 */
#include "arena.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORD_MS = 6000, LEAST_FRAMES = 3 };

struct mixed {
	struct soak_arena arena;
	long snapshots, recordings, killed, missing, stay, term_ms_max, kill_ms_max, wall_ms_max;
};

static bool has_names(const json_t *stack)
{
	const json_t *entries = json_object_get(stack, "entries");
	size_t named = 0, i;
	json_t *entry;

	json_array_foreach(entries, i, entry) named += json_object_get(entry, "function") != NULL;
	return named >= LEAST_FRAMES;
}

static const json_t *find_process(const json_t *processes, pid_t pid)
{
	json_t *process;
	size_t i;

	json_array_foreach(processes, i, process)
	{
		const json_t *found;

		if (json_integer_value(json_object_get(process, "pid")) == pid)
			return process;
		found = find_process(json_object_get(process, "children"), pid);
		if (found)
			return found;
	}
	return NULL;
}

static long named_threads(const json_t *process)
{
	long count = 0;
	json_t *stack;
	size_t i;

	json_array_foreach(json_object_get(process, "stacks"), i, stack) if (has_names(stack))
		count += json_integer_value(json_object_get(stack, "count"));
	return count;
}

/* Whether all threads of that process are there; writes down what is not. */
static bool has_stacks(const json_t *doc, pid_t pid, long threads, const char *whose,
		       char told[256])
{
	const json_t *process = find_process(json_object_get(doc, "processes"), pid);
	const json_t *error = json_object_get(json_object_get(process, "error"), "code");
	long found = named_threads(process);

	if (found >= threads)
		return true;
	snprintf(told, 256, "%ld of %ld stacks of %d (%s)%s%s%s", found, threads, pid, whose,
		 process ? "" : ", which is not in the report", error ? ": " : "",
		 error ? json_string_value(error) : "");
	return false;
}

/* The first thread of the service, and those of bystanders, have two named frames and their own. */
static void judge_report(struct mixed *mixed, const json_t *doc, const char *what)
{
	const struct soak_arena *arena = &mixed->arena;
	char told[256] = "";
	size_t missing = 0;

	for (size_t i = 0; i < arena->bystander_count; i++)
		missing += !has_stacks(doc, arena->bystanders[i], 1, arena->makers[i], told);
	missing += !has_stacks(doc, arena->service, arena->service_threads + 1, "service", told);
	if (missing)
		soak_note("%s: %zu processes miss stacks, as %s", what, missing, told);
	mixed->missing += missing > 0;
}

static void take_snapshot(struct mixed *mixed, long turn, pid_t recorder)
{
	const char *pids = mixed->arena.all_pids;
	const char *const ways[][6] = {
		{ "--json", "--all" },
		{ "--json", "-p", pids },
		{ "--json", "--all", "--no-stop" },
		{ "--json", "--no-stop", "-p", pids },
	};
	static const char *const names[] = { "--all", "-p", "--all --no-stop", "-p --no-stop" };
	size_t way = (size_t)turn % SOAK_ARRAY_SIZE(ways);
	struct soak_run run = soak_start(mixed->arena.soak, ways[way], -1);
	int status = soak_wait(&run);
	char *out = soak_text(run.out), *err = soak_text(run.err);
	json_t *doc = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
	long wall_ms = (soak_now() - run.start_ns) / 1000000;

	mixed->snapshots++;
	if (wall_ms > mixed->wall_ms_max)
		mixed->wall_ms_max = wall_ms;
	if (!doc || !WIFEXITED(status) || WEXITSTATUS(status) > 1)
		soak_note("%s: status %#x after %ld ms: %.300s", names[way], status, wall_ms, err);
	judge_report(mixed, doc, names[way]);
	mixed->stay += soak_arena_expect_free(&mixed->arena, names[way]);
	json_decref(doc);
	free(out);
	free(err);
	soak_close(&run);
	soak_arena_reap(recorder);
}

static struct soak_run start_recording(struct mixed *mixed, const char *file)
{
	const char *pids = mixed->arena.all_pids;
	const char *const ways[][10] = {
		{ "record", "-d", "0", "--all", "-o", file },
		{ "record", "-d", "0", "-p", pids, "-o", file },
		{ "record", "-d", "0", "--ring", "4s", "--all", "-o", file },
	};
	size_t way = (size_t)mixed->recordings % SOAK_ARRAY_SIZE(ways);

	unlink(file);
	return soak_start(mixed->arena.soak, ways[way], -1);
}

/* Ends it as told; how long that took, in milliseconds. */
static long end_recording(struct soak_run *run, int number, int *status_ret)
{
	int64_t began = soak_now();

	kill(run->pid, number);
	*status_ret = soak_wait(run);
	return (soak_now() - began) / 1000000;
}

/* Why it may be: what was said, and what is there of the service. */
static void note_recording(const char *folded, const char *told)
{
	const char *service = strstr(folded, "soak-victim");

	for (int lines = 0; lines < 4 && service; lines++) {
		soak_note("it has %.*s", (int)strcspn(service, "\n"), service);
		service = strstr(service + strcspn(service, "\n"), "soak-victim");
	}
	while (*told) {
		size_t length = strcspn(told, "\n");

		soak_note("it said %.*s", (int)length, told);
		told += length + (told[length] == '\n');
	}
}

/* Each function that the service waits in was seen; `told` is what the recording said. */
static void judge_recording(struct mixed *mixed, const char *file, const char *told)
{
	static const char *const functions[] = { "wait_futex", "wait_epoll", "wait_pipe",
						 "wait_sleep", "victim_hold" };
	struct soak_run run =
		soak_start(mixed->arena.soak,
			   (const char *const[]){ "render", "-f", "folded", file, NULL }, -1);
	int status = soak_wait(&run);
	char *out = soak_text(run.out), *err = soak_text(run.err);
	bool whole = true;

	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
		soak_note("render: status %#x: %.300s", status, err);
	for (size_t i = 0; i < SOAK_ARRAY_SIZE(functions); i++)
		if (!strstr(out, functions[i])) {
			soak_note("a recording has no %s", functions[i]);
			whole = false;
		}
	mixed->missing += !whole;
	if (!whole)
		note_recording(out, told);
	free(out);
	free(err);
	soak_close(&run);
}

static void finish_recording(struct mixed *mixed, struct soak_run *run, const char *file)
{
	bool kills = mixed->recordings % 4 == 3;
	int status;
	long ms = end_recording(run, kills ? SIGKILL : SIGTERM, &status);
	char *err = soak_text(run->err);

	mixed->recordings++;
	mixed->killed += kills;
	if (kills && ms > mixed->kill_ms_max)
		mixed->kill_ms_max = ms;
	if (!kills && ms > mixed->term_ms_max)
		mixed->term_ms_max = ms;
	if (!kills && (!WIFEXITED(status) || WEXITSTATUS(status) > 1)) {
		soak_note("a recording: status %#x: %.300s", status, err);
		mixed->missing++;
	} else if (!kills)
		judge_recording(mixed, file, err);
	mixed->stay += soak_arena_expect_free(&mixed->arena, "record");
	free(err);
	soak_close(run);
	soak_arena_reap(0);
}

static void report(struct mixed *mixed)
{
	soak_figure("snapshots", mixed->snapshots);
	soak_figure("missing", mixed->missing);
	soak_figure("stay_stopped", mixed->stay);
	soak_figure("wall_ms_max", mixed->wall_ms_max);
	soak_figure("hostile", (long)mixed->arena.hostile_count);
	soak_figure("innocents", (long)mixed->arena.bystander_count + 1);
	soak_arena_end(&mixed->arena);
}

/* The count is one of seconds. */
void soak_mixed(const struct soak *soak)
{
	struct mixed mixed = { .snapshots = 0 };
	char folder[] = "/tmp/soak-XXXXXX", file[64];
	int64_t end;

	soak_arena_enter();
	soak_arena_start(&mixed.arena, soak);
	if (!mkdtemp(folder))
		soak_broken("mkdtemp");
	snprintf(file, sizeof(file), "%s/mixed.snaprec", folder);
	end = soak_now() + soak->count * 1000000000ll;
	while (soak_now() < end) {
		struct soak_run run = start_recording(&mixed, file);

		while (soak_now() - run.start_ns < RECORD_MS * 1000000ll && !soak_is_over(&run))
			take_snapshot(&mixed, mixed.snapshots, run.pid);
		finish_recording(&mixed, &run, file);
	}
	unlink(file);
	rmdir(folder);
	soak_figure("recordings", mixed.recordings);
	soak_figure("killed", mixed.killed);
	soak_figure("term_ms_max", mixed.term_ms_max);
	soak_figure("kill_ms_max", mixed.kill_ms_max);
	report(&mixed);
}

void soak_hostile(const struct soak *soak)
{
	struct mixed mixed = { .snapshots = 0 };

	soak_arena_enter();
	soak_arena_start(&mixed.arena, soak);
	for (long i = 0; i < soak->count; i++)
		take_snapshot(&mixed, i, 0);
	report(&mixed);
}
