/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The stacks that threads of a stop go on in: see follow.h. */
#include "capture/follow.h"

#include "base/clock.h"

/* Threads, and copies of them that have the other stacks. */
struct followed_threads {
	struct followed {
		struct snap_thread *thread;
		struct snap_thread copy;
	} * items;
	size_t count, most;
};

static void follow_process(const struct snap_stop_hook *hook, struct snap_capture *capture,
			   struct snap_shared_memory *memory, const struct snap_stop *stop,
			   struct snap_traced *traced, struct followed_threads *followed)
{
	struct snap_process *process;

	if (traced->index >= capture->process_count)
		return;
	process = &capture->processes[traced->index];
	process->maps = traced->maps;
	process->map_count = traced->map_count;
	process->credentials = traced->credentials;
	process->pieces = traced->pieces;
	process->piece_count = traced->piece_count;
	process->arch = traced->arch;
	for (size_t i = 0; i < traced->thread_count; i++) {
		struct snap_thread *thread = &traced->threads[i];
		struct followed *item = &followed->items[followed->count];

		if (thread->lead != SNAP_LEAD_ON || thread->result != SNAP_THREAD_COPIED ||
		    followed->count == followed->most ||
		    snap_clock_ns(CLOCK_MONOTONIC) >= stop->follow_until_ns)
			continue;
		*item = (struct followed){ thread, *thread };
		hook->follow(hook->context, capture, traced->index, &item->copy, memory,
			     stop->follow_until_ns);
		followed->count++;
	}
}

void snap_follow_stopped(const struct snap_stop_hook *hook, struct snap_capture *capture,
			 struct snap_shared_memory *memory, struct snap_stop *stop)
{
	struct followed_threads followed = { .count = 0 };

	for (uint32_t i = 0; i < stop->process_count; i++)
		for (size_t k = 0; k < stop->processes[i].thread_count; k++)
			followed.most += stop->processes[i].threads[k].lead == SNAP_LEAD_ON;
	followed.items = calloc(followed.most, sizeof(*followed.items));
	for (uint32_t i = 0; followed.items && i < stop->process_count; i++)
		follow_process(hook, capture, memory, stop, &stop->processes[i], &followed);
	/* What comes too late may be of another moment. */
	if (snap_stop_end_follow(stop, SNAP_FOLLOW_TAKEN))
		for (size_t i = 0; i < followed.count; i++) {
			struct snap_thread *thread = followed.items[i].thread;

			thread->memory = followed.items[i].copy.memory;
			thread->stack_limited = followed.items[i].copy.stack_limited;
			thread->lead = SNAP_LEAD_NONE;
		}
	free(followed.items);
}
