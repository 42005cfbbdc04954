/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * live_reader [--image [--mutate=N] [--records=N] [--save=NAME]] [--raw-names] RUNTIME PID: what the reader of a runtime makes of a live
 * process, as one JSON document. It probes while the process runs, and reads while all its threads
 * stand still; with --image the plan is executed then, and what it has copied is all that is read,
 * and with --mutate=N then N times more, each time with some of its bytes changed. --records=N: the
 * plan copies no more than so many. --save=NAME: NAME.image.xz and NAME.truth, see recorded.h.
 * For tests, which compare this with what the process says of itself.
 */
#include "live.h"

#include "base/clock.h"
#include "watch.h"

#include <string.h>

/* A library may be without one. */
#pragma weak snap_runtime_go
#pragma weak snap_runtime_cpython
#pragma weak snap_runtime_php

/* For a look at the harness itself: stops, and finds nothing. */
static struct stacksnap_error *probe_none(const struct snap_runtime_process *process,
					  struct snap_memory_plan *plan, bool *found_ret)
{
	(void)process;
	(void)plan;
	(void)found_ret;
	return NULL;
}

static struct stacksnap_error *read_none(const struct snap_runtime_process *process,
					 struct snap_runtime_result **ret)
{
	(void)process;
	*ret = NULL;
	return NULL;
}

static const struct snap_runtime no_runtime = { .name = "none",
						.probe = probe_none,
						.read = read_none };

static const struct snap_runtime *const runtimes[] = { &no_runtime, &snap_runtime_go,
						       &snap_runtime_cpython, &snap_runtime_php };

static const struct snap_runtime *find_runtime(const char *name)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(runtimes); i++)
		if (runtimes[i] && strcmp(runtimes[i]->name, name) == 0)
			return runtimes[i];
	fail("there is no reader of %s", name);
}

static void check(struct stacksnap_error *err)
{
	if (err)
		fail("%s", snap_error_message(err));
}

/* All that readers are given, but for the memory. */
struct bed {
	struct snap_options options;
	struct snap_interner strings;
	struct snap_module_set *set;
	struct snap_runtime_memory memory;
	struct snap_runtime_process process;
};

static void bed_open(struct bed *bed, struct live *live)
{
	struct snap_file_finder finder = { .find = live_find, .context = live };

	snap_interner_init(&bed->strings, &live->arena);
	check(snap_module_set_create(&finder, &live->arena, &bed->set));
	bed->memory = (struct snap_runtime_memory){ .read = live_read, .context = live };
	bed->process = (struct snap_runtime_process){ .process = &live->process,
						      .set = bed->set,
						      .memory = &bed->memory,
						      .options = &bed->options,
						      .strings = &bed->strings,
						      .arena = &live->arena };
}

static void bed_close(struct bed *bed)
{
	snap_module_set_destroy(bed->set);
	snap_interner_deinit(&bed->strings);
}

/* Reads the process itself, while it is stopped, or an image of it, when it runs again. */
static void read_process(struct live *live, struct bed *bed, const struct snap_runtime *runtime,
			 struct live_image *image, struct live_report *report)
{
	struct snap_runtime_result *result = NULL;
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC);

	live_stop(live);
	if (image) {
		live_execute(live, report->plan, image);
		live_go_on(live);
		report->stop_ns = snap_clock_ns(CLOCK_MONOTONIC) - begin;
		live_finish(image);
		bed->memory = live_memory(image);
		report->image = image;
	}
	check(snap_modules_create(bed->set, &live->process, &bed->process.modules));
	report->read_ns = -snap_clock_ns(CLOCK_MONOTONIC);
	check(runtime->read(&bed->process, &result));
	report->read_ns += snap_clock_ns(CLOCK_MONOTONIC);
	report->result = result;
	if (!image) {
		live_go_on(live);
		report->stop_ns = snap_clock_ns(CLOCK_MONOTONIC) - begin;
	}
}

/* For live_mutate(). */
struct again {
	struct bed *bed;
	struct live *live;
	const struct snap_runtime *runtime;
	unsigned rounds, understood;
};

/* As if it were the first time, with nothing left of the others. */
static void read_again(void *context)
{
	struct again *again = context;
	struct snap_runtime_result *result = NULL;
	struct snap_runtime_process process = again->bed->process;
	struct snap_interner strings;
	struct snap_arena arena;

	snap_arena_init(&arena);
	snap_interner_init(&strings, &arena);
	process.strings = &strings;
	process.arena = &arena;
	check(again->runtime->read(&process, &result));
	again->rounds++;
	again->understood += result && !result->refused;
	snap_interner_deinit(&strings);
	snap_arena_deinit(&arena);
}

int main(int argc, char **argv)
{
	struct bed bed = { .options = { .inlines = true, .lines = true, .symbols = true } };
	struct snap_memory_plan plan = { .step_count = 0 };
	struct live_report report = { .plan = &plan };
	struct live_image image = { .room = { NULL, NULL } };
	const struct snap_runtime *runtime;
	const char *save = NULL;
	bool with_image = false;
	unsigned rounds = 0;
	struct live live;

	for (; argc > 1 && argv[1][0] == '-'; argc--, argv++) {
		if (strcmp(argv[1], "--image") == 0)
			with_image = true;
		else if (strcmp(argv[1], "--raw-names") == 0)
			bed.options.raw_names = true;
		else if (strncmp(argv[1], "--mutate=", strlen("--mutate=")) == 0)
			rounds = (unsigned)atoi(argv[1] + strlen("--mutate="));
		else if (strncmp(argv[1], "--records=", strlen("--records=")) == 0)
			image.most_records = (uint64_t)atoll(argv[1] + strlen("--records="));
		else if (strncmp(argv[1], "--save=", strlen("--save=")) == 0)
			save = argv[1] + strlen("--save=");
		else
			fail("unknown option %s", argv[1]);
	}
	if (argc != 3 || (save && !with_image))
		fail("usage: live_reader [--image [--mutate=N] [--records=N] [--save=NAME]] "
		     "[--raw-names] RUNTIME PID");
	runtime = find_runtime(argv[1]);
	report.runtime = runtime->name;
	live_open(&live, atoi(argv[2]));
	if (save) {
		watch_begin();
		live.is_watched = true;
		image.reader = &live;
	}
	bed_open(&bed, &live);

	report.probe_ns = -snap_clock_ns(CLOCK_MONOTONIC);
	check(snap_modules_create(bed.set, &live.process, &bed.process.modules));
	check(runtime->probe(&bed.process, &plan, &report.found));
	report.probe_ns += snap_clock_ns(CLOCK_MONOTONIC);
	if (!snap_memory_plan_check(&plan))
		fail("the plan makes no sense");

	read_process(&live, &bed, runtime, with_image ? &image : NULL, &report);
	if (with_image && rounds) {
		struct again again = { .bed = &bed, .live = &live, .runtime = runtime };

		live_mutate(&image, rounds, read_again, &again);
		fprintf(stderr, "live_reader: %u of %u changed images were understood\n",
			again.understood, again.rounds);
	}
	live_print(stdout, &live, &report);
	if (save)
		live_save(save, &live, runtime, &report);
	bed_close(&bed);
	free(live.process.threads);
	live_close(&live);
	return 0;
}
