/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pointers to things that are stored once: see pointers.h. */
#include "store/pointers.h"

#include "base/buffer.h"

#include <string.h>

enum {
	MOST_ENTRIES = 1 << 10, /* of a frame; symbolizers stop earlier */
	LONGEST_BUILD_ID = 512,
	LONGEST_CODE = 64,
	LONGEST_LANGUAGE = 64,
	LEAST_ENTRY = 27,
	ENTRY_SHOWN = 64, /* bytes of an entry in a report besides its texts, about */
};

/* Renderers make no more of a snapshot than this, about, so that a report has an end. */
static const uint64_t MOST_SHOWN = 1ull << 33;
static const int64_t LONGEST = INT64_MAX / 2;

static void pointers_deinit(struct snap_pointers *pointers)
{
	free(pointers->items);
	snap_hash_table_deinit(&pointers->table);
}

void snap_pointer_codec_deinit(struct snap_pointer_codec *to)
{
	pointers_deinit(&to->texts);
	pointers_deinit(&to->frames);
	pointers_deinit(&to->lists);
	pointers_deinit(&to->entries);
	snap_pointer_table_deinit(&to->waits);
}

static bool add_pointee(struct snap_pointers *pointers, struct snap_pointee item)
{
	return snap_append(pointers->items, pointers->count, pointers->capacity, item);
}

/* From here on nothing is written, but counted: what was written is of no use. */
static void give_up_writing(struct snap_pointer_codec *to)
{
	to->no_memory = true;
	to->codec.mode = SNAP_CODEC_COUNT;
}

static bool write_number(struct snap_pointer_codec *to, struct snap_pointers *pointers,
			 const void *pointer, uint64_t count)
{
	uint64_t hash = snap_hash_add(snap_hash_pointer(pointer), count);
	struct snap_probe probe = snap_hash_table_probe(&pointers->table, hash);
	uint32_t number = 0;

	while (pointer && number == 0 && snap_probe_next(&probe)) {
		const struct snap_pointee *item = &pointers->items[probe.number];

		if (item->pointer == pointer && item->count == count)
			number = probe.number + 1;
	}
	if (!pointer || number) {
		snap_code_u32(&to->codec, &number);
		return false;
	}
	if (!add_pointee(pointers, (struct snap_pointee){ pointer, count, 0 }) ||
	    !snap_hash_table_add(&pointers->table, hash, pointers->count - 1))
		give_up_writing(to);
	number = (uint32_t)pointers->count;
	snap_code_u32(&to->codec, &number);
	return true;
}

void snap_code_count_shown(struct snap_pointer_codec *to, uint64_t shown)
{
	to->shown += shown;
	if (to->shown > MOST_SHOWN)
		snap_codec_refuse(&to->codec, "the report would be too large");
}

bool snap_pointer_begin(struct snap_pointer_codec *to, struct snap_pointers *pointers,
			const void **pointer, uint64_t *count)
{
	uint32_t number = 0;

	if (!snap_codec_reads(&to->codec))
		return write_number(to, pointers, *pointer, *count);
	*pointer = NULL;
	*count = 0;
	snap_code_u32(&to->codec, &number);
	if (to->codec.problem)
		return false;
	if (number && number - 1 == pointers->count)
		return true;
	if (number == 0)
		return false;
	if (number > pointers->count) {
		snap_codec_refuse(&to->codec, "invalid reference");
		return false;
	}
	*pointer = pointers->items[number - 1].pointer;
	*count = pointers->items[number - 1].count;
	snap_code_count_shown(to, pointers->items[number - 1].shown);
	return false;
}

void snap_pointer_end(struct snap_pointer_codec *to, struct snap_pointers *pointers,
		      struct snap_pointee item)
{
	if (!snap_codec_reads(&to->codec) || to->codec.problem)
		return;
	if (!add_pointee(pointers, item)) {
		snap_codec_refuse_memory(&to->codec);
		to->no_memory = true;
		return;
	}
	snap_code_count_shown(to, item.shown);
}

void snap_code_text_pointer(struct snap_pointer_codec *to, const char **text, size_t most)
{
	bool reads = snap_codec_reads(&to->codec);
	uint64_t size = !reads && *text ? strnlen(*text, most) + 1 : 0;
	const void *pointer = *text;

	if (!snap_pointer_begin(to, &to->texts, &pointer, &size)) {
		if (!reads)
			return;
		*text = pointer;
		snap_codec_check(&to->codec, size <= (uint64_t)most + 1, "string too long");
		return;
	}
	snap_code_text(&to->codec, text, most);
	if (!reads)
		return;
	size = *text ? strlen(*text) + 1 : 0;
	snap_pointer_end(to, &to->texts, (struct snap_pointee){ *text, size, size });
}

void snap_code_at_most(struct snap_pointer_codec *to, size_t *value, uint64_t most)
{
	uint64_t number = *value;

	snap_code_most(&to->codec, &number, most);
	if (snap_codec_reads(&to->codec))
		*value = (size_t)number;
}

void snap_code_length(struct snap_pointer_codec *to, int64_t *value)
{
	snap_code_range(&to->codec, value, 0, LONGEST);
}

void snap_code_moment(struct snap_pointer_codec *to, int64_t *value)
{
	snap_code_range(&to->codec, value, -LONGEST, LONGEST);
}

/* ---- frames ---- */

static void code_entry(struct snap_pointer_codec *to, struct snap_entry *entry)
{
	snap_code_text_pointer(to, &entry->function, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &entry->symbol, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &entry->file, SNAP_MAX_NAME);
	snap_code_u32(&to->codec, &entry->line);
	snap_code_u32(&to->codec, &entry->column);
	snap_code_bool(&to->codec, &entry->inlined);
	snap_code_bool(&to->codec, &entry->tail_call);
	snap_code_bool(&to->codec, &entry->system);
	snap_code_bool(&to->codec, &entry->kernel);
	snap_code_text_pointer(to, &entry->language, LONGEST_LANGUAGE);
}

void snap_code_entry_pointer(struct snap_pointer_codec *to, const struct snap_entry **entry)
{
	const void *pointer = *entry;
	uint64_t one = 1, before = to->shown;
	struct snap_entry *read;

	if (!snap_codec_reads(&to->codec)) {
		/* The descriptions also read; when they write, they change nothing. */
		if (snap_pointer_begin(to, &to->entries, &pointer, &one))
			code_entry(to, (struct snap_entry *)(uintptr_t)*entry);
		return;
	}
	*entry = NULL;
	if (!snap_pointer_begin(to, &to->entries, &pointer, &one)) {
		*entry = pointer;
		return;
	}
	read = snap_arena_new(to->codec.arena, struct snap_entry);
	if (!read) {
		snap_codec_refuse_memory(&to->codec);
		return;
	}
	code_entry(to, read);
	*entry = read;
	snap_pointer_end(to, &to->entries,
			 (struct snap_pointee){ read, 1, to->shown - before + ENTRY_SHOWN });
}

/* Most frames have the build id of the one before. */
static bool is_hex_text(struct snap_pointer_codec *to, const char *text)
{
	if (text == to->hex)
		return true;
	if (!*text || text[strspn(text, "0123456789abcdef")])
		return false;
	to->hex = text;
	return true;
}

void snap_code_frame(struct snap_pointer_codec *to, struct snap_frame *frame)
{
	struct snap_codec *codec = &to->codec;

	snap_code_u64(codec, &frame->address);
	snap_code_u64(codec, &frame->offset);
	snap_code_text_pointer(to, &frame->module, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &frame->build_id, LONGEST_BUILD_ID);
	snap_code_bool(codec, &frame->has_offset);
	snap_code_u64(codec, &frame->file_offset);
	snap_code_enumerator(codec, &frame->trust, SNAP_TRUST_COUNT);
	snap_code_list(codec, frame->entries, frame->entry_count, MOST_ENTRIES, LEAST_ENTRY, i,
		       code_entry(to, &frame->entries[i]));
	snap_codec_check(codec, frame->entry_count, "frame without functions");
	if (snap_codec_reads(codec) && frame->build_id)
		snap_codec_check(codec, is_hex_text(to, frame->build_id), "invalid build id");
}

void snap_code_frame_pointer(struct snap_pointer_codec *to, const struct snap_frame **frame)
{
	const void *pointer = *frame;
	uint64_t one = 1, before = to->shown;
	struct snap_frame *read;

	if (!snap_codec_reads(&to->codec)) {
		/* The descriptions also read; when they write, they change nothing. */
		if (snap_pointer_begin(to, &to->frames, &pointer, &one))
			snap_code_frame(to, (struct snap_frame *)(uintptr_t)*frame);
		return;
	}
	*frame = NULL;
	if (!snap_pointer_begin(to, &to->frames, &pointer, &one)) {
		*frame = pointer;
		snap_codec_check(&to->codec, pointer, "missing frame");
		return;
	}
	read = snap_arena_new(to->codec.arena, struct snap_frame);
	if (!read) {
		snap_codec_refuse_memory(&to->codec);
		return;
	}
	snap_code_frame(to, read);
	*frame = read;
	/* What it is made of has been counted once. */
	snap_pointer_end(to, &to->frames,
			 (struct snap_pointee){
				 read, 1, to->shown - before + ENTRY_SHOWN * read->entry_count });
}

/* ---- warnings ---- */

static bool is_code(const char *code)
{
	size_t length = code ? strspn(code, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;

	return length && code[length] == '\0';
}

void snap_code_warning(struct snap_pointer_codec *to, struct snap_warning *warning)
{
	struct snap_codec *codec = &to->codec;

	snap_code_text_pointer(to, &warning->code, LONGEST_CODE);
	snap_code_text_pointer(to, &warning->message, SNAP_LONGEST_MESSAGE);
	snap_code_least(codec, &warning->pid, 0);
	snap_code_least(codec, &warning->tid, 0);
	snap_codec_check(codec, is_code(warning->code) && warning->message, "empty warning");
}
