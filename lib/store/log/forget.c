/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The old end of a ring: ticks that are too old are left behind at once, and from time to time what
 * only they referred to is dropped (compact.c). See log.h.
 */
#include "store/log/internal.h"

#include <string.h>

/* So much may always lie unused. */
enum {
	FEW_PROCESSES = 64,
	FEW_THREADS = 256,
	FEW_FRAMES = 4096,
	FEW_STACKS = 1024,
	FEW_FRAME_IDS = 1 << 15,
	FEW_BYTES = 1 << 18,
};

bool snap_log_make_before(struct snap_log *log)
{
	struct snap_log_change *grown;

	if (log->before_count == log->thread_count)
		return true;
	if (log->thread_count > log->index->before_capacity) {
		grown = reallocarray(log->before, log->thread_capacity, sizeof(*grown));
		if (!grown)
			return false;
		log->before = grown;
		log->index->before_capacity = log->thread_capacity;
	}
	for (size_t i = log->before_count; i < log->thread_count; i++)
		log->before[i] = (struct snap_log_change){ .thread = (uint32_t)i,
							   .stack = SNAP_LOG_GONE,
							   .syscall = -1 };
	log->before_count = log->thread_count;
	return true;
}

static bool forget_ticks(struct snap_log *log, int64_t before_ns)
{
	struct snap_log_index *index = log->index;
	size_t done = log->tick_count - index->in_tick, ticks = 0, changes;

	while (ticks < done && log->ticks[ticks].time_ns < before_ns)
		ticks++;
	if (ticks == 0)
		return true;
	if (!snap_log_make_before(log))
		return false;
	changes = log->ticks[ticks - 1].change_end - log->first_change;
	for (size_t i = 0; i < changes; i++)
		log->before[log->changes[i].thread] = log->changes[i];
	/* The memory is used again when the arrays grow. */
	log->ticks += ticks;
	log->tick_count -= ticks;
	log->tick_capacity -= ticks;
	index->tick_gap += ticks;
	log->first_tick += ticks;
	if (changes) {
		log->changes += changes;
		log->change_count -= changes;
		log->change_capacity -= changes;
		index->change_gap += changes;
		log->first_change += changes;
	}
	return true;
}

static bool is_due(const struct snap_log *log)
{
	const struct snap_log_index *index = log->index;
	const struct snap_log_kept *kept = &index->kept;

	return log->process_count > 2 * kept->processes + FEW_PROCESSES ||
	       log->thread_count > 2 * kept->threads + FEW_THREADS ||
	       index->space_count > 2 * kept->spaces + FEW_PROCESSES ||
	       log->frame_count > 2 * kept->frames + FEW_FRAMES ||
	       log->frame_id_count > 2 * kept->frame_ids + FEW_FRAME_IDS ||
	       log->stack_count > 2 * kept->stacks + FEW_STACKS ||
	       log->arena.total > 2 * kept->text + FEW_BYTES;
}

struct snap_error *snap_log_forget(struct snap_log *log, int64_t before_ns, bool *renumbered_ret)
{
	struct snap_log_index *index = log->index;
	struct snap_error *err;
	bool due;

	if (!forget_ticks(log, before_ns))
		return snap_error_no_memory();
	due = is_due(log);
	if (due) {
		err = snap_log_compact(log);
		if (err)
			return err;
		index->kept = (struct snap_log_kept){
			.processes = log->process_count,
			.threads = log->thread_count,
			.spaces = index->space_count,
			.frames = log->frame_count,
			.frame_ids = log->frame_id_count,
			.stacks = log->stack_count,
			.text = log->arena.total,
		};
	}
	*renumbered_ret = due;
	return NULL;
}

static uint32_t moved(const struct snap_log_moves *moves, uint32_t old)
{
	return old < moves->count ? moves->to[old] : UINT32_MAX;
}

uint32_t snap_log_moved_process(const struct snap_log *log, uint32_t old)
{
	return moved(&log->index->process_moves, old);
}

uint32_t snap_log_moved_space(const struct snap_log *log, uint32_t old)
{
	return moved(&log->index->space_moves, old);
}

uint32_t snap_log_moved_thread(const struct snap_log *log, uint32_t old)
{
	return moved(&log->index->thread_moves, old);
}
