/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What rendering a recording costs: `render_speed FORMAT [THREADS [SECONDS [STAY]]]` renders one of
 * 100 threads over 60 s at 99 Hz, all of them somewhere else at each tick, to /dev/null, and prints
 * the time and the memory. Not a test: nothing is judged.
 */
#include "big_recording.h"
#include "render/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static long peak_kib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static unsigned number(int argc, char **argv, int at, unsigned otherwise)
{
	return at < argc ? (unsigned)strtoul(argv[at], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	const struct snap_format *format = argc > 1 ? snap_format_by_name(argv[1]) : NULL;
	struct big_shape shape = {
		.threads = number(argc, argv, 2, 100),
		.ticks = 99 * number(argc, argv, 3, 60),
		.stay = number(argc, argv, 4, 1),
		.period_ns = 1000000000 / 99,
	};
	struct snap_options options = { 0 };
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	const char *path = getenv("OUT");
	FILE *out = fopen(path ? path : "/dev/null", "we");
	double began, ended;
	long before;

	if (!format || !out || !shape.threads || !shape.ticks || !shape.stay) {
		fprintf(stderr, "usage: render_speed FORMAT [THREADS [SECONDS [STAY]]]\n");
		return 2;
	}
	recording = big_recording(&shape);
	before = peak_kib();
	began = seconds();
	if (snap_error_ignore(snap_render_recording(format, recording, &options, out)))
		return 1;
	fclose(out);
	ended = seconds();
	printf("%s: %.2f s, %ld MiB, of which the recording %ld MiB\n", format->name, ended - began,
	       peak_kib() / 1024, before / 1024);
	return 0;
}
