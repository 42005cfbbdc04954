/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * DIEs: the attributes that naming needs, the attributes of a unit's first DIE, and the name of the
 * function at a DIE. That is its linkage name, by way of its origin and specification, or else its
 * name in the source, with the namespaces and classes around it.
 */
#include "analyze/dwarf/dwarf.h"

#include <dwarf.h>

enum {
	MAX_STEPS = 16,
	MAX_SCOPES = 32,
	/* DW_LANG_* since DWARF 5 was published */
	LANG_CXX_17 = 0x2a,
	LANG_CXX_20 = 0x2b,
	LANG_C_17 = 0x2c,
	LANG_FORTRAN_18 = 0x2d,
	LANG_ADA_2005 = 0x2e,
	LANG_ADA_2012 = 0x2f,
};

/* ---- attributes ---- */

static void take_attribute(struct snap_unit *unit, struct snap_die *die, unsigned name,
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
	case DW_AT_call_pc:
		die->call_pc = *value;
		break;
	case DW_AT_call_return_pc:
		die->call_return_pc = *value;
		break;
	case DW_AT_call_tail_call:
	case DW_AT_GNU_tail_call:
		die->is_tail_call = value->number != 0;
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
		take_attribute(unit, ret, spec->name, &value);
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
	unit->has_children = abbrev->children;
	for (uint32_t i = 0; i < abbrev->count && !cursor.failed; i++) {
		const struct snap_attr_spec *spec = &abbrevs->specs[abbrev->first + i];
		struct snap_attr_value value;

		snap_form_read(unit, spec, &cursor, &value);
		function(unit, spec->name, &value);
	}
	return !cursor.failed;
}

/* Where the tables of a split unit begin: behind the header, and no attribute says so. */
static void set_default_bases(struct snap_unit *unit)
{
	unit->str_offsets_base = unit->part.str_offsets;
	unit->rnglists_base = unit->part.rnglists;
	if (unit->version < 5 || !unit->dwarf->is_dwo)
		return;
	unit->str_offsets_base += unit->offset_size == 8 ? 16 : 8;
	unit->rnglists_base += unit->offset_size == 8 ? 20 : 12;
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

/* ---- names ---- */

bool snap_language_is_c(unsigned language)
{
	switch (language) {
	case DW_LANG_C:
	case DW_LANG_C89:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case LANG_C_17:
		return true;
	default:
		return snap_language_is_cxx(language);
	}
}

bool snap_language_is_cxx(unsigned language)
{
	return language == DW_LANG_C_plus_plus || language == DW_LANG_C_plus_plus_03 ||
	       language == DW_LANG_C_plus_plus_11 || language == DW_LANG_C_plus_plus_14 ||
	       language == LANG_CXX_17 || language == LANG_CXX_20;
}

bool snap_language_is_ada(unsigned language)
{
	return language == DW_LANG_Ada83 || language == DW_LANG_Ada95 ||
	       language == LANG_ADA_2005 || language == LANG_ADA_2012;
}

bool snap_language_is_by_source(unsigned language)
{
	switch (language) {
	case DW_LANG_Fortran77:
	case DW_LANG_Fortran90:
	case DW_LANG_Fortran95:
	case DW_LANG_Fortran03:
	case DW_LANG_Fortran08:
	case LANG_FORTRAN_18:
	case DW_LANG_Pascal83:
	case DW_LANG_Modula2:
	case DW_LANG_Modula3:
	case DW_LANG_Haskell:
		return true;
	default:
		return false;
	}
}

static bool is_scope(unsigned tag)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_interface_type:
		return true;
	default:
		return false;
	}
}

/* The open scopes on the way to a DIE; deeper ones than MAX_SCOPES are counted, not kept. */
struct way {
	struct {
		const char *name; /* NULL: not a part of names */
	} scopes[MAX_SCOPES];
	size_t depth;
};

static void open_scope(struct way *way, struct snap_unit *unit, const struct snap_die *die)
{
	const char *name = NULL;

	if (die->tag == DW_TAG_subprogram && snap_language_is_by_source(unit->language)) {
		/* As gdb does it, the function around a function is its only scope. */
		for (size_t i = 0; i < way->depth && i < MAX_SCOPES; i++)
			way->scopes[i].name = NULL;
		name = snap_value_string(unit, &die->name);
	} else if (is_scope(die->tag)) {
		name = snap_value_string(unit, &die->name);
		if (!name && die->tag == DW_TAG_namespace)
			name = "(anonymous namespace)";
	}
	if (way->depth < MAX_SCOPES)
		way->scopes[way->depth].name = name;
	way->depth++;
}

/* DIEs do not name their parents: the unit is searched from its start. */
static bool find_way(struct snap_unit *unit, uint64_t target, struct way *way)
{
	struct snap_cursor cursor = snap_unit_cursor(unit, unit->first);
	struct snap_die die;

	way->depth = 0;
	while (snap_unit_tell(unit, &cursor) < target && snap_dwarf_spend(unit->dwarf, 1)) {
		if (!snap_die_read(unit, &cursor, &die))
			return false;
		if (die.tag == 0) {
			if (way->depth-- <= 1)
				return false;
			continue;
		}
		if (!die.children)
			continue;
		if (die.sibling > snap_unit_tell(unit, &cursor) && die.sibling <= target)
			cursor = snap_unit_cursor(unit, die.sibling);
		else
			open_scope(way, unit, &die);
	}
	return snap_unit_tell(unit, &cursor) == target;
}

static const char *keep_name(struct snap_unit *unit, const char *name)
{
	return snap_intern(
		&unit->dwarf->symbolizer->names, name,
		snap_text_cut(name, strnlen(name, SNAP_MAX_MANGLED + 4), SNAP_MAX_MANGLED));
}

static const char *qualify_name(struct snap_unit *unit, uint64_t offset, const char *name)
{
	char text[SNAP_MAX_NAME];
	size_t length = 0;
	struct way way;

	if (!find_way(unit, offset, &way))
		return keep_name(unit, name);
	if (way.depth > MAX_SCOPES)
		way.depth = MAX_SCOPES;
	for (size_t i = 0; i < way.depth && length < sizeof(text); i++)
		if (way.scopes[i].name)
			length += (size_t)snprintf(text + length, sizeof(text) - length,
						   "%s::", way.scopes[i].name);
	if (length < sizeof(text))
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s", name);
	if (length >= sizeof(text))
		length = sizeof(text) - 1;
	return snap_intern(&unit->dwarf->symbolizer->names, text, length);
}

static bool read_at(struct snap_unit *unit, uint64_t offset, struct snap_die *ret)
{
	struct snap_cursor cursor;

	if (!snap_unit_read_root(unit, false))
		return false;
	cursor = snap_unit_cursor(unit, offset);
	return !cursor.failed && snap_die_read(unit, &cursor, ret) && ret->tag != 0;
}

static const char *find_name(struct snap_unit *unit, uint64_t offset, bool *is_linkage_ret)
{
	const char *name = NULL;
	struct snap_die die;

	*is_linkage_ret = false;
	for (int i = 0; i < MAX_STEPS && unit && read_at(unit, offset, &die); i++) {
		const char *linkage = snap_value_string(unit, &die.linkage_name);
		struct snap_unit *next;
		uint64_t next_offset;

		if (linkage && *linkage && !snap_language_is_by_source(unit->language) &&
		    !snap_symbolizer_is_unknown(unit->dwarf->symbolizer, linkage,
						strlen(linkage))) {
			*is_linkage_ret = true;
			return keep_name(unit, linkage);
		}
		if (!name)
			name = snap_value_string(unit, &die.name);
		next = snap_value_reference(
			unit, die.origin.form ? &die.origin : &die.specification, &next_offset);
		if (!next)
			break;
		unit = next;
		offset = next_offset;
	}
	if (!name || !*name)
		return NULL;
	/* The last DIE on the way is the declaration, which stands where the name belongs. */
	return unit && (snap_language_is_cxx(unit->language) ||
			snap_language_is_by_source(unit->language))
		       ? qualify_name(unit, offset, name)
		       : keep_name(unit, name);
}

/* The same functions are inlined at many addresses; a slot keeps the one that was asked for last.
 */
struct snap_die_name {
	const struct snap_unit *unit;
	uint64_t offset;
	const char *name;
	bool is_linkage;
};

enum { CACHED_NAMES = 1024 };

const char *snap_die_name(struct snap_unit *unit, uint64_t offset, bool *is_linkage_ret)
{
	struct snap_dwarf *dwarf = unit->dwarf;
	struct snap_die_name *slot;

	if (!dwarf->names)
		dwarf->names = calloc(CACHED_NAMES, sizeof(*dwarf->names));
	if (!dwarf->names)
		return find_name(unit, offset, is_linkage_ret);
	slot = &dwarf->names[(offset ^ offset >> 10) % CACHED_NAMES];
	if (slot->unit != unit || slot->offset != offset) {
		slot->name = find_name(unit, offset, &slot->is_linkage);
		slot->unit = unit;
		slot->offset = offset;
	}
	*is_linkage_ret = slot->is_linkage;
	return slot->name;
}
