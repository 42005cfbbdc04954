/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Attribute values by their form (DWARF 5, section 7.5.6, and the GNU forms before it): their size,
 * their value, and the DIE that they refer to.
 */
#include "analyze/dwarf/dwarf.h"

#include <dwarf.h>

enum { VARIABLE = -1, OFFSET = -2, ADDRESS = -3, REF_ADDR = -4, UNKNOWN = -5 };

/* Bytes of a form, or one of the words above. */
static int form_kind(unsigned form)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
		return 0;
	case DW_FORM_data1:
	case DW_FORM_flag:
	case DW_FORM_ref1:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		return 2;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		return 3;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
	case DW_FORM_ref_sup4:
		return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sig8:
	case DW_FORM_ref_sup8:
		return 8;
	case DW_FORM_data16:
		return 16;
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_sec_offset:
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
	case DW_FORM_GNU_ref_alt:
		return OFFSET;
	case DW_FORM_addr:
		return ADDRESS;
	case DW_FORM_ref_addr:
		return REF_ADDR;
	case DW_FORM_string:
	case DW_FORM_block1:
	case DW_FORM_block2:
	case DW_FORM_block4:
	case DW_FORM_block:
	case DW_FORM_exprloc:
	case DW_FORM_sdata:
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
	case DW_FORM_indirect:
		return VARIABLE;
	default:
		return UNKNOWN;
	}
}

int snap_form_size(unsigned form, unsigned address_size, unsigned offset_size, unsigned version)
{
	int kind = form_kind(form);

	if (kind == OFFSET)
		return (int)offset_size;
	if (kind == ADDRESS)
		return (int)address_size;
	/* DWARF 2 took the size of an address for it. */
	return kind == REF_ADDR ? (int)(version <= 2 ? address_size : offset_size) : kind;
}

/* Blocks and expressions are skipped: they are not evaluated here. */
static void read_variable(struct snap_cursor *cursor, struct snap_attr_value *ret)
{
	switch (ret->form) {
	case DW_FORM_string:
		ret->data = (const uint8_t *)snap_cursor_string(cursor);
		break;
	case DW_FORM_block1:
		snap_cursor_skip(cursor, snap_cursor_u8(cursor));
		break;
	case DW_FORM_block2:
		snap_cursor_skip(cursor, snap_cursor_u16(cursor));
		break;
	case DW_FORM_block4:
		snap_cursor_skip(cursor, snap_cursor_u32(cursor));
		break;
	case DW_FORM_block:
	case DW_FORM_exprloc:
		snap_cursor_skip(cursor, snap_cursor_uleb(cursor));
		break;
	case DW_FORM_sdata:
		ret->number = (uint64_t)snap_cursor_sleb(cursor);
		break;
	default:
		ret->number = snap_cursor_uleb(cursor);
		break;
	}
}

/* The form is written before the value. It cannot be one whose value is elsewhere again. */
static void read_indirect(const struct snap_unit *unit, struct snap_cursor *cursor,
			  struct snap_attr_value *ret)
{
	uint64_t form = snap_cursor_uleb(cursor);
	struct snap_attr_spec spec = { .form = form <= UINT16_MAX ? (uint16_t)form : 0 };

	if (spec.form == DW_FORM_indirect || spec.form == DW_FORM_implicit_const)
		spec.form = 0;
	spec.size = (int8_t)snap_form_size(spec.form, unit->address_size, unit->offset_size,
					   unit->version);
	snap_form_read(unit, &spec, cursor, ret);
}

void snap_form_read(const struct snap_unit *unit, const struct snap_attr_spec *spec,
		    struct snap_cursor *cursor, struct snap_attr_value *ret)
{
	*ret = (struct snap_attr_value){ .form = spec->form };
	if (spec->size > 8)
		snap_cursor_skip(cursor, (uint64_t)spec->size);
	else if (spec->size > 0)
		ret->number = snap_cursor_number(cursor, (unsigned)spec->size);
	else if (spec->form == DW_FORM_implicit_const)
		ret->number = (uint64_t)spec->implicit;
	else if (spec->form == DW_FORM_flag_present)
		ret->number = 1;
	else if (spec->form == DW_FORM_indirect)
		read_indirect(unit, cursor, ret);
	else if (spec->size == VARIABLE)
		read_variable(cursor, ret);
	else
		snap_cursor_fail(cursor);
}

static const char *string_at(struct snap_dwarf *dwarf, enum snap_section section, uint64_t offset)
{
	struct snap_cursor cursor;

	if (!dwarf)
		return NULL;
	cursor = snap_cursor_at(snap_dwarf_section(dwarf, section), offset);
	return cursor.failed ? NULL : snap_cursor_string(&cursor);
}

/* By index into the table of offsets that the unit has in .debug_str_offsets. */
static const char *indexed_string(const struct snap_unit *unit, uint64_t index)
{
	struct snap_bytes table = snap_dwarf_section(unit->dwarf, SNAP_SECTION_STR_OFFSETS);
	struct snap_cursor cursor;
	uint64_t at;

	if (index > table.size ||
	    __builtin_add_overflow(unit->str_offsets_base, index * unit->offset_size, &at))
		return NULL;
	cursor = snap_cursor_at(table, at);
	at = snap_cursor_number(&cursor, unit->offset_size);
	return cursor.failed ? NULL : string_at(unit->dwarf, SNAP_SECTION_STR, at);
}

const char *snap_value_string(const struct snap_unit *unit, const struct snap_attr_value *value)
{
	switch (value->form) {
	case DW_FORM_string:
		return (const char *)value->data;
	case DW_FORM_strp:
		return string_at(unit->dwarf, SNAP_SECTION_STR, value->number);
	case DW_FORM_line_strp:
		return string_at(unit->dwarf, SNAP_SECTION_LINE_STR, value->number);
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
		return string_at(snap_dwarf_alt(unit->dwarf), SNAP_SECTION_STR, value->number);
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
	case DW_FORM_GNU_str_index:
		return indexed_string(unit, value->number);
	default:
		return NULL;
	}
}

bool snap_value_address(const struct snap_unit *unit, const struct snap_attr_value *value,
			uint64_t *ret)
{
	/* Addresses of a split unit are in the file that it was split from. */
	const struct snap_unit *owner = unit->skeleton ? unit->skeleton : unit;
	struct snap_bytes table;
	struct snap_cursor cursor;
	uint64_t at;

	switch (value->form) {
	case DW_FORM_addr:
		*ret = value->number;
		return true;
	case DW_FORM_addrx:
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
	case DW_FORM_GNU_addr_index:
		break;
	default:
		return false;
	}
	table = snap_dwarf_section(owner->dwarf, SNAP_SECTION_ADDR);
	if (value->number > table.size ||
	    __builtin_add_overflow(owner->addr_base, value->number * owner->address_size, &at))
		return false;
	cursor = snap_cursor_at(table, at);
	*ret = snap_cursor_number(&cursor, owner->address_size);
	return !cursor.failed;
}

struct snap_unit *snap_value_reference(struct snap_unit *unit, const struct snap_attr_value *value,
				       uint64_t *offset_ret)
{
	struct snap_dwarf *alt;

	*offset_ret = value->number;
	switch (value->form) {
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata:
		if (value->number >= unit->end - unit->offset)
			return NULL;
		*offset_ret = unit->offset + value->number;
		return *offset_ret >= unit->first ? unit : NULL;
	case DW_FORM_ref_addr:
		if (__builtin_add_overflow(value->number, unit->part.info, offset_ret))
			return NULL;
		if (*offset_ret >= unit->first && *offset_ret < unit->end)
			return unit;
		return snap_unit_around(unit->dwarf, *offset_ret);
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8:
		alt = snap_dwarf_alt(unit->dwarf);
		return alt ? snap_unit_around(alt, value->number) : NULL;
	default:
		return NULL;
	}
}
