/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Entries of stacks as JSON, made once: see entries.h. */
#include "render/json/entries.h"

#include "render/json/members.h"

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

static void append(void *context, const char *bytes, size_t size)
{
	struct snap_json_text *text = context;

	if (size > text->capacity - text->length) {
		size_t capacity = 2 * (text->length + size);
		char *grown = realloc(text->bytes, capacity);

		if (!grown) {
			text->failed = true;
			return;
		}
		text->bytes = grown;
		text->capacity = capacity;
	}
	memcpy(text->bytes + text->length, bytes, size);
	text->length += size;
}

bool snap_json_entries_init(struct snap_json_entries *entries, bool lines)
{
	*entries = (struct snap_json_entries){ .lines = lines };
	entries->aside = snap_json_out_create_to(append, &entries->text);
	return entries->aside != NULL;
}

void snap_json_entries_forget(struct snap_json_entries *entries)
{
	snap_pointer_map_clear(&entries->frames, free);
	snap_pointer_map_clear(&entries->stacks, free);
	entries->kept = 0;
}

void snap_json_entries_deinit(struct snap_json_entries *entries)
{
	snap_json_out_destroy(entries->aside);
	free(entries->text.bytes);
	snap_json_entries_forget(entries);
}

static void put_entry(struct snap_json_out *out, const struct snap_frame *frame,
		      const struct snap_entry *entry)
{
	struct snap_members members = { .out = out };

	snap_json_out_raw(out, "{");
	snap_members_text(&members, "function", entry->function);
	snap_members_text(&members, "symbol", entry->symbol);
	snap_members_text(&members, "file", entry->file);
	snap_members_count(&members, "line", entry->line);
	snap_members_count(&members, "column", entry->column);
	snap_members_text(&members, "module", frame->module);
	snap_members_text(&members, "build_id", frame->build_id);
	if (frame->has_offset)
		snap_members_hex(&members, "offset", frame->offset);
	/* The kernel keeps the addresses of its own frames to itself. */
	if (frame->address || !entry->kernel)
		snap_members_hex(&members, "address", frame->address);
	snap_members_flag(&members, "inlined", entry->inlined);
	snap_members_flag(&members, "system", entry->system);
	snap_members_flag(&members, "kernel", entry->kernel);
	snap_json_out_raw(out, "}");
}

static struct made *make_frame(struct snap_json_entries *entries, const struct snap_frame *frame)
{
	struct made *made;

	entries->text.length = 0;
	for (size_t i = 0; i < frame->entry_count; i++) {
		if (i)
			snap_json_out_raw(entries->aside, entries->lines ? ", " : ",\n");
		put_entry(entries->aside, frame, &frame->entries[i]);
	}
	snap_json_out_flush(entries->aside);
	if (entries->text.failed || entries->aside->failed)
		return NULL;
	made = malloc(sizeof(*made) + entries->text.length);
	if (!made)
		return NULL;
	made->length = entries->text.length;
	if (made->length)
		memcpy(made->bytes, entries->text.bytes, made->length);
	entries->kept += sizeof(*made) + made->length;
	return made;
}

static const struct made *frame_of(struct snap_json_entries *entries,
				   const struct snap_frame *frame)
{
	void **slot = snap_pointer_map_slot(&entries->frames, frame);

	if (slot && !*slot)
		*slot = make_frame(entries, frame);
	if (!slot || !*slot) {
		entries->failed = true;
		return NULL;
	}
	return *slot;
}

/* All entries of a stack as one text; NULL: they are too long for that, or there is no memory. */
static struct made *make_stack(struct snap_json_entries *entries,
			       const struct snap_frame *const *frames, size_t count)
{
	struct made *made;
	size_t length = 0;
	char *at;

	for (size_t i = 0; i < count && length <= LONGEST_KEPT; i++) {
		const struct made *frame = frame_of(entries, frames[i]);

		if (!frame)
			return NULL;
		length += frame->length + 2;
	}
	if (length > LONGEST_KEPT)
		return NULL;
	made = malloc(sizeof(*made) + length);
	if (!made)
		return NULL;
	at = made->bytes;
	for (size_t i = 0; i < count; i++) {
		const struct made *frame = frame_of(entries, frames[i]);

		memcpy(at, ", ", 2);
		at += i ? 2 : 0;
		memcpy(at, frame->bytes, frame->length);
		at += frame->length;
	}
	made->length = (size_t)(at - made->bytes);
	entries->kept += sizeof(*made) + made->length;
	return made;
}

/* True: it was written as a whole. */
static bool put_kept_stack(struct snap_json_entries *entries, struct snap_json_out *out,
			   const struct snap_frame *const *frames, size_t count)
{
	const struct made *made;
	void **slot;

	if (entries->kept > MOST_KEPT)
		snap_json_entries_forget(entries);
	slot = snap_pointer_map_slot(&entries->stacks, frames);
	if (!slot)
		return false;
	if (!*slot)
		*slot = make_stack(entries, frames, count);
	made = *slot;
	if (made)
		snap_json_out_bytes(out, made->bytes, made->length);
	return made != NULL;
}

void snap_json_entries_put(struct snap_json_entries *entries, struct snap_json_out *out,
			   const struct snap_frame *const *frames, size_t count)
{
	const char *between = entries->lines ? ", " : ",\n";

	snap_json_out_raw(out, "\"entries\": [");
	if (!(entries->lines && count && put_kept_stack(entries, out, frames, count)))
		for (size_t i = 0; i < count && !entries->failed; i++) {
			const struct made *made = frame_of(entries, frames[i]);

			if (i || !entries->lines)
				snap_json_out_raw(out, i ? between : "\n");
			if (made)
				snap_json_out_bytes(out, made->bytes, made->length);
		}
	snap_json_out_raw(out, count && !entries->lines ? "\n]" : "]");
}
