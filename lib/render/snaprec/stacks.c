/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stacks of a recording -> stacks of a log, whose frames have names already: see snaprec.c. A frame
 * is told apart by where it lies in memory, and by its process.
 */
#include "render/snaprec/internal.h"

#include <string.h>

enum { FIRST_SLOTS = 1024 };

static uint64_t hash_of(const struct snap_frame *frame, size_t process)
{
	uint64_t key[2] = { (uint64_t)(uintptr_t)frame, process };

	return snap_hash(key, sizeof(key), 0);
}

static bool grow_slots(struct snap_converter *converter)
{
	const struct snap_log *log = converter->log;
	size_t slot_count = converter->slot_count ? converter->slot_count * 2 : FIRST_SLOTS;
	uint32_t *slots;

	if (log->frame_count * 2 < converter->slot_count)
		return true;
	slots = calloc(slot_count, sizeof(*slots));
	if (!slots)
		return false;
	for (size_t i = 0; i < log->frame_count; i++) {
		size_t k = hash_of(converter->frames[i], log->frames[i].space) & (slot_count - 1);

		while (slots[k])
			k = (k + 1) & (slot_count - 1);
		slots[k] = (uint32_t)i + 1;
	}
	free(converter->slots);
	converter->slots = slots;
	converter->slot_count = slot_count;
	return true;
}

static bool add_frame(struct snap_converter *converter, const struct snap_frame *frame,
		      uint32_t space)
{
	static const struct snap_entry nothing;
	struct snap_log *log = converter->log;
	struct snap_frame name = *frame;

	if (!snap_grow_array(log->frames, log->frame_capacity, log->frame_count) ||
	    !snap_grow_array(log->names, log->name_capacity, log->name_count) ||
	    !snap_grow_array(converter->frames, converter->frame_capacity, log->frame_count))
		return false;
	if (name.entry_count == 0) {
		name.entries = snap_arena_memdup(&log->arena, &nothing, sizeof(nothing));
		name.entry_count = 1;
	}
	if (!name.entries)
		return false;
	converter->frames[log->frame_count] = frame;
	log->names[log->name_count++] = name;
	log->frames[log->frame_count++] = (struct snap_log_frame){
		.bits = snap_pc_found_by(snap_pc_return(frame->address), frame->trust).bits,
		.space = space,
		.name = (uint32_t)log->name_count,
	};
	return true;
}

/* The log's number of a frame; what is `exact` is no return address. False without memory. */
static bool find_frame(struct snap_converter *converter, const struct snap_frame *frame,
		       size_t process, bool exact, uint32_t *ret)
{
	struct snap_log *log = converter->log;
	uint32_t space = log->processes[process].space;
	size_t k;

	if (!grow_slots(converter))
		return false;
	for (k = hash_of(frame, space) & (converter->slot_count - 1); converter->slots[k];
	     k = (k + 1) & (converter->slot_count - 1)) {
		*ret = converter->slots[k] - 1;
		if (converter->frames[*ret] == frame && log->frames[*ret].space == space)
			break;
	}
	if (!converter->slots[k]) {
		*ret = (uint32_t)log->frame_count;
		if (!add_frame(converter, frame, space))
			return false;
		converter->slots[k] = *ret + 1;
	}
	if (exact)
		log->frames[*ret].bits |= SNAP_PC_EXACT;
	return true;
}

/* Ends are told by their texts, which have all. */
static bool find_reason(struct snap_log *log, const char *detail, uint32_t *ret)
{
	const char *reason;

	*ret = 0;
	if (!detail)
		return true;
	reason = snap_intern(&log->strings, detail, strnlen(detail, SNAP_MAX_NAME));
	if (!reason || !snap_grow_array(log->reasons, log->reason_capacity, log->reason_count))
		return false;
	/* The last one was mostly the same. */
	if (!log->reason_count || log->reasons[log->reason_count - 1] != reason)
		log->reasons[log->reason_count++] = reason;
	*ret = (uint32_t)log->reason_count;
	return true;
}

static bool is_kernel(const struct snap_frame *frame)
{
	return frame->entry_count && frame->entries[0].kernel;
}

bool snap_convert_stack(struct snap_converter *converter, const struct snap_recorded_stack *from)
{
	struct snap_log *log = converter->log;
	struct snap_log_stack stack = {
		.space = log->processes[from->process].space,
		.frame_count = (uint32_t)from->frame_count,
		.frame_start = log->frame_id_count,
		.gap_after = from->gap_count ? (uint32_t)from->gap_frame : 0,
		.gap_count = from->gap_count,
		.end = from->unwind,
	};
	bool exact = true;

	if (!find_reason(log, from->unwind_detail, &stack.reason) ||
	    !snap_grow_array(log->stacks, log->stack_capacity, log->stack_count))
		return false;
	for (size_t i = 0; i < from->frame_count; i++) {
		const struct snap_frame *frame = from->frames[i];
		bool kernel = is_kernel(frame);

		if (!snap_grow_array(log->frame_ids, log->frame_id_capacity, log->frame_id_count) ||
		    !find_frame(converter, frame, from->process, exact && !kernel,
				&log->frame_ids[log->frame_id_count]))
			return false;
		log->frame_id_count++;
		exact = exact && kernel;
	}
	log->stacks[log->stack_count++] = stack;
	return true;
}
