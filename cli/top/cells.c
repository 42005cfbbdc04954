/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Text in columns: see cells.h. */
#include "top/cells.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

enum {
	MOST_UNIT = 8, /* bytes of a character or an escape, with a NUL */
	MOST_MARKS = 4 /* of no width that stand on one character */
};

/* A character, or the escape of a byte. */
struct unit {
	char bytes[MOST_UNIT];
	unsigned length, columns;
};

/* A place in a text, and how many marks the character before it has. */
struct reader {
	const char *text;
	unsigned marks;
	bool utf8;
};

static size_t escape_byte(const char *text, struct unit *unit)
{
	unit->length = unit->columns = (unsigned)snprintf(unit->bytes, sizeof(unit->bytes),
							  "\\x%02x", (unsigned char)*text);
	return 1;
}

/* How many bytes of the text it takes. */
static size_t read_unit(const char *text, bool utf8, struct unit *unit)
{
	size_t length = strnlen(text, MOST_UNIT - 1), used = 1;
	mbstate_t state = { 0 };
	wchar_t wide = (unsigned char)*text;
	int width;

	if (utf8)
		used = mbrtowc(&wide, text, length, &state);
	else if (wide > 0x7e)
		return escape_byte(text, unit);
	if (used == 0 || used >= MOST_UNIT)
		return escape_byte(text, unit);
	width = wcwidth(wide);
	if (width < 0)
		return escape_byte(text, unit);
	memcpy(unit->bytes, text, used);
	unit->bytes[used] = '\0';
	unit->length = (unsigned)used;
	unit->columns = (unsigned)width;
	return used;
}

/* False at the end. Of marks without a width more than a few are left out. */
static bool next_unit(struct reader *reader, struct unit *unit)
{
	while (*reader->text) {
		reader->text += read_unit(reader->text, reader->utf8, unit);
		reader->marks = unit->columns ? 0 : reader->marks + 1;
		if (reader->marks <= MOST_MARKS)
			return true;
	}
	return false;
}

unsigned snap_top_columns(const char *text, bool utf8)
{
	struct reader reader = { .text = text, .utf8 = utf8 };
	struct unit unit;
	unsigned columns = 0;

	while (next_unit(&reader, &unit))
		columns += unit.columns;
	return columns;
}

/* Adds units while they fit; the columns that they take. */
static unsigned add_units(struct reader *reader, unsigned columns, char *out, size_t *size)
{
	struct unit unit;
	unsigned used = 0;

	while (next_unit(reader, &unit)) {
		if (used + unit.columns > columns || *size + unit.length >= SNAP_TOP_CELLS_SIZE)
			break;
		memcpy(out + *size, unit.bytes, unit.length);
		*size += unit.length;
		used += unit.columns;
	}
	out[*size] = '\0';
	return used;
}

static void skip_columns(struct reader *reader, unsigned columns)
{
	struct unit unit;
	unsigned skipped = 0;

	while (skipped < columns && next_unit(reader, &unit))
		skipped += unit.columns;
}

unsigned snap_top_cut(const char *text, unsigned columns, enum snap_top_keep keep, bool utf8,
		      char out[SNAP_TOP_CELLS_SIZE])
{
	const char *mark = utf8 ? "\u2026" : "...";
	unsigned mark_columns = utf8 ? 1 : 3, all = snap_top_columns(text, utf8), used = 0;
	struct reader reader = { .text = text, .utf8 = utf8 };
	size_t size = 0;

	if (all <= columns)
		return add_units(&reader, columns, out, &size);
	if (columns <= mark_columns)
		mark_columns = 0;
	if (keep == SNAP_TOP_KEEP_TAIL)
		skip_columns(&reader, all - (columns - mark_columns));
	else
		used = add_units(&reader, columns - mark_columns, out, &size);
	if (mark_columns && size + strlen(mark) < SNAP_TOP_CELLS_SIZE) {
		memcpy(out + size, mark, strlen(mark) + 1);
		size += strlen(mark);
		used += mark_columns;
	}
	if (keep == SNAP_TOP_KEEP_TAIL)
		used += add_units(&reader, columns - used, out, &size);
	return used;
}
