/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers, texts and the heads of chunks of recordings on disk: see internal.h. */
#include "store/recording/internal.h"

#include <endian.h>
#include <string.h>

const uint8_t snap_log_magic[8] = { 0x89, 's', 'n', 'a', 'p', 'r', 'e', 'c' };

bool snap_log_is_recording(const void *bytes, size_t size)
{
	return size >= sizeof(snap_log_magic) &&
	       memcmp(bytes, snap_log_magic, sizeof(snap_log_magic)) == 0;
}

uint64_t snap_log_chunk_check(const struct snap_log_chunk *chunk)
{
	return htole64(snap_hash(chunk, offsetof(struct snap_log_chunk, check), 1));
}

struct snap_log_chunk snap_log_chunk_make(uint32_t type, uint32_t sequence, const uint8_t *payload,
					  uint64_t length)
{
	struct snap_log_chunk chunk = {
		.type = htole32(type),
		.sequence = htole32(sequence),
		.length = htole64(length),
		.hash = htole64(snap_hash(payload, length, 0)),
	};

	chunk.check = snap_log_chunk_check(&chunk);
	return chunk;
}

/* ---- writing ---- */

static bool reserve(struct snap_log_buffer *buffer, size_t more)
{
	size_t wanted = buffer->capacity ? buffer->capacity : 4096;
	uint8_t *grown;

	if (buffer->failed)
		return false;
	if (more <= buffer->capacity - buffer->size)
		return true;
	while (wanted - buffer->size < more) {
		if (wanted > SIZE_MAX / 2) {
			buffer->failed = true;
			return false;
		}
		wanted *= 2;
	}
	grown = realloc(buffer->bytes, wanted);
	if (!grown) {
		buffer->failed = true;
		return false;
	}
	buffer->bytes = grown;
	buffer->capacity = wanted;
	return true;
}

void snap_log_put_bytes(struct snap_log_buffer *buffer, const void *bytes, size_t size)
{
	if (size == 0 || !reserve(buffer, size))
		return;
	/* Without bytes there is only room made for them. */
	if (bytes)
		memcpy(buffer->bytes + buffer->size, bytes, size);
	buffer->size += size;
}

void snap_log_put(struct snap_log_buffer *buffer, uint64_t number)
{
	if (!reserve(buffer, 10))
		return;
	while (number >= 128) {
		buffer->bytes[buffer->size++] = (uint8_t)(number | 128);
		number >>= 7;
	}
	buffer->bytes[buffer->size++] = (uint8_t)number;
}

void snap_log_put_signed(struct snap_log_buffer *buffer, int64_t number)
{
	snap_log_put(buffer, ((uint64_t)number << 1) ^ (number < 0 ? UINT64_MAX : 0));
}

/* ---- reading ---- */

void snap_log_refuse(struct snap_log_cursor *cursor, const char *problem)
{
	if (!cursor->problem)
		cursor->problem = problem;
	cursor->at = cursor->end;
}

uint64_t snap_log_get(struct snap_log_cursor *cursor)
{
	uint64_t number = 0;

	for (unsigned shift = 0; shift < 64 && cursor->at < cursor->end; shift += 7) {
		uint8_t byte = *cursor->at++;

		number |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return number;
	}
	snap_log_refuse(cursor, "truncated number");
	return 0;
}

int64_t snap_log_get_signed(struct snap_log_cursor *cursor)
{
	uint64_t number = snap_log_get(cursor);

	return (int64_t)((number >> 1) ^ (number & 1 ? UINT64_MAX : 0));
}

uint64_t snap_log_get_most(struct snap_log_cursor *cursor, uint64_t most, const char *problem)
{
	uint64_t number = snap_log_get(cursor);

	if (number <= most)
		return number;
	snap_log_refuse(cursor, problem);
	return 0;
}

size_t snap_log_get_count(struct snap_log_cursor *cursor, size_t least)
{
	uint64_t count = snap_log_get(cursor);

	if (count <= (uint64_t)(cursor->end - cursor->at) / least)
		return (size_t)count;
	snap_log_refuse(cursor, "count too large");
	return 0;
}

struct snap_log_text snap_log_get_bytes(struct snap_log_reader *reader)
{
	struct snap_log_text none = { 0 };
	uint64_t number =
		snap_log_get_most(&reader->cursor, reader->text_count, "invalid string reference");

	return number ? reader->texts[number - 1] : none;
}

const char *snap_log_get_text(struct snap_log_reader *reader, size_t most)
{
	struct snap_log_text text = snap_log_get_bytes(reader);

	if (!text.bytes)
		return NULL;
	if (text.length <= most && strnlen(text.bytes, text.length) == text.length)
		return text.bytes;
	snap_log_refuse(&reader->cursor, "string too long or unterminated");
	return NULL;
}
