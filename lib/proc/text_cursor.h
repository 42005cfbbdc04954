/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A cursor over bounded bytes of a text of the kernel's, for the parsers of this folder.
 *
 * Nothing relies on a terminating NUL or reads a locale. Each function reads the item of its name and
 * moves the cursor behind it, or returns false; then the cursor may have moved to where the text was
 * wrong. Knows no text.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct snap_text_cursor {
	const char *at, *end;
};

static inline bool snap_take_char(struct snap_text_cursor *cursor, char c)
{
	if (cursor->at == cursor->end || *cursor->at != c)
		return false;
	cursor->at++;
	return true;
}

static inline void snap_skip_blanks(struct snap_text_cursor *cursor)
{
	while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\t'))
		cursor->at++;
}

/* Capital letters as well: /proc/net writes addresses so. */
static inline int snap_digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : INT_MAX;
}

/* At least one digit; a number that does not fit is refused. */
static inline bool snap_take_number(struct snap_text_cursor *cursor, int base, uint64_t *ret)
{
	const char *first = cursor->at;
	uint64_t value = 0;

	while (cursor->at < cursor->end && snap_digit_value(*cursor->at) < base) {
		if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)snap_digit_value(*cursor->at), &value))
			return false;
		cursor->at++;
	}
	*ret = value;
	return cursor->at != first;
}

static inline bool snap_take_limited(struct snap_text_cursor *cursor, uint64_t limit, uint64_t *ret)
{
	return snap_take_number(cursor, 10, ret) && *ret <= limit;
}

/* A decimal number that may have a sign. */
static inline bool snap_take_signed(struct snap_text_cursor *cursor, int64_t *ret)
{
	bool negative = snap_take_char(cursor, '-');
	uint64_t value;

	if (!snap_take_limited(cursor, INT64_MAX, &value))
		return false;
	*ret = negative ? -(int64_t)value : (int64_t)value;
	return true;
}

/* A word, and the blanks behind it; only whole or not at all. */
static inline bool snap_take_key(struct snap_text_cursor *cursor, const char *key)
{
	size_t length = strlen(key);

	if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, key, length) != 0)
		return false;
	cursor->at += length;
	snap_skip_blanks(cursor);
	return true;
}

/* "08:01": major and minor in hexadecimal. */
static inline bool snap_take_device(struct snap_text_cursor *cursor, uint32_t *major_ret,
				    uint32_t *minor_ret)
{
	uint64_t major_number, minor_number;

	if (!snap_take_number(cursor, 16, &major_number) || !snap_take_char(cursor, ':') ||
	    !snap_take_number(cursor, 16, &minor_number) || major_number > UINT32_MAX ||
	    minor_number > UINT32_MAX)
		return false;
	*major_ret = (uint32_t)major_number;
	*minor_ret = (uint32_t)minor_number;
	return true;
}
