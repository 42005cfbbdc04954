/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads in a handler on a signal stack (stop/signal_stack.h): finds the interrupted stack, from
 * the copy of the signal stack.
 */
#include "model/arch/registers.h"
#include "stop/child/internal.h"
#include "stop/signal_stack.h"

#include <string.h>

enum { SIGNAL_FRAME_BYTES = 4 << 20 /* of all stacks that are searched for signal frames */ };

/* The thread pointer, which is near the usual stack of a thread; 0: unknown. */
static uint64_t interrupted_thread_pointer(const struct snap_thread *thread)
{
	struct snap_known_registers known;

	return snap_registers_of(SNAP_OWN_ARCH, thread, &known) ? known.thread_pointer : 0;
}

/* A thread of a stop, during the search for its signal frame. */
struct interrupted_thread {
	struct snap_tracer *tracer;
	const struct snap_tracee *tracee;
	const struct snap_map *own;
	uint64_t thread_pointer;
	struct snap_need need;
};

static bool is_elsewhere(void *context, uint64_t saved)
{
	struct interrupted_thread *interrupted = context;
	uint32_t process = interrupted->tracee->process;
	const struct snap_traced *traced = &interrupted->tracer->stop->processes[process];
	const struct snap_map *map = snap_maps_stack(traced->maps, traced->map_count, saved);

	if (!map || map == interrupted->own || !map->write)
		return false;
	interrupted->need =
		snap_tracer_find_stack(interrupted->tracer, process, SNAP_MAX(saved, map->start),
				       interrupted->thread_pointer);
	return interrupted->need.size > 0;
}

/* The stack that was interrupted; size 0: none. */
static struct snap_need find_interrupted_stack(struct snap_tracer *tracer,
					       const struct snap_tracee *tracee, size_t *budget)
{
	const struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	const struct snap_traced *process = snap_tracer_process(tracer, tracee);
	struct interrupted_thread interrupted = {
		.tracer = tracer,
		.tracee = tracee,
		.own = snap_tracer_find_map(tracer, tracee->process, thread->stack_address),
		.thread_pointer = interrupted_thread_pointer(thread),
	};

	if (!interrupted.own || snap_is_usual_stack(interrupted.own, interrupted.thread_pointer,
						    thread->tid == process->pid))
		return (struct snap_need){ 0 };
	if (!snap_tracer_interrupted_sp(thread, budget, is_elsewhere, &interrupted))
		return (struct snap_need){ 0 };
	return interrupted.need;
}

bool snap_tracer_find_interrupted(struct snap_tracer *tracer)
{
	uint64_t most = tracer->options->max_stack & ~15ull;
	size_t budget = SIGNAL_FRAME_BYTES, room = snap_region_room(&tracer->memory->stacks);
	bool any = false;

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_tracee *tracee = &tracer->tracees[i];
		const struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
		struct snap_need *need = &tracer->needs[i];

		need->size = 0;
		if (thread->result != SNAP_THREAD_COPIED || !thread->stack_size ||
		    thread->stack2_size || snap_tracer_process(tracer, tracee)->stalled)
			continue;
		*need = find_interrupted_stack(tracer, tracee, &budget);
		need->size = need->size < most ? need->size : most;
		need->size = need->size < room ? need->size : room & ~(size_t)15;
		room -= need->size;
		any |= need->size != 0;
	}
	return any;
}
