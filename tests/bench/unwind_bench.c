/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Unwinding alone, timed: our rows against libunwind with its global cache, over the same copied
 * stacks, and whether both see the same addresses in every thread.
 *
 *     unwind_bench CAPTURE|PID [SECONDS]
 *
 * libunwind has accessors over the same bytes (engine_libunwind.c). The first pass over all threads
 * is reported as cold, the best of the later ones, repeated for SECONDS (1), as warm; a process's
 * addresses stay remembered from pass to pass in both. Exit status: 0 the same addresses, 1 some
 * differ, 2 trouble.
 */
#include "analyze/unwind/unwind.h"
#include "api/options.h"
#include "base/table.h"
#include "capture/capture.h"
#include "files/files.h"
#include "store/capture/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

struct bench {
	struct snap_options options;
	struct snap_capture *capture;
	struct snap_files *files;
	struct snap_arena arena;
	struct snap_module_set *set;
	struct snap_modules **modules; /* one a process */
	size_t thread_count;
	struct snap_unwinder *unwinder;
	size_t entered; /* the process entered, plus one */
	struct snap_pcs result;
};

struct timing {
	double cold, warm; /* nanoseconds of a whole pass */
	uint64_t frames, threads;
	uint64_t *hashes; /* of each thread's pcs; NULL: not now */
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void check(struct stacksnap_error *err)
{
	if (!err)
		return;
	fprintf(stderr, "unwind_bench: %s\n", snap_error_message(err));
	exit(2);
}

static void get_capture(struct bench *bench, const char *what)
{
	snap_options_init(&bench->options);
	check(snap_options_set(&bench->options, "max-frames", "0"));
	if (strspn(what, "0123456789") == strlen(what)) {
		check(snap_options_set(&bench->options, "pid", what));
		check(snap_capture_take(&bench->options, NULL, &bench->capture));
	} else {
		_cleanup_fd_ int fd = open(what, O_RDONLY | O_CLOEXEC);

		if (fd < 0) {
			perror(what);
			exit(2);
		}
		check(snap_capture_read(fd, &bench->capture));
	}
}

static void understand(struct bench *bench)
{
	const struct snap_capture *capture = bench->capture;
	struct snap_file_finder finder;

	check(snap_files_create(&bench->options, capture, &bench->files));
	finder = snap_files_finder(bench->files);
	check(snap_module_set_create(&finder, &bench->arena, &bench->set));
	bench->modules = calloc(capture->process_count + 1, sizeof(struct snap_modules *));
	for (size_t i = 0; i < capture->process_count; i++) {
		check(snap_modules_create(bench->set, &capture->processes[i], &bench->modules[i]));
		bench->thread_count += capture->processes[i].thread_count;
	}
}

static double pass(struct bench *bench, struct timing *timing)
{
	double begin = now();
	size_t number = 0;

	timing->frames = timing->threads = 0;
	for (size_t i = 0; i < bench->capture->process_count; i++) {
		const struct snap_process *process = &bench->capture->processes[i];

		if (bench->entered != i + 1)
			check(snap_unwinder_enter(bench->unwinder, process, bench->modules[i]));
		bench->entered = i + 1;
		for (size_t k = 0; k < process->thread_count; k++, number++) {
			const struct snap_pcs *pcs = &bench->result;

			snap_unwind(bench->unwinder, &process->threads[k], &bench->result);
			timing->frames += pcs->count;
			timing->threads += pcs->count > 0;
			if (timing->hashes && pcs->count > 0)
				timing->hashes[number] = snap_hash_bytes(
					pcs->pcs, pcs->count * sizeof(*pcs->pcs), pcs->count);
		}
	}
	return now() - begin;
}

static void run(struct bench *bench, enum snap_engine engine, const char *name, double seconds,
		struct timing *timing)
{
	double end;

	bench->options.engine = engine;
	bench->entered = 0;
	check(snap_unwinder_create(bench->set, &bench->options, &bench->unwinder));
	timing->warm = timing->cold = pass(bench, timing);
	timing->hashes = calloc(bench->thread_count + 1, sizeof(*timing->hashes));
	end = now() + seconds * 1e9;
	pass(bench, timing);
	do {
		struct timing again = { 0 };
		double took = pass(bench, &again);

		if (took < timing->warm)
			timing->warm = took;
	} while (now() < end);
	snap_unwinder_destroy(bench->unwinder);
	printf("%-17s %" PRIu64 " frames, %.1f ns each warm, %.1f cold, of %" PRIu64 " threads\n",
	       name, timing->frames, timing->warm / (double)timing->frames,
	       timing->cold / (double)timing->frames, timing->threads);
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[2]) : 1;
	struct timing rows = { 0 }, libunwind = { 0 };
	struct bench bench = { 0 };
	size_t same = 0, all = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: unwind_bench CAPTURE|PID [SECONDS]\n");
		return 2;
	}
	get_capture(&bench, argv[1]);
	understand(&bench);
	run(&bench, SNAP_ENGINE_AUTO, "rows", seconds, &rows);
	run(&bench, SNAP_ENGINE_LIBUNWIND, "libunwind+cache", seconds, &libunwind);
	for (size_t i = 0; i < bench.thread_count; i++) {
		all += rows.hashes[i] != 0;
		same += rows.hashes[i] != 0 && rows.hashes[i] == libunwind.hashes[i];
	}
	printf("same addresses in %zu of %zu threads\n", same, all);
	printf("ratio %.1f\n",
	       libunwind.warm * (double)rows.frames / (rows.warm * (double)libunwind.frames));
	free(rows.hashes);
	free(libunwind.hashes);
	free(bench.modules);
	snap_module_set_destroy(bench.set);
	snap_files_destroy(bench.files);
	snap_capture_destroy(bench.capture);
	snap_arena_deinit(&bench.arena);
	snap_options_deinit(&bench.options);
	return same == all ? 0 : 1;
}
