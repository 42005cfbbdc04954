/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stacks in a recording on disk, with their frames and labels, and the names of frames: see internal.h.
 * Of a stack only the part is stored that it does not share with the one before it.
 */
#include "store/recording/internal.h"

#include <string.h>

enum {
	LEAST_ENTRY = 6, /* bytes */
	LEAST_LABEL = 2,
	LONGEST_LANGUAGE = 64,
	/* frames that a stack may have from the one before it: bounds how much a few bytes can become */
	MOST_COMMON = 512,
	/* in one number: whether a frame is managed, and whether its address is exact */
	PLACE_BITS = 2,
	/* in one number: how a stack ends, and whether further fields follow */
	END_BITS = 7,
	MORE_BIT = 8,
	ALL_BIT = 16,
	LABELS_BIT = 32,
};

static const char NO_FRAME[] = "invalid frame reference";

/* ---- reasons, calls, frames ---- */

static void code_reason(struct snap_log_file *file, void *element, size_t index _unused_)
{
	const char **reason = element;

	snap_log_code_text(file, reason, SNAP_MAX_NAME);
	snap_log_check(file, *reason, "empty reason");
}

static void code_call(struct snap_log_file *file, void *element, size_t index)
{
	struct snap_log_call *call = element;

	snap_log_code_text(file, &call->syscall, SNAP_MAX_NAME);
	snap_log_code_text(file, &call->wchan, SNAP_MAX_NAME);
	snap_log_check(file, index <= INT16_MAX - SNAP_LOG_FIRST_CALL, "too many system calls");
}

static void code_entry(struct snap_log_file *file, struct snap_entry *entry)
{
	unsigned flags =
		entry->inlined | entry->system << 1 | entry->kernel << 2 | entry->tail_call << 3;

	snap_log_code_text(file, &entry->function, SNAP_MAX_NAME);
	snap_log_code_text(file, &entry->symbol, SNAP_MAX_NAME);
	snap_log_code_text(file, &entry->file, SNAP_MAX_NAME);
	snap_log_code(file, entry->line, UINT32_MAX, "invalid line number");
	snap_log_code(file, entry->column, UINT32_MAX, "invalid line number");
	snap_log_code(file, flags, 15, "unknown flags of a function");
	entry->inlined = flags & 1;
	entry->system = flags & 2;
	entry->kernel = flags & 4;
	entry->tail_call = flags & 8;
}

/* The functions of a frame. */
static void code_entries(struct snap_log_file *file, struct snap_frame *name)
{
	size_t count = snap_log_code_count(file, name->entry_count, LEAST_ENTRY);

	snap_log_check(file, count, "frame without functions");
	if (file->reads && snap_log_fine(file)) {
		name->entries = snap_arena_new_array(&file->log->arena, count, struct snap_entry);
		name->entry_count = count;
		if (!name->entries)
			snap_log_fail_memory(file);
	}
	for (size_t i = 0; i < count && snap_log_fine(file); i++)
		code_entry(file, &name->entries[i]);
}

static void code_languages(struct snap_log_file *file, struct snap_frame *name)
{
	for (size_t i = 0; i < name->entry_count && snap_log_fine(file); i++)
		snap_log_code_text(file, &name->entries[i].language, LONGEST_LANGUAGE);
}

/* The further fields of a managed frame: it is named from the beginning. */
static void code_managed(struct snap_log_file *file, struct snap_log_frame *frame)
{
	struct snap_log *log = file->log;
	struct snap_frame name = { .address = 0 };

	if (!file->reads)
		name = log->names[frame->name - 1];
	else if (!snap_reserve_array(log->names, log->name_capacity, log->name_count + 1))
		snap_log_fail_memory(file);
	snap_log_code_any(file, name.address);
	code_entries(file, &name);
	code_languages(file, &name);
	if (!file->reads || !snap_log_fine(file))
		return;
	log->names[log->name_count] = name;
	frame->name = (uint32_t)++log->name_count;
	frame->bits = snap_log_managed_bits(&name);
}

/* The address of a frame and its space; the flags `managed` and exact are in the same number. */
static void code_place(struct snap_log_file *file, struct snap_log_frame *frame)
{
	/* The bits that say how it was found stay in; only the exact bit is stored with the space. */
	uint64_t address = frame->is_managed ? 0 : frame->bits & ~SNAP_PC_EXACT;
	int64_t space = file->reads ? 0 : file->space_numbers[frame->space];
	uint64_t head = snap_log_zigzag(space - file->last.space) << PLACE_BITS |
			(uint64_t)frame->is_managed << 1 |
			(frame->is_managed ? 0 : frame->bits >> 63);

	snap_log_code_any(file, head);
	if (file->reads)
		frame->is_managed = head & 2;
	if (!frame->is_managed) {
		int64_t step = (int64_t)(address - file->last.address);

		address =
			file->last.address + (uint64_t)snap_log_code_step(file, step, 0, NO_FRAME);
		file->last.address = address;
	}
	if (file->reads) {
		if (__builtin_add_overflow(file->last.space, snap_log_unzigzag(head >> PLACE_BITS),
					   &space))
			space = -1;
		snap_log_check(file,
			       space >= 0 && (uint64_t)space < file->log->capture->process_count &&
				       !(address >> 63),
			       "invalid frame address");
		frame->bits = frame->is_managed ? 0 : address | head << 63;
		frame->space = (uint32_t)space;
	}
	file->last.space = space;
}

static void code_frame(struct snap_log_file *file, void *element, size_t index)
{
	struct snap_log_frame *frame = element;

	snap_log_check(file, index < SNAP_LOG_MAX_FRAMES, "too many frames");
	code_place(file, frame);
	if (frame->is_managed && snap_log_fine(file))
		code_managed(file, frame);
}

/* ---- labels ---- */

static void code_label(struct snap_log_file *file, struct snap_label *label, const char *before)
{
	snap_log_code_text(file, &label->key, SNAP_MAX_NAME);
	snap_log_code_text(file, &label->value, SNAP_MAX_NAME);
	snap_log_check(file,
		       label->key && label->value && (!before || strcmp(before, label->key) < 0),
		       "invalid label");
}

static void code_recorded_labels(struct snap_log_file *file, void *element, size_t index)
{
	struct snap_log_labels *set = element;
	size_t count;

	snap_log_code_space(file, &set->space);
	count = snap_log_code_count(file, set->count, LEAST_LABEL);
	snap_log_check(file, count && count <= SNAP_LOG_MAX_LABELS, "invalid number of labels");
	snap_log_check(file, index < SNAP_LOG_MAX_LABEL_SETS, "too many labels");
	if (file->reads && snap_log_fine(file)) {
		set->labels = snap_arena_new_array(&file->log->arena, count, struct snap_label);
		set->count = (uint32_t)count;
		if (!set->labels)
			snap_log_fail_memory(file);
	}
	for (size_t i = 0; i < count && snap_log_fine(file); i++)
		code_label(file, &set->labels[i], i ? set->labels[i - 1].key : NULL);
}

/* ---- stacks ---- */

/* How many of the outermost frames a stack has in common with the one before it. */
static uint32_t count_common_frames(const struct snap_log *log, const struct snap_log_stack *stack)
{
	const struct snap_log_stack *before = stack - 1;
	const uint32_t *end = log->frame_ids + stack->frame_start + stack->frame_count;
	const uint32_t *before_end = log->frame_ids + before->frame_start + before->frame_count;
	uint32_t common = 0;

	while (common < stack->frame_count && common < before->frame_count &&
	       common < MOST_COMMON &&
	       end[-(ptrdiff_t)common - 1] == before_end[-(ptrdiff_t)common - 1])
		common++;
	return common;
}

/* Those of the stack before are behind its own ones. */
static void read_common_frames(struct snap_log_file *file, const struct snap_log_stack *stack,
			       const struct snap_log_stack *before, uint32_t common)
{
	struct snap_log *log = file->log;

	if (!snap_log_fine(file))
		return;
	if (common) {
		snap_log_check(file, before->space == stack->space, "frame of two address spaces");
		memcpy(log->frame_ids + stack->frame_start + stack->frame_count - common,
		       log->frame_ids + before->frame_start + before->frame_count - common,
		       common * sizeof(*log->frame_ids));
	}
	log->frame_id_count += stack->frame_count;
}

/* Its own frames, the outermost one first. */
static void code_frames(struct snap_log_file *file, struct snap_log_stack *stack, size_t index)
{
	struct snap_log *log = file->log;
	const struct snap_log_stack *before = index ? stack - 1 : NULL;
	uint32_t common = file->reads || !before ? 0 : count_common_frames(log, stack);
	uint32_t most =
		before && before->frame_count < MOST_COMMON ? before->frame_count : MOST_COMMON;
	int64_t id = 0;
	size_t own;

	snap_log_code(file, common, before ? most : 0, "too many common frames in a stack");
	own = snap_log_code_count(file, stack->frame_count - common, 1);
	if (file->reads) {
		snap_log_check(file, own <= UINT32_MAX - MOST_COMMON, "stack too long");
		if (!snap_reserve_array(log->frame_ids, log->frame_id_capacity,
					log->frame_id_count + common + own))
			snap_log_fail_memory(file);
		stack->frame_start = log->frame_id_count;
		stack->frame_count = common + (uint32_t)own;
	}
	for (size_t i = own; i-- > 0 && snap_log_fine(file);) {
		uint32_t *at = &log->frame_ids[stack->frame_start + i];

		id = snap_log_code_step(file, file->reads ? 0 : *at, id, NO_FRAME);
		snap_log_check(file,
			       id >= 0 && (uint64_t)id < log->frame_count &&
				       log->frames[id].space == stack->space,
			       NO_FRAME);
		if (file->reads)
			*at = (uint32_t)id;
	}
	if (file->reads)
		read_common_frames(file, stack, before, common);
}

static void code_labels_of(struct snap_log_file *file, struct snap_log_stack *stack)
{
	const struct snap_log *log = file->log;

	snap_log_code(file, stack->labels, log->label_set_count, "invalid labels");
	snap_log_check(file,
		       stack->labels && log->label_sets[stack->labels - 1].space == stack->space,
		       "labels of two address spaces");
}

static void code_recorded_stack(struct snap_log_file *file, void *element, size_t index)
{
	struct snap_log_stack *stack = element;
	bool more = stack->end_pc || stack->gap_count || stack->gap_after || stack->reason;
	unsigned head = stack->end | (more ? MORE_BIT : 0) | (stack->shows_all ? ALL_BIT : 0) |
			(stack->labels ? LABELS_BIT : 0);

	snap_log_code(file, head, END_BITS | MORE_BIT | ALL_BIT | LABELS_BIT,
		      "unknown flags of a stack");
	stack->end = head & END_BITS;
	stack->shows_all = head & ALL_BIT;
	snap_log_code_space(file, &stack->space);
	if (head & MORE_BIT) {
		snap_log_code_any(file, stack->end_pc);
		snap_log_code_any(file, stack->gap_count);
		snap_log_code(file, stack->gap_after, UINT32_MAX, "invalid gap");
		snap_log_code(file, stack->reason, file->log->reason_count, "invalid reason");
	}
	if (head & LABELS_BIT)
		code_labels_of(file, stack);
	snap_log_check(file, stack->end < SNAP_UNWIND_COUNT && index < SNAP_LOG_MAX_STACKS,
		       "unknown end of a stack");
	code_frames(file, stack, index);
	snap_log_check(file, !stack->gap_after || stack->gap_after < stack->frame_count,
		       "invalid gap");
}

void snap_log_code_stacks(struct snap_log_file *file)
{
	snap_log_code_new(file, reasons, reason, code_reason);
	snap_log_code_new(file, calls, call, code_call);
	file->last.address = 0;
	file->last.space = 0;
	snap_log_code_new(file, frames, frame, code_frame);
	snap_log_code_new(file, label_sets, label_set, code_recorded_labels);
	snap_log_code_new(file, stacks, stack, code_recorded_stack);
}

/* ---- names ---- */

static void code_recorded_name(struct snap_log_file *file, struct snap_frame *name)
{
	snap_log_code_text(file, &name->module, SNAP_MAX_NAME);
	snap_log_code_text(file, &name->build_id, SNAP_MAX_NAME);
	snap_log_check(file,
		       !name->build_id ||
			       !name->build_id[strspn(name->build_id, "0123456789abcdef")],
		       "invalid build id");
	snap_log_code_flag(file, &name->has_offset);
	if (name->has_offset)
		snap_log_code_any(file, name->offset);
	snap_log_code_any(file, name->file_offset);
	code_entries(file, name);
	code_languages(file, name);
}

static bool is_frame_recorded(const struct snap_log_file *file, size_t index)
{
	return file->log->frames[index].name && !file->log->frames[index].is_managed;
}

static void code_named_frame(struct snap_log_file *file, size_t index)
{
	struct snap_log *log = file->log;
	size_t distance = index - file->last.named;
	struct snap_log_frame *frame;

	snap_log_code_index(file, distance, log->frame_count - file->last.named, NO_FRAME);
	if (!snap_log_fine(file))
		return;
	file->last.named += distance;
	frame = &log->frames[file->last.named];
	if (!file->reads) {
		code_recorded_name(file, &log->names[frame->name - 1]);
		return;
	}
	snap_log_check(file, !frame->name, "frame named twice");
	if (!snap_reserve_array(log->names, log->name_capacity, log->name_count + 1)) {
		snap_log_fail_memory(file);
		return;
	}
	log->names[log->name_count] =
		(struct snap_frame){ .address = snap_pc_address((struct snap_pc){ frame->bits }) };
	code_recorded_name(file, &log->names[log->name_count]);
	if (snap_log_fine(file))
		frame->name = (uint32_t)++log->name_count;
}

void snap_log_code_names(struct snap_log_file *file)
{
	file->last.named = 0;
	snap_log_code_changed(file, file->log->frame_count, is_frame_recorded, code_named_frame);
}
