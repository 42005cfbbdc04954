/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The meaning of pairs of stack and object, once each, and the pairs that are not explained yet: see
 * log.h. Knows nothing of how the meaning is found.
 */
#include "base/bsearch.h"
#include "base/buffer.h"
#include "store/log/index.h"

#include <assert.h>

static uint64_t hash_explained_pair(uint32_t stack, uint32_t object)
{
	return snap_hash_mix((uint64_t)stack << 32 | object);
}

const struct snap_log_explained *snap_log_explained(const struct snap_log *log, uint32_t stack,
						    uint32_t object)
{
	return snap_hash_find_in(&log->index->explained, hash_explained_pair(stack, object),
				 log->explained, known,
				 known->stack == stack && known->object == object);
}

/* The object, without its owner and since when. */
static const struct snap_wait *copy_wait(struct snap_log *log, const struct snap_wait *from)
{
	struct snap_wait bare = *from, *wait = snap_arena_new(&log->arena, struct snap_wait);

	if (bare.has_owner || bare.owner.pid || bare.owner.tid) {
		bare.owner_lack = SNAP_OWNER_KNOWN;
		bare.owner = (struct snap_wait_party){ .tid = 0 };
		bare.has_owner = false;
	}
	bare.since_ns = -1;
	bare.remaining_ns = -1;
	return wait && snap_wait_copy(&log->strings, &bare, wait) ? wait : NULL;
}

bool snap_log_index_explained(struct snap_log *log, size_t index)
{
	const struct snap_log_explained *explained = &log->explained[index];

	return snap_hash_table_add(&log->index->explained,
				   hash_explained_pair(explained->stack, explained->object), index);
}

struct stacksnap_error *snap_log_explain(struct snap_log *log, uint32_t stack, uint32_t object,
					 const struct snap_wait *wait)
{
	struct snap_log_explained explained = { stack, object, NULL };

	assert(stack < log->stack_count && object < log->object_count);
	if (snap_log_explained(log, stack, object))
		return NULL;
	if (log->explained_count >= SNAP_LOG_MAX_EXPLAINED) {
		log->cuts |= SNAP_LOG_CUT_OBJECTS;
		return NULL;
	}
	/* Without room it is kept without a meaning, so that it is not listed again. */
	if (wait && !snap_log_has_room_for_explained(log, log->objects[object].space)) {
		log->cuts |= SNAP_LOG_CUT_OBJECTS;
		wait = NULL;
	}
	if (wait)
		explained.wait = copy_wait(log, wait);
	if ((wait && !explained.wait) ||
	    !snap_reserve_array(log->explained, log->explained_capacity, log->explained_count + 1))
		return snap_error_no_memory();
	log->explained[log->explained_count] = explained;
	SNAP_TRY(snap_no_memory_unless(snap_log_index_explained(log, log->explained_count)));
	snap_log_charge_explained(log, (uint32_t)log->explained_count++);
	return NULL;
}

/* ---- pairs without an explanation ---- */

static bool is_left(const struct snap_log *log, const struct snap_log_change *change)
{
	return change->object && change->stack != SNAP_LOG_GONE &&
	       !snap_log_explained(log, change->stack, change->object - 1);
}

bool snap_log_has_waits_left(const struct snap_log *log)
{
	if (!log->object_count || log->explained_count >= SNAP_LOG_MAX_EXPLAINED)
		return false;
	return snap_any(log->before_count, i, is_left(log, &log->before[i])) ||
	       snap_any(log->change_count, i, is_left(log, &log->changes[i]));
}

struct pairs {
	struct snap_log_explained *pairs;
	size_t count, capacity, most;
	struct snap_hash_table table;
};

static void pairs_deinit(struct pairs *pairs)
{
	free(pairs->pairs);
	snap_hash_table_deinit(&pairs->table);
}

static bool add_explained_pair(struct pairs *pairs, uint32_t stack, uint32_t object)
{
	uint64_t hash = hash_explained_pair(stack, object);

	if (pairs->count >= pairs->most)
		return true;
	if (snap_hash_find(&pairs->table, hash, i,
			   pairs->pairs[i].stack == stack && pairs->pairs[i].object == object) !=
	    SIZE_MAX)
		return true;
	if (!snap_reserve_array(pairs->pairs, pairs->capacity, pairs->count + 1) ||
	    !snap_hash_table_add(&pairs->table, hash, pairs->count))
		return false;
	pairs->pairs[pairs->count++] = (struct snap_log_explained){ stack, object, NULL };
	return true;
}

static bool add_pairs(const struct snap_log *log, const struct snap_log_change *changes,
		      size_t count, struct pairs *pairs)
{
	return snap_all(count, i,
			!is_left(log, &changes[i]) ||
				add_explained_pair(pairs, changes[i].stack, changes[i].object - 1));
}

SNAP_ORDER(compare_pairs, struct snap_log_explained, left, right,
	   snap_compare(left->stack, right->stack), snap_compare(left->object, right->object));

struct stacksnap_error *snap_log_waits_left(const struct snap_log *log,
					    struct snap_log_explained **ret, size_t *count_ret)
{
	_cleanup_(pairs_deinit) struct pairs pairs = { .most = SNAP_LOG_MAX_EXPLAINED -
							       log->explained_count };

	if (!add_pairs(log, log->before, log->before_count, &pairs) ||
	    !add_pairs(log, log->changes, log->change_count, &pairs))
		return snap_error_no_memory();
	if (pairs.count)
		qsort(pairs.pairs, pairs.count, sizeof(*pairs.pairs), compare_pairs);
	*count_ret = pairs.count;
	*ret = snap_take_ptr(pairs.pairs);
	return NULL;
}
