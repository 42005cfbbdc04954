/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * soak-host ROUNDS PID [THREADS]: a program that uses the library again and again. What it holds
 * after the first tenth of the rounds is what it holds after the last: descriptors, memory,
 * children. With no threads besides, it is never sent SIGCHLD.
 *
 * Prints as soak does. Knows the public header alone.
 */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stacksnap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t child_signals;

static void on_child(int number)
{
	(void)number;
	child_signals++;
}

static void *idle_main(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static long descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	long count = 0;

	while (folder && readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static long resident_kib(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	long kib = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

static void check(struct stacksnap_error *error)
{
	if (!error)
		return;
	printf("bad %s\n", stacksnap_error_message(error));
	exit(1);
}

static void take(const char *pid)
{
	struct stacksnap_options *options;
	struct stacksnap_snapshot *snapshot;
	FILE *out = fopen("/dev/null", "we");

	check(stacksnap_options_create(&options));
	check(stacksnap_options_set(options, "pid", pid));
	check(stacksnap_take(options, &snapshot));
	check(stacksnap_snapshot_render(snapshot, options, "json", out));
	if (stacksnap_snapshot_outcome(snapshot) != STACKSNAP_OUTCOME_WHOLE)
		printf("bad a snapshot is not whole\n");
	stacksnap_snapshot_destroy(snapshot);
	stacksnap_options_destroy(options);
	fclose(out);
}

struct held {
	long fds, kib, blocks;
};

static struct held look(void)
{
	struct held held = { .fds = descriptors() };

	held.blocks = (long)mallinfo2().uordblks;
	held.kib = resident_kib();
	return held;
}

/* Descriptors and blocks to the last one; pages of a heap that is as full as before may move. */
static int report(const struct held *before, const struct held *after, long rounds, int threads)
{
	int children = waitpid(-1, NULL, __WALL | WNOHANG) >= 0 || errno != ECHILD;
	int bad = after->fds != before->fds || after->blocks > before->blocks || children;

	printf("figure rounds %ld\nfigure fds_drift %ld\nfigure heap_drift_bytes %ld\n", rounds,
	       after->fds - before->fds, after->blocks - before->blocks);
	printf("figure rss_drift_kib %ld\nfigure rss_kib %ld\n", after->kib - before->kib,
	       after->kib);
	printf("figure children %d\nfigure child_signals %d\n", children, (int)child_signals);
	if (bad)
		printf("bad something is held that was not\n");
	if (child_signals && !threads)
		printf("bad the host was sent SIGCHLD\n");
	return bad || (child_signals && !threads);
}

int main(int argc, char **argv)
{
	long rounds = argc > 2 ? atol(argv[1]) : 0;
	int threads = argc > 3 ? atoi(argv[3]) : 0;
	struct held before = { 0 }, after;
	pthread_t thread;

	if (rounds < 10)
		return 64;
	signal(SIGCHLD, on_child);
	for (int i = 0; i < threads; i++)
		pthread_create(&thread, NULL, idle_main, NULL);
	for (long i = 0; i < rounds; i++) {
		if (i == rounds / 10)
			before = look();
		take(argv[2]);
	}
	after = look();
	return report(&before, &after, rounds, threads);
}
