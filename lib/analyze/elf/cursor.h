/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads bytes that may be wrong on purpose: a cursor never moves past its end. A read past the end
 * returns 0, leaves the cursor at its end and marks it as failed, so that loops stop. Little-endian
 * only, like the images. Knows how DWARF writes numbers, texts and lengths of units, and nothing of
 * their meaning.
 */
#pragma once

#include "analyze/elf/image.h"

#include <string.h>

struct snap_cursor {
	const uint8_t *p, *end;
	bool failed;
};

/* The bytes of a section from `offset` on. */
static inline struct snap_cursor snap_cursor_at(struct snap_bytes bytes, uint64_t offset)
{
	if (offset > bytes.size || !bytes.data)
		return (struct snap_cursor){ .failed = offset > 0 };
	return (struct snap_cursor){ bytes.data + offset, bytes.data + bytes.size, false };
}

static inline size_t snap_cursor_left(const struct snap_cursor *cursor)
{
	return (size_t)(cursor->end - cursor->p);
}

static inline void snap_cursor_fail(struct snap_cursor *cursor)
{
	cursor->p = cursor->end;
	cursor->failed = true;
}

static inline void snap_cursor_skip(struct snap_cursor *cursor, uint64_t size)
{
	if (size > snap_cursor_left(cursor))
		snap_cursor_fail(cursor);
	else
		cursor->p += size;
}

/* A number of 1 to 8 bytes. */
static inline uint64_t snap_cursor_number(struct snap_cursor *cursor, unsigned size)
{
	uint64_t value = 0;

	if (size > snap_cursor_left(cursor) || size > sizeof(value)) {
		snap_cursor_fail(cursor);
		return 0;
	}
	memcpy(&value, cursor->p, size);
	cursor->p += size;
	return value;
}

static inline uint8_t snap_cursor_u8(struct snap_cursor *cursor)
{
	if (cursor->p == cursor->end) {
		cursor->failed = true;
		return 0;
	}
	return *cursor->p++;
}

static inline uint16_t snap_cursor_u16(struct snap_cursor *cursor)
{
	return (uint16_t)snap_cursor_number(cursor, 2);
}

static inline uint32_t snap_cursor_u32(struct snap_cursor *cursor)
{
	return (uint32_t)snap_cursor_number(cursor, 4);
}

static inline uint64_t snap_cursor_u64(struct snap_cursor *cursor)
{
	return snap_cursor_number(cursor, 8);
}

/* Bits beyond the 64th are dropped: no honest number has them. */
static inline uint64_t snap_cursor_uleb(struct snap_cursor *cursor)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t byte = snap_cursor_u8(cursor);

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static inline int64_t snap_cursor_sleb(struct snap_cursor *cursor)
{
	uint64_t value = 0;

	for (unsigned shift = 0;;) {
		uint8_t byte = snap_cursor_u8(cursor);

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (shift < 64 && byte & 0x40)
			value |= ~0ull << shift;
		return (int64_t)value;
	}
}

/* A string that ends inside the bytes; NULL if it does not. */
static inline const char *snap_cursor_string(struct snap_cursor *cursor)
{
	const uint8_t *start = cursor->p, *nul;

	nul = start == cursor->end ? NULL : memchr(start, 0, snap_cursor_left(cursor));
	if (!nul) {
		snap_cursor_fail(cursor);
		return NULL;
	}
	cursor->p = nul + 1;
	return (const char *)start;
}

/*
 * The length at the start of a DWARF unit or table: `*offset_size_ret` gets 4 or 8. The cursor's
 * end becomes the unit's end; false: it does not fit.
 */
static inline bool snap_cursor_enter(struct snap_cursor *cursor, unsigned *offset_size_ret)
{
	uint64_t length = snap_cursor_u32(cursor);

	*offset_size_ret = 4;
	if (length == 0xffffffff) {
		length = snap_cursor_u64(cursor);
		*offset_size_ret = 8;
	}
	if (cursor->failed || length == 0 || length > snap_cursor_left(cursor))
		return false;
	cursor->end = cursor->p + length;
	return true;
}
