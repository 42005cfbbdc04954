/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Inlined functions: one pass over a unit's DIEs. It enters only functions whose code contains one
 * of the addresses, and inside them only blocks that do.
 *
 * The walk keeps no stack: it counts open lists of children. A function that covers an address is
 * noted at that address, outermost first. So depth costs nothing and needs no limit.
 */
#include "analyze/dwarf/dwarf.h"

#include <dwarf.h>

/* A covering inlined function, noted at an address; the innermost is the head of the list. */
struct layer {
	struct layer *outer;
	struct snap_attr_value origin;
	uint64_t call_file;
	uint32_t call_line, call_column;
};

struct place {
	struct snap_hit *hit;
	struct layer *layers;
	size_t layer_count;
	uint64_t depth;    /* of the innermost DIE that was noted */
	uint64_t function; /* offset of the function's DIE; 0: none */
};

struct walk {
	struct snap_unit *unit;
	struct place *places;
	size_t count;
	struct snap_cursor cursor;
	uint64_t depth; /* open lists of children */
	bool skipping;  /* until the list at depth skip_depth + 1 ends */
	uint64_t skip_depth;
	bool types;      /* types can hold functions with code */
	bool everything; /* functions can hold others that lie elsewhere */
	/* the DIE that is being looked at */
	const struct snap_die *die;
	bool covers;
};

enum action { SKIP, ENTER, FUNCTION, INLINED, BLOCK };

static enum action action_of(const struct walk *walk, unsigned tag)
{
	switch (tag) {
	case DW_TAG_compile_unit:
	case DW_TAG_skeleton_unit:
	case DW_TAG_namespace:
	case DW_TAG_module:
		return ENTER;
	case DW_TAG_subprogram:
		return FUNCTION;
	case DW_TAG_inlined_subroutine:
		return INLINED;
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt:
		return BLOCK;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_interface_type:
		return walk->types ? ENTER : SKIP;
	default:
		return SKIP;
	}
}

static void note_inlined(struct walk *walk, struct place *place)
{
	const struct snap_die *die = walk->die;
	struct layer *layer;

	if (die->tag == DW_TAG_subprogram) {
		place->function = die->offset;
		place->layers = NULL;
		place->layer_count = 0;
		place->depth = walk->depth;
		return;
	}
	if (die->tag != DW_TAG_inlined_subroutine || walk->depth <= place->depth ||
	    place->layer_count == SNAP_MAX_INLINES)
		return;
	layer = snap_dwarf_alloc(walk->unit->dwarf, 1, sizeof(*layer));
	if (!layer)
		return;
	*layer = (struct layer){ .outer = place->layers,
				 .origin = die->origin,
				 .call_file = die->call_file,
				 .call_line = (uint32_t)die->call_line,
				 .call_column = (uint32_t)die->call_column };
	place->layers = layer;
	place->layer_count++;
	place->depth = walk->depth;
}

/* The places in a range of the DIE. */
static void cover_hits(void *context, uint64_t low, uint64_t high)
{
	struct walk *walk = context;
	size_t from = 0, to = walk->count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (walk->places[middle].hit->vaddr < low)
			from = middle + 1;
		else
			to = middle;
	}
	for (; from < walk->count && walk->places[from].hit->vaddr < high; from++) {
		if (!snap_dwarf_spend(walk->unit->dwarf, 1))
			return;
		walk->covers = true;
		note_inlined(walk, &walk->places[from]);
	}
}

/* Whether to go into a DIE with code. */
static bool look_at_die(struct walk *walk, const struct snap_die *die)
{
	struct snap_unit *unit = walk->unit;
	uint64_t low, high;

	walk->die = die;
	walk->covers = false;
	if (die->ranges.form) {
		snap_ranges_read(unit, &die->ranges, cover_hits, walk);
	} else if (snap_value_address(unit, &die->low_pc, &low)) {
		if (!snap_value_address(unit, &die->high_pc, &high))
			high = low + die->high_pc.number;
		if (low >= unit->dwarf->first_code && die->high_pc.form)
			cover_hits(walk, low, high);
	} else if (die->tag == DW_TAG_lexical_block) {
		return true; /* says nothing of its code, but may hold what does */
	}
	return walk->covers || walk->everything;
}

/* Moves behind the attributes of a DIE that are not used; returns its sibling, 0 unknown. */
static uint64_t skip_attributes(struct walk *walk, const struct snap_abbrev *abbrev)
{
	struct snap_unit *unit = walk->unit;
	uint64_t sibling = 0;

	if (abbrev->size != UINT32_MAX) {
		if (abbrev->sibling_at != UINT32_MAX &&
		    abbrev->size <= snap_cursor_left(&walk->cursor))
			memcpy(&sibling, walk->cursor.p + abbrev->sibling_at, abbrev->sibling_size);
		snap_cursor_skip(&walk->cursor, abbrev->size);
	} else {
		if (!snap_dwarf_spend(unit->dwarf, abbrev->count))
			snap_cursor_fail(&walk->cursor);
		for (uint32_t i = 0; i < abbrev->count && !walk->cursor.failed; i++) {
			const struct snap_attr_spec *spec =
				&unit->abbrevs->specs[abbrev->first + i];
			struct snap_attr_value value;

			snap_form_read(unit, spec, &walk->cursor, &value);
			if (spec->name == DW_AT_sibling)
				sibling = value.number;
		}
	}
	return sibling && sibling < unit->end - unit->offset ? unit->offset + sibling : 0;
}

static void enter_die(struct walk *walk, bool children)
{
	if (children)
		walk->depth++;
}

/* Leaves the children out: by the sibling if it is given, which must lie ahead. */
static void leave_out(struct walk *walk, bool children, uint64_t sibling)
{
	if (!children)
		return;
	if (sibling > snap_unit_tell(walk->unit, &walk->cursor)) {
		walk->cursor.p =
			snap_dwarf_section(walk->unit->dwarf, SNAP_SECTION_INFO).data + sibling;
		return;
	}
	if (!walk->skipping) {
		walk->skipping = true;
		walk->skip_depth = walk->depth;
	}
	walk->depth++;
}

/* One DIE; false: the unit has ended. */
static bool step_die(struct walk *walk)
{
	struct snap_cursor start = walk->cursor;
	const struct snap_abbrev *abbrev;
	struct snap_die die;
	enum action action;
	uint64_t code = snap_cursor_uleb(&walk->cursor);

	if (walk->cursor.failed)
		return false;
	if (code == 0) {
		if (walk->depth-- <= 1)
			return false;
		if (walk->skipping && walk->depth == walk->skip_depth)
			walk->skipping = false;
		return true;
	}
	abbrev = snap_abbrev_find(walk->unit->abbrevs, code);
	if (!abbrev)
		return false;
	action = walk->skipping ? SKIP : action_of(walk, abbrev->tag);
	if (action == SKIP || action == ENTER) {
		bool children = abbrev->children;
		uint64_t sibling = skip_attributes(walk, abbrev);

		if (action == ENTER)
			enter_die(walk, children);
		else
			leave_out(walk, children, sibling);
	} else {
		walk->cursor = start;
		if (!snap_die_read(walk->unit, &walk->cursor, &die))
			return false;
		if (look_at_die(walk, &die))
			enter_die(walk, die.children);
		else
			leave_out(walk, die.children, die.sibling);
	}
	return walk->depth > 0 && !walk->cursor.failed;
}

static void run_unit(struct walk *walk)
{
	walk->cursor = snap_unit_cursor(walk->unit, walk->unit->first);
	walk->depth = 0;
	walk->skipping = false;
	while (snap_dwarf_spend(walk->unit->dwarf, 1) && step_die(walk))
		;
}

/* What was noted becomes the hit's chain: names are looked up only now. */
static void settle_hits(struct walk *walk, const struct place *place)
{
	struct snap_symbolizer *symbolizer = walk->unit->dwarf->symbolizer;
	struct snap_hit *hit = place->hit;
	struct snap_inlined *inlined;
	size_t i = 0;

	hit->is_ada = snap_language_is_ada(walk->unit->language);
	hit->is_by_source =
		snap_language_is_by_source(walk->unit->language) ||
		(place->function && hit->symbol_rank > 0 &&
		 snap_symbolizer_is_unknown(symbolizer, hit->symbol, hit->symbol_length));
	if (place->function &&
	    (hit->symbol_rank == 0 || hit->is_by_source || snap_hit_is_folded(hit)))
		hit->function =
			snap_die_name(walk->unit, place->function, &hit->function_is_linkage);
	if (place->layer_count == 0)
		return;
	inlined = snap_arena_new_array(symbolizer->arena, place->layer_count, struct snap_inlined);
	if (!inlined) {
		walk->unit->dwarf->out_of_memory = true;
		return;
	}
	for (const struct layer *layer = place->layers; layer; layer = layer->outer, i++) {
		struct snap_unit *unit;
		uint64_t offset;

		unit = snap_value_reference(walk->unit, &layer->origin, &offset);
		if (unit)
			inlined[i].symbol = snap_die_name(unit, offset, &inlined[i].is_linkage);
		inlined[i].call_file = snap_lines_file(walk->unit, layer->call_file);
		inlined[i].call_line = layer->call_line;
		inlined[i].call_column = layer->call_column;
	}
	hit->inlines = inlined;
	hit->inline_count = place->layer_count;
}

void snap_inlines_find(struct snap_unit *unit, struct snap_hit **hits, size_t count)
{
	_cleanup_free_ struct place *places = calloc(count, sizeof(*places));
	struct walk walk = { .unit = unit, .places = places, .count = count };

	if (!places) {
		unit->dwarf->out_of_memory = true;
		return;
	}
	for (size_t i = 0; i < count; i++)
		places[i].hit = hits[i];
	/* C and C++ define functions outside of types; there this saves most of the walk. */
	walk.types = !snap_language_is_c(unit->language);
	run_unit(&walk);
	if (!snap_all(walk.count, i, walk.places[i].function)) {
		walk.types = walk.everything = true;
		for (size_t i = 0; i < count; i++)
			places[i] = (struct place){ .hit = hits[i] };
		run_unit(&walk);
	}
	for (size_t i = 0; i < count; i++)
		settle_hits(&walk, &places[i]);
}
