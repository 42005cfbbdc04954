/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes parts of merged documents in their one form: see canon.h. */
#include "merge/canon.h"

#include "base/escape.h"

#include <string.h>

void snap_merge_canon_deinit(struct snap_merge_canon *canon)
{
	snap_buffer_deinit(&canon->decoded);
	snap_buffer_deinit(&canon->raw);
}

static bool refuse_entry(struct snap_merge_canon *canon, const char *wrong)
{
	canon->wrong = wrong;
	return false;
}

const char *snap_merge_canon_raw(struct snap_merge_canon *canon, const struct snap_json_span *span,
				 size_t most, size_t *length_ret)
{
	size_t length;
	char *decoded, *raw;

	snap_buffer_clear(&canon->decoded);
	snap_buffer_clear(&canon->raw);
	decoded = snap_buffer_reserve(&canon->decoded, span->length + 1);
	raw = snap_buffer_reserve(&canon->raw, span->length + 1);
	if (!decoded || !raw) {
		refuse_entry(canon, NULL);
		return NULL;
	}
	length = snap_unescape(decoded, snap_json_span_decode(span, decoded), raw);
	if (length > most || memchr(raw, '\0', length)) {
		refuse_entry(canon, "a string of a reasonable length");
		return NULL;
	}
	*length_ret = length;
	return raw;
}

/* Escaped text holds no controls: quotes and backslashes are all there is. */
static void put_clean(const char *text, size_t length, struct snap_buffer *out)
{
	snap_buffer_add_byte(out, '"');
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '"' || text[i] == '\\')
			snap_buffer_add_byte(out, '\\');
		snap_buffer_add_byte(out, text[i]);
	}
	snap_buffer_add_byte(out, '"');
}

static bool put_odd_string(struct snap_merge_canon *canon, const struct snap_json_span *span,
			   size_t most, struct snap_buffer *out)
{
	size_t length = 0;
	const char *raw = snap_merge_canon_raw(canon, span, most, &length);
	char *clean;

	if (!raw)
		return false;
	clean = snap_buffer_reserve(&canon->decoded, 4 * length + 1);
	if (!clean)
		return refuse_entry(canon, NULL);
	put_clean(clean, snap_escape(raw, length, 0, clean, 4 * length + 1), out);
	return true;
}

bool snap_merge_canon_string(struct snap_merge_canon *canon, const struct snap_json_span *span,
			     size_t most, struct snap_buffer *out)
{
	char *at;

	if (!span->plain)
		return put_odd_string(canon, span, most, out);
	if (span->length > most)
		return refuse_entry(canon, "a string of a reasonable length");
	at = snap_buffer_reserve(out, span->length + 2);
	if (!at)
		return refuse_entry(canon, NULL);
	*at++ = '"';
	memcpy(at, span->bytes, span->length);
	at[span->length] = '"';
	out->size += span->length + 2;
	return true;
}

static void put_key(const char *key, struct snap_buffer *out, size_t begin)
{
	size_t length = strlen(key);
	char *at = snap_buffer_reserve(out, length + 6);

	if (!at)
		return;
	if (out->size > begin) {
		*at++ = ',';
		*at++ = ' ';
		out->size += 2;
	}
	*at++ = '"';
	memcpy(at, key, length);
	memcpy(at + length, "\": ", 3);
	out->size += length + 4;
}

bool snap_merge_canon_text(struct snap_merge_canon *canon, const char *key,
			   const struct snap_json_span *span, size_t most, struct snap_buffer *out,
			   size_t begin)
{
	if (!span->bytes || span->length == 0)
		return true;
	put_key(key, out, begin);
	return snap_merge_canon_string(canon, span, most, out);
}

void snap_merge_canon_number(const char *key, int64_t number, struct snap_buffer *out, size_t begin)
{
	char digits[24], *at = digits + sizeof(digits);
	uint64_t rest = number < 0 ? 0 : (uint64_t)number;

	put_key(key, out, begin);
	do
		*--at = (char)('0' + rest % 10);
	while (rest /= 10);
	snap_buffer_add(out, at, (size_t)(digits + sizeof(digits) - at));
}

void snap_merge_canon_true(const char *key, struct snap_buffer *out, size_t begin)
{
	put_key(key, out, begin);
	snap_buffer_add(out, "true", 4);
}
