/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Targets of many threads and of many mappings: that all is there, what the stop costs next to the
 * floor (tests/bench/floor.c), and how much memory all processes of the tool take together.
 */
#include "soak.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY_THREADS = 5000, MANY_MAPPINGS = 30000, FEW_THREADS = 4, MOST_ROUNDS = 100 };

static void *pause_main(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void make_threads(int count)
{
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 32 << 10);
	for (int i = 0; i < count; i++)
		if (pthread_create(&thread, &small, pause_main, NULL))
			_exit(77);
}

/* Neighbours differ, or the kernel makes one of them. */
static void make_mappings(int count)
{
	for (int i = 0; i < count; i++)
		if (mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			_exit(77);
}

static pid_t start_target(int threads, int mappings)
{
	char byte = 'x';
	int ready[2];
	pid_t pid;

	fflush(stdout);
	if (pipe(ready))
		soak_broken("pipe");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		make_mappings(mappings);
		make_threads(threads);
		if (write(ready[1], &byte, 1) == 1)
			pause_main(NULL);
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		soak_cannot("make a target of that size");
	close(ready[0]);
	return pid;
}

static void end_target(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int compare(const void *left, const void *right)
{
	const long *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static long middle(long *values, long count)
{
	qsort(values, (size_t)count, sizeof(values[0]), compare);
	return values[count / 2];
}

/* Microseconds from the first INTERRUPT to the last DETACH. */
static long floor_stop_us(const struct soak *soak, const char *pid)
{
	const char *const arguments[] = { pid, NULL };
	struct soak plain = *soak;
	struct soak_run run;
	char path[4096], *text, *stop;
	long us;

	snprintf(path, sizeof(path), "%s/floor", soak->tests);
	plain.tool = path;
	run = soak_start(&plain, arguments, -1);
	soak_wait(&run);
	text = soak_text(run.out);
	stop = strstr(text, " stop=");
	us = stop ? atol(stop + strlen(" stop=")) : 0;
	if (!us)
		soak_broken("the floor tells no stop");
	free(text);
	soak_close(&run);
	return us;
}

static long snapshot_stop_us(const struct soak *soak, const char *pid, long threads)
{
	const char *const arguments[] = { "--json", "-p", pid, NULL };
	json_t *doc;
	int status = soak_take(soak, arguments, &doc);
	long us = json_integer_value(json_object_get(doc, "stop_duration_ns")) / 1000;
	long seen = json_integer_value(json_object_get(doc, "thread_count"));

	if (status || seen != threads)
		soak_bad("status %#x, %ld of %ld threads", status, seen, threads);
	json_decref(doc);
	return us;
}

/* In turn, as the machine is not the same all the time; the best of each. */
void soak_many_threads(const struct soak *soak)
{
	pid_t target = start_target(MANY_THREADS, 0);
	const char *pid = soak_number(target);
	long least_floor = 0, least_stop = 0;

	for (long i = 0; i < soak->count; i++) {
		long floor_us = floor_stop_us(soak, pid);
		long stop_us = snapshot_stop_us(soak, pid, MANY_THREADS + 1);

		if (!i || floor_us < least_floor)
			least_floor = floor_us;
		if (!i || stop_us < least_stop)
			least_stop = stop_us;
	}
	soak_figure("threads", MANY_THREADS + 1);
	soak_figure("floor_us", least_floor);
	soak_figure("stop_us", least_stop);
	soak_figure("percent_of_floor", least_floor ? least_stop * 100 / least_floor : 0);
	end_target(target);
}

struct peaks {
	pid_t pids[SOAK_MAX_PIDS];
	long kib[SOAK_MAX_PIDS];
	size_t count;
};

static void note_peak(struct peaks *peaks, pid_t pid)
{
	long kib = soak_kib(pid, "VmHWM:");
	size_t i = 0;

	while (i < peaks->count && peaks->pids[i] != pid)
		i++;
	if (i == SOAK_MAX_PIDS)
		return;
	if (i == peaks->count) {
		peaks->pids[peaks->count++] = pid;
		peaks->kib[i] = 0;
	}
	if (kib > peaks->kib[i])
		peaks->kib[i] = kib;
}

/* The peaks of all processes of a run, added up: what they share counts more than once. */
static long watch_kib(const struct soak_run *run)
{
	struct peaks peaks = { .count = 0 };
	long sum = 0;

	while (!soak_is_over(run)) {
		pid_t pids[SOAK_MAX_PIDS];
		size_t count = soak_descendants(run->pid, pids, SOAK_MAX_PIDS);

		note_peak(&peaks, run->pid);
		for (size_t i = 0; i < count; i++)
			note_peak(&peaks, pids[i]);
		soak_sleep_us(500);
	}
	for (size_t i = 0; i < peaks.count; i++)
		sum += peaks.kib[i];
	return sum;
}

static long stop_of(const struct soak_run *run)
{
	char *text = soak_text(run->out);
	json_t *doc = json_loads(text, 0, NULL);
	long us = json_integer_value(json_object_get(doc, "stop_duration_ns")) / 1000;

	if (json_integer_value(json_object_get(doc, "thread_count")) != FEW_THREADS + 1)
		soak_bad("not all threads are there");
	json_decref(doc);
	free(text);
	return us;
}

/* Times and memory by runs of their own: who watches takes a processor. */
void soak_many_mappings(const struct soak *soak)
{
	pid_t target = start_target(FEW_THREADS, MANY_MAPPINGS);
	const char *const arguments[] = { "--json", "-p", soak_number(target), NULL };
	long stops[MOST_ROUNDS], walls[MOST_ROUNDS], most_kib = 0;
	long rounds = soak->count < MOST_ROUNDS ? soak->count : MOST_ROUNDS;

	for (long i = 0; i < rounds; i++) {
		struct soak_run run = soak_start(soak, arguments, -1);
		long kib;

		if (soak_wait(&run))
			soak_bad("it did not end with status 0");
		walls[i] = (soak_now() - run.start_ns) / 1000000;
		stops[i] = stop_of(&run);
		soak_close(&run);
		run = soak_start(soak, arguments, -1);
		kib = watch_kib(&run);
		soak_wait(&run);
		soak_close(&run);
		if (kib > most_kib)
			most_kib = kib;
	}
	soak_figure("mappings", MANY_MAPPINGS);
	soak_figure("stop_us", middle(stops, rounds));
	soak_figure("wall_ms", middle(walls, rounds));
	soak_figure("memory_kib", most_kib);
	end_target(target);
}
