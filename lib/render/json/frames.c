/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Entries of stacks as JSON, made once: see frames.h. */
#include "render/json/frames.h"

#include <string.h>

enum {
	MOST_KEPT = 64 << 20, /* bytes of texts of frames and stacks */
	LONGEST_KEPT = 1 << 20,
};

/* The entries of a frame or of a stack. */
struct made {
	size_t length;
	char bytes[];
};

bool snap_json_entries_init(struct snap_json_entries *entries, enum snap_json_style style)
{
	*entries = (struct snap_json_entries){ .many = style == SNAP_JSON_ONE_LINE };
	entries->aside = snap_json_writer_create_in(&entries->text, style);
	return entries->aside != NULL;
}

void snap_json_entries_forget(struct snap_json_entries *entries)
{
	snap_pointer_table_release(&entries->frames, free);
	snap_pointer_table_release(&entries->stacks, free);
	entries->kept = 0;
}

void snap_json_entries_deinit(struct snap_json_entries *entries)
{
	snap_json_writer_destroy(entries->aside);
	snap_buffer_deinit(&entries->text);
	snap_json_entries_forget(entries);
}

static void put_json_entry(struct snap_json_writer *json, const struct snap_frame *frame,
			   const struct snap_entry *entry)
{
	snap_json_begin(json, NULL, '{');
	snap_json_text_if(json, "function", entry->function);
	snap_json_text_if(json, "symbol", entry->symbol);
	snap_json_text_if(json, "file", entry->file);
	snap_json_number_if(json, "line", entry->line);
	snap_json_number_if(json, "column", entry->column);
	snap_json_text_if(json, "module", frame->module);
	snap_json_text_if(json, "build_id", frame->build_id);
	if (frame->has_offset)
		snap_json_hex(json, "offset", frame->offset);
	/* The kernel keeps the addresses of its own frames to itself; interpreters have none. */
	if (frame->address || !(entry->kernel || entry->language))
		snap_json_hex(json, "address", frame->address);
	snap_json_true_if(json, "inlined", entry->inlined);
	snap_json_true_if(json, "tail_call", entry->tail_call);
	snap_json_true_if(json, "system", entry->system);
	snap_json_true_if(json, "kernel", entry->kernel);
	snap_json_text_if(json, "language", entry->language);
	if (frame->trust != SNAP_TRUST_CFI)
		snap_json_text_if(json, "trust", snap_trust_word(frame->trust));
	snap_json_end(json, '}');
}

/* What was written aside; NULL without memory. */
static struct made *take_entry_text(struct snap_json_entries *entries)
{
	struct made *made = NULL;

	snap_json_flush(entries->aside);
	if (!entries->text.failed && !entries->aside->failed)
		made = malloc(sizeof(*made) + entries->text.size);
	if (made) {
		made->length = entries->text.size;
		memcpy(made->bytes, snap_buffer_text(&entries->text), made->length);
		entries->kept += sizeof(*made) + made->length;
	}
	snap_buffer_clear(&entries->text);
	return made;
}

/* NULL without memory. */
static const struct made *make_json_frame(struct snap_json_entries *entries,
					  const struct snap_frame *frame)
{
	struct snap_pointer_entry *found = snap_pointer_table_get(&entries->frames, frame);

	if (found && !found->pointer) {
		for (size_t i = 0; i < frame->entry_count; i++) {
			if (i)
				snap_json_line(entries->aside);
			put_json_entry(entries->aside, frame, &frame->entries[i]);
		}
		found->pointer = take_entry_text(entries);
	}
	if (found && found->pointer)
		return found->pointer;
	entries->failed = true;
	return NULL;
}

/* All entries of a stack as one text; NULL: they are too long for that, or there is no memory. */
static struct made *make_json_stack(struct snap_json_entries *entries,
				    const struct snap_frame *const *frames, size_t count)
{
	size_t length = 0;

	for (size_t i = 0; i < count; i++) {
		const struct made *frame = make_json_frame(entries, frames[i]);

		if (!frame)
			return NULL;
		length += frame->length;
		if (length > LONGEST_KEPT)
			return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		const struct made *frame = make_json_frame(entries, frames[i]);

		snap_json_bytes(entries->aside, NULL, frame->bytes, frame->length);
	}
	return take_entry_text(entries);
}

/* True: it was written as a whole. */
static bool put_kept_stack(struct snap_json_entries *entries, struct snap_json_writer *json,
			   const struct snap_frame *const *frames, size_t count)
{
	struct snap_pointer_entry *found;
	const struct made *made;

	if (entries->kept > MOST_KEPT)
		snap_json_entries_forget(entries);
	found = snap_pointer_table_get(&entries->stacks, frames);
	if (found && !found->pointer)
		found->pointer = make_json_stack(entries, frames, count);
	made = found ? found->pointer : NULL;
	if (made)
		snap_json_bytes(json, NULL, made->bytes, made->length);
	return made != NULL;
}

void snap_json_entries_put(struct snap_json_entries *entries, struct snap_json_writer *json,
			   const struct snap_frame *const *frames, size_t count)
{
	snap_json_begin(json, "entries", '[');
	if (!(entries->many && count && put_kept_stack(entries, json, frames, count)))
		for (size_t i = 0; i < count && !entries->failed; i++) {
			const struct made *made = make_json_frame(entries, frames[i]);

			snap_json_line(json);
			if (made)
				snap_json_bytes(json, NULL, made->bytes, made->length);
		}
	if (count)
		snap_json_line(json);
	snap_json_end(json, ']');
}
