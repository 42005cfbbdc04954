/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Abbreviation tables. They are read only as far as the highest code that is needed, because of
 * most units only the first DIE is read.
 */
#include "analyze/dwarf/dwarf.h"
#include "base/bsearch.h"
#include "base/buffer.h"

#include <dwarf.h>

enum { MAX_SPECS = 1 << 19 };

void snap_abbrevs_deinit(struct snap_abbrevs *abbrevs)
{
	free(abbrevs->list);
	free(abbrevs->specs);
	*abbrevs = (struct snap_abbrevs){ 0 };
}

static void begin_abbrevs(struct snap_abbrevs *abbrevs, struct snap_dwarf *dwarf,
			  const struct snap_unit *unit)
{
	abbrevs->dwarf = dwarf;
	abbrevs->offset = unit->abbrev_offset;
	abbrevs->address_size = unit->address_size;
	abbrevs->offset_size = unit->offset_size;
	abbrevs->version = unit->version;
	abbrevs->rest =
		snap_cursor_at(snap_dwarf_section(dwarf, SNAP_SECTION_ABBREV), unit->abbrev_offset);
	abbrevs->done = abbrevs->rest.failed;
	abbrevs->sorted = false;
	abbrevs->count = abbrevs->spec_count = 0;
}

static bool has_room_for_abbrev(const struct snap_abbrevs *abbrevs, const struct snap_unit *unit)
{
	return abbrevs->offset == unit->abbrev_offset && abbrevs->version == unit->version &&
	       abbrevs->address_size == unit->address_size &&
	       abbrevs->offset_size == unit->offset_size;
}

struct snap_abbrevs *snap_abbrevs_get(struct snap_dwarf *dwarf, const struct snap_unit *unit)
{
	struct snap_abbrevs *abbrevs;

	for (abbrevs = dwarf->abbrevs; abbrevs; abbrevs = abbrevs->next)
		if (has_room_for_abbrev(abbrevs, unit))
			return abbrevs;
	abbrevs = snap_dwarf_alloc(dwarf, 1, sizeof(*abbrevs));
	if (!abbrevs)
		return NULL;
	begin_abbrevs(abbrevs, dwarf, unit);
	abbrevs->next = dwarf->abbrevs;
	dwarf->abbrevs = abbrevs;
	return abbrevs;
}

struct snap_abbrevs *snap_abbrevs_look(struct snap_dwarf *dwarf, const struct snap_unit *unit)
{
	if (!dwarf->scratch.version || !has_room_for_abbrev(&dwarf->scratch, unit))
		begin_abbrevs(&dwarf->scratch, dwarf, unit);
	return &dwarf->scratch;
}

/* Sizes known before: then a whole DIE is skipped by one addition. */
static void measure_form(const struct snap_abbrevs *abbrevs, struct snap_abbrev *abbrev)
{
	uint64_t size = 0;

	abbrev->sibling_at = UINT32_MAX;
	for (uint32_t i = 0; i < abbrev->count; i++) {
		const struct snap_attr_spec *spec = &abbrevs->specs[abbrev->first + i];
		int one = spec->size;

		if (one < 0) {
			abbrev->size = UINT32_MAX;
			return;
		}
		if (spec->name == DW_AT_sibling &&
		    (spec->form == DW_FORM_ref1 || spec->form == DW_FORM_ref2 ||
		     spec->form == DW_FORM_ref4 || spec->form == DW_FORM_ref8)) {
			abbrev->sibling_at = (uint32_t)size;
			abbrev->sibling_size = (uint8_t)one;
		}
		size += (unsigned)one;
	}
	abbrev->size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

static bool have_no_memory(struct snap_abbrevs *abbrevs)
{
	abbrevs->dwarf->out_of_memory = true;
	return false;
}

static bool read_specs(struct snap_abbrevs *abbrevs, struct snap_abbrev *abbrev)
{
	struct snap_cursor *cursor = &abbrevs->rest;

	abbrev->first = (uint32_t)abbrevs->spec_count;
	while (!cursor->failed && abbrevs->spec_count < MAX_SPECS) {
		uint64_t name = snap_cursor_uleb(cursor), form = snap_cursor_uleb(cursor);
		int64_t implicit = form == DW_FORM_implicit_const ? snap_cursor_sleb(cursor) : 0;

		if (name == 0 && form == 0) {
			abbrev->count = (uint32_t)(abbrevs->spec_count - abbrev->first);
			return !cursor->failed;
		}
		/* A name out of range is no attribute; an unknown form ends the unit. */
		if (name > UINT16_MAX)
			name = 0;
		if (form > UINT16_MAX)
			return false;
		if (!snap_append(abbrevs->specs, abbrevs->spec_count, abbrevs->spec_capacity,
				 (struct snap_attr_spec){ .name = (uint16_t)name,
							  .form = (uint16_t)form,
							  .implicit = implicit }))
			return have_no_memory(abbrevs);
		abbrevs->specs[abbrevs->spec_count - 1].size =
			(int8_t)snap_form_size((unsigned)form, abbrevs->address_size,
					       abbrevs->offset_size, abbrevs->version);
	}
	return false;
}

/* The scratch table is one, however often it is used. */
static bool may_keep(struct snap_abbrevs *abbrevs, const struct snap_abbrev *abbrev)
{
	struct snap_dwarf *dwarf = abbrevs->dwarf;

	if (abbrevs == &dwarf->scratch)
		return abbrevs->count < MAX_SPECS;
	dwarf->kept += 2 * (sizeof(*abbrev) + abbrev->count * sizeof(*abbrevs->specs));
	return dwarf->kept < SNAP_MAX_DWARF_MEMORY;
}

/* Adds the next abbreviation; false: the table has ended, or makes no sense from here on. */
static bool read_next_abbrev(struct snap_abbrevs *abbrevs)
{
	struct snap_abbrev abbrev = { 0 };
	uint64_t tag;

	if (abbrevs->done)
		return false;
	abbrevs->done = true;
	abbrev.code = snap_cursor_uleb(&abbrevs->rest);
	if (abbrevs->rest.failed || abbrev.code == 0)
		return false;
	tag = snap_cursor_uleb(&abbrevs->rest);
	abbrev.tag = tag <= UINT16_MAX ? (uint16_t)tag : 0;
	abbrev.children = snap_cursor_u8(&abbrevs->rest) != 0;
	if (!read_specs(abbrevs, &abbrev) || !snap_dwarf_spend(abbrevs->dwarf, 1 + abbrev.count) ||
	    !may_keep(abbrevs, &abbrev))
		return false;
	if (!snap_reserve_array(abbrevs->list, abbrevs->capacity, abbrevs->count + 1))
		return have_no_memory(abbrevs);
	measure_form(abbrevs, &abbrev);
	abbrevs->list[abbrevs->count++] = abbrev;
	abbrevs->done = false;
	return true;
}

SNAP_ORDER(compare_codes, struct snap_abbrev, x, y, snap_compare(x->code, y->code));

const struct snap_abbrev *snap_abbrev_find(struct snap_abbrevs *abbrevs, uint64_t code)
{
	struct snap_abbrev key = { .code = code };

	while (!abbrevs->sorted && abbrevs->count < code && read_next_abbrev(abbrevs)) {
		if (abbrevs->list[abbrevs->count - 1].code == abbrevs->count)
			continue;
		/* Every producer counts 1, 2, 3 …; for one that does not, all are sorted. */
		while (read_next_abbrev(abbrevs))
			;
		qsort(abbrevs->list, abbrevs->count, sizeof(*abbrevs->list), compare_codes);
		abbrevs->sorted = true;
	}
	if (!abbrevs->sorted)
		return code - 1 < abbrevs->count ? &abbrevs->list[code - 1] : NULL;
	return bsearch(&key, abbrevs->list, abbrevs->count, sizeof(key), compare_codes);
}
