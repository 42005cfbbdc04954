/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process with stacks of many kinds, its capture, and a remote unwinder beside a local one.
 */
#pragma once

#include "analyze/unwind/unwind.h"
#include "api/options.h"
#include "capture/capture.h"
#include "files/files.h"
#include "roles/unwinder/internal.h"
#include "victims.h"

#include <pthread.h>
#include <string.h>

enum { DEPTHS = 6 };

static volatile int sink = 1;

__attribute__((noinline)) static void descend(int left, int answers)
{
	char filler[256];

	memset(filler, left, sizeof(filler));
	if (left > 0) {
		descend(left - 1, answers);
	} else {
		answer(answers, 0);
		while (sink > 0)
			poll(NULL, 0, -1);
	}
	sink += filler[left % (int)sizeof(filler)];
}

struct place {
	int depth, answers;
};

static inline void on_signal(int number)
{
	descend(number % 3, sink);
}

static inline void *stand(void *argument)
{
	const struct place *place = argument;

	descend(place->depth, place->answers);
	return NULL;
}

/* Shallow ones, a deep one, one whose stack is larger than is copied, one in a signal handler. */
static inline void threads(int commands, int answers)
{
	static struct place places[DEPTHS];
	static const int depths[DEPTHS] = { 0, 3, 20, 700, 2000, 6000 };

	for (int i = 0; i < DEPTHS; i++) {
		pthread_t thread;

		places[i] = (struct place){ depths[i], answers };
		if (pthread_create(&thread, NULL, stand, &places[i]))
			_exit(2);
	}
	sink = answers;
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	(void)commands;
}

struct bed {
	struct victim victim;
	struct snap_options options;
	struct snap_capture *capture;
	struct snap_process *processes; /* of the capture, when it was made */
	size_t process_count;
	struct snap_files *files;
	struct snap_local_broker local;
	struct snap_broker broker;
	struct snap_remote_unwinder *unwinder;
	/* beside it, here */
	struct snap_arena arena;
	struct snap_module_set *set;
	struct snap_unwinder *own;
};

/* Files and unwinders for the capture as it stands. */
static inline void bed_open(struct bed *bed)
{
	struct snap_file_finder finder;
	struct snap_modules *modules;

	assert_null(snap_files_create(&bed->options, bed->capture, &bed->files));
	finder = snap_files_finder(bed->files);
	bed->local = (struct snap_local_broker){ finder, bed->capture };
	bed->broker = snap_local_broker(&bed->local);
	assert_null(snap_remote_unwinder_create(&bed->options, &bed->broker, &bed->unwinder));
	assert_null(snap_module_set_create(&finder, &bed->arena, &bed->set));
	assert_null(snap_modules_create(bed->set, &bed->capture->processes[0], &modules));
	assert_null(snap_unwinder_create(bed->set, &bed->options, &bed->own));
	assert_null(snap_unwinder_enter(bed->own, &bed->capture->processes[0], modules));
}

static inline void bed_close(struct bed *bed)
{
	snap_remote_unwinder_destroy(bed->unwinder);
	snap_unwinder_destroy(bed->own);
	snap_module_set_destroy(bed->set);
	snap_files_destroy(bed->files);
	snap_arena_deinit(&bed->arena);
}

static inline int set_up(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	char text[16];

	victim_start(&bed->victim, threads);
	for (int i = 0; i <= DEPTHS; i++)
		wait_answer(&bed->victim);
	snap_options_init(&bed->options);
	snprintf(text, sizeof(text), "%d", (int)bed->victim.pid);
	assert_null(snap_options_set(&bed->options, "pid", text));
	assert_null(snap_options_set(&bed->options, "max-stack", "512k"));
	assert_null(snap_capture_take(&bed->options, NULL, &bed->capture));
	bed->processes = bed->capture->processes;
	bed->process_count = bed->capture->process_count;
	assert_int_equal(bed->processes[0].thread_count, DEPTHS + 1);
	bed_open(bed);
	*state = bed;
	return 0;
}

static inline int tear_down(void **state)
{
	struct bed *bed = *state;

	bed_close(bed);
	bed->capture->processes = bed->processes;
	bed->capture->process_count = bed->process_count;
	snap_capture_destroy(bed->capture);
	snap_options_deinit(&bed->options);
	victim_end(&bed->victim);
	free(bed);
	return 0;
}

/* ---- what is told ---- */

static inline void assert_same(const struct snap_pcs *got, const struct snap_pcs *wanted)
{
	assert_int_equal(got->count, wanted->count);
	for (size_t i = 0; i < got->count; i++)
		assert_int_equal(got->pcs[i].bits, wanted->pcs[i].bits);
	assert_int_equal(got->end, wanted->end);
	assert_int_equal(got->end_pc, wanted->end_pc);
	assert_int_equal(got->gap_after, wanted->gap_after);
	assert_int_equal(got->gap_count, wanted->gap_count);
	assert_int_equal(got->needs_register, wanted->needs_register);
	assert_int_equal(got->stale_mappings, wanted->stale_mappings);
	if (wanted->reason)
		assert_string_equal(got->reason, wanted->reason);
	else
		assert_null(got->reason);
}

/* As a number of the process, which stands under many. */
static inline void assert_told(struct bed *bed, uint32_t number, const struct snap_thread *thread)
{
	struct snap_pcs wanted, got;

	snap_unwind(bed->own, thread, &wanted);
	assert_null(snap_remote_unwind(bed->unwinder, number, &bed->capture->processes[number],
				       thread, &got));
	assert_same(&got, &wanted);
}

static inline unsigned losses(const struct bed *bed)
{
	return snap_remote_unwinder_losses(bed->unwinder, NULL);
}
