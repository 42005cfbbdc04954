/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The flow of symbolizing one file: see symbolize.h.
 *
 * Names come first, from the best symbol table. DWARF is read only if lines or inlined functions
 * are wanted. Go's own table names Go code that neither names. Then the entries are put together.
 */
#include "analyze/dwarf/dwarf.h"
#include "analyze/runtime/go/table.h"
#include "base/bsearch.h"
#include "base/clock.h"

#include <string.h>

enum { LOOK_AT_TIME = 1 << 10 }; /* names between two looks at whether the file is late */

struct stacksnap_error *snap_symbolizer_create(const struct snap_file_finder *finder,
					       const struct snap_options *options,
					       struct snap_arena *arena,
					       struct snap_symbolizer **ret)
{
	struct snap_symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));

	SNAP_TRY(snap_no_memory_unless(symbolizer));
	symbolizer->finder = finder;
	symbolizer->options = options;
	symbolizer->arena = arena;
	snap_interner_init(&symbolizer->names, arena);
	*ret = symbolizer;
	return NULL;
}

void snap_symbolizer_destroy(struct snap_symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	while (symbolizer->files) {
		struct snap_file_symbols *symbols = symbolizer->files;

		symbolizer->files = symbols->next;
		snap_debugfile_close(symbols);
		free(symbols);
	}
	snap_interner_deinit(&symbolizer->names);
	free(symbolizer);
}

struct snap_file_symbols *snap_symbolizer_symbols(struct snap_symbolizer *symbolizer,
						  struct snap_module_file *file)
{
	struct snap_file_symbols *symbols = file->symbols;

	if (symbols)
		return symbols;
	symbols = calloc(1, sizeof(*symbols));
	if (!symbols)
		return NULL;
	symbols->file = file;
	symbols->next = symbolizer->files;
	symbolizer->files = symbols;
	file->symbols = symbols;
	return symbols;
}

const char *snap_symbolizer_trouble(const struct snap_symbolizer *symbolizer _unused_,
				    const struct snap_module_file *file)
{
	const struct snap_file_symbols *symbols = file->symbols;

	return symbols ? symbols->trouble : NULL;
}

size_t snap_symbolizer_missing_units(const struct snap_module_file *file, const char **first_ret)
{
	const struct snap_file_symbols *symbols = file->symbols;

	*first_ret = symbols ? symbols->missing_file : NULL;
	return *first_ret ? symbols->missing_units : 0;
}

bool snap_symbolizer_is_late(struct snap_symbolizer *symbolizer)
{
	symbolizer->is_late |=
		snap_options_have_enough(symbolizer->options) ||
		(symbolizer->until_ns && snap_clock_ns(CLOCK_MONOTONIC) > symbolizer->until_ns);
	return symbolizer->is_late;
}

static bool has_symtab(struct snap_image *image)
{
	struct snap_bytes symbols, strings;

	return snap_image_symbols(image, false, &symbols, &strings) && symbols.size > 0;
}

static bool all_named(const struct snap_hit *hits, size_t count)
{
	return snap_all(count, i, hits[i].symbol_rank != 0);
}

/*
 * The whole table of the debug file or of the image itself, then what a stripped file still has:
 * Go's own table, symbols for other files.
 * PLT stubs have no symbol; labels without a size come last: a symbol that says how long it is is
 * believed first.
 */
static struct stacksnap_error *find_names(struct snap_symbolizer *symbolizer,
					  struct snap_file_symbols *symbols, struct snap_hit *hits,
					  size_t count)
{
	struct snap_image *image = symbols->file->image, *full = image;

	if (!has_symtab(image) && snap_debugfile_open(symbolizer, symbols))
		full = symbols->debug;
	snap_symtab_scan(symbolizer, full, false, hits, count);
	if (full == image && !has_symtab(image) && snap_debugfile_open_mini(symbolizer, symbols))
		snap_symtab_scan(symbolizer, symbols->mini, false, hits, count);
	if (!all_named(hits, count))
		snap_gotable_name(symbols, hits, count);
	if (!all_named(hits, count))
		snap_symtab_scan(symbolizer, image, true, hits, count);
	if (!all_named(hits, count))
		SNAP_TRY(snap_plt_scan(symbolizer, image, hits, count));
	snap_symtab_scan_labels(symbolizer, full, false, hits, count);
	return NULL;
}

static bool has_dwarf(struct snap_image *image)
{
	uint64_t address;

	return snap_image_section_address(image, ".debug_info", &address) ||
	       snap_image_section_address(image, ".zdebug_info", &address);
}

struct stacksnap_error *snap_symbolizer_open_dwarf(struct snap_symbolizer *symbolizer,
						   struct snap_file_symbols *symbols)
{
	struct snap_image *image = symbols->file->image;

	if (symbols->dwarf)
		return NULL;
	if (!has_dwarf(image)) {
		if (!snap_debugfile_open(symbolizer, symbols) || !has_dwarf(symbols->debug))
			return NULL;
		image = symbols->debug;
	}
	symbols->dwarf = snap_dwarf_open(symbolizer, symbols, image, false);
	return symbols->dwarf ? NULL : snap_error_no_memory();
}

/* An address and the unit that it lies in. */
struct located {
	struct snap_unit *unit;
	struct snap_hit *hit;
};

SNAP_ORDER(compare_located, struct located, x, y, snap_compare(x->unit->offset, y->unit->offset),
	   snap_compare(x->hit->vaddr, y->hit->vaddr));

static struct stacksnap_error *look_into_unit(struct snap_symbolizer *symbolizer,
					      struct snap_unit *unit, struct snap_hit **hits,
					      size_t count)
{
	SNAP_TRY(snap_options_check(symbolizer->options));
	if (snap_symbolizer_is_late(symbolizer))
		return NULL;
	if (!snap_unit_read_root(unit, false)) {
		snap_symbols_trouble(symbolizer, unit->dwarf->symbols,
				     "corrupt debug information in the unit at 0x%llx",
				     (unsigned long long)unit->offset);
		return NULL;
	}
	if (symbolizer->options->lines)
		snap_lines_find(unit, hits, count);
	if (symbolizer->options->inlines) {
		struct snap_unit *split = snap_split_unit(unit);

		snap_inlines_find(split ? split : unit, hits, count);
		if (split && split->dwarf->out_of_memory)
			return snap_error_no_memory();
	}
	if (unit->dwarf->work >= SNAP_MAX_WORK)
		snap_symbols_trouble(symbolizer, unit->dwarf->symbols,
				     "its debug information is too expensive to read");
	return snap_no_memory_unless(!unit->dwarf->out_of_memory);
}

/* Announces the line programs that will be needed, before the first one is read. */
static struct stacksnap_error *want_lines(struct snap_dwarf *dwarf, const struct located *located,
					  size_t count)
{
	_cleanup_free_ uint64_t *offsets = calloc(count, sizeof(*offsets));
	size_t wanted = 0;

	SNAP_TRY(snap_no_memory_unless(offsets));
	for (size_t i = 0; i < count; i++)
		if ((i == 0 || located[i].unit != located[i - 1].unit) &&
		    snap_unit_read_root(located[i].unit, false) && located[i].unit->has_stmt_list)
			offsets[wanted++] = located[i].unit->stmt_list;
	snap_dwarf_want(dwarf, SNAP_SECTION_LINE, offsets, wanted);
	return NULL;
}

static struct stacksnap_error *look_into_units(struct snap_symbolizer *symbolizer,
					       const struct located *located, size_t count)
{
	_cleanup_free_ struct snap_hit **hits = calloc(count, sizeof(struct snap_hit *));

	SNAP_TRY(snap_no_memory_unless(hits));
	for (size_t i = 0; i < count; i++)
		hits[i] = located[i].hit;
	for (size_t i = 0, next; i < count; i = next) {
		for (next = i + 1; next < count && located[next].unit == located[i].unit; next++)
			;
		SNAP_TRY(look_into_unit(symbolizer, located[i].unit, hits + i, next - i));
	}
	return NULL;
}

static struct stacksnap_error *find_places(struct snap_symbolizer *symbolizer,
					   struct snap_file_symbols *symbols, struct snap_hit *hits,
					   size_t count)
{
	_cleanup_free_ struct snap_unit **units = NULL;
	_cleanup_free_ struct located *located = NULL;
	struct stacksnap_error *err = snap_symbolizer_open_dwarf(symbolizer, symbols);
	struct snap_dwarf *dwarf = symbols->dwarf;
	size_t found = 0;

	if (err || !dwarf)
		return err;
	units = calloc(count, sizeof(struct snap_unit *));
	located = calloc(count, sizeof(*located));
	SNAP_TRY(snap_no_memory_unless(units && located));
	snap_ranges_assign(dwarf, hits, count, units, false);
	SNAP_TRY(snap_no_memory_unless(!dwarf->out_of_memory));
	for (size_t i = 0; i < count; i++)
		if (units[i] && !hits[i].is_go)
			located[found++] = (struct located){ units[i], &hits[i] };
	if (found == 0)
		return NULL;
	qsort(located, found, sizeof(*located), compare_located);
	SNAP_TRY(want_lines(dwarf, located, found));
	return look_into_units(symbolizer, located, found);
}

/* What the entries of one address are called. Linkage names are demangled, source names are not. */
static const char *display_name(struct snap_symbolizer *symbolizer, const struct snap_hit *hit,
				const char *name, bool is_linkage)
{
	if (name && hit->is_ada && !symbolizer->options->raw_names)
		return snap_symbolizer_decode_ada(symbolizer, name);
	if (!name || !is_linkage || symbolizer->options->raw_names)
		return snap_symbolizer_cut(symbolizer, name);
	return snap_symbolizer_demangle(symbolizer, name);
}

/* As its runtime shows it, and what says that it is of it. NULL without memory. */
static const char *go_name(struct snap_symbolizer *symbolizer, const char *name)
{
	char text[SNAP_MAX_NAME];
	const char *shown = symbolizer->options->raw_names
				    ? name
				    : snap_go_shown_name(name, text, sizeof(text));

	return shown == name ? name : snap_intern(&symbolizer->names, shown, strlen(shown));
}

static bool fill_go_entries(struct snap_symbolizer *symbolizer, struct snap_query *query)
{
	for (size_t i = 0; i < query->entry_count; i++) {
		struct snap_entry *entry = &query->entries[i];

		entry->language = "go";
		entry->function = entry->symbol ? go_name(symbolizer, entry->symbol) : NULL;
		if (entry->symbol && !entry->function)
			return false;
	}
	return true;
}

static bool fill_entries(struct snap_symbolizer *symbolizer, const struct snap_hit *hit,
			 struct snap_query *query)
{
	size_t count = hit->inline_count + 1;
	const char *name = NULL;
	struct snap_entry *entries;
	bool is_linkage = true;

	if (hit->symbol_rank && !(hit->function && hit->function_is_linkage)) {
		name = snap_intern(&symbolizer->names, hit->symbol, hit->symbol_length);
		if (!name)
			return false;
	} else if (hit->function) {
		name = hit->function;
		is_linkage = hit->function_is_linkage;
	}
	query->start = hit->symbol_rank ? hit->symbol_start : 0;
	if (!name && !hit->file && hit->inline_count == 0)
		return hit->symbol_rank == 0;
	entries = snap_arena_new_array(symbolizer->arena, count, struct snap_entry);
	if (!entries)
		return false;
	for (size_t i = 0; i < hit->inline_count; i++) {
		entries[i].symbol = snap_symbolizer_cut(symbolizer, hit->inlines[i].symbol);
		entries[i].function = display_name(symbolizer, hit, hit->inlines[i].symbol,
						   hit->inlines[i].is_linkage);
		entries[i].inlined = true;
		entries[i + 1].file = hit->inlines[i].call_file;
		entries[i + 1].line = hit->inlines[i].call_line;
		entries[i + 1].column = hit->inlines[i].call_column;
	}
	entries[0].file = hit->file;
	entries[0].line = hit->line;
	entries[0].column = hit->column;
	entries[count - 1].symbol = snap_symbolizer_cut(symbolizer, name);
	entries[count - 1].function =
		hit->function && hit->is_by_source && !symbolizer->options->raw_names
			? snap_symbolizer_cut(symbolizer, hit->function)
			: display_name(symbolizer, hit, name, is_linkage);
	query->entries = entries;
	query->entry_count = count;
	if (hit->is_go)
		return fill_go_entries(symbolizer, query);
	/* Those of inlined functions and files were found before. */
	return (!name || entries[count - 1].function) && !symbolizer->names.incomplete;
}

/* By symbols and debug information. */
static struct stacksnap_error *find_others(struct snap_symbolizer *symbolizer,
					   struct snap_file_symbols *symbols, struct snap_hit *hits,
					   size_t count)
{
	SNAP_TRY(find_names(symbolizer, symbols, hits, count));
	SNAP_TRY(snap_options_check(symbolizer->options));
	if ((!symbolizer->options->lines && !symbolizer->options->inlines) ||
	    snap_symbolizer_is_late(symbolizer))
		return NULL;
	SNAP_TRY(find_places(symbolizer, symbols, hits, count));
	return snap_gotable_find(symbolizer, symbols, hits, count);
}

static struct stacksnap_error *find_all(struct snap_symbolizer *symbolizer,
					struct snap_file_symbols *symbols,
					struct snap_query *queries, size_t count)
{
	_cleanup_free_ struct snap_hit *hits = calloc(count, sizeof(*hits));
	size_t go = 0;

	SNAP_TRY(snap_no_memory_unless(hits));
	for (size_t i = 0; i < count; i++)
		hits[i].vaddr = queries[i].vaddr;
	if (symbolizer->options->go_names)
		go = snap_gotable_mark(symbols, hits, count);
	SNAP_TRY(go < count ? find_others(symbolizer, symbols, hits, count) : NULL);
	if (go)
		SNAP_TRY(snap_gotable_rename(symbolizer, symbols, hits, count));
	for (size_t i = 0; i < count; i++) {
		SNAP_TRY(snap_no_memory_unless(fill_entries(symbolizer, &hits[i], &queries[i])));
		/* Names may be long. */
		if (i % LOOK_AT_TIME == LOOK_AT_TIME - 1 && snap_symbolizer_is_late(symbolizer))
			break;
	}
	return NULL;
}

void snap_symbolizer_begin(struct snap_symbolizer *symbolizer, int64_t most_ns)
{
	symbolizer->until_ns = most_ns < INT64_MAX ? snap_clock_ns(CLOCK_MONOTONIC) + most_ns : 0;
	symbolizer->is_late = false;
}

/*
 * Files are asked for once, so what was read of one is let go before the next: only names stay. It
 * would all be opened again if there were another question.
 */
struct stacksnap_error *snap_symbolize(struct snap_symbolizer *symbolizer,
				       struct snap_module_file *file, struct snap_query *queries,
				       size_t count, int64_t most_ns, bool *is_late_ret)
{
	struct snap_file_symbols *symbols;
	struct stacksnap_error *err;

	*is_late_ret = false;
	if (!file->image || count == 0 || !symbolizer->options->symbols ||
	    snap_options_have_enough(symbolizer->options))
		return NULL;
	snap_file_finder_note(symbolizer->finder, &file->request);
	symbols = snap_symbolizer_symbols(symbolizer, file);
	SNAP_TRY(snap_no_memory_unless(symbols));
	snap_symbolizer_begin(symbolizer, most_ns);
	symbols->missing_units = 0;
	err = find_all(symbolizer, symbols, queries, count);
	*is_late_ret = symbolizer->is_late;
	snap_symbolizer_begin(symbolizer, INT64_MAX);
	snap_gotable_close(symbols);
	snap_debugfile_close(symbols);
	return err;
}
