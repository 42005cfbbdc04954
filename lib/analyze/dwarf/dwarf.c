/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sections, units and DIEs: see dwarf.h. */
#include "analyze/dwarf/dwarf.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <dwarf.h>
#include <elf.h>

enum { MAX_UNITS = 1 << 20 };

struct snap_dwarf *snap_dwarf_open(struct snap_symbolizer *symbolizer,
				   struct snap_file_symbols *symbols, struct snap_image *image,
				   bool is_dwo)
{
	struct snap_dwarf *dwarf = calloc(1, sizeof(*dwarf));

	if (!dwarf)
		return NULL;
	dwarf->symbolizer = symbolizer;
	dwarf->symbols = symbols;
	dwarf->image = image;
	dwarf->is_dwo = is_dwo;
	dwarf->first_code = snap_image_first_code(symbols->file->image);
	snap_arena_init(&dwarf->arena);
	return dwarf;
}

/*
 * The image stays open for the unwinder, but these pages of the file are not needed any more, or
 * not so soon again.
 */
void snap_dwarf_let_go(struct snap_dwarf *dwarf)
{
	for (size_t i = 0; i < SNAP_SECTION_COUNT; i++)
		snap_image_let_go(dwarf->image, dwarf->sections[i]);
}

void snap_dwarf_close(struct snap_dwarf *dwarf)
{
	if (!dwarf)
		return;
	snap_dwarf_let_go(dwarf);
	snap_partial_close(&dwarf->info);
	snap_partial_close(&dwarf->line);
	for (struct snap_abbrevs *abbrevs = dwarf->abbrevs, *next; abbrevs; abbrevs = next) {
		next = abbrevs->next;
		snap_abbrevs_deinit(abbrevs);
	}
	snap_abbrevs_deinit(&dwarf->scratch);
	snap_dwarf_close(dwarf->alt);
	while (dwarf->splits) {
		struct snap_dwarf *split = dwarf->splits;

		dwarf->splits = split->next_split;
		snap_dwarf_close(split);
	}
	if (dwarf->owns_image)
		snap_image_close(dwarf->image);
	free(dwarf->units);
	free(dwarf->names);
	snap_arena_deinit(&dwarf->arena);
	free(dwarf);
}

struct snap_dwarf *snap_dwarf_alt(struct snap_dwarf *dwarf)
{
	if (!dwarf->alt && !dwarf->is_alt &&
	    snap_debugfile_open_alt(dwarf->symbolizer, dwarf->symbols, dwarf->image)) {
		dwarf->alt = snap_dwarf_open(dwarf->symbolizer, dwarf->symbols, dwarf->symbols->alt,
					     false);
		if (dwarf->alt)
			dwarf->alt->is_alt = true;
		else
			dwarf->out_of_memory = true;
	}
	return dwarf->alt;
}

void *snap_dwarf_alloc(struct snap_dwarf *dwarf, size_t count, size_t size)
{
	void *bytes;

	if (dwarf->arena.total + dwarf->kept > SNAP_MAX_DWARF_MEMORY ||
	    (count && size > SNAP_MAX_DWARF_MEMORY / count))
		return NULL;
	bytes = snap_arena_array(&dwarf->arena, count, size);
	if (!bytes)
		dwarf->out_of_memory = true;
	return bytes;
}

static void section_name(const struct snap_dwarf *dwarf, enum snap_section section, char name[32])
{
	static const char *const names[] = {
		[SNAP_SECTION_INFO] = ".debug_info",
		[SNAP_SECTION_ABBREV] = ".debug_abbrev",
		[SNAP_SECTION_STR] = ".debug_str",
		[SNAP_SECTION_LINE_STR] = ".debug_line_str",
		[SNAP_SECTION_STR_OFFSETS] = ".debug_str_offsets",
		[SNAP_SECTION_ADDR] = ".debug_addr",
		[SNAP_SECTION_RNGLISTS] = ".debug_rnglists",
		[SNAP_SECTION_RANGES] = ".debug_ranges",
		[SNAP_SECTION_ARANGES] = ".debug_aranges",
		[SNAP_SECTION_LINE] = ".debug_line",
		[SNAP_SECTION_CU_INDEX] = ".debug_cu_index",
	};

	snprintf(name, 32, "%s%s", names[section],
		 dwarf->is_dwo && section != SNAP_SECTION_CU_INDEX ? ".dwo" : "");
}

struct snap_bytes snap_dwarf_section(struct snap_dwarf *dwarf, enum snap_section section)
{
	char name[32];

	if (!dwarf->section_tried[section]) {
		dwarf->section_tried[section] = true;
		section_name(dwarf, section, name);
		dwarf->sections[section] = snap_image_section(dwarf->image, name);
		if (dwarf->sections[section].size == 0 &&
		    snap_image_packed_section(dwarf->image, name).size > 0)
			snap_symbols_trouble(dwarf->symbolizer, dwarf->symbols,
					     "section %s cannot be unpacked, or is too large",
					     name);
	}
	return dwarf->sections[section];
}

SNAP_ORDER(compare_offsets, uint64_t, x, y, snap_compare(*x, *y));

void snap_dwarf_want(struct snap_dwarf *dwarf, enum snap_section section, uint64_t *offsets,
		     size_t count)
{
	struct snap_partial *partial = section == SNAP_SECTION_INFO ? &dwarf->info : &dwarf->line;
	size_t distinct = 0;
	char name[32];

	if (dwarf->section_tried[section] || count == 0)
		return;
	section_name(dwarf, section, name);
	if (!snap_partial_open(dwarf->image, name, partial))
		return;
	qsort(offsets, count, sizeof(*offsets), compare_offsets);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || offsets[i] != offsets[i - 1])
			offsets[distinct++] = offsets[i];
	if (!snap_partial_units(partial, offsets, distinct))
		dwarf->out_of_memory = true;
	dwarf->sections[section] = (struct snap_bytes){ partial->data, partial->size };
	dwarf->section_tried[section] = true;
}

/* Reads a unit's header at the cursor, whose end becomes the unit's end. */
static bool read_unit_header(struct snap_dwarf *dwarf, uint64_t offset, struct snap_cursor *cursor,
			     struct snap_unit *unit)
{
	const uint8_t *base = snap_dwarf_section(dwarf, SNAP_SECTION_INFO).data;
	unsigned offset_size;

	*unit = (struct snap_unit){ .dwarf = dwarf, .offset = offset };
	if (!snap_cursor_enter(cursor, &offset_size))
		return false;
	unit->end = (uint64_t)(cursor->end - base);
	unit->offset_size = (uint8_t)offset_size;
	unit->version = snap_cursor_u16(cursor);
	unit->type = DW_UT_compile;
	if (unit->version >= 5) {
		unit->type = snap_cursor_u8(cursor);
		unit->address_size = snap_cursor_u8(cursor);
		unit->abbrev_offset = snap_cursor_number(cursor, offset_size);
	} else {
		unit->abbrev_offset = snap_cursor_number(cursor, offset_size);
		unit->address_size = snap_cursor_u8(cursor);
	}
	if (unit->type == DW_UT_skeleton || unit->type == DW_UT_split_compile)
		unit->dwo_id = snap_cursor_u64(cursor);
	if (unit->type == DW_UT_type || unit->type == DW_UT_split_type)
		snap_cursor_skip(cursor, 8 + offset_size);
	unit->first = (uint64_t)(cursor->p - base);
	return !cursor->failed;
}

static bool is_unit_known(const struct snap_unit *unit)
{
	return unit->version >= 2 && unit->version <= 5 &&
	       (unit->address_size == 8 || unit->address_size == 4);
}

/* The place of a unit in the sorted list: the first that does not begin below `offset`. */
static size_t place_of_unit(const struct snap_dwarf *dwarf, uint64_t offset)
{
	return snap_first_not(dwarf->unit_count, i, dwarf->units[i]->offset < offset);
}

static struct snap_unit *insert_unit(struct snap_dwarf *dwarf, size_t place,
				     const struct snap_unit *unit)
{
	struct snap_unit *kept = snap_dwarf_alloc(dwarf, 1, sizeof(*kept));

	if (!kept)
		return NULL;
	if (!snap_reserve_array(dwarf->units, dwarf->unit_capacity, dwarf->unit_count + 1)) {
		dwarf->out_of_memory = true;
		return NULL;
	}
	dwarf->kept += 2 * sizeof(*dwarf->units);
	*kept = *unit;
	memmove(dwarf->units + place + 1, dwarf->units + place,
		(dwarf->unit_count - place) * sizeof(*dwarf->units));
	dwarf->units[place] = kept;
	dwarf->unit_count++;
	return kept;
}

struct snap_unit *snap_unit_at(struct snap_dwarf *dwarf, uint64_t offset)
{
	size_t place = place_of_unit(dwarf, offset);
	struct snap_cursor cursor;
	struct snap_unit unit;

	if (place < dwarf->unit_count && dwarf->units[place]->offset == offset)
		return dwarf->units[place];
	if (dwarf->indexed)
		return NULL;
	cursor = snap_cursor_at(snap_dwarf_section(dwarf, SNAP_SECTION_INFO), offset);
	if (!read_unit_header(dwarf, offset, &cursor, &unit) || !is_unit_known(&unit))
		return NULL;
	return insert_unit(dwarf, place, &unit);
}

/* Units that were met before keep their place and what is known of them. */
bool snap_units_index(struct snap_dwarf *dwarf)
{
	struct snap_bytes info = snap_dwarf_section(dwarf, SNAP_SECTION_INFO);
	uint64_t offset = 0;
	size_t place = 0;

	if (dwarf->info.data)
		snap_partial_whole(&dwarf->info);
	while (!dwarf->indexed && offset < info.size && dwarf->unit_count < MAX_UNITS &&
	       snap_dwarf_spend(dwarf, SNAP_UNIT_WORK)) {
		struct snap_cursor cursor = snap_cursor_at(info, offset);
		struct snap_unit unit;

		while (place < dwarf->unit_count && dwarf->units[place]->offset < offset)
			place++;
		if (place < dwarf->unit_count && dwarf->units[place]->offset == offset) {
			offset = dwarf->units[place]->end;
			continue;
		}
		/* A unit of an unknown version still says where the next one begins. */
		if (!read_unit_header(dwarf, offset, &cursor, &unit) && unit.end <= offset)
			break;
		if (is_unit_known(&unit) && unit.first && !insert_unit(dwarf, place, &unit))
			return false;
		offset = unit.end;
	}
	dwarf->indexed = true;
	return true;
}

struct snap_unit *snap_unit_around(struct snap_dwarf *dwarf, uint64_t offset)
{
	size_t place;
	struct snap_unit *unit;

	if (!snap_units_index(dwarf))
		return NULL;
	place = place_of_unit(dwarf, offset + 1);
	if (place == 0)
		return NULL;
	unit = dwarf->units[place - 1];
	return offset >= unit->first && offset < unit->end ? unit : NULL;
}

struct snap_cursor snap_unit_cursor(const struct snap_unit *unit, uint64_t offset)
{
	struct snap_bytes info = snap_dwarf_section(unit->dwarf, SNAP_SECTION_INFO);
	struct snap_cursor cursor;

	if (offset < unit->first || offset > unit->end)
		return (struct snap_cursor){ .failed = true };
	cursor = snap_cursor_at(info, offset);
	cursor.end = info.data + unit->end;
	return cursor;
}

uint64_t snap_unit_tell(const struct snap_unit *unit, const struct snap_cursor *cursor)
{
	return (uint64_t)(cursor->p - snap_dwarf_section(unit->dwarf, SNAP_SECTION_INFO).data);
}
