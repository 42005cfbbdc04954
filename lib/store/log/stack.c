/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Frames and stacks of a log, once each: see log.h. Hash tables find them by number; the elements are
 * in the log's arrays.
 */
#include "base/buffer.h"
#include "base/table.h"
#include "store/log/index.h"

#include <assert.h>
#include <string.h>

enum { MOST_REASONS = 1 << 16, MOST_FRAMES_OF_STACK = 1 << 24 };

/* Innermost frames of a stack that there is no room for. */
static const size_t most_frames[SNAP_LOG_DETAIL_COUNT] = {
	[SNAP_LOG_ALL] = SIZE_MAX,
	[SNAP_LOG_FEW] = 16,
	[SNAP_LOG_FEWEST] = 4,
};

static const char CUT[] = "the recording reached its memory limit, or a part of it (--max-memory)";

/* The fields that identify a stack of a space, besides its frames. */
struct stack_head {
	uint64_t end_pc, gap_count;
	uint32_t space, gap_after, reason, end, labels, shows_all;
};

static struct stack_head head_of(const struct snap_log_stack *stack)
{
	return (struct stack_head){ stack->end_pc,    stack->gap_count, stack->space,
				    stack->gap_after, stack->reason,    stack->end,
				    stack->labels,    stack->shows_all };
}

static uint64_t stack_hash(const struct stack_head *head, const uint32_t *ids, size_t count)
{
	uint64_t hash = snap_hash_bytes(head, sizeof(*head), 0);

	return snap_hash_bytes(ids, count * sizeof(*ids), hash);
}

static struct stacksnap_error *too_many_stacks(const char *what)
{
	return snap_error_format(SNAP_ERROR_OTHER, "the recording has too many different %s", what);
}

/* *ret UINT32_MAX: it is new, and not to be added. */
static struct stacksnap_error *find_log_frame(struct snap_log *log, uint32_t space, uint64_t bits,
					      bool add, uint32_t *ret)
{
	struct snap_hash_table *table = &log->index->frames;
	uint64_t hash = snap_log_hash_frame(space, bits);

	if (snap_hash_got(table, hash, i,
			  log->frames[i].bits == bits && log->frames[i].space == space &&
				  !log->frames[i].is_managed,
			  ret))
		return NULL;
	*ret = UINT32_MAX;
	if (!add)
		return NULL;
	if (log->frame_count >= SNAP_LOG_MAX_FRAMES)
		return too_many_stacks("frames");
	if (!snap_reserve_array(log->frames, log->frame_capacity, log->frame_count + 1) ||
	    !snap_hash_table_add(table, hash, log->frame_count))
		return snap_error_no_memory();
	*ret = (uint32_t)log->frame_count++;
	log->frames[*ret] = (struct snap_log_frame){ .bits = bits, .space = space };
	snap_log_charge_frame(log, *ret);
	return NULL;
}

/* Reasons are texts of the program: a handful. */
static struct stacksnap_error *find_log_reason(struct snap_log *log, const char *reason,
					       uint32_t *ret)
{
	for (size_t i = 0; reason && i < log->reason_count; i++) {
		if (log->reasons[i] == reason || strcmp(log->reasons[i], reason) == 0) {
			*ret = (uint32_t)i + 1;
			return NULL;
		}
	}
	*ret = 0;
	if (!reason)
		return NULL;
	if (log->reason_count >= MOST_REASONS)
		return too_many_stacks("reasons");
	if (!snap_reserve_array(log->reasons, log->reason_capacity, log->reason_count + 1))
		return snap_error_no_memory();
	reason = snap_intern(&log->strings, reason, strnlen(reason, SNAP_MAX_NAME));
	SNAP_TRY(snap_no_memory_unless(reason));
	log->reasons[log->reason_count++] = reason;
	*ret = (uint32_t)log->reason_count;
	return NULL;
}

/* The numbers of a stack's frames go to index->ids; one that is new and not to be added ends it. */
static struct stacksnap_error *find_frames(struct snap_log *log, uint32_t space,
					   const struct snap_log_pcs *pcs, bool add,
					   bool *found_ret)
{
	struct snap_log_index *index = log->index;
	const struct snap_frame *before = NULL, *managed; /* of the frame before; NULL: a pc */

	*found_ret = false;
	for (size_t i = 0, m = 0; i < pcs->count; i++, before = managed) {
		bool is_managed = m < pcs->managed_count && pcs->managed[m].at == i;
		struct stacksnap_error *err;

		managed = is_managed ? pcs->managed[m++].frame : NULL;
		if (!snap_reserve_array(index->ids, index->id_capacity, i + 1))
			return snap_error_no_memory();
		/* Neighbours in a recursion are mostly the same. */
		if (i && managed == before && (managed || pcs->bits[i] == pcs->bits[i - 1])) {
			index->ids[i] = index->ids[i - 1];
			continue;
		}
		err = managed ? snap_log_find_managed(log, space, managed, add, &index->ids[i])
			      : find_log_frame(log, space, pcs->bits[i], add, &index->ids[i]);
		if (err || index->ids[i] == UINT32_MAX)
			return err;
	}
	*found_ret = true;
	return NULL;
}

static bool is_stack(const struct snap_log *log, uint32_t number, const struct stack_head *head,
		     size_t count)
{
	const struct snap_log_stack *stack = &log->stacks[number];
	struct stack_head other = head_of(stack);

	return stack->frame_count == count && memcmp(&other, head, sizeof(other)) == 0 &&
	       (count == 0 || memcmp(log->frame_ids + stack->frame_start, log->index->ids,
				     count * sizeof(uint32_t)) == 0);
}

static struct stacksnap_error *add_log_stack(struct snap_log *log, const struct stack_head *head,
					     size_t count, uint32_t *ret)
{
	if (log->stack_count >= SNAP_LOG_MAX_STACKS)
		return too_many_stacks("stacks");
	if (!snap_reserve_array(log->stacks, log->stack_capacity, log->stack_count + 1) ||
	    !snap_reserve_array(log->frame_ids, log->frame_id_capacity,
				log->frame_id_count + count))
		return snap_error_no_memory();
	log->stacks[log->stack_count] = (struct snap_log_stack){
		.space = head->space,
		.frame_count = (uint32_t)count,
		.frame_start = log->frame_id_count,
		.end_pc = head->end_pc,
		.gap_count = head->gap_count,
		.gap_after = head->gap_after,
		.reason = head->reason,
		.labels = head->labels,
		.end = head->end,
		.shows_all = head->shows_all,
	};
	if (count)
		memcpy(log->frame_ids + log->frame_id_count, log->index->ids,
		       count * sizeof(uint32_t));
	log->frame_id_count += count;
	snap_log_charge_stack(log, head->space, count);
	*ret = (uint32_t)log->stack_count++;
	return NULL;
}

/* *ret SNAP_LOG_GONE: it is new, and not to be added. */
static struct stacksnap_error *find_log_stack(struct snap_log *log, uint32_t space,
					      const struct snap_log_pcs *pcs, bool add,
					      uint32_t *ret)
{
	struct snap_hash_table *table = &log->index->stacks;
	struct stack_head head = { .end_pc = pcs->end_pc,
				   .gap_count = pcs->gap_count,
				   .space = space,
				   .gap_after = pcs->gap_count ? (uint32_t)pcs->gap_after : 0,
				   .end = pcs->end,
				   .shows_all = pcs->shows_all };
	struct stacksnap_error *err;
	uint64_t hash;
	bool found = false;

	assert(space < log->capture->process_count && log->index->spaces[space].version);
	if (pcs->count > MOST_FRAMES_OF_STACK)
		return snap_error_format(SNAP_ERROR_OTHER, "a stack has too many frames");
	err = find_log_reason(log, pcs->reason, &head.reason);
	err = err
		      ?: snap_log_find_labels(log, space, pcs->labels, pcs->label_count, add,
					      &head.labels);
	if (!err && head.labels != UINT32_MAX)
		err = find_frames(log, space, pcs, add, &found);
	*ret = SNAP_LOG_GONE;
	if (err || !found)
		return err;
	hash = stack_hash(&head, log->index->ids, pcs->count);
	if (snap_hash_got(table, hash, i, is_stack(log, i, &head, pcs->count), ret))
		return NULL;
	if (!add)
		return NULL;
	SNAP_TRY(snap_no_memory_unless(snap_hash_table_reserve(table, log->stack_count + 1)));
	err = add_log_stack(log, &head, pcs->count, ret);
	/* There is room for it. */
	return err ?: snap_no_memory_unless(snap_hash_table_add(table, hash, *ret));
}

struct stacksnap_error *snap_log_other_stack(struct snap_log *log, uint32_t space, uint32_t *ret)
{
	const struct snap_log_pcs nothing = { .end = SNAP_UNWIND_LIMIT, .reason = CUT };

	log->cuts |= SNAP_LOG_CUT_ALL;
	return find_log_stack(log, space, &nothing, true, ret);
}

static struct snap_log_pcs cut_log_stack(const struct snap_log_pcs *pcs, size_t most)
{
	struct snap_log_pcs cut = {
		.bits = pcs->bits,
		.count = most,
		.end = SNAP_UNWIND_LIMIT,
		.reason = CUT,
		.managed = pcs->managed,
		.managed_count = pcs->managed_count,
		.shows_all = pcs->shows_all,
	};

	if (pcs->count <= most) {
		cut = *pcs;
		/* Labels are the first to go. */
		if (most != SIZE_MAX)
			cut.label_count = 0;
		return cut;
	}
	if (pcs->gap_count && pcs->gap_after + 1 < most) {
		cut.gap_after = pcs->gap_after;
		cut.gap_count = pcs->gap_count;
	}
	return cut;
}

/* A known stack stays as it is: the longest version of it that is there. */
static struct stacksnap_error *find_shortened(struct snap_log *log, uint32_t space,
					      const struct snap_log_pcs *pcs,
					      enum snap_log_detail detail, uint32_t *ret)
{
	for (int i = SNAP_LOG_ALL; i < SNAP_LOG_NOTHING && i <= (int)detail; i++) {
		struct snap_log_pcs cut = cut_log_stack(pcs, most_frames[i]);
		struct stacksnap_error *err =
			find_log_stack(log, space, &cut, i == (int)detail, ret);

		if (err)
			return err;
		if (i == (int)detail && cut.count < pcs->count)
			log->cuts |= SNAP_LOG_CUT_STACKS;
		if (i == (int)detail && pcs->label_count)
			log->cuts |= SNAP_LOG_CUT_LABELS;
		if (*ret != SNAP_LOG_GONE)
			return NULL;
	}
	return snap_log_other_stack(log, space, ret);
}

struct stacksnap_error *snap_log_stack(struct snap_log *log, uint32_t space,
				       const struct snap_log_pcs *pcs, uint32_t *ret)
{
	enum snap_log_detail detail = snap_log_stack_detail(log, space, pcs->count);

	if (detail == SNAP_LOG_ALL)
		return find_log_stack(log, space, pcs, true, ret);
	return find_shortened(log, space, pcs, detail, ret);
}

bool snap_log_rebuild_tables(struct snap_log *log)
{
	struct snap_hash_table *frames = &log->index->frames, *stacks = &log->index->stacks;
	struct snap_hash_table *label_sets = &log->index->label_sets;

	/* Their memory goes back with what a burst has left behind. */
	snap_hash_table_deinit(frames);
	snap_hash_table_deinit(stacks);
	snap_hash_table_deinit(label_sets);
	for (size_t i = 0; i < log->frame_count; i++)
		if (!snap_hash_table_add(
			    frames, snap_log_hash_frame(log->frames[i].space, log->frames[i].bits),
			    i))
			return false;
	for (size_t i = 0; i < log->label_set_count; i++)
		if (!snap_hash_table_add(label_sets, snap_log_hash_labels(&log->label_sets[i]), i))
			return false;
	for (size_t i = 0; i < log->stack_count; i++) {
		struct stack_head head = head_of(&log->stacks[i]);
		const uint32_t *ids = log->frame_ids + log->stacks[i].frame_start;

		if (!snap_hash_table_add(stacks, stack_hash(&head, ids, log->stacks[i].frame_count),
					 i))
			return false;
	}
	return snap_log_rebuild_wait_tables(log);
}
