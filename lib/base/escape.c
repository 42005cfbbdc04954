/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Escaping: see escape.h. These are escaped, as stacksnap-json(5) says: C0, DEL, C1,
 * U+061C, U+200E-U+200F, U+2028-U+202E, U+2066-U+2069, U+FEFF, noncharacters, and bytes that are
 * not UTF-8.
 */
#include "base/escape.h"

#include <stdint.h>
#include <string.h>

size_t snap_put_utf8(uint32_t code, char *out)
{
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		out[0] = (char)(0xc0 | code >> 6);
		out[1] = (char)(0x80 | (code & 63));
		return 2;
	}
	if (code < 0x10000) {
		out[0] = (char)(0xe0 | code >> 12);
		out[1] = (char)(0x80 | (code >> 6 & 63));
		out[2] = (char)(0x80 | (code & 63));
		return 3;
	}
	out[0] = (char)(0xf0 | code >> 18);
	out[1] = (char)(0x80 | (code >> 12 & 63));
	out[2] = (char)(0x80 | (code >> 6 & 63));
	out[3] = (char)(0x80 | (code & 63));
	return 4;
}

/*
 * Length of the well-formed UTF-8 sequence at `p` and its code point (Unicode 15, table 3-7: no
 * overlong forms, no surrogates, nothing above U+10FFFF); 0 if there is none.
 */
static size_t decode_utf8(const unsigned char *p, size_t left, uint32_t *code_ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = p[0] < 0x80   ? 1
			: p[0] < 0xc2 ? 0
			: p[0] < 0xe0 ? 2
			: p[0] < 0xf0 ? 3
			: p[0] < 0xf5 ? 4
				      : 0;
	uint32_t code;

	if (length == 0 || length > left)
		return 0;
	code = length == 1 ? p[0] : p[0] & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*code_ret = code;
	return length;
}

static bool is_forbidden(uint32_t code, unsigned flags)
{
	if (code < 0x20 || code == '\\' || (code >= 0x7f && code <= 0x9f))
		return true;
	if (code < 0x7f)
		return code == ';' && (flags & SNAP_ESCAPE_SEMICOLON);
	if (flags & SNAP_ESCAPE_ASCII)
		return true;
	return code == 0x61c || code == 0x200e || code == 0x200f ||
	       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
	       code == 0xfeff || (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
}

/* The escaped form of `length` bytes that may not stand as they are. */
static size_t escape_bytes(const unsigned char *p, size_t length, char *out)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = 0;

	if (length == 1 && p[0] == '\\') {
		memcpy(out, "\\\\", 2);
		return 2;
	}
	for (size_t i = 0; i < length; i++) {
		out[n++] = '\\';
		out[n++] = 'x';
		out[n++] = digits[p[i] >> 4];
		out[n++] = digits[p[i] & 15];
	}
	return n;
}

size_t snap_escape(const char *bytes, size_t length, unsigned flags, char *out, size_t size)
{
	const unsigned char *p = (const unsigned char *)bytes;
	size_t n = 0;

	if (size == 0)
		return 0;
	for (size_t i = 0; i < length;) {
		uint32_t code = 0;
		size_t k = decode_utf8(p + i, length - i, &code), taken = k ? k : 1, made;
		char piece[16];

		if (k && !is_forbidden(code, flags)) {
			memcpy(piece, p + i, k);
			made = k;
		} else {
			made = escape_bytes(p + i, taken, piece);
		}
		if (n + made >= size)
			break;
		memcpy(out + n, piece, made);
		n += made;
		i += taken;
	}
	out[n] = '\0';
	return n;
}

/* Each byte of a word, with its highest bit clear, that is below `least`, or equal to `byte`. */
static uint64_t has_less(uint64_t word, uint8_t least)
{
	const uint64_t ones = ~(uint64_t)0 / 255;

	return (word - ones * least) & ~word & ones << 7;
}

static uint64_t has_byte(uint64_t word, uint8_t byte)
{
	return has_less(word ^ (~(uint64_t)0 / 255) * byte, 1);
}

/* Eight bytes of ASCII that may all stand as they are. */
static bool is_plain_word(uint64_t word, unsigned flags)
{
	return !(word & (~(uint64_t)0 / 255) << 7) && !has_less(word, 0x20) &&
	       !has_byte(word, '\\') && !has_byte(word, 0x7f) &&
	       !(flags & SNAP_ESCAPE_SEMICOLON && has_byte(word, ';'));
}

/* As most of what is asked about is. */
static bool is_plain(const char *bytes, size_t length, unsigned flags)
{
	uint64_t word;

	for (; length >= sizeof(word); bytes += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		if (!is_plain_word(word, flags))
			return false;
	}
	memset(&word, ' ', sizeof(word));
	memcpy(&word, bytes, length);
	return is_plain_word(word, flags);
}

bool snap_escape_is_clean(const char *bytes, size_t length, unsigned flags)
{
	const unsigned char *p = (const unsigned char *)bytes;

	if (is_plain(bytes, length, flags))
		return true;
	for (size_t i = 0; i < length;) {
		uint32_t code = 0;
		size_t k = decode_utf8(p + i, length - i, &code);

		if (k == 0 || is_forbidden(code, flags))
			return false;
		i += k;
	}
	return true;
}

size_t snap_text_cut(const char *text, size_t length, size_t max)
{
	uint32_t code;

	if (length <= max)
		return length;
	for (size_t back = 1; back < 4 && back <= max; back++) {
		size_t at = max - back;

		if (decode_utf8((const unsigned char *)text + at, length - at, &code) > back)
			return at;
	}
	return max;
}

static int escape_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_escape(const char *text, size_t length)
{
	return length >= 4 && text[0] == '\\' && text[1] == 'x' && escape_hex_digit(text[2]) >= 0 &&
	       escape_hex_digit(text[3]) >= 0;
}

size_t snap_escape_unit(const char *text, size_t length)
{
	uint32_t code;
	size_t k;

	if (length == 0)
		return 0;
	if (length >= 2 && text[0] == '\\' && text[1] == '\\')
		return 2;
	if (is_escape(text, length))
		return 4;
	k = decode_utf8((const unsigned char *)text, length, &code);
	return k ? k : 1;
}

size_t snap_unescape(const char *text, size_t length, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\\' && i + 1 < length && text[i + 1] == '\\') {
			out[n++] = '\\';
			i++;
		} else if (is_escape(text + i, length - i)) {
			out[n++] = (char)(escape_hex_digit(text[i + 2]) << 4 |
					  escape_hex_digit(text[i + 3]));
			i += 3;
		} else {
			out[n++] = text[i];
		}
	}
	out[n] = '\0';
	return n;
}
