/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Address ranges: of DIEs (.debug_ranges, .debug_rnglists), and of units (.debug_aranges), which
 * give the unit of each address.
 *
 * Code that the linker dropped keeps its DIEs, at address 0 or 1 or at the end of the address
 * space. So a range that begins below all code of the file is ignored.
 */
#include "analyze/dwarf/dwarf.h"

#include <dwarf.h>

struct reader {
	const struct snap_unit *unit;
	snap_range_function *function;
	void *context;
	uint64_t base;
};

static void give_range(const struct reader *reader, uint64_t low, uint64_t high)
{
	if (low >= reader->unit->dwarf->first_code && low < high)
		reader->function(reader->context, low, high);
}

static uint64_t address_mask(const struct snap_unit *unit)
{
	return unit->address_size == 8 ? UINT64_MAX : UINT32_MAX;
}

/* DWARF 2 to 4: pairs, relative to a base; a pair that begins with the largest number sets it. */
static void read_ranges(struct reader *reader, uint64_t offset)
{
	const struct snap_unit *unit = reader->unit;
	const struct snap_unit *owner = unit->skeleton ? unit->skeleton : unit;
	struct snap_cursor cursor =
		snap_cursor_at(snap_dwarf_section(owner->dwarf, SNAP_SECTION_RANGES), offset);

	while (!cursor.failed && snap_dwarf_spend(unit->dwarf, 1)) {
		uint64_t low = snap_cursor_number(&cursor, unit->address_size);
		uint64_t high = snap_cursor_number(&cursor, unit->address_size);

		if (cursor.failed || (low == 0 && high == 0))
			return;
		if (low == address_mask(unit))
			reader->base = high;
		else
			give_range(reader, reader->base + low, reader->base + high);
	}
}

static uint64_t indexed_address(const struct snap_unit *unit, uint64_t index)
{
	struct snap_attr_value value = { .form = DW_FORM_addrx, .number = index };
	uint64_t address;

	return snap_value_address(unit, &value, &address) ? address : 0;
}

/* One entry of a range list of DWARF 5; false: the list has ended. */
static bool read_entry(struct reader *reader, struct snap_cursor *cursor)
{
	const struct snap_unit *unit = reader->unit;
	uint64_t low, size;

	switch (snap_cursor_u8(cursor)) {
	case DW_RLE_base_addressx:
		reader->base = indexed_address(unit, snap_cursor_uleb(cursor));
		break;
	case DW_RLE_startx_endx:
		low = indexed_address(unit, snap_cursor_uleb(cursor));
		give_range(reader, low, indexed_address(unit, snap_cursor_uleb(cursor)));
		break;
	case DW_RLE_startx_length:
		low = indexed_address(unit, snap_cursor_uleb(cursor));
		size = snap_cursor_uleb(cursor);
		give_range(reader, low, low + size);
		break;
	case DW_RLE_offset_pair:
		low = snap_cursor_uleb(cursor);
		size = snap_cursor_uleb(cursor);
		give_range(reader, reader->base + low, reader->base + size);
		break;
	case DW_RLE_base_address:
		reader->base = snap_cursor_number(cursor, unit->address_size);
		break;
	case DW_RLE_start_end:
		low = snap_cursor_number(cursor, unit->address_size);
		give_range(reader, low, snap_cursor_number(cursor, unit->address_size));
		break;
	case DW_RLE_start_length:
		low = snap_cursor_number(cursor, unit->address_size);
		size = snap_cursor_uleb(cursor);
		give_range(reader, low, low + size);
		break;
	default:
		return false;
	}
	return !cursor->failed;
}

static void read_rnglist(struct reader *reader, const struct snap_attr_value *ranges)
{
	const struct snap_unit *unit = reader->unit;
	struct snap_bytes section = snap_dwarf_section(unit->dwarf, SNAP_SECTION_RNGLISTS);
	uint64_t offset = unit->part.rnglists + ranges->number;
	struct snap_cursor cursor;

	if (ranges->form == DW_FORM_rnglistx) {
		uint64_t at;

		if (ranges->number > section.size ||
		    __builtin_add_overflow(unit->rnglists_base, ranges->number * unit->offset_size,
					   &at))
			return;
		cursor = snap_cursor_at(section, at);
		offset = unit->rnglists_base + snap_cursor_number(&cursor, unit->offset_size);
		if (cursor.failed)
			return;
	}
	cursor = snap_cursor_at(section, offset);
	while (snap_dwarf_spend(unit->dwarf, 1) && read_entry(reader, &cursor))
		;
}

void snap_ranges_read(const struct snap_unit *unit, const struct snap_attr_value *ranges,
		      snap_range_function *function, void *context)
{
	const struct snap_unit *owner = unit->skeleton ? unit->skeleton : unit;
	struct reader reader = {
		.unit = unit, .function = function, .context = context, .base = owner->low_pc
	};

	if (unit->version >= 5)
		read_rnglist(&reader, ranges);
	else
		read_ranges(&reader, ranges->number + (unit == owner ? 0 : owner->ranges_base));
}

struct assignment {
	struct snap_dwarf *dwarf;
	const struct snap_hit *hits;
	size_t count;
	struct snap_unit **units, *unit;
	uint64_t *offsets, offset; /* of units, by .debug_aranges; UINT64_MAX: none */
};

static void assign_hits(void *context, uint64_t low, uint64_t high)
{
	struct assignment *assignment = context;

	for (size_t i = snap_hits_from(assignment->hits, assignment->count, low);
	     i < assignment->count && assignment->hits[i].vaddr < high &&
	     snap_dwarf_spend(assignment->dwarf, 1);
	     i++)
		if (!assignment->units[i])
			assignment->units[i] = assignment->unit;
}

static void assign_offset(struct assignment *assignment, uint64_t low, uint64_t high)
{
	for (size_t i = snap_hits_from(assignment->hits, assignment->count, low);
	     i < assignment->count && assignment->hits[i].vaddr < high &&
	     snap_dwarf_spend(assignment->dwarf, 1);
	     i++)
		if (assignment->offsets[i] == UINT64_MAX)
			assignment->offsets[i] = assignment->offset;
}

/* One set of .debug_aranges: the ranges of one unit. */
static void read_arange_set(const struct snap_dwarf *dwarf, struct snap_cursor cursor,
			    const uint8_t *start, unsigned offset_size,
			    struct assignment *assignment)
{
	unsigned version = snap_cursor_u16(&cursor);
	uint64_t offset = snap_cursor_number(&cursor, offset_size);
	unsigned address_size = snap_cursor_u8(&cursor);
	unsigned segment_size = snap_cursor_u8(&cursor);
	size_t header = (size_t)(cursor.p - start), pair = 2u * address_size;

	if (cursor.failed || version != 2 || segment_size != 0 ||
	    (address_size != 4 && address_size != 8))
		return;
	/* The pairs are aligned to their own size, counted from the set's start. */
	snap_cursor_skip(&cursor, (pair - header % pair) % pair);
	assignment->offset = offset;
	while (snap_cursor_left(&cursor) >= pair && snap_dwarf_spend(assignment->dwarf, 1)) {
		uint64_t low = snap_cursor_number(&cursor, address_size);
		uint64_t size = snap_cursor_number(&cursor, address_size), high;

		if (low == 0 && size == 0)
			break;
		if (low < dwarf->first_code || __builtin_add_overflow(low, size, &high))
			continue;
		assign_offset(assignment, low, high);
	}
}

static void assign_by_aranges(struct snap_dwarf *dwarf, struct assignment *assignment)
{
	struct snap_cursor cursor =
		snap_cursor_at(snap_dwarf_section(dwarf, SNAP_SECTION_ARANGES), 0);

	while (snap_cursor_left(&cursor) > 0 && snap_dwarf_spend(dwarf, 1)) {
		struct snap_cursor set = cursor;
		unsigned offset_size;

		if (!snap_cursor_enter(&set, &offset_size))
			break;
		read_arange_set(dwarf, set, cursor.p, offset_size, assignment);
		cursor.p = set.end;
	}
}

/* The units are read only when all are known: a compressed section is unpacked once, for them. */
static void take_offsets(struct snap_dwarf *dwarf, struct assignment *assignment)
{
	_cleanup_free_ uint64_t *wanted = calloc(assignment->count, sizeof(*wanted));
	size_t count = 0;

	if (!wanted) {
		dwarf->out_of_memory = true;
		return;
	}
	for (size_t i = 0; i < assignment->count; i++)
		if (assignment->offsets[i] != UINT64_MAX)
			wanted[count++] = assignment->offsets[i];
	snap_dwarf_want(dwarf, SNAP_SECTION_INFO, wanted, count);
	for (size_t i = 0; i < assignment->count; i++)
		if (assignment->offsets[i] != UINT64_MAX)
			assignment->units[i] = snap_unit_at(dwarf, assignment->offsets[i]);
}

static bool all_assigned(const struct assignment *assignment)
{
	return snap_all(assignment->count, i, assignment->units[i]);
}

/*
 * Units that .debug_aranges does not mention (clang writes none), by what their root DIE says.
 * A unit that says nothing of its code is left out.
 */
static void assign_by_roots(struct snap_dwarf *dwarf, struct assignment *assignment)
{
	if (!snap_units_index(dwarf))
		return;
	for (size_t i = 0; i < dwarf->unit_count && !all_assigned(assignment); i++) {
		struct snap_unit *unit = dwarf->units[i];

		if (unit->type != DW_UT_compile && unit->type != DW_UT_skeleton)
			continue;
		if (!snap_dwarf_spend(dwarf, 1))
			return;
		if (!snap_unit_read_root(unit, true))
			continue;
		assignment->unit = unit;
		if (unit->ranges.form)
			snap_ranges_read(unit, &unit->ranges, assign_hits, assignment);
		else if (unit->has_low_pc && unit->has_high_pc && unit->low_pc >= dwarf->first_code)
			assign_hits(assignment, unit->low_pc, unit->high_pc);
	}
}

void snap_ranges_assign(struct snap_dwarf *dwarf, const struct snap_hit *hits, size_t count,
			struct snap_unit **units, bool cheaply)
{
	_cleanup_free_ uint64_t *offsets = malloc(count * sizeof(*offsets));
	struct assignment assignment = {
		.dwarf = dwarf, .hits = hits, .count = count, .units = units, .offsets = offsets
	};

	if (!offsets) {
		dwarf->out_of_memory = true;
		return;
	}
	memset(offsets, 0xff, count * sizeof(*offsets));
	assign_by_aranges(dwarf, &assignment);
	take_offsets(dwarf, &assignment);
	if (!all_assigned(&assignment) && !(cheaply && dwarf->info.data))
		assign_by_roots(dwarf, &assignment);
}
