/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stacks of a JSON document: see read.h. Entries become frames again: those inlined at a place
 * and the one they were inlined into; frames that are equal in all become one.
 */
#include "store/json/read.h"

#include "model/recording.h"

#include <limits.h>
#include <string.h>

/* ---- frames ---- */

static uint64_t frame_hash(const struct snap_frame *frame)
{
	const void *facts[] = { frame->module, frame->build_id };
	uint64_t numbers[] = { frame->address, frame->offset, frame->entry_count, frame->trust };
	uint64_t hash = snap_hash(numbers, sizeof(numbers), frame->has_offset);

	/* Texts are interned: their addresses tell them apart. */
	hash = snap_hash(facts, sizeof(facts), hash);
	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];
		const void *texts[] = { entry->function, entry->symbol, entry->file };
		uint32_t place[] = { entry->line, entry->column };

		hash = snap_hash(texts, sizeof(texts), hash);
		hash = snap_hash(place, sizeof(place), hash);
	}
	return hash;
}

static bool same_entry(const struct snap_entry *a, const struct snap_entry *b)
{
	return a->function == b->function && a->symbol == b->symbol && a->file == b->file &&
	       a->line == b->line && a->column == b->column && a->inlined == b->inlined &&
	       a->system == b->system && a->kernel == b->kernel;
}

static bool same_frame(const struct snap_frame *a, const struct snap_frame *b)
{
	if (a->address != b->address || a->offset != b->offset || a->module != b->module ||
	    a->build_id != b->build_id || a->has_offset != b->has_offset || a->trust != b->trust ||
	    a->entry_count != b->entry_count)
		return false;
	for (size_t i = 0; i < a->entry_count; i++)
		if (!same_entry(&a->entries[i], &b->entries[i]))
			return false;
	return true;
}

static struct snap_frame **slot_of(const struct snap_frame_set *set, const struct snap_frame *frame)
{
	size_t at = frame_hash(frame) & (set->slot_count - 1);

	while (set->slots[at] && !same_frame(set->slots[at], frame))
		at = (at + 1) & (set->slot_count - 1);
	return &set->slots[at];
}

static bool grow_set(struct snap_frame_set *set)
{
	struct snap_frame_set grown = { .slot_count = set->slot_count ? 2 * set->slot_count : 256,
					.used = set->used };

	grown.slots = calloc(grown.slot_count, sizeof(*grown.slots));
	if (!grown.slots)
		return false;
	for (size_t i = 0; i < set->slot_count; i++)
		if (set->slots[i])
			*slot_of(&grown, set->slots[i]) = set->slots[i];
	free(set->slots);
	*set = grown;
	return true;
}

/* The one frame that is equal to this, whose entries are copied if it is new. NULL: no memory. */
static const struct snap_frame *keep_frame(struct snap_json_reader *reader,
					   const struct snap_frame *frame)
{
	struct snap_frame_set *set = &reader->frames;
	struct snap_arena *arena = &reader->snapshot->arena;
	struct snap_frame **slot, *kept;

	if (2 * set->used >= set->slot_count && !grow_set(set))
		return NULL;
	slot = slot_of(set, frame);
	if (*slot)
		return *slot;
	kept = snap_arena_memdup(arena, frame, sizeof(*frame));
	if (!kept)
		return NULL;
	kept->entries = snap_arena_memdup(arena, frame->entries,
					  frame->entry_count * sizeof(*frame->entries));
	if (!kept->entries)
		return NULL;
	set->used++;
	*slot = kept;
	return kept;
}

/* ---- entries ---- */

/* A stack's entries while they become frames. */
struct frame_list {
	const struct snap_frame **frames;
	size_t count;
	struct snap_frame frame; /* the one under way; its entries are in `entries` */
	struct snap_entry *entries;
	size_t capacity;
	size_t gap_after; /* index of an entry, SIZE_MAX: no gap */
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
		.system = snap_json_pick_flag(pick, object, "system"),
		.kernel = snap_json_pick_flag(pick, object, "kernel"),
	};
}

static const char *trust_word(unsigned trust)
{
	return snap_trust_word(trust);
}

static struct snap_frame pick_place(struct snap_json_reader *reader, const struct snap_json *object)
{
	struct snap_json_pick *pick = &reader->pick;
	struct snap_frame frame = {
		.module = snap_json_pick_text(pick, object, "module", SNAP_MAX_NAME),
		.build_id = snap_json_pick_of(pick, object, "build_id", "0123456789abcdef", 512),
	};

	frame.has_offset = snap_json_pick_hex(pick, object, "offset", &frame.offset);
	if (!snap_json_pick_hex(pick, object, "address", &frame.address) &&
	    !snap_json_pick_flag(pick, object, "kernel"))
		snap_json_pick_refuse(pick, "address", "a string such as 0x1234");
	if (snap_json_pick_has(object, "trust"))
		frame.trust =
			snap_json_read_word(reader, object, "trust", trust_word, SNAP_TRUST_COUNT);
	return frame;
}

static bool same_place(const struct snap_frame *a, const struct snap_frame *b)
{
	return a->address == b->address && a->module == b->module && a->offset == b->offset &&
	       a->trust == b->trust;
}

static bool end_frame(struct snap_json_reader *reader, struct frame_list *list)
{
	const struct snap_frame *kept;

	if (list->frame.entry_count == 0)
		return true;
	list->frame.entries = list->entries;
	kept = keep_frame(reader, &list->frame);
	list->frame.entry_count = 0;
	if (!kept)
		return false;
	list->frames[list->count++] = kept;
	return true;
}

static bool add_entry(struct snap_json_reader *reader, struct frame_list *list,
		      const struct snap_json *object)
{
	struct snap_entry entry = pick_entry(&reader->pick, object);
	struct snap_frame place = pick_place(reader, object);

	if (list->frame.entry_count && !same_place(&list->frame, &place) &&
	    !end_frame(reader, list))
		return false;
	if (list->frame.entry_count == 0)
		list->frame = place;
	if (!snap_grow_array(list->entries, list->capacity, list->frame.entry_count))
		return false;
	list->entries[list->frame.entry_count++] = entry;
	return entry.inlined || end_frame(reader, list);
}

static void read_entries(struct snap_json_reader *reader, const struct snap_json *object,
			 struct snap_stack *stack, struct frame_list *list)
{
	struct snap_json_pick *pick = &reader->pick;
	size_t count;
	const struct snap_json *array = snap_json_pick_array(pick, object, "entries", &count);

	list->frames = snap_arena_new_array(&reader->snapshot->arena, count + 1,
					    const struct snap_frame *);
	if (!list->frames)
		snap_json_pick_no_memory(pick);
	for (size_t i = 0; i < count && !snap_json_pick_failed(pick); i++) {
		const struct snap_json *entry = snap_json_pick_item(pick, array, "entries", i);

		if (entry && !add_entry(reader, list, entry))
			snap_json_pick_no_memory(pick);
		if (i == list->gap_after)
			list->gap_frame = list->count - (list->frame.entry_count == 0);
	}
	if (!snap_json_pick_failed(pick) && !end_frame(reader, list))
		snap_json_pick_no_memory(pick);
	stack->frames = list->frames;
	stack->frame_count = list->count;
}

static void read_frames(struct snap_json_reader *reader, const struct snap_json *object,
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
	free(list.entries);
	if (gap && list.gap_frame >= stack->frame_count)
		snap_json_pick_refuse(pick, "after", "the index of an entry");
	else if (gap)
		stack->gap_frame = list.gap_frame;
}

/* ---- threads, labels ---- */

static const char *taken_word(unsigned taken)
{
	return snap_taken_word(taken);
}

static const char *type_word(unsigned kernel)
{
	return kernel ? "kernel" : "user";
}

static const char *unwind_word(unsigned end)
{
	return snap_unwind_word(end);
}

static struct snap_member pick_thread(struct snap_json_reader *reader,
				      const struct snap_json *object)
{
	struct snap_json_pick *pick = &reader->pick;
	struct snap_member member = {
		.tid = (pid_t)snap_json_pick_required(pick, object, "tid", 1, INT_MAX),
		.ns_tid = (pid_t)snap_json_pick_number(pick, object, "ns_tid", 1, INT_MAX, 0),
		.name = snap_json_pick_text(pick, object, "name", SNAP_MAX_NAME),
		.state = snap_json_read_word(reader, object, "state", snap_json_state_word,
					     SNAP_STATE_COUNT),
		.kernel = snap_json_read_word(reader, object, "type", type_word, 2),
		.syscall = snap_json_pick_text(pick, object, "syscall", SNAP_MAX_NAME),
		.wchan = snap_json_pick_text(pick, object, "wchan", SNAP_MAX_NAME),
		.cpu = (int)snap_json_pick_number(pick, object, "cpu", 0, INT_MAX, -1),
	};

	if (snap_json_pick_has(object, "taken"))
		member.taken =
			snap_json_read_word(reader, object, "taken", taken_word, SNAP_TAKEN_COUNT);
	return member;
}

static int compare_members(const void *left, const void *right)
{
	const struct snap_member *a = left, *b = right;

	return (a->tid > b->tid) - (a->tid < b->tid);
}

static void read_threads(struct snap_json_reader *reader, const struct snap_json *object,
			 struct snap_stack *stack)
{
	struct snap_json_pick *pick = &reader->pick;
	size_t count;
	const struct snap_json *array = snap_json_pick_array(pick, object, "threads", &count);

	reader->thread_count += count;
	if (count == 0 || count != stack->count || reader->thread_count > SNAP_MAX_THREADS)
		snap_json_pick_refuse(pick, "threads", "an array of as many threads as its count");
	if (snap_json_pick_failed(pick))
		return;
	stack->threads = snap_arena_new_array(&reader->snapshot->arena, count, struct snap_member);
	if (!stack->threads) {
		snap_json_pick_no_memory(pick);
		return;
	}
	for (size_t i = 0; i < count && !snap_json_pick_failed(pick); i++) {
		const struct snap_json *thread = snap_json_pick_item(pick, array, "threads", i);

		if (thread)
			stack->threads[stack->thread_count++] = pick_thread(reader, thread);
	}
	qsort(stack->threads, stack->thread_count, sizeof(*stack->threads), compare_members);
}

static void read_labels(struct snap_json_reader *reader, const struct snap_json *object,
			struct snap_stack *stack)
{
	static const char *const keys[] = { "thread_name", "syscall", "wchan" };
	struct snap_json_pick *pick = &reader->pick;
	const struct snap_json *labels = snap_json_pick_object(pick, object, "labels");
	struct snap_label *label = snap_arena_new_array(
		&reader->snapshot->arena, SNAP_ARRAY_SIZE(keys) + 3, struct snap_label);
	const char *value;

	if (!label)
		snap_json_pick_no_memory(pick);
	if (!label || !labels)
		return;
	stack->labels = label;
	if (snap_json_pick_has(labels, "state"))
		*label++ = (struct snap_label){
			"state",
			snap_state_word(snap_json_read_word(
				reader, labels, "state", snap_json_state_word, SNAP_STATE_COUNT)),
		};
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(keys); i++) {
		value = snap_json_pick_text(pick, labels, keys[i], SNAP_MAX_NAME);
		if (value)
			*label++ = (struct snap_label){ keys[i], value };
	}
	value = snap_json_pick_of(pick, labels, "cpu", "0123456789", 10);
	if (value)
		*label++ = (struct snap_label){ "cpu", value };
	if (snap_json_pick_has(labels, "type"))
		*label++ = (struct snap_label){
			"type",
			type_word(snap_json_read_word(reader, labels, "type", type_word, 2)),
		};
	stack->label_count = (size_t)(label - stack->labels);
}

/* ---- stacks ---- */

static void read_stack(struct snap_json_reader *reader, const struct snap_json *object,
		       struct snap_stack *stack)
{
	struct snap_json_pick *pick = &reader->pick;
	const char *id = snap_json_pick_of(pick, object, "id", "0123456789abcdef", 16);

	if (!id || strlen(id) != 16)
		snap_json_pick_refuse(pick, "id", "a string of 16 hexadecimal digits");
	else
		memcpy(stack->id, id, sizeof(stack->id));
	stack->count = (size_t)snap_json_pick_required(pick, object, "count", 1, SNAP_MAX_THREADS);
	stack->description = snap_json_pick_text(pick, object, "description", SNAP_MAX_NAME);
	if (!stack->description)
		stack->description = "(unknown)";
	read_labels(reader, object, stack);
	stack->unwind =
		snap_json_read_word(reader, object, "unwind", unwind_word, SNAP_UNWIND_COUNT);
	stack->unwind_detail = snap_json_pick_text(pick, object, "unwind_detail", SNAP_MAX_ARGS);
	read_threads(reader, object, stack);
	read_frames(reader, object, stack);
}

void snap_json_read_stacks(struct snap_json_reader *reader, const struct snap_json *process,
			   struct snap_node *node)
{
	struct snap_json_pick *pick = &reader->pick;
	size_t count;
	const struct snap_json *array = snap_json_pick_array(pick, process, "stacks", &count);

	if (count == 0)
		return;
	node->stacks = snap_arena_new_array(&reader->snapshot->arena, count, struct snap_stack);
	if (!node->stacks)
		snap_json_pick_no_memory(pick);
	for (size_t i = 0; i < count && !snap_json_pick_failed(pick); i++) {
		const struct snap_json *object = snap_json_pick_item(pick, array, "stacks", i);

		if (object)
			read_stack(reader, object, &node->stacks[node->stack_count++]);
	}
	if (node->stacks)
		qsort(node->stacks, node->stack_count, sizeof(*node->stacks), snap_stack_compare);
	free(reader->frames.slots);
	reader->frames = (struct snap_frame_set){ 0 };
}
