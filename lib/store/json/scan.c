/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads JSON as a stream: see scan.h. A NUL ends the bytes, so no step checks for their end. */
#include "store/json/scan.h"

#include "base/bsearch.h"
#include "base/bytes.h"
#include "base/escape.h"

#include <stdlib.h>
#include <string.h>

void snap_json_scan_deinit(struct snap_json_scan *scan)
{
	free(scan->keys);
	scan->keys = NULL;
	scan->key_count = scan->key_capacity = 0;
	snap_arena_deinit(&scan->decoded);
}

void snap_json_scan_begin(struct snap_json_scan *scan, const char *bytes)
{
	scan->at = bytes;
	scan->depth = 0;
	scan->started = scan->first = false;
	scan->why = NULL;
	scan->key_count = 0;
	if (scan->decoded.total)
		snap_arena_deinit(&scan->decoded);
}

static enum snap_json_token refuse_json(struct snap_json_scan *scan, const char *why)
{
	scan->why = why;
	return SNAP_JSON_BROKEN;
}

static const char *skip_blanks(const char *at)
{
	while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')
		at++;
	return at;
}

/* ---- strings ---- */

/* Printable ASCII, but the quote and the backslash. */
static bool is_plain(unsigned char byte)
{
	static const uint64_t plain[4] = {
		0xfffffffb00000000ull, /* 0x20 to 0x3f, without the quote */
		0x7fffffffefffffffull, /* 0x40 to 0x7e, without the backslash */
	};

	return plain[byte >> 6] >> (byte & 63) & 1;
}

/* The length of the UTF-8 sequence there, 0: it is none. */
static size_t utf8_length(const unsigned char *at)
{
	size_t length = at[0] < 0xc2   ? 0
			: at[0] < 0xe0 ? 2
			: at[0] < 0xf0 ? 3
			: at[0] < 0xf5 ? 4
				       : 0;

	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
	    (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	return length;
}

static int json_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four digits; -1: they are none. */
static int hex_at(const char *at)
{
	int number = 0;

	for (int i = 0; i < 4; i++) {
		int digit = json_hex_digit(at[i]);

		if (digit < 0)
			return -1;
		number = number << 4 | digit;
	}
	return number;
}

/* What "\uXXXX" at `at` says, two of them for what is beyond 16 bits; -1: no character. */
static int32_t code_at(const char *at, size_t *length_ret)
{
	int high = hex_at(at + 2), low;

	*length_ret = 6;
	if (high < 0xd800 || high > 0xdfff)
		return high;
	if (high > 0xdbff || at[6] != '\\' || at[7] != 'u')
		return -1;
	low = hex_at(at + 8);
	*length_ret = 12;
	return low < 0xdc00 || low > 0xdfff ? -1 : 0x10000 + (high - 0xd800) * 0x400 + low - 0xdc00;
}

/* The length of the escape at `at`, 0: there is no such; a NUL is none in our texts. */
static size_t escape_length(const char *at)
{
	size_t length;

	if (at[1] == 'u')
		return code_at(at, &length) > 0 ? length : 0;
	return at[1] && strchr("\"\\/bfnrt", at[1]) ? 2 : 0;
}

/* Behind an opening quote; NULL after a refusal. */
static const char *scan_string(struct snap_json_scan *scan, const char *at,
			       struct snap_json_span *span)
{
	*span = (struct snap_json_span){ .bytes = at, .plain = true };
	for (;;) {
		size_t length;

		while (is_plain((unsigned char)*at))
			at++;
		if (*at == '"')
			break;
		span->plain = false;
		if (*at == '\\') {
			span->escaped = true;
			length = escape_length(at);
		} else if (*at == 0x7f) {
			length = 1;
		} else {
			length = utf8_length((const unsigned char *)at);
		}
		if (!length) {
			scan->at = at;
			refuse_json(scan, (unsigned char)*at < 0x20 ? "a string without its end"
								    : "a string that is not valid");
			return NULL;
		}
		at += length;
	}
	span->length = (size_t)(at - span->bytes);
	return at + 1;
}

size_t snap_json_span_decode(const struct snap_json_span *span, char *out)
{
	static const char letters[] = "bfnrt", bytes[] = "\b\f\n\r\t";
	const char *at = span->bytes, *end = at + span->length, *letter;
	size_t done = 0, length;

	while (at < end) {
		if (*at != '\\') {
			out[done++] = *at++;
		} else if (at[1] == 'u') {
			done += snap_put_utf8((uint32_t)code_at(at, &length), out + done);
			at += length;
		} else {
			letter = strchr(letters, at[1]);
			out[done++] = letter ? bytes[letter - letters] : at[1];
			at += 2;
		}
	}
	return done;
}

/* ---- keys ---- */

enum { MOST_COMPARED = 64 }; /* keys of an object; of larger ones they are sorted at its end */

/* For the few keys of one object: not the hash of base/table.h, whose bytes would cost more. */
static uint64_t hash_key(const char *bytes, size_t length)
{
	uint64_t word = 0;

	if (length < sizeof(word)) {
		memcpy(&word, bytes, length);
		return snap_hash_mix(word ^ (uint64_t)length << 56);
	}
	return snap_hash_add(snap_u64_at(bytes) + length,
			     snap_u64_at(bytes + length - sizeof(word)));
}

SNAP_ORDER(compare_keys, struct snap_json_key, a, b, snap_compare(a->hash, b->hash),
	   snap_compare(a->length, b->length), memcmp(a->bytes, b->bytes, a->length));

/* The key as it is meant; false without memory. */
static bool make_key(struct snap_json_scan *scan, struct snap_json_key *key)
{
	*key = (struct snap_json_key){ .bytes = scan->key.bytes, .length = scan->key.length };
	if (scan->key.escaped) {
		char *decoded = snap_arena_alloc(&scan->decoded, scan->key.length);

		if (!decoded)
			return false;
		key->length = snap_json_span_decode(&scan->key, decoded);
		key->bytes = decoded;
	}
	key->hash = hash_key(key->bytes, key->length);
	return true;
}

/* False: it is there already, or there is no memory. */
static bool add_key(struct snap_json_scan *scan)
{
	size_t base = scan->bases[scan->depth];
	struct snap_json_key key;
	uint64_t bit;

	if (!make_key(scan, &key) ||
	    !snap_reserve_array(scan->keys, scan->key_capacity, scan->key_count + 1)) {
		refuse_json(scan, "too many keys for the memory there is");
		return false;
	}
	bit = 1ull << (key.hash & 63);
	if (scan->seen[scan->depth] & bit && scan->key_count - base < MOST_COMPARED)
		for (size_t i = base; i < scan->key_count; i++)
			if (compare_keys(&scan->keys[i], &key) == 0) {
				refuse_json(scan, "a key that comes twice");
				return false;
			}
	scan->seen[scan->depth] |= bit;
	scan->keys[scan->key_count++] = key;
	return true;
}

/* The end of an object: false if keys that were too many to compare are not distinct. */
static bool end_keys(struct snap_json_scan *scan)
{
	size_t base = scan->bases[scan->depth], count = scan->key_count - base;
	struct snap_json_key *keys = scan->keys + base;

	scan->key_count = base;
	if (count <= MOST_COMPARED)
		return true;
	qsort(keys, count, sizeof(*keys), compare_keys);
	for (size_t i = 1; i < count; i++)
		if (compare_keys(&keys[i - 1], &keys[i]) == 0) {
			refuse_json(scan, "a key that comes twice");
			return false;
		}
	return true;
}

/* ---- numbers ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * Whether a number is more than a double holds. The decimal point is left out, as it may be another
 * sign in the caller's locale.
 */
static bool is_too_large(const char *at, const char *end)
{
	enum { DIGITS = 800, LARGEST = 308 };
	char text[DIGITS + 32];
	int64_t before = 0, exponent = 0;
	size_t count = 0;
	bool point = false, negative;

	for (; at < end && (*at | 0x20) != 'e'; at++) {
		if (*at == '.')
			point = true;
		if (!is_digit(*at) || (count == 0 && *at == '0' && !point))
			continue;
		if (count == 0 && *at == '0') {
			before--; /* 0.0001 */
			continue;
		}
		before += !point;
		if (count < DIGITS)
			text[count++] = *at;
	}
	if (count == 0)
		return false;
	if (at < end) {
		negative = *++at == '-';
		for (at += *at == '-' || *at == '+'; at < end; at++)
			exponent = exponent < INT32_MAX ? exponent * 10 + (*at - '0') : exponent;
		before += negative ? -exponent : exponent;
	}
	if (before <= LARGEST || before > LARGEST + 1)
		return before > LARGEST;
	snprintf(text + count, 32, "e%d", LARGEST + 1 - (int)count);
	return strtod(text, NULL) > 1.7976931348623157e308;
}

static enum snap_json_token scan_integer(struct snap_json_scan *scan, const char *begin,
					 const char *end)
{
	bool negative = *begin == '-';
	int64_t number = 0;

	for (const char *at = begin + negative; at < end; at++) {
		int digit = *at - '0';

		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, negative ? -digit : digit, &number))
			return refuse_json(scan, "a number that is too large");
	}
	scan->integer = number;
	scan->at = end;
	return SNAP_JSON_INTEGER;
}

static const char *skip_digits(const char *at)
{
	while (is_digit(*at))
		at++;
	return at;
}

static enum snap_json_token scan_number(struct snap_json_scan *scan, const char *begin)
{
	const char *at = begin + (*begin == '-'), *digits = at;
	bool real = false;

	at = *at == '0' ? at + 1 : skip_digits(at);
	if (at == digits || is_digit(*at))
		return refuse_json(scan, "a value that is none");
	if (*at == '.') {
		real = true;
		digits = ++at;
		at = skip_digits(at);
	}
	if (at > digits && (*at | 0x20) == 'e') {
		real = true;
		at += at[1] == '+' || at[1] == '-' ? 2 : 1;
		digits = at;
		at = skip_digits(at);
	}
	if (at == digits)
		return refuse_json(scan, "a number without its end");
	if (!real)
		return scan_integer(scan, begin, at);
	if (is_too_large(begin, at))
		return refuse_json(scan, "a number that is too large");
	scan->at = at;
	return SNAP_JSON_REAL;
}

/* ---- values ---- */

static enum snap_json_token scan_word(struct snap_json_scan *scan, const char *at, const char *word,
				      enum snap_json_token token)
{
	size_t length = strlen(word);

	if (strncmp(at, word, length) != 0)
		return refuse_json(scan, "a value that is none");
	scan->at = at + length;
	return token;
}

static enum snap_json_token enter_json(struct snap_json_scan *scan, const char *at, bool object)
{
	if (scan->depth == SNAP_JSON_DEEPEST)
		return refuse_json(scan, "too many values in each other");
	scan->depth++;
	scan->in_object[scan->depth] = object;
	scan->bases[scan->depth] = scan->key_count;
	scan->seen[scan->depth] = 0;
	scan->first = true;
	scan->at = at + 1;
	return object ? SNAP_JSON_OBJECT : SNAP_JSON_ARRAY;
}

static enum snap_json_token leave_json(struct snap_json_scan *scan, const char *at)
{
	bool object = scan->in_object[scan->depth];

	if (object && !end_keys(scan))
		return SNAP_JSON_BROKEN;
	scan->depth--;
	scan->first = false;
	scan->at = at + 1;
	return object ? SNAP_JSON_OBJECT_END : SNAP_JSON_ARRAY_END;
}

static enum snap_json_token scan_value(struct snap_json_scan *scan, const char *at)
{
	scan->at = at;
	if (*at == '{' || *at == '[')
		return enter_json(scan, at, *at == '{');
	if (scan->depth == SNAP_JSON_DEEPEST)
		return refuse_json(scan, "too many values in each other");
	scan->first = false;
	switch (*at) {
	case '"':
		at = scan_string(scan, at + 1, &scan->text);
		if (!at)
			return SNAP_JSON_BROKEN;
		scan->at = at;
		return SNAP_JSON_STRING;
	case 't':
		return scan_word(scan, at, "true", SNAP_JSON_TRUE);
	case 'f':
		return scan_word(scan, at, "false", SNAP_JSON_FALSE);
	case 'n':
		return scan_word(scan, at, "null", SNAP_JSON_NULL);
	case '\0':
		return refuse_json(scan, "the document ends in the middle");
	default:
		return scan_number(scan, at);
	}
}

/* A key and its colon; NULL after a refusal. */
static const char *scan_key(struct snap_json_scan *scan, const char *at)
{
	scan->at = at;
	if (*at != '"') {
		refuse_json(scan,
			    *at ? "no key where one must be" : "the document ends in the middle");
		return NULL;
	}
	at = scan_string(scan, at + 1, &scan->key);
	if (!at || !add_key(scan))
		return NULL;
	at = skip_blanks(at);
	if (*at != ':') {
		scan->at = at;
		refuse_json(scan,
			    *at ? "no colon behind a key" : "the document ends in the middle");
		return NULL;
	}
	return skip_blanks(at + 1);
}

enum snap_json_token snap_json_scan_next(struct snap_json_scan *scan)
{
	const char *at;

	if (scan->why)
		return SNAP_JSON_BROKEN;
	if (scan->depth == 0 && scan->started)
		return SNAP_JSON_DONE;
	at = skip_blanks(scan->at);
	if (scan->depth == 0) {
		scan->started = true;
		scan->at = at;
		return *at == '{' || *at == '[' ? scan_value(scan, at)
						: refuse_json(scan, "not a JSON document");
	}
	if (*at == (scan->in_object[scan->depth] ? '}' : ']'))
		return leave_json(scan, at);
	if (!scan->first) {
		scan->at = at;
		if (*at != ',')
			return refuse_json(scan, *at ? "no comma between two values"
						     : "the document ends in the middle");
		at = skip_blanks(at + 1);
	}
	if (scan->in_object[scan->depth]) {
		at = scan_key(scan, at);
		if (!at)
			return SNAP_JSON_BROKEN;
	}
	return scan_value(scan, at);
}
