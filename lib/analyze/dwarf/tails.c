/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tail calls: the places of a function where it jumps to another one in place of a call and a return
 * (DW_TAG_call_site with DW_AT_call_tail_call, DWARF 5 section 3.4; DW_TAG_GNU_call_site before). Does
 * not know where they lead: the code says so.
 */
#include "analyze/dwarf/dwarf.h"

#include <dwarf.h>

static void take_first_range(void *context, uint64_t low, uint64_t high)
{
	uint64_t *first = context;

	if (low < high && !*first)
		*first = low;
}

/* Where the code of a function begins: with the part that is entered, if it has several. */
static uint64_t begin_of_function(struct snap_unit *unit, const struct snap_die *die)
{
	uint64_t begin = 0;

	if (!snap_value_address(unit, &die->low_pc, &begin) && die->ranges.form)
		snap_ranges_read(unit, &die->ranges, take_first_range, &begin);
	return begin;
}

static bool read_site(struct snap_unit *unit, const struct snap_die *die,
		      struct snap_tail_site *ret)
{
	bool is_gnu = die->tag == DW_TAG_GNU_call_site;

	*ret = (struct snap_tail_site){ 0 };
	return die->is_tail_call && (is_gnu || die->tag == DW_TAG_call_site) &&
	       (snap_value_address(unit, is_gnu ? &die->low_pc : &die->call_return_pc,
				   &ret->behind) ||
		snap_value_address(unit, &die->call_pc, &ret->jump));
}

/* Whether children are read: functions with code may be among them, or nothing says what is behind them. */
static bool enters_children(const struct snap_die *die, uint64_t here)
{
	return die->tag == DW_TAG_compile_unit || die->tag == DW_TAG_namespace ||
	       die->tag == DW_TAG_module || die->sibling <= here;
}

size_t snap_tail_sites(struct snap_unit *unit, uint64_t function, struct snap_tail_site *ret,
		       size_t most)
{
	struct snap_cursor cursor = snap_unit_cursor(unit, unit->first);
	uint64_t depth = 0, inside = 0; /* inside: the depth of the function's children */
	struct snap_die die;
	size_t count = 0;

	while (count < most && snap_unit_tell(unit, &cursor) < unit->end &&
	       snap_dwarf_spend(unit->dwarf, 1) && snap_die_read(unit, &cursor, &die)) {
		if (die.tag == 0) {
			if (depth-- <= inside || depth == 0)
				break;
			continue;
		}
		if (inside && read_site(unit, &die, &ret[count]))
			count++;
		if (!inside && die.tag == DW_TAG_subprogram &&
		    begin_of_function(unit, &die) == function)
			inside = depth + 1;
		if (!die.children)
			continue;
		if (inside || enters_children(&die, snap_unit_tell(unit, &cursor)))
			depth++;
		else
			cursor = snap_unit_cursor(unit, die.sibling);
	}
	return count;
}
