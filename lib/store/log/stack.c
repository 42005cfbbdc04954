/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Frames and stacks of a log, once each: see log.h. Found by hash tables of numbers; what a number
 * stands for is in the log's arrays.
 */
#include "store/log/internal.h"

#include <assert.h>
#include <string.h>

enum { FIRST_SLOTS = 256, MOST_REASONS = 1 << 16, MOST_FRAMES_OF_STACK = 1 << 24 };

bool snap_log_table_reserve(struct snap_log_table *table, size_t count)
{
	size_t slot_count = table->slot_count ? table->slot_count * 2 : FIRST_SLOTS;
	struct snap_log_table grown = { NULL, slot_count };

	if (count * 2 < table->slot_count)
		return true;
	grown.slots = calloc(slot_count, sizeof(*grown.slots));
	if (!grown.slots)
		return false;
	for (size_t i = 0; i < table->slot_count; i++)
		if (table->slots[i].number)
			snap_log_table_add(&grown, table->slots[i].hash,
					   table->slots[i].number - 1);
	free(table->slots);
	*table = grown;
	return true;
}

void snap_log_table_add(struct snap_log_table *table, uint32_t hash, uint32_t number)
{
	size_t mask = table->slot_count - 1, k = hash & mask;

	while (table->slots[k].number)
		k = (k + 1) & mask;
	table->slots[k] = (struct snap_log_slot){ hash, number + 1 };
}

static uint32_t frame_hash(uint32_t space, uint64_t bits)
{
	return (uint32_t)(snap_log_mix(bits + space * 0x9e3779b97f4a7c15ull) >> 16);
}

/* What tells stacks of a space apart beside their frames. */
struct stack_head {
	uint64_t end_pc, gap_count;
	uint32_t space, gap_after, reason, end;
};

static struct stack_head head_of(const struct snap_log_stack *stack)
{
	return (struct stack_head){ stack->end_pc,    stack->gap_count, stack->space,
				    stack->gap_after, stack->reason,    stack->end };
}

static uint32_t stack_hash(const struct stack_head *head, const uint32_t *ids, size_t count)
{
	uint64_t hash = snap_hash(head, sizeof(*head), 0);

	return (uint32_t)(snap_hash(ids, count * sizeof(*ids), hash) >> 16);
}

static struct snap_error *too_many(const char *what)
{
	return snap_error_format(SNAP_ERROR_OTHER, "the recording has too many different %s", what);
}

static struct snap_error *find_frame(struct snap_log *log, uint32_t space, uint64_t bits,
				     uint32_t *ret)
{
	struct snap_log_table *table = &log->index->frames;
	uint32_t hash = frame_hash(space, bits);

	if (!snap_log_table_reserve(table, log->frame_count))
		return snap_error_no_memory();
	for (size_t k = hash & (table->slot_count - 1); table->slots[k].number;
	     k = (k + 1) & (table->slot_count - 1)) {
		const struct snap_log_frame *frame;

		if (table->slots[k].hash != hash)
			continue;
		frame = &log->frames[table->slots[k].number - 1];
		if (frame->bits == bits && frame->space == space) {
			*ret = table->slots[k].number - 1;
			return NULL;
		}
	}
	if (log->frame_count >= SNAP_LOG_MAX_FRAMES)
		return too_many("frames");
	if (!snap_grow_array(log->frames, log->frame_capacity, log->frame_count))
		return snap_error_no_memory();
	*ret = (uint32_t)log->frame_count++;
	log->frames[*ret] = (struct snap_log_frame){ .bits = bits, .space = space };
	snap_log_table_add(table, hash, *ret);
	return NULL;
}

/* Reasons are texts of the program: a handful. */
static struct snap_error *find_reason(struct snap_log *log, const char *reason, uint32_t *ret)
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
		return too_many("reasons");
	if (!snap_grow_array(log->reasons, log->reason_capacity, log->reason_count))
		return snap_error_no_memory();
	reason = snap_intern(&log->strings, reason, strnlen(reason, SNAP_MAX_NAME));
	if (!reason)
		return snap_error_no_memory();
	log->reasons[log->reason_count++] = reason;
	*ret = (uint32_t)log->reason_count;
	return NULL;
}

/* The numbers of a stack's frames go to index->ids. */
static struct snap_error *find_frames(struct snap_log *log, uint32_t space,
				      const struct snap_log_pcs *pcs)
{
	struct snap_log_index *index = log->index;

	for (size_t i = 0; i < pcs->count; i++) {
		struct snap_error *err;

		if (!snap_grow_array(index->ids, index->id_capacity, i))
			return snap_error_no_memory();
		/* Neighbours in a recursion are mostly the same. */
		if (i && pcs->bits[i] == pcs->bits[i - 1]) {
			index->ids[i] = index->ids[i - 1];
			continue;
		}
		err = find_frame(log, space, pcs->bits[i], &index->ids[i]);
		if (err)
			return err;
	}
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

static bool grow_frame_ids(struct snap_log *log, size_t more)
{
	size_t wanted = log->frame_id_capacity ? log->frame_id_capacity : 4096;
	uint32_t *grown;

	if (log->frame_id_count + more <= log->frame_id_capacity)
		return true;
	while (wanted < log->frame_id_count + more)
		wanted *= 2;
	grown = reallocarray(log->frame_ids, wanted, sizeof(*grown));
	if (!grown)
		return false;
	log->frame_ids = grown;
	log->frame_id_capacity = wanted;
	return true;
}

static struct snap_error *add_stack(struct snap_log *log, const struct stack_head *head,
				    size_t count, uint32_t *ret)
{
	if (log->stack_count >= SNAP_LOG_MAX_STACKS)
		return too_many("stacks");
	if (!snap_grow_array(log->stacks, log->stack_capacity, log->stack_count) ||
	    !grow_frame_ids(log, count))
		return snap_error_no_memory();
	log->stacks[log->stack_count] = (struct snap_log_stack){
		.space = head->space,
		.frame_count = (uint32_t)count,
		.frame_start = log->frame_id_count,
		.end_pc = head->end_pc,
		.gap_count = head->gap_count,
		.gap_after = head->gap_after,
		.reason = head->reason,
		.end = head->end,
	};
	if (count)
		memcpy(log->frame_ids + log->frame_id_count, log->index->ids,
		       count * sizeof(uint32_t));
	log->frame_id_count += count;
	*ret = (uint32_t)log->stack_count++;
	return NULL;
}

struct snap_error *snap_log_stack(struct snap_log *log, uint32_t space,
				  const struct snap_log_pcs *pcs, uint32_t *ret)
{
	struct snap_log_table *table = &log->index->stacks;
	struct stack_head head = { .end_pc = pcs->end_pc,
				   .gap_count = pcs->gap_count,
				   .space = space,
				   .gap_after = pcs->gap_count ? (uint32_t)pcs->gap_after : 0,
				   .end = pcs->end };
	struct snap_error *err;
	uint32_t hash;

	assert(space < log->capture->process_count && log->index->insides[space].version);
	if (pcs->count > MOST_FRAMES_OF_STACK)
		return snap_error_format(SNAP_ERROR_OTHER, "a stack has too many frames");
	err = find_reason(log, pcs->reason, &head.reason);
	if (!err)
		err = find_frames(log, space, pcs);
	if (err)
		return err;
	if (!snap_log_table_reserve(table, log->stack_count))
		return snap_error_no_memory();
	hash = stack_hash(&head, log->index->ids, pcs->count);
	for (size_t k = hash & (table->slot_count - 1); table->slots[k].number;
	     k = (k + 1) & (table->slot_count - 1)) {
		if (table->slots[k].hash == hash &&
		    is_stack(log, table->slots[k].number - 1, &head, pcs->count)) {
			*ret = table->slots[k].number - 1;
			return NULL;
		}
	}
	err = add_stack(log, &head, pcs->count, ret);
	if (!err)
		snap_log_table_add(table, hash, *ret);
	return err;
}

static void clear(struct snap_log_table *table)
{
	free(table->slots);
	*table = (struct snap_log_table){ 0 };
}

bool snap_log_rebuild_tables(struct snap_log *log)
{
	struct snap_log_index *index = log->index;

	clear(&index->frames);
	clear(&index->stacks);
	for (size_t i = 0; i < log->frame_count; i++) {
		if (!snap_log_table_reserve(&index->frames, i))
			return false;
		snap_log_table_add(&index->frames,
				   frame_hash(log->frames[i].space, log->frames[i].bits),
				   (uint32_t)i);
	}
	for (size_t i = 0; i < log->stack_count; i++) {
		struct stack_head head = head_of(&log->stacks[i]);

		if (!snap_log_table_reserve(&index->stacks, i))
			return false;
		snap_log_table_add(&index->stacks,
				   stack_hash(&head, log->frame_ids + log->stacks[i].frame_start,
					      log->stacks[i].frame_count),
				   (uint32_t)i);
	}
	return true;
}
