/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fields of structures, by libdw: see fields.h. The number of entries that are read is limited, and
 * the image limits how much is unpacked.
 */
#include "analyze/dwarf/fields.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <string.h>

enum { MOST_ENTRIES = 1 << 20, MOST_UNITS = 1 << 16 };

struct walk {
	struct snap_field *fields;
	size_t count;
	unsigned entries; /* looked at so far */
};

static bool next_entry(struct walk *walk, Dwarf_Die *die)
{
	return ++walk->entries < MOST_ENTRIES && dwarf_siblingof(die, die) == 0;
}

static void note_field(struct walk *walk, const char *structure, Dwarf_Die *member)
{
	const char *name = dwarf_diename(member);
	Dwarf_Attribute attribute;
	Dwarf_Word offset;

	for (size_t i = 0; i < walk->count && name; i++)
		if (strcmp(walk->fields[i].name, name) == 0 &&
		    strcmp(walk->fields[i].structure, structure) == 0 &&
		    dwarf_attr(member, DW_AT_data_member_location, &attribute) &&
		    dwarf_formudata(&attribute, &offset) == 0 && offset < SNAP_NO_FIELD)
			walk->fields[i].offset = (uint16_t)offset;
}

static bool is_structure_wanted(const struct walk *walk, const char *structure)
{
	for (size_t i = 0; i < walk->count && structure; i++)
		if (strcmp(walk->fields[i].structure, structure) == 0)
			return true;
	return false;
}

static void look_at_unit(struct walk *walk, Dwarf_Die *unit)
{
	Dwarf_Die die, member;

	if (dwarf_child(unit, &die) != 0)
		return;
	do {
		const char *name;

		if (dwarf_tag(&die) != DW_TAG_structure_type)
			continue;
		name = dwarf_diename(&die);
		if (!is_structure_wanted(walk, name) || dwarf_child(&die, &member) != 0)
			continue;
		do {
			if (dwarf_tag(&member) == DW_TAG_member)
				note_field(walk, name, &member);
		} while (next_entry(walk, &member));
	} while (next_entry(walk, &die));
}

/* libdw opens other files by their names, and only the finder may: those that need one are left. */
static bool stands_alone(struct snap_image *image)
{
	uint64_t address;

	return !snap_image_section_address(image, ".gnu_debugaltlink", &address) &&
	       !snap_image_section_address(image, ".debug_sup", &address);
}

bool snap_dwarf_fields(struct snap_image *image, const char *unit, struct snap_field *fields,
		       size_t count)
{
	struct walk walk = { .fields = fields, .count = count };
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	Dwarf *dwarf;
	bool found = false;

	for (size_t i = 0; i < count; i++)
		fields[i].offset = SNAP_NO_FIELD;
	if (snap_image_inflated(image) == UINT64_MAX || !stands_alone(image) ||
	    !snap_image_elf(image))
		return false;
	dwarf = dwarf_begin_elf(snap_image_elf(image), DWARF_C_READ, NULL);
	for (unsigned i = 0; dwarf && i < MOST_UNITS; i++) {
		const char *name;

		if (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &die, NULL) != 0)
			break;
		name = dwarf_diename(&die);
		if (!name || strcmp(name, unit) != 0)
			continue;
		found = true;
		look_at_unit(&walk, &die);
	}
	if (dwarf)
		dwarf_end(dwarf);
	return found;
}
