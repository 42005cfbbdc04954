/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Makes frames of the entries of a snapshot's JSON, see reader.h. A frame has the entries that are
 * inlined at one address and the function that they are inlined into; equal frames of a process become
 * one.
 */
#include "store/json/reader.h"

#include <string.h>

static uint64_t hash_text(uint64_t hash, const char *text)
{
	/* Texts are interned, so their addresses are compared. */
	return snap_hash_add(hash, (uintptr_t)text);
}

static uint64_t frame_hash(const struct snap_frame *frame)
{
	uint64_t hash = snap_hash_add(frame->address, frame->offset);

	hash = hash_text(hash_text(hash, frame->module), frame->build_id);
	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];

		hash = hash_text(hash_text(hash, entry->function), entry->file);
		hash = snap_hash_add(hash, (uint64_t)entry->line << 32 | entry->column);
	}
	return hash;
}

static bool same_entry(const struct snap_entry *a, const struct snap_entry *b)
{
	return a->function == b->function && a->symbol == b->symbol && a->file == b->file &&
	       a->line == b->line && a->column == b->column && a->inlined == b->inlined &&
	       a->tail_call == b->tail_call && a->system == b->system && a->kernel == b->kernel &&
	       a->language == b->language;
}

static bool same_frame(const struct snap_frame *a, const struct snap_frame *b)
{
	if (a->address != b->address || a->offset != b->offset || a->module != b->module ||
	    a->build_id != b->build_id || a->has_offset != b->has_offset || a->trust != b->trust ||
	    a->entry_count != b->entry_count)
		return false;
	return snap_all(a->entry_count, i, same_entry(&a->entries[i], &b->entries[i]));
}

/* The one frame that is equal to this, whose entries are copied if it is new. NULL: no memory. */
static const struct snap_frame *keep_frame(struct snap_json_reader *reader,
					   const struct snap_frame *frame)
{
	struct snap_arena *arena = &reader->snapshot->arena;
	struct snap_json_frame_set *set = &reader->set;
	uint64_t hash = frame_hash(frame);
	struct snap_probe probe = snap_hash_table_probe(&set->table, hash);
	struct snap_frame *kept;

	while (snap_probe_next(&probe))
		if (same_frame(set->frames[probe.number], frame))
			return set->frames[probe.number];
	kept = snap_arena_memdup(arena, frame, sizeof(*frame));
	if (!kept || !snap_reserve_array(set->frames, set->capacity, set->count + 1))
		return NULL;
	kept->entries = snap_arena_memdup(arena, frame->entries,
					  frame->entry_count * sizeof(*frame->entries));
	if (!kept->entries || !snap_hash_table_add(&set->table, hash, set->count))
		return NULL;
	set->frames[set->count++] = kept;
	return kept;
}

/* A stack's entries while they become frames. */
struct frame_list {
	const struct snap_frame **frames;
	size_t count;
	struct snap_frame frame; /* the one under way; its entries are the reader's */
	size_t gap_after;        /* index of an entry, SIZE_MAX: no gap */
	size_t gap_frame;
};

static struct snap_entry pick_entry(struct snap_json_pick *pick, const struct snap_json *object)
{
	return (struct snap_entry){
		.function = snap_json_pick_text(pick, object, "function", SNAP_MAX_NAME),
		.symbol = snap_json_pick_text(pick, object, "symbol", SNAP_MAX_NAME),
		.file = snap_json_pick_text(pick, object, "file", SNAP_MAX_NAME),
		.line = (uint32_t)snap_json_pick_number(pick, object, "line", 0, UINT32_MAX, 0),
		.column = (uint32_t)snap_json_pick_number(pick, object, "column", 0, UINT32_MAX, 0),
		.inlined = snap_json_pick_flag(pick, object, "inlined"),
		.tail_call = snap_json_pick_flag(pick, object, "tail_call"),
		.system = snap_json_pick_flag(pick, object, "system"),
		.kernel = snap_json_pick_flag(pick, object, "kernel"),
		.language = snap_json_pick_text(pick, object, "language", 64),
	};
}

static struct snap_frame pick_location(struct snap_json_pick *pick, const struct snap_json *object)
{
	struct snap_frame frame = {
		.module = snap_json_pick_text(pick, object, "module", SNAP_MAX_NAME),
		.build_id = snap_json_pick_of(pick, object, "build_id", "0123456789abcdef", 512),
	};

	frame.has_offset = snap_json_pick_hex(pick, object, "offset", &frame.offset);
	if (!snap_json_pick_hex(pick, object, "address", &frame.address) &&
	    !snap_json_pick_flag(pick, object, "kernel") && !snap_json_pick_has(object, "language"))
		snap_json_pick_refuse(pick, "address", "a string such as 0x1234");
	if (snap_json_pick_has(object, "trust"))
		frame.trust = snap_json_pick_word(pick, object, "trust", snap_trust_word,
						  SNAP_TRUST_COUNT);
	return frame;
}

static bool same_location(const struct snap_frame *a, const struct snap_frame *b)
{
	return a->address == b->address && a->module == b->module && a->offset == b->offset &&
	       a->trust == b->trust;
}

static bool end_frame(struct snap_json_reader *reader, struct frame_list *list)
{
	if (list->frame.entry_count == 0)
		return true;
	list->frame.entries = reader->entries;
	list->frames[list->count] = keep_frame(reader, &list->frame);
	list->frame.entry_count = 0;
	return list->frames[list->count++] != NULL;
}

static bool add_json_entry(struct snap_json_reader *reader, struct frame_list *list,
			   const struct snap_json *object)
{
	struct snap_entry entry = pick_entry(&reader->pick, object);
	struct snap_frame location = pick_location(&reader->pick, object);

	if (!same_location(&list->frame, &location) && !end_frame(reader, list))
		return false;
	if (list->frame.entry_count == 0)
		list->frame = location;
	if (!snap_append(reader->entries, list->frame.entry_count, reader->entry_capacity, entry))
		return false;
	return entry.inlined || end_frame(reader, list);
}

static void read_entries(struct snap_json_reader *reader, const struct snap_json *object,
			 struct snap_stack *stack, struct frame_list *list)
{
	struct snap_json_pick *pick = &reader->pick;
	struct snap_json_list entries = snap_json_pick_list(pick, object, "entries");
	const struct snap_json *entry;

	list->frames = snap_json_pick_memory(pick, entries.count + 1, sizeof(*list->frames));
	while ((entry = snap_json_list_object(&entries))) {
		if (!add_json_entry(reader, list, entry))
			snap_json_pick_no_memory(pick);
		if (entries.next - 1 == list->gap_after)
			list->gap_frame = list->count - (list->frame.entry_count == 0);
	}
	if (!snap_json_pick_failed(pick) && !end_frame(reader, list))
		snap_json_pick_no_memory(pick);
	stack->frames = list->frames;
	stack->frame_count = list->count;
}

void snap_json_read_frames(struct snap_json_reader *reader, const struct snap_json *object,
			   struct snap_stack *stack)
{
	struct snap_json_pick *pick = &reader->pick;
	const struct snap_json *gap = snap_json_pick_object(pick, object, "gap");
	struct frame_list list = { .gap_after = SIZE_MAX, .gap_frame = SIZE_MAX };

	if (gap) {
		list.gap_after = (size_t)snap_json_pick_required(pick, gap, "after", 0, INT32_MAX);
		stack->gap_count =
			(uint64_t)snap_json_pick_required(pick, gap, "count", 1, INT64_MAX);
	}
	read_entries(reader, object, stack, &list);
	if (gap && list.gap_frame >= stack->frame_count)
		snap_json_pick_refuse(pick, "after", "the index of an entry");
	else if (gap)
		stack->gap_frame = list.gap_frame;
}

void snap_json_forget_frames(struct snap_json_reader *reader)
{
	/* Clearing the table of a large process for each small one would take too long. */
	snap_hash_table_deinit(&reader->set.table);
	reader->set.count = 0;
}
