/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures texts of a report, and makes shorter ones: see short_text.h. */
#include "analyze/short_text.h"

#include "base/escape.h"

#include <string.h>

static unsigned byte_weight(char byte, bool clean)
{
	if (byte == '"')
		return 2;
	if (byte == '\\')
		return 4;
	return clean || (byte >= ' ' && byte <= '~') ? 1 : 5;
}

uint64_t snap_report_text_bytes(const char *text)
{
	uint64_t bytes = 0;
	bool clean;

	if (!text)
		return 0;
	clean = snap_escape_is_clean(text, strlen(text), 0);
	for (; *text; text++)
		bytes += byte_weight(*text, clean);
	return bytes;
}

static struct snap_known_text *known_text(struct snap_short_texts *texts, const char *text)
{
	uint64_t hash = (uint64_t)(uintptr_t)text * 0x9e3779b97f4a7c15u;
	struct snap_known_text *known = &texts->known[hash >> 54];

	if (known->text != text)
		*known = (struct snap_known_text){ .text = text,
						   .bytes = snap_report_text_bytes(text) };
	return known;
}

uint64_t snap_short_texts_bytes(struct snap_short_texts *texts, const char *text)
{
	return text && *text ? known_text(texts, text)->bytes : 0;
}

/* Three quarters are the beginning. */
static const char *cut_text(struct snap_short_texts *texts, const char *text)
{
	size_t length = strlen(text), head = 0, tail = length;
	size_t most_head = texts->most / 4 * 3, most_tail = texts->most / 4 - 4;
	bool clean = snap_escape_is_clean(text, length, 0);
	char made[SNAP_LONGEST_SHORT_TEXT + 8];
	size_t weight = 0;
	const char *shortened;

	while ((weight += byte_weight(text[head], clean)) <= most_head)
		head++;
	head = snap_text_cut(text, length, head);
	weight = 0;
	while ((weight += byte_weight(text[tail - 1], clean)) <= most_tail)
		tail--;
	while (tail < length && ((unsigned char)text[tail] & 0xc0) == 0x80)
		tail++;
	memcpy(made, text, head);
	memcpy(made + head, "...", 3);
	memcpy(made + head + 3, text + tail, length - tail);
	shortened = snap_intern(texts->strings, made, head + 3 + length - tail);
	texts->failed |= !shortened;
	return shortened ? shortened : "";
}

bool snap_short_texts_cut(struct snap_short_texts *texts, const char **text)
{
	struct snap_known_text *known;

	if (snap_short_texts_bytes(texts, *text) <= texts->most)
		return false;
	known = known_text(texts, *text);
	if (!known->shortened)
		known->shortened = cut_text(texts, *text);
	*text = known->shortened;
	return true;
}
