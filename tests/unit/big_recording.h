/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recordings made by a generator: as many threads and ticks as wanted, each thread at another place
 * at every tick, or staying for a while. Stacks share their outer frames, as those of a program do.
 */
#pragma once

#include "model/recording.h"

enum {
	BIG_FUNCTIONS = 2000,
	BIG_STACKS = 5000,
	BIG_DEPTH = 30, /* frames of a stack, at most */
	BIG_PID = 1000,
};

struct big_shape {
	size_t threads, ticks;
	unsigned stay; /* a thread changes its stack at each tick with chance 1 / stay */
	unsigned lost; /* so many ticks in 1000 were missed */
	int64_t period_ns;
};

/* A generator of its own, so that a failure comes back with the same numbers. */
static inline uint32_t big_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*seed >> 33);
}

static inline const struct snap_frame **big_frames(struct snap_arena *arena)
{
	const struct snap_frame **frames =
		snap_arena_new_array(arena, BIG_FUNCTIONS, const struct snap_frame *);

	for (int i = 0; i < BIG_FUNCTIONS; i++) {
		struct snap_frame *frame = snap_arena_new(arena, struct snap_frame);
		struct snap_entry *entries = snap_arena_new_array(arena, 2, struct snap_entry);

		/* Two places in each function; one in five has another inlined. */
		for (int k = 0; k < 2; k++)
			entries[k] = (struct snap_entry){
				.function = snap_arena_printf(arena, "%sfunction_%d",
							      k ? "" : "inlined::in_", i / 2),
				.file = "src/file.c",
				.line = (uint32_t)i + 1,
			};
		*frame = (struct snap_frame){ .address = 0x400000 + 16 * (uint64_t)i,
					      .offset = 16 * (uint64_t)i,
					      .module = "/usr/bin/big",
					      .has_offset = true,
					      .entries = i % 5 ? entries + 1 : entries,
					      .entry_count = i % 5 ? 1 : 2 };
		entries[0].inlined = i % 5 == 0;
		frames[i] = frame;
	}
	return frames;
}

/* Each goes out from some frame of an earlier one. */
static inline void big_stacks(struct snap_recording *recording, uint64_t *seed)
{
	const struct snap_frame **frames = big_frames(&recording->arena);

	recording->stack_count = BIG_STACKS;
	recording->stacks =
		snap_arena_new_array(&recording->arena, BIG_STACKS, struct snap_recorded_stack);
	for (size_t i = 0; i < BIG_STACKS; i++) {
		struct snap_recorded_stack *stack = &recording->stacks[i];
		const struct snap_recorded_stack *from =
			i ? &recording->stacks[big_random(seed) % i] : NULL;
		size_t shared = from ? big_random(seed) % from->frame_count : 0;
		size_t count = shared + 1 + big_random(seed) % (BIG_DEPTH - shared);

		stack->frames =
			snap_arena_new_array(&recording->arena, count, const struct snap_frame *);
		stack->frame_count = count;
		/* Innermost first: what is shared stands at the end. */
		for (size_t k = 0; k < count; k++)
			stack->frames[count - 1 - k] =
				k < shared ? from->frames[from->frame_count - 1 - k]
					   : frames[big_random(seed) % BIG_FUNCTIONS];
	}
}

static inline void big_ticks(struct snap_recording *recording, const struct big_shape *shape,
			     uint64_t *seed)
{
	int64_t at = 0;

	recording->tick_count = shape->ticks;
	recording->ticks = snap_arena_new_array(&recording->arena, shape->ticks, struct snap_tick);
	for (size_t i = 0; i < shape->ticks; i++) {
		recording->ticks[i] = (struct snap_tick){ at, big_random(seed) % 100000 };
		/* No tick comes quite at its time. */
		at += shape->period_ns + (int64_t)(big_random(seed) % 2001) - 1000;
		if (big_random(seed) % 1000 < shape->lost)
			at += 3 * shape->period_ns;
	}
	recording->duration_ns = at;
}

static inline void big_track(struct snap_recording *recording, const struct big_shape *shape,
			     struct snap_track *track, uint64_t *seed)
{
	size_t count = 0;

	track->runs = snap_arena_new_array(&recording->arena, shape->ticks, struct snap_run);
	for (uint32_t i = 0; i < shape->ticks; i++) {
		if (count && big_random(seed) % shape->stay) {
			track->runs[count - 1].last = i;
			continue;
		}
		track->runs[count++] = (struct snap_run){
			.first = i,
			.last = i,
			.stack = big_random(seed) % BIG_STACKS,
			.state = big_random(seed) % 3 ? SNAP_STATE_SLEEPING : SNAP_STATE_RUNNING,
			.taken = SNAP_TAKEN_UNSTOPPED,
			.syscall = big_random(seed) % 2 ? "futex" : NULL,
		};
	}
	track->run_count = count;
}

/* The caller's, to be destroyed. */
static inline struct snap_recording *big_recording(const struct big_shape *shape)
{
	struct snap_recording *recording = snap_recording_new();
	struct snap_arena *arena = &recording->arena;
	uint64_t seed = 1;

	recording->host = (struct snap_host){ .name = "db-7", .kernel = "6.1.0", .arch = "x86_64" };
	recording->time_ns = 1795420338106000000;
	recording->period_ns = shape->period_ns;
	big_ticks(recording, shape, &seed);
	big_stacks(recording, &seed);
	recording->process_count = 1;
	recording->processes = snap_arena_new(arena, struct snap_recorded_process);
	recording->processes[0] = (struct snap_recorded_process){
		.node = snap_arena_new(arena, struct snap_node),
		.parent = SIZE_MAX,
		.last = (uint32_t)shape->ticks - 1,
	};
	*recording->processes[0].node = (struct snap_node){ .pid = BIG_PID,
							    .ppid = 1,
							    .name = "big",
							    .description = "big --recording",
							    .exe = "/usr/bin/big",
							    .thread_count = shape->threads };
	recording->track_count = shape->threads;
	recording->tracks = snap_arena_new_array(arena, shape->threads, struct snap_track);
	for (size_t i = 0; i < shape->threads; i++) {
		recording->tracks[i] = (struct snap_track){
			.tid = BIG_PID + (pid_t)i,
			.name = snap_arena_printf(arena, "worker-%zu", i),
		};
		big_track(recording, shape, &recording->tracks[i], &seed);
	}
	recording->stats = (struct snap_recording_stats){
		.hz_asked = 99,
		.hz_reached = 99,
		.ticks = shape->ticks,
		.duration_ns = recording->duration_ns,
		.threads = shape->threads,
		.thread_samples = shape->threads * shape->ticks,
		.stacks = BIG_STACKS,
	};
	return recording;
}
