/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Looks at innocents and at ourselves, every few milliseconds: see arena.h.
 *
 * A thread was stopped from the first to the last of consecutive looks that found it in `t` with
 * one and the same tracer. Looks that come late, for want of a processor, begin anew.
 */
#include "arena.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_US = 4000, LATE_MS = 100, MEMORY_US = 200000, MOST_THREADS = 256 };
/* A sum that is worth a note, and what each process that is named in it holds at least. */
enum { MUCH_KIB = 250000, NOTED_KIB = 8000 };

struct look {
	pid_t pid, tid, tracer; /* the tracer while it is stopped */
	int fd;
	int64_t since_ns, last_ns;
	bool told;
};

static struct look looks[MOST_THREADS];
static size_t look_count;

static void add_threads(pid_t pid)
{
	pid_t tids[SOAK_MAX_PIDS];
	size_t count = soak_threads(pid, tids, SOAK_MAX_PIDS);
	char path[64];

	for (size_t i = 0; i < count && look_count < MOST_THREADS; i++) {
		struct look *look = &looks[look_count];

		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tids[i]);
		*look = (struct look){ .pid = pid,
				       .tid = tids[i],
				       .fd = open(path, O_RDONLY | O_CLOEXEC) };
		if (look->fd >= 0)
			look_count++;
	}
}

static bool is_stopped(const struct look *look)
{
	char text[128], *end;
	ssize_t got = pread(look->fd, text, sizeof(text) - 1, 0);

	if (got <= 0)
		return false;
	text[got] = '\0';
	end = strrchr(text, ')');
	return end && strncmp(end, ") t", 3) == 0;
}

static void look_once(struct look *look, struct soak_watch *watch)
{
	int64_t now = soak_now();
	pid_t tracer = 0;
	long ms;

	if (!is_stopped(look) || soak_state(look->pid, look->tid, &tracer) != 't') {
		look->tracer = 0;
		return;
	}
	if (look->tracer != tracer || now - look->last_ns > LATE_MS * 1000000ll) {
		look->tracer = tracer;
		look->since_ns = now;
		look->told = false;
	}
	look->last_ns = now;
	ms = (now - look->since_ns) / 1000000;
	if (ms > watch->stopped_ms_max)
		watch->stopped_ms_max = ms;
	if (ms > ARENA_STOP_MS + ARENA_GRACE_MS && !look->told) {
		look->told = true;
		watch->stopped_too_long++;
		soak_bad("thread %d of %d is in t for %ld ms, and its tracer is %d", look->tid,
			 look->pid, ms, tracer);
	}
}

static void watch_innocents(const struct soak_arena *arena)
{
	prctl(PR_SET_NAME, "watch-innocents");
	setpriority(PRIO_PROCESS, 0, -15);
	add_threads(arena->service);
	for (size_t i = 0; i < arena->bystander_count; i++)
		add_threads(arena->bystanders[i]);
	while (!arena->watch->end) {
		for (size_t i = 0; i < look_count; i++)
			look_once(&looks[i], arena->watch);
		arena->watch->looks++;
		soak_sleep_us(LOOK_US);
	}
}

static long proportional_kib(pid_t pid)
{
	char path[64], text[2048], *line;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (got <= 0)
		return 0;
	text[got] = '\0';
	line = strstr(text, "\nPss:");
	return line ? atol(line + strlen("\nPss:")) : 0;
}

/* Which processes hold much, in the order that they were asked. */
static void note_memory(const pid_t *pids, const long *kib, size_t count, long sum)
{
	char text[1024], name[16];
	int at = 0;

	for (size_t i = 0; i < count && at < (int)sizeof(text) - 64; i++) {
		if (kib[i] < NOTED_KIB)
			continue;
		soak_comm(pids[i], name);
		at += snprintf(text + at, sizeof(text) - (size_t)at, ", %ld in %d (%s)", kib[i],
			       pids[i], name);
	}
	if (at)
		soak_note("%ld KiB in all processes of the tool%s", sum, text);
}

static void watch_memory(const struct soak_arena *arena)
{
	long noted = 0;

	prctl(PR_SET_NAME, "watch-memory");
	while (!arena->watch->end) {
		pid_t pids[SOAK_MAX_PIDS];
		size_t count = soak_arena_ours(pids, SOAK_MAX_PIDS);
		long kib[SOAK_MAX_PIDS], sum = 0;

		for (size_t i = 0; i < count; i++)
			sum += kib[i] = proportional_kib(pids[i]);
		if (sum > arena->watch->memory_kib_max) {
			/* Each tenth more; what is below is no trouble. */
			if (sum > MUCH_KIB && sum > noted + noted / 10) {
				note_memory(pids, kib, count, sum);
				noted = sum;
			}
			arena->watch->memory_kib_max = sum;
		}
		soak_sleep_us(MEMORY_US);
	}
}

void soak_watch_start(struct soak_arena *arena)
{
	static void (*const watchers[])(const struct soak_arena *) = { watch_innocents,
								       watch_memory };

	fflush(stdout);
	for (size_t i = 0; i < SOAK_ARRAY_SIZE(watchers); i++) {
		arena->watchers[i] = fork();
		if (arena->watchers[i] != 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		watchers[i](arena);
		fflush(stdout);
		_exit(0);
	}
}

void soak_watch_end(struct soak_arena *arena)
{
	arena->watch->end = true;
	for (size_t i = 0; i < SOAK_ARRAY_SIZE(arena->watchers); i++)
		waitpid(arena->watchers[i], NULL, 0);
	soak_figure("stopped_ms_max", arena->watch->stopped_ms_max);
	soak_figure("stopped_too_long", arena->watch->stopped_too_long);
	soak_figure("memory_kib", arena->watch->memory_kib_max);
	soak_figure("looks", arena->watch->looks);
}
