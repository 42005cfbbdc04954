/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counting, writing and reading by one description: see codec.h. */
#include "store/codec.h"

#include "base/cleanup.h"
#include "base/table.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { WRITTEN_AT_ONCE = 2048 }; /* bytes: fewer are cheaper to copy than a system call */

static const uint64_t ABSENT = UINT64_MAX;
static const char CUT_OFF[] = "truncated section";

static const char no_memory[] = "out of memory";

void snap_codec_refuse(struct snap_codec *codec, const char *problem)
{
	if (!codec->problem)
		codec->problem = problem;
}

void snap_codec_refuse_memory(struct snap_codec *codec)
{
	snap_codec_refuse(codec, no_memory);
}

bool snap_codec_lacks_memory(const struct snap_codec *codec)
{
	return codec->problem == no_memory;
}

void snap_codec_check(struct snap_codec *codec, bool holds, const char *problem)
{
	if (snap_codec_reads(codec) && !holds)
		snap_codec_refuse(codec, problem);
}

int snap_write_all(int fd, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;

	while (size) {
		ssize_t written = write(fd, at, size);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return errno;
		at += written;
		size -= (size_t)written;
	}
	return 0;
}

void snap_codec_flush(struct snap_codec *codec)
{
	if (codec->mode != SNAP_CODEC_WRITE || codec->chunk_used == 0)
		return;
	if (!codec->handed)
		codec->hash = snap_hash_bytes(codec->chunk, codec->chunk_used, codec->hash);
	if (!codec->write_errno)
		codec->write_errno = snap_write_all(codec->fd, codec->chunk, codec->chunk_used);
	codec->chunk_used = 0;
}

uint64_t snap_codec_hash(const uint8_t *bytes, uint64_t size)
{
	uint64_t hash = 0;

	while (size) {
		size_t part = size < SNAP_CODEC_CHUNK ? (size_t)size : SNAP_CODEC_CHUNK;

		hash = snap_hash_bytes(bytes, part, hash);
		bytes += part;
		size -= part;
	}
	return hash;
}

static bool has_codec_room(const struct snap_codec *codec, size_t size)
{
	return !codec->memory_size || (codec->position <= codec->memory_size &&
				       size <= codec->memory_size - codec->position);
}

static void write_codec_bytes(struct snap_codec *codec, const void *bytes, size_t size)
{
	const uint8_t *from = bytes;

	if (codec->memory && size && has_codec_room(codec, size))
		memcpy(codec->memory + codec->position, bytes, size);
	codec->position += size;
	if (codec->mode == SNAP_CODEC_COUNT || codec->memory)
		return;
	/* A stack goes to the kernel from where it is. */
	if (codec->handed && size >= WRITTEN_AT_ONCE) {
		snap_codec_flush(codec);
		if (!codec->write_errno)
			codec->write_errno = snap_write_all(codec->fd, from, size);
		return;
	}
	while (size) {
		size_t left = SNAP_CODEC_CHUNK - codec->chunk_used;
		size_t part = size < left ? size : left;

		memcpy(codec->chunk + codec->chunk_used, from, part);
		codec->chunk_used += part;
		from += part;
		size -= part;
		if (codec->chunk_used == SNAP_CODEC_CHUNK)
			snap_codec_flush(codec);
	}
}

/* The next `size` bytes of the section, NULL if there are not so many. */
static const uint8_t *read_codec_bytes(struct snap_codec *codec, uint64_t size)
{
	const uint8_t *bytes = codec->bytes + codec->position;

	if (!codec->problem && size > codec->size - codec->position)
		snap_codec_refuse(codec, CUT_OFF);
	if (codec->problem)
		return NULL;
	codec->position += size;
	return bytes;
}

/* Bytes as they stand in the file; when they cannot be read they are 0. */
static void code_raw(struct snap_codec *codec, void *raw, size_t size)
{
	const uint8_t *bytes;

	if (!snap_codec_reads(codec)) {
		write_codec_bytes(codec, raw, size);
		return;
	}
	bytes = read_codec_bytes(codec, size);
	if (bytes)
		memcpy(raw, bytes, size);
	else
		memset(raw, 0, size);
}

void snap_code_u64(struct snap_codec *codec, uint64_t *value)
{
	uint64_t raw = htole64(*value);

	code_raw(codec, &raw, sizeof(raw));
	if (snap_codec_reads(codec))
		*value = le64toh(raw);
}

void snap_code_i64(struct snap_codec *codec, int64_t *value)
{
	uint64_t bits = (uint64_t)*value;

	snap_code_u64(codec, &bits);
	if (snap_codec_reads(codec))
		*value = (int64_t)bits;
}

void snap_code_u32(struct snap_codec *codec, uint32_t *value)
{
	uint32_t raw = htole32(*value);

	code_raw(codec, &raw, sizeof(raw));
	if (snap_codec_reads(codec))
		*value = le32toh(raw);
}

void snap_code_i32(struct snap_codec *codec, int32_t *value)
{
	uint32_t bits = (uint32_t)*value;

	snap_code_u32(codec, &bits);
	if (snap_codec_reads(codec))
		*value = (int32_t)bits;
}

void snap_code_most(struct snap_codec *codec, uint64_t *value, uint64_t most)
{
	uint64_t near = SNAP_MIN(*value, most);

	snap_code_u64(codec, &near);
	snap_codec_check(codec, near <= most, "number too large");
	if (snap_codec_reads(codec))
		*value = codec->problem ? 0 : near;
}

void snap_code_range(struct snap_codec *codec, int64_t *value, int64_t least, int64_t most)
{
	int64_t near = SNAP_MIN(SNAP_MAX(*value, least), most);

	snap_code_i64(codec, &near);
	snap_codec_check(codec, near >= least && near <= most, "number out of range");
	if (snap_codec_reads(codec))
		*value = codec->problem ? 0 : near;
}

void snap_code_least(struct snap_codec *codec, int32_t *value, int32_t least)
{
	int32_t near = SNAP_MAX(*value, least);

	snap_code_i32(codec, &near);
	snap_codec_check(codec, near >= least, "number too small");
	if (snap_codec_reads(codec))
		*value = codec->problem ? 0 : near;
}

static uint8_t code_byte(struct snap_codec *codec, uint8_t value)
{
	code_raw(codec, &value, 1);
	return value;
}

void snap_code_bool(struct snap_codec *codec, bool *value)
{
	uint8_t byte = code_byte(codec, *value);

	snap_codec_check(codec, byte <= 1, "invalid boolean");
	if (snap_codec_reads(codec))
		*value = byte == 1;
}

void snap_code_two_bools(struct snap_codec *codec, bool *first, bool *second)
{
	uint8_t byte = code_byte(codec, (uint8_t)(*first | *second << 1));

	snap_codec_check(codec, byte <= 3, "invalid booleans");
	if (snap_codec_reads(codec)) {
		*first = byte & 1;
		*second = byte >> 1 == 1;
	}
}

void snap_code_letter(struct snap_codec *codec, char *value)
{
	uint8_t byte = code_byte(codec, (uint8_t)*value);
	uint8_t lower = byte | 0x20;

	snap_codec_check(codec, byte == 0 || (lower >= 'a' && lower <= 'z'),
			 "invalid thread state");
	if (snap_codec_reads(codec))
		*value = codec->problem ? 0 : (char)byte;
}

void snap_code_enum(struct snap_codec *codec, void *value, uint32_t count)
{
	uint32_t number;

	memcpy(&number, value, sizeof(number));
	if (!snap_codec_reads(codec) && number >= count)
		number = 0;
	snap_code_u32(codec, &number);
	snap_codec_check(codec, number < count, "invalid enumerator");
	if (!snap_codec_reads(codec))
		return;
	if (codec->problem)
		number = 0;
	memcpy(value, &number, sizeof(number));
}

void snap_code_size(struct snap_codec *codec, size_t *value, uint64_t most)
{
	uint64_t number = *value == SIZE_MAX ? ABSENT : *value;

	snap_code_u64(codec, &number);
	snap_codec_check(codec, number == ABSENT || number <= most, "number too large");
	if (snap_codec_reads(codec))
		*value = codec->problem ? 0 : (size_t)number;
}

void snap_code_text(struct snap_codec *codec, const char **text, size_t most)
{
	uint32_t length =
		*text && !snap_codec_reads(codec) ? (uint32_t)strnlen(*text, most) + 1 : 0;
	const uint8_t *bytes;

	snap_code_u32(codec, &length);
	if (!snap_codec_reads(codec)) {
		if (length) {
			write_codec_bytes(codec, *text, length - 1);
			write_codec_bytes(codec, "", 1);
		}
		return;
	}
	*text = NULL;
	snap_codec_check(codec, length <= (uint64_t)most + 1, "string too long");
	if (length == 0 || !(bytes = read_codec_bytes(codec, length)))
		return;
	if (memchr(bytes, 0, length) != bytes + length - 1)
		snap_codec_refuse(codec, "unterminated string");
	else
		*text = (const char *)bytes;
}

static void code_padding(struct snap_codec *codec)
{
	static const uint8_t zeros[SNAP_CODEC_ALIGNMENT];
	size_t rest = (size_t)(-codec->position & (SNAP_CODEC_ALIGNMENT - 1));
	const uint8_t *bytes;

	if (!snap_codec_reads(codec)) {
		write_codec_bytes(codec, zeros, rest);
		return;
	}
	bytes = read_codec_bytes(codec, rest);
	if (bytes && memcmp(bytes, zeros, rest) != 0)
		snap_codec_refuse(codec, "padding is not zero");
}

/* Codes bytes as an offset into the outside memory plus 1, or 0. False: they are not in it. */
static bool code_outside(struct snap_codec *codec, const void **data, uint64_t length,
			 size_t alignment)
{
	const uint8_t *bytes = *data;
	uint64_t offset = 0;

	if (!snap_codec_reads(codec) && codec->outside && bytes >= codec->outside &&
	    bytes < codec->outside + codec->outside_size)
		offset = (uint64_t)(bytes - codec->outside) + 1;
	snap_code_u64(codec, &offset);
	if (!snap_codec_reads(codec) || offset == 0)
		return offset != 0;
	offset--;
	if (offset % alignment != 0 || offset > codec->outside_size ||
	    length > codec->outside_size - offset) {
		snap_codec_refuse(codec, "invalid memory reference");
		return false;
	}
	*data = codec->outside + offset;
	return true;
}

/* Their alignment if an offset refers to them, else SNAP_CODEC_ALIGNMENT; 1: none. */
static void code_bytes(struct snap_codec *codec, void *pointer_to_data, size_t *size, uint64_t most,
		       size_t alignment)
{
	const void *data;
	uint64_t length;
	bool outside;

	memcpy(&data, pointer_to_data, sizeof(data));
	length = data ? SNAP_MIN(*size, most) : 0;
	snap_code_most(codec, &length, most);
	outside = length && codec->handed && code_outside(codec, &data, length, alignment);
	if (length && !outside && alignment > 1)
		code_padding(codec);
	if (!snap_codec_reads(codec)) {
		if (length && !outside)
			write_codec_bytes(codec, data, length);
		return;
	}
	if (!outside)
		data = length ? read_codec_bytes(codec, length) : NULL;
	*size = data ? (size_t)length : 0;
	memcpy(pointer_to_data, &data, sizeof(data));
}

void snap_code_bytes(struct snap_codec *codec, void *pointer_to_data, size_t *size, uint64_t most)
{
	code_bytes(codec, pointer_to_data, size, most, sizeof(uint64_t));
}

void snap_code_packed_bytes(struct snap_codec *codec, void *pointer_to_data, size_t *size,
			    uint64_t most)
{
	code_bytes(codec, pointer_to_data, size, most, 1);
}

void snap_code_numbers(struct snap_codec *codec, const uint64_t **numbers, size_t *count,
		       uint64_t most)
{
	uint64_t *array = (uint64_t *)(uintptr_t)*numbers;

	snap_code_array(codec, &array, count, most, sizeof(*array), sizeof(*array));
	for (size_t i = 0; i < *count; i++)
		snap_code_u64(codec, &array[i]);
	*numbers = array;
}

void snap_code_array(struct snap_codec *codec, void *pointer_to_array, size_t *count, uint64_t most,
		     size_t element_size, size_t least)
{
	uint64_t length = SNAP_MIN(*count, most);
	void *array = NULL;

	snap_code_most(codec, &length, most);
	if (!snap_codec_reads(codec) && *count > most)
		*count = most;
	if (!snap_codec_reads(codec))
		return;
	*count = 0;
	memcpy(pointer_to_array, &array, sizeof(array));
	/* A short file cannot ask for much memory. */
	if (codec->problem || length > (codec->size - codec->position) / least) {
		snap_codec_refuse(codec, CUT_OFF);
		return;
	}
	if (length == 0)
		return;
	array = snap_arena_array(codec->arena, (size_t)length, element_size);
	if (!array) {
		snap_codec_refuse_memory(codec);
		return;
	}
	memcpy(pointer_to_array, &array, sizeof(array));
	*count = (size_t)length;
}
