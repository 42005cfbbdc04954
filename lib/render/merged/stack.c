/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The stack of a group, from the JSON that it is kept as: see merged.h. */
#include "render/merged/merged.h"

#include "base/buffer.h"
#include "base/escape.h"
#include "store/json/scan.h"

#include <string.h>

struct unfold {
	struct snap_json_scan scan;
	struct snap_interner *strings;
	struct snap_stack *stack;
	const struct snap_frame **frames;
	size_t frame_capacity;
	struct snap_label *labels;
	size_t label_capacity;
	uint64_t gap_after; /* an entry */
	bool failed;
};

static void unfold_deinit(struct unfold *unfold)
{
	snap_json_scan_deinit(&unfold->scan);
	free(unfold->frames);
	free(unfold->labels);
}

static const char *keep_merged_span(struct unfold *unfold, const struct snap_json_span *span)
{
	_cleanup_free_ char *decoded = malloc(span->length + 1), *raw = malloc(span->length + 1);
	const char *kept = NULL;
	size_t length;

	if (decoded && raw) {
		length = snap_unescape(decoded, snap_json_span_decode(span, decoded), raw);
		kept = snap_intern(unfold->strings, raw, length);
	}
	unfold->failed = unfold->failed || !kept;
	return kept;
}

static uint64_t hex_of(const struct snap_json_span *span)
{
	return strtoull(span->bytes, NULL, 16);
}

static enum snap_trust trust_of(const struct snap_json_span *span)
{
	for (unsigned i = 0; i < SNAP_TRUST_COUNT; i++) {
		const char *word = snap_trust_word(i);

		if (word && snap_json_span_is(span, word, strlen(word)))
			return i;
	}
	return SNAP_TRUST_CFI;
}

static bool key_is(const struct unfold *unfold, const char *key)
{
	return snap_json_span_is(&unfold->scan.key, key, strlen(key));
}

static void take_merged_text(struct unfold *unfold, struct snap_frame *frame,
			     struct snap_entry *entry)
{
	const struct snap_json_span *text = &unfold->scan.text;

	if (key_is(unfold, "function"))
		entry->function = keep_merged_span(unfold, text);
	else if (key_is(unfold, "symbol"))
		entry->symbol = keep_merged_span(unfold, text);
	else if (key_is(unfold, "file"))
		entry->file = keep_merged_span(unfold, text);
	else if (key_is(unfold, "language"))
		entry->language = keep_merged_span(unfold, text);
	else if (key_is(unfold, "module"))
		frame->module = keep_merged_span(unfold, text);
	else if (key_is(unfold, "build_id"))
		frame->build_id = keep_merged_span(unfold, text);
	else if (key_is(unfold, "address"))
		frame->address = hex_of(text);
	else if (key_is(unfold, "trust"))
		frame->trust = trust_of(text);
	else if (key_is(unfold, "offset")) {
		frame->offset = hex_of(text);
		frame->has_offset = true;
	}
}

static void take_member(struct unfold *unfold, enum snap_json_token token, struct snap_frame *frame,
			struct snap_entry *entry)
{
	if (token == SNAP_JSON_STRING)
		take_merged_text(unfold, frame, entry);
	else if (token == SNAP_JSON_INTEGER && key_is(unfold, "line"))
		entry->line = (uint32_t)unfold->scan.integer;
	else if (token == SNAP_JSON_INTEGER && key_is(unfold, "column"))
		entry->column = (uint32_t)unfold->scan.integer;
	else if (token == SNAP_JSON_TRUE && key_is(unfold, "inlined"))
		entry->inlined = true;
	else if (token == SNAP_JSON_TRUE && key_is(unfold, "tail_call"))
		entry->tail_call = true;
	else if (token == SNAP_JSON_TRUE && key_is(unfold, "system"))
		entry->system = true;
	else if (token == SNAP_JSON_TRUE && key_is(unfold, "kernel"))
		entry->kernel = true;
}

/* Each entry as a frame of its own: text tells them apart by what they say of themselves. */
static void take_merged_entry(struct unfold *unfold)
{
	struct snap_arena *arena = unfold->strings->arena;
	struct snap_frame *frame = snap_arena_new(arena, struct snap_frame);
	struct snap_entry *entry = snap_arena_new(arena, struct snap_entry);
	struct snap_stack *stack = unfold->stack;
	enum snap_json_token token;

	if (!frame || !entry ||
	    !snap_reserve_array(unfold->frames, unfold->frame_capacity, stack->frame_count + 1)) {
		unfold->failed = true;
		return;
	}
	while ((token = snap_json_scan_next(&unfold->scan)) != SNAP_JSON_OBJECT_END &&
	       token != SNAP_JSON_BROKEN && !unfold->failed)
		take_member(unfold, token, frame, entry);
	frame->entries = entry;
	frame->entry_count = 1;
	unfold->frames[stack->frame_count++] = frame;
}

static void take_entries(struct unfold *unfold, const char *bytes)
{
	enum snap_json_token token;

	snap_json_scan_begin(&unfold->scan, bytes);
	token = snap_json_scan_next(&unfold->scan);
	while (token != SNAP_JSON_BROKEN && token != SNAP_JSON_DONE && !unfold->failed) {
		token = snap_json_scan_next(&unfold->scan);
		if (token == SNAP_JSON_OBJECT)
			take_merged_entry(unfold);
	}
	unfold->failed = unfold->failed || token == SNAP_JSON_BROKEN;
}

static void take_head(struct unfold *unfold)
{
	struct snap_stack *stack = unfold->stack;
	struct snap_json_span *text = &unfold->scan.text;

	if (key_is(unfold, "runtime"))
		stack->runtime = keep_merged_span(unfold, text);
	else if (key_is(unfold, "description"))
		stack->description = keep_merged_span(unfold, text);
	else if (key_is(unfold, "unwind_detail"))
		stack->unwind_detail = keep_merged_span(unfold, text);
	else if (key_is(unfold, "unwind"))
		for (unsigned i = 0; i < SNAP_UNWIND_COUNT; i++) {
			const char *word = snap_unwind_word(i);

			if (snap_json_span_is(text, word, strlen(word)))
				stack->unwind = i;
		}
}

static void take_label(struct unfold *unfold)
{
	struct snap_stack *stack = unfold->stack;

	if (!snap_reserve_array(unfold->labels, unfold->label_capacity, stack->label_count + 1)) {
		unfold->failed = true;
		return;
	}
	unfold->labels[stack->label_count++] = (struct snap_label){
		keep_merged_span(unfold, &unfold->scan.key),
		keep_merged_span(unfold, &unfold->scan.text),
	};
}

/* Members of an object that stand without its braces. */
static void take_members(struct unfold *unfold, const char *bytes, size_t size, bool labels)
{
	_cleanup_(snap_buffer_deinit) struct snap_buffer object = { 0 };
	enum snap_json_token token;

	snap_buffer_add_byte(&object, '{');
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != '\n')
			snap_buffer_add_byte(&object, bytes[i]);
		else if (i + 1 < size)
			snap_buffer_add_byte(&object, ',');
	snap_buffer_add_byte(&object, '}');
	snap_json_scan_begin(&unfold->scan, snap_buffer_text(&object));
	while ((token = snap_json_scan_next(&unfold->scan)) != SNAP_JSON_DONE &&
	       token != SNAP_JSON_BROKEN && !unfold->failed)
		if (token == SNAP_JSON_STRING && labels)
			take_label(unfold);
		else if (token == SNAP_JSON_STRING)
			take_head(unfold);
		else if (token == SNAP_JSON_INTEGER && key_is(unfold, "after"))
			unfold->gap_after = (uint64_t)unfold->scan.integer;
		else if (token == SNAP_JSON_INTEGER && key_is(unfold, "count"))
			unfold->stack->gap_count = (uint64_t)unfold->scan.integer;
	unfold->failed = unfold->failed || object.failed || token == SNAP_JSON_BROKEN;
}

bool snap_merged_stack(const struct snap_merged_group *group, struct snap_interner *strings,
		       struct snap_stack *ret)
{
	_cleanup_(unfold_deinit) struct unfold unfold = { .strings = strings, .stack = ret };
	_cleanup_free_ char *entries = strndup(group->body, group->entries_size);
	struct snap_arena *arena = strings->arena;

	*ret = (struct snap_stack){ .count = group->thread_count + group->task_count };
	memcpy(ret->id, group->id, sizeof(ret->id));
	if (!entries)
		return false;
	take_entries(&unfold, entries);
	take_members(&unfold, group->body + group->entries_size,
		     group->body_size - group->entries_size, false);
	take_members(&unfold, group->labels, group->labels_size, true);
	ret->gap_frame = unfold.gap_after;
	ret->frames =
		snap_arena_memdup(arena, unfold.frames, ret->frame_count * sizeof(*unfold.frames));
	ret->labels =
		snap_arena_memdup(arena, unfold.labels, ret->label_count * sizeof(*unfold.labels));
	if (!ret->description)
		ret->description = "(unknown)";
	return !unfold.failed && ret->frames && ret->labels;
}
