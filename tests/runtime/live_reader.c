/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * live_reader [--raw-names] RUNTIME PID: what the reader of a runtime makes of a live process, as
 * one JSON document. It scouts while the process runs, and reads while all its threads stand still.
 * For tests, which compare this with what the process says of itself.
 */
#include "live.h"

#include "base/clock.h"

#include <string.h>

/* A library may be without one. */
#pragma weak snap_runtime_go
#pragma weak snap_runtime_cpython
#pragma weak snap_runtime_php

/* For a look at the harness itself: stops, and finds nothing. */
static struct stacksnap_error *scout_none(const struct snap_runtime_process *process,
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
						.scout = scout_none,
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

int main(int argc, char **argv)
{
	struct bed bed = { .options = { .inlines = true, .lines = true, .symbols = true } };
	struct snap_memory_plan plan = { .step_count = 0 };
	struct live_report report = { .plan = &plan };
	struct snap_runtime_result *result = NULL;
	const struct snap_runtime *runtime;
	struct live live;
	int64_t begin;

	for (; argc > 1 && argv[1][0] == '-'; argc--, argv++) {
		if (strcmp(argv[1], "--raw-names") != 0)
			fail("unknown option %s", argv[1]);
		bed.options.raw_names = true;
	}
	if (argc != 3)
		fail("usage: live_reader [--raw-names] RUNTIME PID");
	runtime = find_runtime(argv[1]);
	report.runtime = runtime->name;
	live_open(&live, atoi(argv[2]));
	bed_open(&bed, &live);

	begin = snap_clock_ns(CLOCK_MONOTONIC);
	check(snap_modules_create(bed.set, &live.process, &bed.process.modules));
	check(runtime->scout(&bed.process, &plan, &report.found));
	report.scout_ns = snap_clock_ns(CLOCK_MONOTONIC) - begin;
	if (!snap_memory_plan_check(&plan))
		fail("the plan makes no sense");

	begin = snap_clock_ns(CLOCK_MONOTONIC);
	live_stop(&live);
	check(snap_modules_create(bed.set, &live.process, &bed.process.modules));
	report.read_ns = -snap_clock_ns(CLOCK_MONOTONIC);
	check(runtime->read(&bed.process, &result));
	report.read_ns += snap_clock_ns(CLOCK_MONOTONIC);
	live_go_on(&live);
	report.stop_ns = snap_clock_ns(CLOCK_MONOTONIC) - begin;

	report.result = result;
	live_print(stdout, &live, &report);
	bed_close(&bed);
	free(live.process.threads);
	live_close(&live);
	return 0;
}
