/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who has a futex, as a time line of its words: see log.h. A hold is of the tick that is being made,
 * as changes are, and replaces an earlier one of the same tick.
 */
#include "base/buffer.h"
#include "store/log/index.h"

#include <assert.h>

bool snap_log_make_held_before(struct snap_log *log)
{
	if (!snap_reserve_array(log->held_before, log->index->held_before_capacity,
				log->object_count))
		return false;
	for (size_t i = log->held_before_count; i < log->object_count; i++)
		log->held_before[i] = 0;
	log->held_before_count = log->object_count;
	return true;
}

struct stacksnap_error *snap_log_add_hold(struct snap_log *log, uint32_t object, uint32_t words)
{
	struct snap_log_index *index = log->index;
	struct snap_log_held *held = &index->held[object];
	uint64_t begin =
		log->tick_count > 1 ? log->ticks[log->tick_count - 2].hold_end : log->first_hold;

	if (held->words == words)
		return NULL;
	held->words = words;
	if (held->last > begin) {
		log->holds[held->last - 1 - log->first_hold].words = words;
		return NULL;
	}
	if (!snap_log_grow_behind_gap(&log->holds, &index->hold_gap, &log->hold_capacity,
				      log->hold_count, sizeof(*log->holds)))
		return snap_error_no_memory();
	log->holds[log->hold_count++] = (struct snap_log_hold){ object, words };
	log->ticks[log->tick_count - 1].hold_end++;
	held->last = log->first_hold + log->hold_count;
	return NULL;
}

struct stacksnap_error *snap_log_hold(struct snap_log *log, uint32_t object,
				      const struct snap_memory_image *image)
{
	struct stacksnap_error *err;
	uint32_t words;

	assert(log->index->in_tick && object < log->object_count);
	assert(log->objects[object].is_futex);
	/* Where there is no room for them, they are unknown from here on. */
	err = snap_log_find_words(log, log->objects[object].space, image, true, &words);
	return err ? err : snap_log_add_hold(log, object, words);
}

const struct snap_log_words *snap_log_held(const struct snap_log *log, uint32_t object)
{
	uint32_t words;

	assert(object < log->object_count);
	words = log->objects[object].is_futex ? log->index->held[object].words
					      : log->objects[object].words;
	return words ? &log->words[words - 1] : NULL;
}
