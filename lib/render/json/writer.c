/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* JSON as a stream: see writer.h. */
#include "render/json/writer.h"

#include "base/escape.h"

#include <string.h>

static void write_file(void *context, const char *bytes, size_t size)
{
	fwrite_unlocked(bytes, 1, size, context);
}

struct snap_json_out *snap_json_out_create_to(void (*write)(void *, const char *, size_t),
					      void *context)
{
	struct snap_json_out *json = malloc(sizeof(*json));

	if (!json)
		return NULL;
	json->write = write;
	json->context = context;
	json->used = 0;
	json->failed = false;
	return json;
}

struct snap_json_out *snap_json_out_create(FILE *out)
{
	return snap_json_out_create_to(write_file, out);
}

void snap_json_out_destroy(struct snap_json_out *json)
{
	free(json);
}

void snap_json_out_flush(struct snap_json_out *json)
{
	if (json->used)
		json->write(json->context, json->buffer, json->used);
	json->used = 0;
}

void snap_json_out_bytes(struct snap_json_out *json, const char *bytes, size_t size)
{
	if (size > SNAP_JSON_OUT_BUFFER - json->used) {
		snap_json_out_flush(json);
		if (size > SNAP_JSON_OUT_BUFFER) {
			json->write(json->context, bytes, size);
			return;
		}
	}
	memcpy(json->buffer + json->used, bytes, size);
	json->used += size;
}

void snap_json_out_raw(struct snap_json_out *json, const char *text)
{
	snap_json_out_bytes(json, text, strlen(text));
}

void snap_json_out_clean(struct snap_json_out *json, const char *text)
{
	snap_json_out_bytes(json, "\"", 1);
	/* Escaped text holds no control characters: quotes and backslashes are all there is. */
	while (*text) {
		size_t plain = strcspn(text, "\"\\");

		snap_json_out_bytes(json, text, plain);
		text += plain;
		if (*text) {
			snap_json_out_bytes(json, "\\", 1);
			snap_json_out_bytes(json, text++, 1);
		}
	}
	snap_json_out_bytes(json, "\"", 1);
}

void snap_json_out_text(struct snap_json_out *json, const char *text)
{
	_cleanup_free_ char *escaped = NULL;
	size_t length = text ? strlen(text) : 0;

	if (!text || snap_escape_is_clean(text, length, 0)) {
		snap_json_out_clean(json, text ? text : "");
		return;
	}
	escaped = malloc(4 * length + 1);
	if (!escaped) {
		json->failed = true;
		snap_json_out_raw(json, "\"\"");
		return;
	}
	snap_escape(text, length, 0, escaped, 4 * length + 1);
	snap_json_out_clean(json, escaped);
}

static void put_unsigned(struct snap_json_out *json, uint64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + number % 10);
	while (number /= 10);
	snap_json_out_bytes(json, digits + at, sizeof(digits) - at);
}

static uint64_t put_sign(struct snap_json_out *json, int64_t number)
{
	if (number >= 0)
		return (uint64_t)number;
	snap_json_out_bytes(json, "-", 1);
	return -(uint64_t)number;
}

void snap_json_out_number(struct snap_json_out *json, int64_t number)
{
	put_unsigned(json, put_sign(json, number));
}

void snap_json_out_hex(struct snap_json_out *json, uint64_t number)
{
	static const char digits[] = "0123456789abcdef";
	char text[21];
	size_t at = sizeof(text);

	text[--at] = '"';
	do
		text[--at] = digits[number & 15];
	while (number >>= 4);
	text[--at] = 'x';
	text[--at] = '0';
	text[--at] = '"';
	snap_json_out_bytes(json, text + at, sizeof(text) - at);
}

void snap_json_out_decimal(struct snap_json_out *json, int64_t number, int decimals)
{
	uint64_t rest = put_sign(json, number), unit = 1;
	char digits[10] = ".";
	int last = 0;

	for (int i = 0; i < decimals; i++)
		unit *= 10;
	put_unsigned(json, rest / unit);
	rest %= unit;
	for (int i = 1; i <= decimals; i++) {
		unit /= 10;
		digits[i] = (char)('0' + rest / unit % 10);
		if (digits[i] != '0')
			last = i;
	}
	if (last)
		snap_json_out_bytes(json, digits, (size_t)last + 1);
}
