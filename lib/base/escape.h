/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Escapes text that came from a target; there is no other function for that.
 *
 * A thread name, path, argument or symbol is hostile: it may hold terminal controls, bidirectional
 * overrides or bytes that are no UTF-8. Escaped text is valid UTF-8 without any of these, and
 * lossless: what is escaped stands as \xNN byte by byte, a backslash as \\. Knows nothing of
 * terminals or formats.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum snap_escape_flags {
	SNAP_ESCAPE_ASCII = 1 << 0,     /* every byte above 0x7e too: a locale that is not UTF-8 */
	SNAP_ESCAPE_SEMICOLON = 1 << 1, /* ';' too: the separator of folded stacks */
};

/*
 * Writes the escaped form of `length` bytes to `out`, NUL-terminated, and returns its length
 * without the NUL. Never writes more than `size` bytes; what does not fit is left out, at a
 * boundary of characters. A result below `size` is whole. `size` of 4 * length + 1 always
 * suffices. `flags`: enum snap_escape_flags.
 */
size_t snap_escape(const char *bytes, size_t length, unsigned flags, char *out, size_t size);

/* Whether escaping would change nothing: then the bytes can be printed as they are. */
bool snap_escape_is_clean(const char *bytes, size_t length, unsigned flags);

/*
 * How much of a text stays where at most `max` bytes are kept: less than that by what would be the
 * beginning of a UTF-8 sequence without its end. For a text that ends at its NUL, strnlen(text,
 * max + 4) is a length that is enough.
 */
size_t snap_text_cut(const char *text, size_t length, size_t max);

/*
 * The bytes of the unit of escaped text that begins at `text`, at most `length`: a character, or an
 * escape. Escaped text may be cut between units only. 0 where the text ends.
 */
size_t snap_escape_unit(const char *text, size_t length);

/*
 * The way back: `out` gets at most `length` bytes plus a NUL; returns the number of bytes.
 * Malformed escapes are copied as they stand.
 */
size_t snap_unescape(const char *text, size_t length, char *out);

/* Writes the UTF-8 of a code point up to U+10FFFF that is no surrogate; 1 to 4 bytes. */
size_t snap_put_utf8(uint32_t code, char *out);
