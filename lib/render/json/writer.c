/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* JSON as a stream: see writer.h. */
#include "render/json/writer.h"

#include "base/escape.h"
#include "render/view/when.h"

#include <inttypes.h>
#include <string.h>

/* ---- bytes ---- */

static void write_to_file(void *context, const char *bytes, size_t size)
{
	fwrite_unlocked(bytes, 1, size, context);
}

static void write_to_buffer(void *context, const char *bytes, size_t size)
{
	snap_buffer_add(context, bytes, size);
}

struct snap_json_writer *snap_json_writer_create_to(void (*write)(void *, const char *, size_t),
						    void *context, enum snap_json_style style)
{
	struct snap_json_writer *json = malloc(sizeof(*json));

	if (!json)
		return NULL;
	json->write = write;
	json->context = context;
	json->style = style;
	json->begun = json->newline = json->failed = false;
	json->used = 0;
	return json;
}

struct snap_json_writer *snap_json_writer_create(FILE *out, enum snap_json_style style)
{
	return snap_json_writer_create_to(write_to_file, out, style);
}

struct snap_json_writer *snap_json_writer_create_in(struct snap_buffer *buffer,
						    enum snap_json_style style)
{
	return snap_json_writer_create_to(write_to_buffer, buffer, style);
}

void snap_json_writer_destroy(struct snap_json_writer *json)
{
	free(json);
}

static void flush_bytes(struct snap_json_writer *json)
{
	if (json->used)
		json->write(json->context, json->buffer, json->used);
	json->used = 0;
}

void snap_json_flush(struct snap_json_writer *json)
{
	flush_bytes(json);
	json->begun = json->newline = false;
}

static void put_bytes(struct snap_json_writer *json, const char *bytes, size_t size)
{
	if (size > SNAP_JSON_BUFFER - json->used) {
		flush_bytes(json);
		if (size > SNAP_JSON_BUFFER) {
			json->write(json->context, bytes, size);
			return;
		}
	}
	memcpy(json->buffer + json->used, bytes, size);
	json->used += size;
}

/* Where to write up to `size` bytes, at most SNAP_JSON_BUFFER; end_bytes() tells where they end. */
static inline char *begin_bytes(struct snap_json_writer *json, size_t size)
{
	if (size > SNAP_JSON_BUFFER - json->used)
		flush_bytes(json);
	return json->buffer + json->used;
}

static inline void end_bytes(struct snap_json_writer *json, const char *end)
{
	json->used = (size_t)(end - json->buffer);
}

static inline void put_byte(struct snap_json_writer *json, char byte)
{
	char *at = begin_bytes(json, 1);

	*at = byte;
	json->used++;
}

/* ---- between values ---- */

enum { LONGEST_KEY = 64, SHORT_TEXT = 128 };

/*
 * Writes all in front of a value: the comma, the blank or the line break, the key. Returns where
 * the value goes, for which there are `size` bytes.
 */
static inline char *begin_value(struct snap_json_writer *json, const char *key, size_t size)
{
	char *at = begin_bytes(json, LONGEST_KEY + 8 + size), *limit = at + LONGEST_KEY;

	if (json->begun)
		*at++ = ',';
	if (json->newline)
		*at++ = '\n';
	else if (json->begun && json->style != SNAP_JSON_COMPACT)
		*at++ = ' ';
	json->begun = true;
	json->newline = false;
	if (!key)
		return at;
	*at++ = '"';
	while (*key && at < limit)
		*at++ = *key++;
	*at++ = '"';
	*at++ = ':';
	if (json->style != SNAP_JSON_COMPACT)
		*at++ = ' ';
	return at;
}

void snap_json_begin(struct snap_json_writer *json, const char *key, char bracket)
{
	char *at = begin_value(json, key, 1);

	*at++ = bracket;
	end_bytes(json, at);
	json->begun = false;
}

void snap_json_end(struct snap_json_writer *json, char bracket)
{
	char *at = begin_bytes(json, 2);

	if (json->newline)
		*at++ = '\n';
	*at++ = bracket;
	end_bytes(json, at);
	json->newline = false;
	json->begun = true;
}

void snap_json_line(struct snap_json_writer *json)
{
	json->newline = json->style != SNAP_JSON_ONE_LINE;
}

void snap_json_begin_line(struct snap_json_writer *json, const char *key, char bracket)
{
	snap_json_line(json);
	snap_json_begin(json, key, bracket);
}

void snap_json_end_document(struct snap_json_writer *json)
{
	put_byte(json, '\n');
	json->begun = false;
}

/* ---- values ---- */

void snap_json_bytes(struct snap_json_writer *json, const char *key, const char *bytes, size_t size)
{
	end_bytes(json, begin_value(json, key, 0));
	put_bytes(json, bytes, size);
}

void snap_json_raw(struct snap_json_writer *json, const char *key, const char *text)
{
	snap_json_bytes(json, key, text, strlen(text));
}

void snap_json_bool(struct snap_json_writer *json, const char *key, bool value)
{
	snap_json_raw(json, key, value ? "true" : "false");
}

void snap_json_null(struct snap_json_writer *json, const char *key)
{
	snap_json_raw(json, key, "null");
}

/* Most texts are short, and hold nothing that is to be escaped once more. */
static bool put_short(struct snap_json_writer *json, const char *key, const char *text,
		      size_t length)
{
	char *at;

	if (length > SHORT_TEXT || memchr(text, '"', length) || memchr(text, '\\', length))
		return false;
	at = begin_value(json, key, length + 2);
	*at++ = '"';
	memcpy(at, text, length);
	at += length;
	*at++ = '"';
	end_bytes(json, at);
	return true;
}

void snap_json_clean(struct snap_json_writer *json, const char *key, const char *text)
{
	char *at;

	if (put_short(json, key, text, strlen(text)))
		return;
	at = begin_value(json, key, 1);
	*at++ = '"';
	end_bytes(json, at);
	/* Escaped text holds no control characters: quotes and backslashes are all there is. */
	while (*text) {
		size_t plain = strcspn(text, "\"\\");

		put_bytes(json, text, plain);
		text += plain;
		if (*text) {
			put_byte(json, '\\');
			put_byte(json, *text++);
		}
	}
	put_byte(json, '"');
}

void snap_json_text(struct snap_json_writer *json, const char *key, const char *text)
{
	_cleanup_free_ char *escaped = NULL;
	size_t length = text ? strlen(text) : 0;

	if (!text || snap_escape_is_clean(text, length, 0)) {
		snap_json_clean(json, key, text ? text : "");
		return;
	}
	escaped = malloc(4 * length + 1);
	if (escaped)
		snap_escape(text, length, 0, escaped, 4 * length + 1);
	else
		json->failed = true;
	snap_json_clean(json, key, escaped ? escaped : "");
}

void snap_json_label(struct snap_json_writer *json, const char *key, const char *value)
{
	snap_json_text(json, NULL, key);
	put_bytes(json, ": ", json->style == SNAP_JSON_COMPACT ? 1 : 2);
	json->begun = false;
	snap_json_text(json, NULL, value);
}

enum { LONGEST_NUMBER = 21 };

static char *write_unsigned(char *at, uint64_t number)
{
	char digits[20];
	size_t first = sizeof(digits);

	do
		digits[--first] = (char)('0' + number % 10);
	while (number /= 10);
	memcpy(at, digits + first, sizeof(digits) - first);
	return at + (sizeof(digits) - first);
}

/* Writes the sign at *at, behind which it then points; returns the absolute value. */
static uint64_t write_sign(char **at, int64_t number)
{
	if (number >= 0)
		return (uint64_t)number;
	*(*at)++ = '-';
	return -(uint64_t)number;
}

void snap_json_number(struct snap_json_writer *json, const char *key, int64_t number)
{
	char *at = begin_value(json, key, LONGEST_NUMBER);
	uint64_t rest = write_sign(&at, number);

	end_bytes(json, write_unsigned(at, rest));
}

void snap_json_hex(struct snap_json_writer *json, const char *key, uint64_t number)
{
	char *at = begin_value(json, key, LONGEST_NUMBER);

	end_bytes(json, at + sprintf(at, "\"0x%" PRIx64 "\"", number));
}

void snap_json_decimal(struct snap_json_writer *json, const char *key, int64_t number, int decimals)
{
	char *at = begin_value(json, key, LONGEST_NUMBER + 1), *end;
	uint64_t rest = write_sign(&at, number), unit = 1;

	for (int i = 0; i < decimals; i++)
		unit *= 10;
	end = at = write_unsigned(at, rest / unit);
	rest %= unit;
	for (*at++ = '.'; rest; rest %= unit) {
		unit /= 10;
		*at++ = (char)('0' + rest / unit);
		end = at;
	}
	end_bytes(json, end);
}

/* ---- values that may be absent ---- */

void snap_json_text_if(struct snap_json_writer *json, const char *key, const char *text)
{
	if (text && *text)
		snap_json_text(json, key, text);
}

void snap_json_number_if(struct snap_json_writer *json, const char *key, int64_t number)
{
	if (number)
		snap_json_number(json, key, number);
}

void snap_json_true_if(struct snap_json_writer *json, const char *key, bool value)
{
	if (value)
		snap_json_bool(json, key, true);
}

void snap_json_time(struct snap_json_writer *json, const char *key, int64_t ns)
{
	char text[SNAP_WHEN_SIZE];

	snap_when(ns, 'T', 9, text);
	snap_json_clean(json, key, text);
}

void snap_json_time_if(struct snap_json_writer *json, const char *key, int64_t ns)
{
	if (ns)
		snap_json_time(json, key, ns);
}
