/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The attributes of DIEs that naming needs, and those of a unit's first one. */
#include "analyze/dwarf/dwarf.h"

#include <dwarf.h>

static void take(struct snap_unit *unit, struct snap_die *die, unsigned name,
		 const struct snap_attr_value *value)
{
	switch (name) {
	case DW_AT_low_pc:
		die->low_pc = *value;
		break;
	case DW_AT_high_pc:
		die->high_pc = *value;
		break;
	case DW_AT_ranges:
		die->ranges = *value;
		break;
	case DW_AT_abstract_origin:
		die->origin = *value;
		break;
	case DW_AT_specification:
		die->specification = *value;
		break;
	case DW_AT_name:
		die->name = *value;
		break;
	case DW_AT_linkage_name:
	case DW_AT_MIPS_linkage_name:
		die->linkage_name = *value;
		break;
	case DW_AT_sibling:
		if (value->number < unit->end - unit->offset)
			die->sibling = unit->offset + value->number;
		break;
	case DW_AT_call_file:
		die->call_file = value->number;
		break;
	case DW_AT_call_line:
		die->call_line = value->number;
		break;
	case DW_AT_call_column:
		die->call_column = value->number;
		break;
	}
}

bool snap_die_read(struct snap_unit *unit, struct snap_cursor *cursor, struct snap_die *ret)
{
	const struct snap_abbrev *abbrev;
	uint64_t code;

	memset(ret, 0, sizeof(*ret));
	ret->offset = snap_unit_tell(unit, cursor);
	code = snap_cursor_uleb(cursor);
	if (code == 0)
		return !cursor->failed;
	abbrev = snap_abbrev_find(unit->abbrevs, code);
	if (!abbrev || abbrev->tag == 0)
		return false;
	/* One DIE can have a million attributes that take no room. */
	if (!snap_dwarf_spend(unit->dwarf, abbrev->count))
		return false;
	ret->tag = abbrev->tag;
	ret->children = abbrev->children;
	for (uint32_t i = 0; i < abbrev->count; i++) {
		const struct snap_attr_spec *spec = &unit->abbrevs->specs[abbrev->first + i];
		struct snap_attr_value value;

		snap_form_read(unit, spec, cursor, &value);
		take(unit, ret, spec->name, &value);
	}
	return !cursor->failed;
}

/* What is needed to understand the other attributes of a root DIE comes first, wherever it is. */
static void take_base(struct snap_unit *unit, unsigned name, const struct snap_attr_value *value)
{
	switch (name) {
	case DW_AT_str_offsets_base:
		unit->str_offsets_base = value->number;
		break;
	case DW_AT_addr_base:
	case DW_AT_GNU_addr_base:
		unit->addr_base = value->number;
		break;
	case DW_AT_rnglists_base:
		unit->rnglists_base = value->number;
		break;
	case DW_AT_GNU_ranges_base:
		unit->ranges_base = value->number;
		break;
	case DW_AT_stmt_list:
		unit->stmt_list = value->number;
		unit->has_stmt_list = true;
		break;
	case DW_AT_language:
		unit->language = (unsigned)value->number;
		break;
	case DW_AT_GNU_dwo_id:
		unit->dwo_id = value->number;
		break;
	case DW_AT_ranges:
		unit->ranges = *value;
		break;
	}
}

static void take_root(struct snap_unit *unit, unsigned name, const struct snap_attr_value *value)
{
	switch (name) {
	case DW_AT_name:
		unit->name = snap_value_string(unit, value);
		break;
	case DW_AT_comp_dir:
		unit->comp_dir = snap_value_string(unit, value);
		break;
	case DW_AT_dwo_name:
	case DW_AT_GNU_dwo_name:
		unit->dwo_name = snap_value_string(unit, value);
		break;
	case DW_AT_low_pc:
		unit->has_low_pc = snap_value_address(unit, value, &unit->low_pc);
		break;
	case DW_AT_high_pc:
		unit->has_high_pc = true;
		unit->high_is_size = !snap_value_address(unit, value, &unit->high_pc);
		if (unit->high_is_size)
			unit->high_pc = value->number;
		break;
	}
}

static bool read_attributes(struct snap_unit *unit, struct snap_abbrevs *abbrevs,
			    void (*function)(struct snap_unit *unit, unsigned name,
					     const struct snap_attr_value *value))
{
	struct snap_cursor cursor = snap_unit_cursor(unit, unit->first);
	const struct snap_abbrev *abbrev = snap_abbrev_find(abbrevs, snap_cursor_uleb(&cursor));

	if (!abbrev || !snap_dwarf_spend(unit->dwarf, abbrev->count))
		return false;
	for (uint32_t i = 0; i < abbrev->count && !cursor.failed; i++) {
		const struct snap_attr_spec *spec = &abbrevs->specs[abbrev->first + i];
		struct snap_attr_value value;

		snap_form_read(unit, spec, &cursor, &value);
		function(unit, spec->name, &value);
	}
	return !cursor.failed;
}

/* Where the tables of a split unit begin: behind the header, and nobody says so. */
static void set_default_bases(struct snap_unit *unit)
{
	if (unit->version < 5 || !unit->dwarf->is_dwo)
		return;
	unit->str_offsets_base = unit->offset_size == 8 ? 16 : 8;
	unit->rnglists_base = unit->offset_size == 8 ? 20 : 12;
}

bool snap_unit_read_root(struct snap_unit *unit, bool look)
{
	struct snap_abbrevs *abbrevs;

	if (!unit->abbrevs && !look)
		unit->abbrevs = snap_abbrevs_get(unit->dwarf, unit);
	if (unit->root_read)
		return unit->root_fine && (look || unit->abbrevs);
	abbrevs = unit->abbrevs ? unit->abbrevs : snap_abbrevs_look(unit->dwarf, unit);
	if (!abbrevs)
		return false;
	unit->root_read = true;
	set_default_bases(unit);
	unit->root_fine = read_attributes(unit, abbrevs, take_base) &&
			  read_attributes(unit, abbrevs, take_root);
	if (unit->high_is_size)
		unit->high_pc += unit->low_pc;
	return unit->root_fine;
}
