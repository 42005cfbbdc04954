/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A long recording made by rule, for what renderers cost: a minute of 100 threads that stand
 * elsewhere at every tick.
 */
#pragma once

#include "model/recording.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
	LONG_TICKS = 5940,
	LONG_THREADS = 100,
	LONG_STACKS = 300,
	LONG_FRAMES = 2000,
	LONG_DEPTH = 20,
	LONG_PERIOD = 10101010,
};

static inline struct snap_frame *long_frames(struct snap_arena *arena)
{
	struct snap_frame *frames = snap_arena_new_array(arena, LONG_FRAMES, struct snap_frame);
	struct snap_entry *entries = snap_arena_new_array(arena, LONG_FRAMES, struct snap_entry);

	for (int i = 0; i < LONG_FRAMES; i++) {
		const char *name = snap_arena_printf(
			arena, "orders::queue<Job, std::allocator<Job> >::function_%d(int)", i);

		entries[i] = (struct snap_entry){
			.function = name,
			.symbol = name,
			.file = snap_arena_printf(arena, "/build/orders/src/file_%d.cc", i / 20),
			.line = (uint32_t)(i * 7 % 900 + 1),
			.system = i % 5 == 0,
		};
		frames[i] = (struct snap_frame){
			.address = 0x555500000000 + (uint64_t)i * 64 + 1,
			.offset = (uint64_t)i * 64,
			.module = "/srv/orders/orderd",
			.build_id = "feedc0defeedc0defeedc0defeedc0defeedc0de",
			.has_offset = true,
			.entries = &entries[i],
			.entry_count = 1,
		};
	}
	return frames;
}

static inline void long_stacks(struct snap_recording *recording)
{
	struct snap_arena *arena = &recording->arena;
	struct snap_frame *frames = long_frames(arena);

	recording->stack_count = LONG_STACKS;
	recording->stacks = snap_arena_new_array(arena, LONG_STACKS, struct snap_recorded_stack);
	for (int i = 0; i < LONG_STACKS; i++) {
		struct snap_recorded_stack *stack = &recording->stacks[i];

		snprintf(stack->id, sizeof(stack->id), "%016" PRIx64,
			 (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u);
		stack->description = "worker_main";
		stack->frames = snap_arena_new_array(arena, LONG_DEPTH, const struct snap_frame *);
		stack->frame_count = LONG_DEPTH;
		for (int k = 0; k < LONG_DEPTH; k++)
			stack->frames[k] = &frames[(i * (k < 10 ? 13 : 1) + k * 101) % LONG_FRAMES];
	}
}

static inline void long_track(struct snap_recording *recording, int number)
{
	struct snap_track *track = &recording->tracks[number];

	*track = (struct snap_track){
		.tid = 1000 + number,
		.name = snap_arena_printf(&recording->arena, "worker-%d", number),
		.runs = snap_arena_new_array(&recording->arena, LONG_TICKS, struct snap_run),
		.run_count = LONG_TICKS,
	};
	for (int i = 0; i < LONG_TICKS; i++) {
		bool runs = (i + number) % 4 == 0;

		track->runs[i] = (struct snap_run){
			.first = (uint32_t)i,
			.last = (uint32_t)i,
			.stack = (uint32_t)((i * 31 + number * 17) % LONG_STACKS),
			.state = runs ? SNAP_STATE_RUNNING : SNAP_STATE_SLEEPING,
			.taken = runs ? SNAP_TAKEN_ALONE : SNAP_TAKEN_UNSTOPPED,
			.syscall = runs ? NULL : "futex",
		};
	}
}

/* The caller's, to be destroyed: 594,000 runs of one sample each. */
static inline struct snap_recording *long_recording(void)
{
	struct snap_recording *recording = snap_recording_new();
	struct snap_arena *arena = &recording->arena;

	recording->host = (struct snap_host){ .name = "db-7", .arch = "x86_64", .cpus = 16 };
	recording->time_ns = 1795420338106000000;
	recording->period_ns = LONG_PERIOD;
	recording->tick_count = LONG_TICKS;
	recording->ticks = snap_arena_new_array(arena, LONG_TICKS, struct snap_tick);
	for (int i = 0; i < LONG_TICKS; i++)
		recording->ticks[i] = (struct snap_tick){ i * (int64_t)LONG_PERIOD, 100000 };
	recording->duration_ns = LONG_TICKS * (int64_t)LONG_PERIOD;
	recording->process_count = 1;
	recording->processes = snap_arena_new(arena, struct snap_recorded_process);
	recording->processes[0] = (struct snap_recorded_process){
		.node = snap_arena_new(arena, struct snap_node),
		.parent = SIZE_MAX,
		.last = LONG_TICKS - 1,
	};
	*recording->processes[0].node = (struct snap_node){
		.pid = 1000, .name = "orderd", .description = "orderd --config x", .uid = 1001
	};
	long_stacks(recording);
	recording->track_count = LONG_THREADS;
	recording->tracks = snap_arena_new_array(arena, LONG_THREADS, struct snap_track);
	for (int i = 0; i < LONG_THREADS; i++)
		long_track(recording, i);
	recording->stats = (struct snap_recording_stats){
		.hz_asked = 99,
		.hz_reached = 99,
		.ticks = LONG_TICKS,
		.duration_ns = recording->duration_ns,
		.stopped_ns = LONG_TICKS * (int64_t)100000,
		.threads = LONG_THREADS,
		.thread_samples = (uint64_t)LONG_TICKS * LONG_THREADS,
		.stacks = LONG_STACKS,
	};
	return recording;
}

static inline double long_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The most memory that this process has had, in MB. */
static inline double long_peak(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss / 1024;
}
