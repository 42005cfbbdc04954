/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Packages (.dwp): many .dwo files in one. A hash table of ids leads to a row for each unit, which
 * says where the sections of its .dwo file begin. DWARF 5, section 7.3.5; before it, with version 2,
 * https://gcc.gnu.org/wiki/DebugFissionDWP. Knows nothing of where packages lie.
 */
#include "analyze/dwarf/dwarf.h"

#include <dwarf.h>

enum { HEADER = 16, MAX_COLUMNS = 16 };

/* All that follows a checked header lies in the section. */
struct index {
	struct snap_bytes bytes;
	uint32_t columns, units, slots;
	uint64_t rows; /* where the slots' numbers of rows are */
	uint64_t table;
};

static bool read_index(struct snap_dwarf *package, struct index *ret)
{
	struct snap_bytes bytes = snap_dwarf_section(package, SNAP_SECTION_CU_INDEX);
	struct snap_cursor cursor = snap_cursor_at(bytes, 0);
	unsigned version = snap_cursor_u16(&cursor);

	snap_cursor_skip(&cursor, 2);
	*ret = (struct index){ .bytes = bytes };
	ret->columns = snap_cursor_u32(&cursor);
	ret->units = snap_cursor_u32(&cursor);
	ret->slots = snap_cursor_u32(&cursor);
	ret->rows = HEADER + 8ull * ret->slots;
	ret->table = ret->rows + 4ull * ret->slots;
	return !cursor.failed && (version == 2 || version == 5) && ret->columns <= MAX_COLUMNS &&
	       ret->slots && (ret->slots & (ret->slots - 1)) == 0 &&
	       ret->table + 4ull * ret->columns * (1ull + ret->units) <= bytes.size;
}

static uint32_t index_word(const struct index *index, uint64_t offset)
{
	struct snap_cursor cursor = snap_cursor_at(index->bytes, offset);

	return snap_cursor_u32(&cursor);
}

/* The number of the unit's row, from 1 on; 0: it is not there. */
static uint32_t find_row(struct snap_dwarf *package, const struct index *index, uint64_t id)
{
	uint32_t mask = index->slots - 1, slot = (uint32_t)id & mask;
	uint32_t step = ((uint32_t)(id >> 32) & mask) | 1;

	for (uint32_t i = 0; i <= mask && snap_dwarf_spend(package, 1); i++) {
		struct snap_cursor cursor = snap_cursor_at(index->bytes, HEADER + 8ull * slot);
		uint32_t row = index_word(index, index->rows + 4ull * slot);

		if (row == 0 || row > index->units)
			return 0;
		if (snap_cursor_u64(&cursor) == id)
			return row;
		slot = (slot + step) & mask;
	}
	return 0;
}

static struct snap_part read_part(const struct index *index, uint32_t row)
{
	struct snap_part part = { 0 };

	for (uint32_t i = 0; i < index->columns; i++) {
		uint64_t at = index->table + 4ull * i;
		uint32_t offset = index_word(index, at + 4ull * index->columns * row);

		switch (index_word(index, at)) {
		case DW_SECT_INFO:
			part.info = offset;
			break;
		case DW_SECT_ABBREV:
			part.abbrev = offset;
			break;
		case DW_SECT_STR_OFFSETS:
			part.str_offsets = offset;
			break;
		case DW_SECT_RNGLISTS: /* in version 2 macros, which are not read */
			part.rnglists = offset;
			break;
		}
	}
	return part;
}

struct snap_unit *snap_package_unit(struct snap_dwarf *package, uint64_t id)
{
	struct snap_unit *unit;
	struct snap_part part;
	struct index index;
	uint32_t row;

	if (!read_index(package, &index))
		return NULL;
	row = find_row(package, &index, id);
	if (row == 0)
		return NULL;
	part = read_part(&index, row);
	unit = snap_unit_at(package, part.info);
	if (unit && !unit->root_read) {
		unit->part = part;
		unit->abbrev_offset += part.abbrev;
	}
	return unit;
}
