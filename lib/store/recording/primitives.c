/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers, texts and arrays of recordings on disk, written or read: see internal.h. */
#include "store/recording/internal.h"

#include <string.h>

void snap_log_file_deinit(struct snap_log_file *file)
{
	free(file->texts);
	free(file->changed);
	snap_buffer_deinit(&file->new_texts);
	snap_buffer_deinit(&file->body);
	snap_arena_deinit(&file->arena);
	snap_hash_table_deinit(&file->table);
	free(file->process_states);
	free(file->thread_names);
	free(file->space_versions);
	free(file->space_numbers);
}

void snap_log_refuse(struct snap_log_file *file, const char *problem)
{
	if (!file->problem)
		file->problem = problem;
	file->at = file->end;
}

void snap_log_check(struct snap_log_file *file, bool holds, const char *problem)
{
	if (file->reads && !holds)
		snap_log_refuse(file, problem);
}

void snap_log_fail_memory(struct snap_log_file *file)
{
	file->no_memory = true;
	snap_log_refuse(file, "out of memory");
}

/* ---- numbers ---- */

static uint64_t read_varint(struct snap_log_file *file)
{
	uint64_t number = 0;

	for (unsigned shift = 0; shift < 64 && file->at < file->end; shift += 7) {
		uint8_t byte = *file->at++;

		number |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return number;
	}
	snap_log_refuse(file, "truncated number");
	return 0;
}

uint64_t snap_log_code_number(struct snap_log_file *file, uint64_t number, uint64_t most,
			      const char *problem)
{
	if (!file->reads) {
		snap_buffer_add_varint(&file->body, number);
		return number;
	}
	number = read_varint(file);
	if (number <= most)
		return number;
	snap_log_refuse(file, problem);
	return 0;
}

void snap_log_code_flag(struct snap_log_file *file, bool *flag)
{
	snap_log_code(file, *flag, 1, "invalid boolean");
}

int64_t snap_log_code_step(struct snap_log_file *file, int64_t number, int64_t from,
			   const char *problem)
{
	uint64_t step = snap_log_zigzag((int64_t)((uint64_t)number - (uint64_t)from));

	snap_log_code_any(file, step);
	if (!file->reads || !__builtin_add_overflow(from, snap_log_unzigzag(step), &number))
		return number;
	snap_log_refuse(file, problem);
	return 0;
}

size_t snap_log_code_count(struct snap_log_file *file, size_t count, size_t least)
{
	uint64_t most = file->reads ? (uint64_t)(file->end - file->at) / least : UINT64_MAX;

	/* The number itself takes a byte, so this is one too many at most. */
	return snap_log_code(file, count, most, "count too large");
}

void snap_log_code_duration(struct snap_log_file *file, int64_t *duration)
{
	*duration = snap_log_code_step(file, *duration, 0, "invalid duration");
	snap_log_check(file, *duration >= 0 && *duration <= INT64_MAX / 4, "invalid duration");
}

/* ---- texts ---- */

/* The number of a text in the file, which gets it if it is new; 0 without memory. */
static uint32_t number_of_text(struct snap_log_file *file, const void *bytes, size_t length)
{
	uint64_t hash = snap_hash_bytes(bytes, length, 0);
	struct snap_probe probe = snap_hash_table_probe(&file->table, hash);
	struct snap_log_text text = { NULL, length };

	while (snap_probe_next(&probe)) {
		const struct snap_log_text *known = &file->texts[probe.number];

		if (known->length == length && memcmp(known->bytes, bytes, length) == 0)
			return probe.number + 1;
	}
	text.bytes = snap_arena_strndup(&file->arena, bytes, length);
	if (!text.bytes ||
	    !snap_reserve_array(file->texts, file->text_capacity, file->text_count + 1) ||
	    !snap_hash_table_add(&file->table, hash, file->text_count)) {
		file->body.failed = true;
		return 0;
	}
	file->texts[file->text_count++] = text;
	file->new_text_count++;
	snap_buffer_add_varint(&file->new_texts, length);
	snap_buffer_add(&file->new_texts, text.bytes, length + 1);
	return (uint32_t)file->text_count;
}

void snap_log_code_bytes(struct snap_log_file *file, const void **bytes, size_t *size)
{
	uint32_t number = !file->reads && *bytes ? number_of_text(file, *bytes, *size) : 0;

	snap_log_code(file, number, file->text_count, "invalid string reference");
	if (!file->reads)
		return;
	*bytes = number ? file->texts[number - 1].bytes : NULL;
	*size = number ? file->texts[number - 1].length : 0;
}

void snap_log_code_text(struct snap_log_file *file, const char **text, size_t most)
{
	const void *bytes = *text;
	size_t size = file->reads || !bytes ? 0 : strnlen(*text, most);

	snap_log_code_bytes(file, &bytes, &size);
	if (!file->reads)
		return;
	*text = bytes;
	snap_log_check(file, size <= most && (!size || !memchr(bytes, 0, size)),
		       "string too long or unterminated");
}

uint8_t *snap_log_code_payload(struct snap_log_file *file, size_t size)
{
	const uint8_t *at = file->at;
	char *room;

	if (file->reads) {
		snap_log_check(file, size <= (size_t)(file->end - at), "count too large");
		if (!snap_log_fine(file))
			return NULL;
		file->at += size;
		return (uint8_t *)(uintptr_t)at;
	}
	room = snap_buffer_reserve(&file->body, size);
	if (room)
		file->body.size += size;
	return (uint8_t *)room;
}

/* ---- arrays ---- */

void snap_log_code_array(struct snap_log_file *file, void *pointer_to_array, size_t *count,
			 size_t *capacity, size_t *done, size_t element_size,
			 snap_log_code_element *code)
{
	size_t left = snap_log_code_count(file, *count - *done, 1);

	for (; left && snap_log_fine(file); left--) {
		char *array, *element;

		if (file->reads && !snap_array_reserve(pointer_to_array, capacity, *done + 1,
						       element_size, SIZE_MAX)) {
			snap_log_fail_memory(file);
			return;
		}
		memcpy(&array, pointer_to_array, sizeof(array));
		element = array + *done * element_size;
		if (file->reads)
			memset(element, 0, element_size);
		code(file, element, *done);
		*done += snap_log_fine(file);
		if (file->reads)
			*count = *done;
	}
}

void snap_log_code_changed(struct snap_log_file *file, size_t total,
			   bool (*is_changed)(const struct snap_log_file *file, size_t index),
			   void (*code)(struct snap_log_file *file, size_t index))
{
	size_t count = 0;

	for (size_t i = 0; !file->reads && i < total; i++)
		count += is_changed(file, i);
	count = snap_log_code_count(file, count, 1);
	for (size_t i = 0; file->reads && i < count && snap_log_fine(file); i++)
		code(file, 0);
	for (size_t i = 0; !file->reads && i < total; i++)
		if (is_changed(file, i))
			code(file, i);
}
