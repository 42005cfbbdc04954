/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The line of an offset into Python's bytecode: the three tables that code objects have had since
 * 3.8. Pure functions over bytes that may be wrong; they know nothing of processes.
 */
#include "analyze/runtime/python/python.h"

/* Of a line number that a table leads to; lines below 1 are none. */
static uint32_t checked_line(int64_t line)
{
	return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

/* Up to 3.9: pairs (bytes on, lines on), the second signed (Objects/lnotab_notes.txt). */
static uint32_t line_of_lnotab(const uint8_t *table, size_t size, uint32_t first_line,
			       int64_t offset)
{
	int64_t line = first_line, address = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		address += table[i];
		if (address > offset)
			break;
		line += (int8_t)table[i + 1];
	}
	return checked_line(line);
}

/* 3.10: pairs (bytes long, lines on), -128: these bytes have no line (PEP 626). */
static uint32_t line_of_linetable(const uint8_t *table, size_t size, uint32_t first_line,
				  int64_t offset)
{
	int64_t line = first_line, end = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		int8_t delta = (int8_t)table[i + 1];

		end += table[i];
		if (delta != -128)
			line += delta;
		if (offset < end)
			return delta == -128 ? 0 : checked_line(line);
	}
	return 0;
}

/* A number in groups of six bits, the lowest first; bit 6 says that more follow. */
static uint64_t read_varint(const uint8_t **at, const uint8_t *end)
{
	uint64_t number = 0;

	for (unsigned shift = 0; *at < end; shift += 6) {
		uint8_t byte = *(*at)++;

		if (shift < 60)
			number |= (uint64_t)(byte & 63) << shift;
		if (!(byte & 64))
			break;
	}
	return number;
}

/*
 * From 3.11 on: entries that begin with a byte with bit 7 set, (kind, units of two bytes less one)
 * and then what the kind says (Objects/locations.md).
 */
static uint32_t line_of_locations(const uint8_t *table, size_t size, uint32_t first_line,
				  int64_t offset)
{
	enum { KIND_SHORT_END = 10, KIND_ONE_LINE_END = 13, KIND_LONG = 14, KIND_NONE = 15 };
	const uint8_t *at = table, *end = size ? table + size : table;
	int64_t line = first_line, reached = 0;

	while (at < end) {
		unsigned head = *at++, kind = head >> 3 & 15;

		if (kind >= KIND_ONE_LINE_END && kind <= KIND_LONG) {
			uint64_t number = read_varint(&at, end);
			int64_t delta = (int64_t)(number >> 1);

			line += number & 1 ? -delta : delta;
		} else if (kind >= KIND_SHORT_END && kind < KIND_ONE_LINE_END) {
			line += kind - KIND_SHORT_END;
		}
		if (line < INT32_MIN || line > INT32_MAX)
			return 0;
		reached += ((head & 7) + 1) * 2;
		if (offset < reached)
			return kind == KIND_NONE ? 0 : checked_line(line);
		while (at < end && !(*at & 128))
			at++;
	}
	return 0;
}

uint32_t snap_python_line(enum snap_python_lines kind, const uint8_t *table, size_t size,
			  uint32_t first_line, int64_t offset)
{
	if (offset < 0)
		return checked_line(first_line);
	switch (kind) {
	case SNAP_PYTHON_LINES_LNOTAB:
		return line_of_lnotab(table, size, first_line, offset);
	case SNAP_PYTHON_LINES_LINETABLE:
		return line_of_linetable(table, size, first_line, offset);
	case SNAP_PYTHON_LINES_LOCATIONS:
		return line_of_locations(table, size, first_line, offset);
	}
	return 0;
}
