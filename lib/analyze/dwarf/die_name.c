/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the function at a DIE is called: its linkage name, by way of its origin and specification;
 * else its name in the source, with the namespaces and classes around it.
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
};

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

	if (is_scope(die->tag)) {
		name = snap_value_string(unit, &die->name);
		if (!name && die->tag == DW_TAG_namespace)
			name = "(anonymous namespace)";
	}
	if (way->depth < MAX_SCOPES)
		way->scopes[way->depth].name = name;
	way->depth++;
}

/* DIEs do not say who holds them: the unit is searched from its start. */
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

static const char *keep(struct snap_unit *unit, const char *name)
{
	return snap_intern(
		&unit->dwarf->symbolizer->names, name,
		snap_text_cut(name, strnlen(name, SNAP_MAX_NAME + 3), SNAP_MAX_NAME - 1));
}

static const char *qualify(struct snap_unit *unit, uint64_t offset, const char *name)
{
	char text[SNAP_MAX_NAME];
	size_t length = 0;
	struct way way;

	if (!find_way(unit, offset, &way))
		return keep(unit, name);
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

		if (linkage && *linkage) {
			*is_linkage_ret = true;
			return keep(unit, linkage);
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
	return unit && snap_language_is_cxx(unit->language) ? qualify(unit, offset, name)
							    : keep(unit, name);
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
