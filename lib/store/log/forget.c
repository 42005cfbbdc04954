/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The old end of a ring: see log.h. Ticks that are too old are dropped at once; from time to time the
 * elements that only they referred to are dropped, see compact.c.
 */
#include "base/buffer.h"
#include "store/log/compaction.h"

/* So much may always lie unused. */
enum {
	FEW_PROCESSES = 64,
	FEW_THREADS = 256,
	FEW_FRAMES = 4096,
	FEW_STACKS = 1024,
	FEW_FRAME_IDS = 1 << 15,
	FEW_LABEL_SETS = 1024,
	FEW_OBJECTS = 1024,
	FEW_WORDS = 1024,
	FEW_SOCKETS = 1024,
	FEW_EXPLAINED = 1024,
	FEW_BYTES = 1 << 18,
};

/* ---- ticks ---- */

bool snap_log_make_before(struct snap_log *log)
{
	if (!snap_reserve_array(log->before, log->index->before_capacity, log->thread_count))
		return false;
	for (size_t i = log->before_count; i < log->thread_count; i++)
		log->before[i] = (struct snap_log_change){ .thread = (uint32_t)i,
							   .stack = SNAP_LOG_GONE,
							   .syscall = -1 };
	log->before_count = log->thread_count;
	return true;
}

/* The arrays lose their first elements; the memory is used again when they grow. */
static void forget_changes(struct snap_log *log, size_t count)
{
	for (size_t i = 0; i < count; i++)
		log->before[log->changes[i].thread] = log->changes[i];
	if (!count)
		return;
	log->changes += count;
	log->change_count -= count;
	log->change_capacity -= count;
	log->index->change_gap += count;
	log->first_change += count;
}

static void forget_holds(struct snap_log *log, size_t count)
{
	for (size_t i = 0; i < count; i++)
		log->owners_before[log->owners[i].object] = log->owners[i].words;
	if (!count)
		return;
	log->owners += count;
	log->owner_count -= count;
	log->owner_capacity -= count;
	log->index->hold_gap += count;
	log->first_owner += count;
}

static void forget_wakes(struct snap_log *log, size_t count)
{
	for (size_t i = 0; i < count; i++)
		log->ran_before[log->wakes[i].thread] = log->wakes[i].ran;
	if (!count)
		return;
	log->wakes += count;
	log->wake_count -= count;
	log->wake_capacity -= count;
	log->index->wake_gap += count;
	log->first_wake += count;
}

static bool forget_ticks(struct snap_log *log, int64_t before_ns)
{
	struct snap_log_index *index = log->index;
	size_t done = log->tick_count - index->in_tick, ticks = 0;

	while (ticks < done && log->ticks[ticks].time_ns < before_ns)
		ticks++;
	if (ticks == 0)
		return true;
	if (!snap_log_make_before(log) || !snap_log_make_owners_before(log) ||
	    !snap_log_make_ran_before(log))
		return false;
	forget_changes(log, log->ticks[ticks - 1].change_end - log->first_change);
	forget_holds(log, log->ticks[ticks - 1].owner_end - log->first_owner);
	forget_wakes(log, log->ticks[ticks - 1].wake_end - log->first_wake);
	log->ticks += ticks;
	log->tick_count -= ticks;
	log->tick_capacity -= ticks;
	index->tick_gap += ticks;
	log->first_tick += ticks;
	return true;
}

/* ---- all of it ---- */

static bool is_compaction_due(const struct snap_log *log)
{
	const struct snap_log_index *index = log->index;
	const struct snap_log_kept *kept = &index->kept;

	return log->process_count > 2 * kept->processes + FEW_PROCESSES ||
	       log->thread_count > 2 * kept->threads + FEW_THREADS ||
	       index->space_count > 2 * kept->spaces + FEW_PROCESSES ||
	       log->frame_count > 2 * kept->frames + FEW_FRAMES ||
	       log->frame_id_count > 2 * kept->frame_ids + FEW_FRAME_IDS ||
	       log->stack_count > 2 * kept->stacks + FEW_STACKS ||
	       log->label_set_count > 2 * kept->label_sets + FEW_LABEL_SETS ||
	       log->object_count > 2 * kept->objects + FEW_OBJECTS ||
	       log->words_count > 2 * kept->words + FEW_WORDS ||
	       log->socket_count > 2 * kept->sockets + FEW_SOCKETS ||
	       log->explained_count > 2 * kept->explained + FEW_EXPLAINED ||
	       log->arena.total > 2 * kept->text + FEW_BYTES;
}

static struct stacksnap_error *forget(struct snap_log *log, int64_t before_ns, bool at_once,
				      bool *renumbered_ret)
{
	struct snap_log_index *index = log->index;
	bool due;

	SNAP_TRY(snap_no_memory_unless(forget_ticks(log, before_ns)));
	due = at_once || is_compaction_due(log);
	if (due) {
		SNAP_TRY(snap_log_compact(log));
		index->kept = (struct snap_log_kept){
			.processes = log->process_count,
			.threads = log->thread_count,
			.spaces = index->space_count,
			.frames = log->frame_count,
			.frame_ids = log->frame_id_count,
			.stacks = log->stack_count,
			.label_sets = log->label_set_count,
			.objects = log->object_count,
			.words = log->words_count,
			.sockets = log->socket_count,
			.explained = log->explained_count,
			.text = log->arena.total,
		};
	}
	*renumbered_ret = due;
	return NULL;
}

struct stacksnap_error *snap_log_forget(struct snap_log *log, int64_t before_ns,
					bool *renumbered_ret)
{
	return forget(log, before_ns, false, renumbered_ret);
}

struct stacksnap_error *snap_log_forget_half(struct snap_log *log, bool *renumbered_ret)
{
	int64_t before_ns = log->tick_count ? log->ticks[log->tick_count / 2].time_ns : 0;

	log->cuts |= SNAP_LOG_CUT_RING;
	return forget(log, before_ns, true, renumbered_ret);
}

static uint32_t moved_number(const struct snap_log_moves *moves, uint32_t old)
{
	return old < moves->count ? moves->to[old] : UINT32_MAX;
}

uint32_t snap_log_moved_process(const struct snap_log *log, uint32_t old)
{
	return moved_number(&log->index->process_moves, old);
}

uint32_t snap_log_moved_space(const struct snap_log *log, uint32_t old)
{
	return moved_number(&log->index->space_moves, old);
}

uint32_t snap_log_moved_thread(const struct snap_log *log, uint32_t old)
{
	return moved_number(&log->index->thread_moves, old);
}

uint32_t snap_log_moved_object(const struct snap_log *log, uint32_t old)
{
	return moved_number(&log->index->object_moves, old);
}
