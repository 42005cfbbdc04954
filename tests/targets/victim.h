/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What every victim does: lets anybody trace it, prints "ready PID ..." once it stands where its
 * test wants it, and ends when its standard input closes, so that no victim outlives its test.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __clang__ /* It makes no clones. */
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

/* Prints the line. VICTIM_NODUMP in the environment: the process is not dumpable. */
__attribute__((format(printf, 1, 2), unused)) static void victim_ready(const char *format, ...)
{
	va_list args;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (getenv("VICTIM_NODUMP"))
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	printf("ready %d ", getpid());
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

/* Blocks until standard input closes, then ends the process. */
__attribute__((unused)) static void victim_hold(void)
{
	char line[64];

	for (;;) {
		ssize_t got = read(STDIN_FILENO, line, sizeof(line));

		if (got == 0 || (got < 0 && errno != EINTR))
			_exit(0);
	}
}

/* The victim says itself why it cannot run here; the harness turns it into a skip. */
__attribute__((unused)) static void victim_cannot(const char *why)
{
	printf("cannot %s: %s\n", why, strerror(errno));
	fflush(stdout);
	_exit(77);
}

__attribute__((unused)) static pthread_t victim_thread(void *(*run)(void *), void *argument,
						       size_t stack)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	if (stack)
		pthread_attr_setstacksize(&attributes, stack);
	errno = pthread_create(&thread, &attributes, run, argument);
	if (errno)
		victim_cannot("pthread_create");
	pthread_attr_destroy(&attributes);
	return thread;
}
