/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * DWARF 2 to 5 as far as naming an address needs it: units, abbreviations, attributes, ranges.
 *
 * This is an own reader because libdw unpacks every section and keeps tables of whole units, where
 * a few addresses are wanted: see doc/decisions/36-own-dwarf-reader.md. Sections are unpacked on
 * demand, tables are read as far as needed, and only what is used again is kept. Every offset is
 * checked; loops end because each step consumes bytes or is counted. Knows nothing of processes, of
 * where files lie (the symbolizer's finder does), nor of unwinding.
 */
#pragma once

#include "analyze/dwarf/partial.h"
#include "analyze/elf/cursor.h"
#include "analyze/symbol/symbolizer.h"

enum snap_section {
	SNAP_SECTION_INFO,
	SNAP_SECTION_ABBREV,
	SNAP_SECTION_STR,
	SNAP_SECTION_LINE_STR,
	SNAP_SECTION_STR_OFFSETS,
	SNAP_SECTION_ADDR,
	SNAP_SECTION_RNGLISTS,
	SNAP_SECTION_RANGES,
	SNAP_SECTION_ARANGES,
	SNAP_SECTION_LINE,
	SNAP_SECTION_CU_INDEX, /* of a package alone */
	SNAP_SECTION_COUNT,
};

struct snap_attr_spec {
	uint16_t name, form;
	int8_t size;      /* bytes of a value; negative: it depends (form.c) */
	int64_t implicit; /* DW_FORM_implicit_const */
};

struct snap_abbrev {
	uint64_t code;
	uint16_t tag;
	bool children;
	uint32_t first, count; /* of its attributes in the table's list */
	uint32_t size;         /* bytes of all attributes; UINT32_MAX: it depends */
	uint32_t sibling_at;   /* where DW_AT_sibling's value is; UINT32_MAX: none, or it depends */
	uint8_t sibling_size;
};

/* The abbreviations at one offset, for one shape of units; read as far as codes were asked for. */
struct snap_abbrevs {
	struct snap_abbrevs *next;
	struct snap_dwarf *dwarf;
	uint64_t offset;
	unsigned address_size, offset_size, version;
	struct snap_cursor rest;
	bool done, sorted; /* sorted: codes have gaps, the list is sorted by code */
	struct snap_abbrev *list;
	size_t count, capacity;
	struct snap_attr_spec *specs;
	size_t spec_count, spec_capacity;
};

struct snap_dwarf;

/* Where the sections of the .dwo file begin that a unit of a package came from. */
struct snap_part {
	uint64_t info, abbrev, str_offsets, rnglists;
};

struct snap_unit {
	struct snap_dwarf *dwarf;
	uint64_t offset, end; /* in .debug_info */
	uint64_t first;       /* of its first DIE */
	uint64_t abbrev_offset, dwo_id;
	uint16_t version;
	uint8_t type, address_size, offset_size;
	bool root_read, root_fine;
	bool has_children;     /* its root DIE */
	struct snap_part part; /* zeros, but in a package */
	struct snap_abbrevs *abbrevs;
	/* of the root DIE */
	uint64_t low_pc, high_pc, str_offsets_base, addr_base, rnglists_base, ranges_base;
	uint64_t stmt_list;
	struct snap_attr_value { /* what an attribute says */
		uint16_t form;   /* 0: it is not there */
		uint64_t number;
		const uint8_t *data; /* of a string in the unit itself */
	} ranges;
	bool has_low_pc, has_high_pc, high_is_size, has_stmt_list;
	unsigned language;
	const char *name, *comp_dir, *dwo_name;
	struct snap_unit *skeleton;    /* of a split unit: has its addresses, lines and directory */
	struct snap_line_table *lines; /* lines.c; NULL until asked for */
};

/* The DWARF of one image, or of the .dwo part of one. */
struct snap_dwarf {
	struct snap_symbolizer *symbolizer;
	struct snap_file_symbols *symbols;
	struct snap_image *image;
	struct snap_dwarf *alt;                 /* by snap_dwarf_alt() */
	struct snap_dwarf *splits, *next_split; /* of .dwo files, by snap_split_unit() */
	struct snap_dwarf *package;             /* the one of `splits` that is PROGRAM.dwp */
	bool package_tried, is_dwo, is_alt, owns_image;
	uint64_t first_code; /* the lowest executable address of the image, at least 1 */
	struct snap_bytes sections[SNAP_SECTION_COUNT];
	bool section_tried[SNAP_SECTION_COUNT];
	struct snap_partial info, line; /* if they are compressed */
	struct snap_arena arena;
	struct snap_abbrevs *abbrevs; /* of units that were used */
	struct snap_abbrevs scratch;  /* of the unit that is only looked at */
	struct snap_unit **units;     /* sorted by offset; complete if `indexed` */
	size_t unit_count, unit_capacity;
	bool indexed, out_of_memory;
	uint64_t work;               /* steps taken so far, by snap_dwarf_spend() */
	size_t kept;                 /* bytes outside of the arena */
	struct snap_die_name *names; /* die.c: a cache; malloc'ed */
};

/*
 * More than any honest file asks for: two seconds, and a third of what all of us together may use.
 * Pages of the file that were read go back now and then: RETURN_PAGES steps may have touched as
 * many of them.
 */
enum {
	SNAP_MAX_WORK = 1 << 27,
	SNAP_MAX_DWARF_MEMORY = 64 << 20,
	SNAP_RETURN_PAGES = 1 << 20,
	SNAP_UNIT_WORK = 64,         /* steps of listing a unit */
	SNAP_LOOK_AT_TIME = 1 << 12, /* steps between two looks at whether time is up */
};

/* Gives pages of the file back to the kernel, which brings them again where they are read. */
void snap_dwarf_let_go(struct snap_dwarf *dwarf);

/*
 * Counts steps whose number the file can multiply (the same list read for each of its DIEs);
 * false: enough, what is asked for now stays unknown.
 */
static inline bool snap_dwarf_spend(struct snap_dwarf *dwarf, uint64_t steps)
{
	uint64_t before = dwarf->work;

	dwarf->work += steps;
	if (before / SNAP_RETURN_PAGES != dwarf->work / SNAP_RETURN_PAGES)
		snap_dwarf_let_go(dwarf);
	if (before / SNAP_LOOK_AT_TIME != dwarf->work / SNAP_LOOK_AT_TIME &&
	    snap_symbolizer_is_late(dwarf->symbolizer))
		dwarf->work = SNAP_MAX_WORK;
	return dwarf->work < SNAP_MAX_WORK;
}

struct snap_dwarf *snap_dwarf_open(struct snap_symbolizer *symbolizer,
				   struct snap_file_symbols *symbols, struct snap_image *image,
				   bool is_dwo);
void snap_dwarf_close(struct snap_dwarf *dwarf);
struct snap_bytes snap_dwarf_section(struct snap_dwarf *dwarf, enum snap_section section);
/*
 * Says which units of .debug_info or .debug_line will be asked for, before the first question: of
 * a compressed section no others are unpacked. The offsets get sorted.
 */
void snap_dwarf_want(struct snap_dwarf *dwarf, enum snap_section section, uint64_t *offsets,
		     size_t count);
/* The alt file's DWARF (dwz), NULL if it is not to be had. */
struct snap_dwarf *snap_dwarf_alt(struct snap_dwarf *dwarf);

/* The unit whose header is at an offset of .debug_info; NULL: there is none. */
struct snap_unit *snap_unit_at(struct snap_dwarf *dwarf, uint64_t offset);
/* The unit that an offset lies in. Makes the index of all units. */
struct snap_unit *snap_unit_around(struct snap_dwarf *dwarf, uint64_t offset);
/* Makes the index; false without memory. */
bool snap_units_index(struct snap_dwarf *dwarf);
/* Reads the root DIE's attributes; false: it makes no sense. `look`: keeps no abbreviations. */
bool snap_unit_read_root(struct snap_unit *unit, bool look);
/*
 * Makes room in the reader's arena. NULL: without memory, which is remembered, or beyond
 * SNAP_MAX_DWARF_MEMORY, which is not: then what was asked for stays unknown.
 */
void *snap_dwarf_alloc(struct snap_dwarf *dwarf, size_t count, size_t size);

/* split.c: the unit in a .dwo file, or in a package of them, for a skeleton; NULL: none. */
struct snap_unit *snap_split_unit(struct snap_unit *skeleton);

/* package.c: the unit of a package (.dwp) with an id; NULL: none. */
struct snap_unit *snap_package_unit(struct snap_dwarf *package, uint64_t id);

/* abbrev.c */
struct snap_abbrevs *snap_abbrevs_get(struct snap_dwarf *dwarf, const struct snap_unit *unit);
struct snap_abbrevs *snap_abbrevs_look(struct snap_dwarf *dwarf, const struct snap_unit *unit);
void snap_abbrevs_deinit(struct snap_abbrevs *abbrevs);
/* NULL: no such code. Valid until the next call: the list moves as it grows. */
const struct snap_abbrev *snap_abbrev_find(struct snap_abbrevs *abbrevs, uint64_t code);

/* form.c: reading and skipping attribute values. */
int snap_form_size(unsigned form, unsigned address_size, unsigned offset_size, unsigned version);
void snap_form_read(const struct snap_unit *unit, const struct snap_attr_spec *spec,
		    struct snap_cursor *cursor, struct snap_attr_value *ret);
/* NULL: not a string, or not there. */
const char *snap_value_string(const struct snap_unit *unit, const struct snap_attr_value *value);
bool snap_value_address(const struct snap_unit *unit, const struct snap_attr_value *value,
			uint64_t *ret);
/* The DIE that a reference leads to: its unit, and its offset in that unit's .debug_info. */
struct snap_unit *snap_value_reference(struct snap_unit *unit, const struct snap_attr_value *value,
				       uint64_t *offset_ret);

/* ranges.c: calls back for each range; empty ones and those of discarded code are left out. */
typedef void snap_range_function(void *context, uint64_t low, uint64_t high);
void snap_ranges_read(const struct snap_unit *unit, const struct snap_attr_value *ranges,
		      snap_range_function *function, void *context);
/*
 * The unit of each hit, by .debug_aranges and by the root DIEs; `units[i]` NULL: none. `cheaply`: a
 * compressed section is not unpacked for it beyond the units of the first question.
 */
void snap_ranges_assign(struct snap_dwarf *dwarf, const struct snap_hit *hits, size_t count,
			struct snap_unit **units, bool cheaply);

/* lines.c: fills file, line and column of hits that lie in the unit. */
void snap_lines_find(struct snap_unit *unit, struct snap_hit **hits, size_t count);
/* A file of the unit's line table, in full, interned; NULL unknown. */
const char *snap_lines_file(struct snap_unit *unit, uint64_t index);

/* tails.c: where a function, whose code begins at `function`, ends in a jump to another one. */
struct snap_tail_site {
	uint64_t jump;   /* the address of the instruction, or 0 and … */
	uint64_t behind; /* … that behind it */
};
size_t snap_tail_sites(struct snap_unit *unit, uint64_t function, struct snap_tail_site *ret,
		       size_t most);

/* inlines.c: fills functions and inline chains of hits that lie in the unit. */
void snap_inlines_find(struct snap_unit *unit, struct snap_hit **hits, size_t count);
/* Languages of DW_AT_language; the first includes the second. */
bool snap_language_is_c(unsigned language);
bool snap_language_is_cxx(unsigned language);
bool snap_language_is_ada(unsigned language);
/* Whether users know functions by their names in the source, as Fortran's "m::f", and gdb shows these. */
bool snap_language_is_by_source(unsigned language);
/* die.c: what the function at a DIE is called; interned; NULL unknown. */
const char *snap_die_name(struct snap_unit *unit, uint64_t offset, bool *is_linkage_ret);

/* The attributes of a DIE that are used here. */
struct snap_die {
	uint64_t offset;
	uint16_t tag; /* 0: the end of a list of children */
	bool children;
	struct snap_attr_value low_pc, high_pc, ranges, origin, specification, name, linkage_name;
	uint64_t sibling; /* 0: not said */
	uint64_t call_file, call_line, call_column;
	struct snap_attr_value call_pc, call_return_pc; /* of a call site */
	bool is_tail_call;
};

/* Reads the DIE at the cursor and moves behind its attributes; false: corrupt. */
bool snap_die_read(struct snap_unit *unit, struct snap_cursor *cursor, struct snap_die *ret);
/* A cursor over the unit's DIEs, at an offset of .debug_info. */
struct snap_cursor snap_unit_cursor(const struct snap_unit *unit, uint64_t offset);
/* Where a cursor stands in .debug_info. */
uint64_t snap_unit_tell(const struct snap_unit *unit, const struct snap_cursor *cursor);
