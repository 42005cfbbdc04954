/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the programs of this folder share: they get ready, and end when their input does. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void start(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, argument) != 0) {
		perror("pthread_create");
		exit(1);
	}
	pthread_detach(thread);
}

static void call_oneself(const char *name)
{
	prctl(PR_SET_NAME, name, 0, 0, 0);
}

/* Number and first argument of the system call that a thread of ours is asleep in. */
static bool asleep_in_call(int tid, long *call, long *argument)
{
	char path[64], text[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return sscanf(text, "%ld %lx", call, argument) == 2;
}

/* How many threads are asleep in a system call; `argument`: its first one, -1 any. */
static int count_asleep(long wanted, long argument)
{
	int count = 0;
	long call, first;

	for (int tid = getpid(); tid < getpid() + 256; tid++)
		if (asleep_in_call(tid, &call, &first) && call == wanted &&
		    (argument < 0 || argument == first))
			count++;
	return count;
}

/* A thread of ours is in that state of proc(5). */
static bool is_in_state(char wanted)
{
	bool found = false;

	for (int tid = getpid(); tid < getpid() + 256 && !found; tid++) {
		char path[64], state = 0;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
		file = fopen(path, "r");
		if (!file)
			continue;
		found = fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state == wanted;
		fclose(file);
	}
	return found;
}

static void until_asleep(int count, long call, long argument)
{
	while (count_asleep(call, argument) < count)
		usleep(1000);
}

/* The incident has happened: says so, and waits for the end of standard input. */
static int live(void)
{
	char line[64];

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (read(STDIN_FILENO, line, sizeof(line)) > 0)
		;
	return 0;
}
