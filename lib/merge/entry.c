/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Entries of a stack, written again in one form: see reader.h. Addresses are left out, as they
 * differ from process to process. They stay only if nothing else distinguishes a frame from others.
 */
#include "merge/reader.h"

#include "model/snapshot.h"

#include <string.h>

enum { LONGEST_BUILD_ID = 512 };

static struct snap_merge_stack *current_entry(struct snap_merge_reader *reader)
{
	return &reader->document->stacks[reader->document->stack_count - 1];
}

void snap_merge_begin_entries(struct snap_merge_reader *reader)
{
	struct snap_merge_document *document = reader->document;

	current_entry(reader)->body_at = document->text.size;
	current_entry(reader)->place_at = document->place_count;
	snap_buffer_add_byte(&document->text, '[');
	reader->has_entries = true;
}

void snap_merge_end_entries(struct snap_merge_reader *reader)
{
	struct snap_merge_document *document = reader->document;

	snap_buffer_add_byte(&document->text, ']');
	current_entry(reader)->entries_size = document->text.size - current_entry(reader)->body_at;
	current_entry(reader)->place_count =
		document->place_count - current_entry(reader)->place_at;
}

static bool same(const struct snap_json_span *a, const struct snap_json_span *b)
{
	return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

/* The file that the entry is in, unless that of the one before is the same. */
static void note_place(struct snap_merge_reader *reader)
{
	struct snap_merge_document *document = reader->document;
	struct snap_merge_place place = {
		.module = snap_merge_value(reader, ENTRY_MODULE),
		.build_id = snap_merge_value(reader, ENTRY_BUILD_ID),
	};
	const struct snap_merge_place *last =
		document->place_count ? &document->places[document->place_count - 1] : NULL;

	/* The modules of what was merged stand apart. */
	if (document->merged || !place.module.length || !place.build_id.length)
		return;
	if (last && document->place_count > current_entry(reader)->place_at &&
	    same(&last->module, &place.module) && same(&last->build_id, &place.build_id))
		return;
	if (!snap_reserve_array(document->places, document->place_capacity,
				document->place_count + 1))
		snap_merge_no_memory(reader);
	else
		document->places[document->place_count++] = place;
}

static bool put_entry_text(struct snap_merge_reader *reader, const char *key, unsigned field,
			   size_t most, size_t begin)
{
	struct snap_json_span span = snap_merge_value(reader, field);

	return snap_merge_canon_text(&reader->canon, key, &span, most, &reader->document->text,
				     begin);
}

static void put_number(struct snap_merge_reader *reader, const char *key, unsigned field,
		       size_t begin)
{
	int64_t number = snap_merge_number(reader, field, 0);

	if (number > UINT32_MAX)
		snap_merge_refuse(reader, key, "a smaller number");
	if (number)
		snap_merge_canon_number(key, number, &reader->document->text, begin);
}

static void put_flag(struct snap_merge_reader *reader, const char *key, unsigned field,
		     size_t begin)
{
	if (snap_merge_number(reader, field, 0))
		snap_merge_canon_true(key, &reader->document->text, begin);
}

/* Whether something but its address tells the frame from others. */
static bool is_same_entry(const struct snap_merge_reader *reader)
{
	return snap_merge_value(reader, ENTRY_FUNCTION).length ||
	       snap_merge_value(reader, ENTRY_SYMBOL).length ||
	       snap_merge_value(reader, ENTRY_OFFSET).length;
}

static bool put_fields(struct snap_merge_reader *reader, size_t begin)
{
	bool fine = put_entry_text(reader, "function", ENTRY_FUNCTION, SNAP_MAX_NAME, begin) &&
		    put_entry_text(reader, "symbol", ENTRY_SYMBOL, SNAP_MAX_NAME, begin) &&
		    put_entry_text(reader, "file", ENTRY_FILE, SNAP_MAX_NAME, begin);

	put_number(reader, "line", ENTRY_LINE, begin);
	put_number(reader, "column", ENTRY_COLUMN, begin);
	fine = fine && put_entry_text(reader, "module", ENTRY_MODULE, SNAP_MAX_NAME, begin) &&
	       put_entry_text(reader, "build_id", ENTRY_BUILD_ID, LONGEST_BUILD_ID, begin) &&
	       put_entry_text(reader, "offset", ENTRY_OFFSET, SNAP_MAX_NAME, begin) &&
	       (is_same_entry(reader) ||
		put_entry_text(reader, "address", ENTRY_ADDRESS, SNAP_MAX_NAME, begin));
	put_flag(reader, "inlined", ENTRY_INLINED, begin);
	put_flag(reader, "tail_call", ENTRY_TAIL_CALL, begin);
	put_flag(reader, "system", ENTRY_SYSTEM, begin);
	put_flag(reader, "kernel", ENTRY_KERNEL, begin);
	return fine && put_entry_text(reader, "language", ENTRY_LANGUAGE, 64, begin) &&
	       put_entry_text(reader, "trust", ENTRY_TRUST, 64, begin);
}

void snap_merge_end_entry(struct snap_merge_reader *reader)
{
	struct snap_buffer *text = &reader->document->text;

	if (text->size > current_entry(reader)->body_at + 1)
		snap_buffer_add(text, ", ", 2);
	snap_buffer_add_byte(text, '{');
	if (!put_fields(reader, text->size))
		snap_merge_refuse(reader, "entries",
				  reader->canon.wrong ? reader->canon.wrong : "less of it");
	snap_buffer_add_byte(text, '}');
	note_place(reader);
}
