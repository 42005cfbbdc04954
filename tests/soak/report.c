/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Figures, complaints, clocks and chance: see soak.h. */
#include "soak.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_COMPLAINTS = 20 };

static long complaints;

void soak_figure(const char *name, long value)
{
	printf("figure %s %ld\n", name, value);
	fflush(stdout);
}

void soak_note(const char *format, ...)
{
	va_list args;

	printf("note ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void soak_bad(const char *format, ...)
{
	va_list args;

	complaints++;
	if (complaints > MOST_COMPLAINTS)
		return;
	printf("bad ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

long soak_bad_count(void)
{
	return complaints;
}

void soak_cannot(const char *why)
{
	printf("cannot %s: %s\n", why, strerror(errno));
	fflush(stdout);
	_exit(77);
}

void soak_broken(const char *what)
{
	printf("broken %s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(2);
}

int64_t soak_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

void soak_sleep_us(long us)
{
	struct timespec left = { us / 1000000, us % 1000000 * 1000 };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

long soak_random(long limit)
{
	return limit > 0 ? random() % limit : 0;
}
