/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * When waiting threads have run between two ticks, though they may be in the same stack as before: see
 * log.h. A thread that never runs takes no memory; one that runs before each tick only its first wake;
 * one that wakes now and then has a wake each time. Knows nothing of counters.
 */
#include "base/buffer.h"
#include "store/log/index.h"

#include <assert.h>

/* From the current tick on nothing is known any more. */
static void lose_wakes(struct snap_log *log)
{
	log->wakes_end = snap_log_tick_at(log);
	log->cuts |= SNAP_LOG_CUT_WAKES;
}

void snap_log_add_wake(struct snap_log *log, uint32_t thread, enum snap_log_ran ran)
{
	assert(log->index->in_tick && thread < log->thread_count);
	if (snap_log_tick_at(log) >= log->wakes_end)
		return;
	if (!snap_log_has_room_for_wake(log) ||
	    !snap_log_grow_behind_gap(&log->wakes, &log->index->wake_gap, &log->wake_capacity,
				      log->wake_count, sizeof(*log->wakes))) {
		lose_wakes(log);
		return;
	}
	log->wakes[log->wake_count++] =
		(struct snap_log_wake){ thread & SNAP_LOG_WAKE_THREADS, ran };
	log->ticks[log->tick_count - 1].wake_end++;
}

void snap_log_ran(struct snap_log *log, uint32_t thread)
{
	struct snap_log_index *index = log->index;
	struct snap_log_standing *standing = &index->standing[thread];
	uint64_t tick = snap_log_tick_at(log);
	bool ran_before = standing->ran_tick == tick;

	assert(index->in_tick && thread < log->thread_count);
	if (tick >= log->wakes_end || !standing->change.object || standing->ran_tick == tick + 1)
		return;
	standing->ran_tick = tick + 1;
	if (standing->ran == SNAP_LOG_RAN_EACH)
		return;
	if (standing->ran == SNAP_LOG_RAN_ONCE && ran_before) {
		if (!snap_reserve_array(index->awake, index->awake_capacity,
					index->awake_count + 1)) {
			lose_wakes(log);
			return;
		}
		index->awake[index->awake_count++] = thread;
		standing->ran = SNAP_LOG_RAN_EACH;
	} else {
		standing->ran = SNAP_LOG_RAN_ONCE;
	}
	snap_log_add_wake(log, thread, (enum snap_log_ran)standing->ran);
}

void snap_log_settle_wakes(struct snap_log *log)
{
	struct snap_log_index *index = log->index;
	uint64_t tick = snap_log_tick_at(log);
	size_t count = 0;

	for (size_t i = 0; i < index->awake_count; i++) {
		uint32_t thread = index->awake[i];
		struct snap_log_standing *standing = &index->standing[thread];

		if (standing->ran_tick == tick + 1) {
			index->awake[count++] = thread;
			continue;
		}
		standing->ran = SNAP_LOG_RAN_NOT;
		snap_log_add_wake(log, thread, SNAP_LOG_RAN_NOT);
	}
	index->awake_count = count;
}

bool snap_log_make_ran_before(struct snap_log *log)
{
	if (!snap_reserve_array(log->ran_before, log->index->ran_before_capacity,
				log->thread_count))
		return false;
	for (size_t i = log->ran_before_count; i < log->thread_count; i++)
		log->ran_before[i] = SNAP_LOG_RAN_NOT;
	log->ran_before_count = log->thread_count;
	return true;
}
