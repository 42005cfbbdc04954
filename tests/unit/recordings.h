/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recordings made by hand, for the tests of the renderers: the service of snapshots.h over ten
 * ticks. Which thread stood where at which tick is written in one table.
 */
#pragma once

#include "model/recording.h"
#include "snapshots.h"

#include <string.h>

enum { RECORDED_TICKS = 10, RECORDED_PERIOD = 10000000 };

struct recorded {
	pid_t tid;
	uint32_t first, last;
	const char *stack; /* description of a stack of the thread's process, NULL: its own one */
	enum snap_state state;
	enum snap_taken taken;
	const char *syscall;
};

/*
 * Threads that are not here stand as in the snapshot, at all ticks. The flusher wakes twice; the
 * walker sleeps between two runs of work; worker-11 is born late and dies early, with a gap
 * between.
 */
static const struct recorded recorded[] = {
	{ 1302, 0, 3, NULL, SNAP_STATE_DISK, SNAP_TAKEN_UNSTOPPED, "fsync" },
	{ 1302, 4, 4, NULL, SNAP_STATE_RUNNING, SNAP_TAKEN_ALONE, NULL },
	{ 1302, 5, 9, NULL, SNAP_STATE_DISK, SNAP_TAKEN_UNSTOPPED, "fsync" },
	{ 1303, 0, 2, NULL, SNAP_STATE_RUNNING, SNAP_TAKEN_ALONE, NULL },
	{ 1303, 3, 6, "worker_main", SNAP_STATE_SLEEPING, SNAP_TAKEN_UNSTOPPED, "futex" },
	{ 1303, 7, 9, NULL, SNAP_STATE_RUNNING, SNAP_TAKEN_ALONE, NULL },
	{ 1265, 2, 3, NULL, SNAP_STATE_SLEEPING, SNAP_TAKEN_UNSTOPPED, "futex" },
	{ 1265, 6, 7, NULL, SNAP_STATE_SLEEPING, SNAP_TAKEN_UNSTOPPED, "futex" },
};

static inline uint32_t recorded_stack(const struct snap_recording *recording,
				      const struct snap_track *track, const char *description)
{
	for (size_t i = 0; description && i < recording->stack_count; i++)
		if (recording->stacks[i].process == track->process &&
		    recording->stacks[i].description &&
		    strcmp(recording->stacks[i].description, description) == 0)
			return (uint32_t)i;
	return track->runs[0].stack;
}

static inline void record_track(struct snap_recording *recording, struct snap_track *track)
{
	struct snap_run *runs =
		snap_arena_new_array(&recording->arena, SNAP_ARRAY_SIZE(recorded), struct snap_run);
	size_t count = 0;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(recorded); i++) {
		const struct recorded *from = &recorded[i];

		if (from->tid == track->tid)
			runs[count++] = (struct snap_run){
				.first = from->first,
				.last = from->last,
				.stack = recorded_stack(recording, track, from->stack),
				.state = from->state,
				.taken = from->taken,
				.syscall = from->syscall,
			};
	}
	if (count) {
		track->runs = runs;
		track->run_count = count;
	} else {
		track->runs[0].last = RECORDED_TICKS - 1;
		track->runs[0].taken = SNAP_TAKEN_UNSTOPPED;
	}
}

/*
 * The caller's, to be destroyed; NULL without memory. Two ticks were missed between the 6th and the
 * 7th; at each 100 us were spent with something stopped.
 */
static inline struct snap_recording *recorded_service(void)
{
	struct snap_recording *recording = NULL;
	uint64_t samples = 0;

	if (snap_error_ignore(snap_recording_of_snapshot(&service, &recording)))
		return NULL;
	recording->period_ns = RECORDED_PERIOD;
	recording->tick_count = RECORDED_TICKS;
	recording->ticks =
		snap_arena_new_array(&recording->arena, RECORDED_TICKS, struct snap_tick);
	for (int i = 0; i < RECORDED_TICKS; i++)
		recording->ticks[i] =
			(struct snap_tick){ (i + (i > 5 ? 2 : 0)) * (int64_t)RECORDED_PERIOD,
					    100000 };
	for (size_t i = 0; i < recording->track_count; i++) {
		record_track(recording, &recording->tracks[i]);
		for (size_t k = 0; k < recording->tracks[i].run_count; k++)
			samples += snap_run_samples(&recording->tracks[i].runs[k]);
	}
	for (size_t i = 0; i < recording->process_count; i++)
		recording->processes[i].last = RECORDED_TICKS - 1;
	recording->duration_ns = 12 * (int64_t)RECORDED_PERIOD;
	recording->stats = (struct snap_recording_stats){
		.hz_asked = 100,
		.hz_reached = 83.333,
		.ticks = RECORDED_TICKS,
		.ticks_missed = 2,
		.ticks_late = 1,
		.duration_ns = recording->duration_ns,
		.stopped_ns = 1000000,
		.threads = recording->track_count,
		.thread_samples = samples,
		.stacks = recording->stack_count,
		.kept = samples - 20,
		.unstopped = 10,
		.alone = 10,
	};
	return recording;
}
