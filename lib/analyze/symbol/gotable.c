/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names, lines and inlined functions of Go code by the table of each Go program. It is used where
 * symbols and DWARF have no answer: stripped programs have neither.
 */
#include "analyze/runtime/go/code.h"
#include "analyze/symbol/symbolizer.h"

#include <limits.h>
#include <string.h>

/* The file's Go code; NULL: it has none. */
static const struct snap_go_code *code_of(struct snap_file_symbols *symbols)
{
	if (!symbols->go_tried) {
		symbols->go_tried = true;
		symbols->go = malloc(sizeof(*symbols->go));
		if (symbols->go && !snap_go_code_find(symbols->file->image, true, symbols->go)) {
			free(symbols->go);
			symbols->go = NULL;
		}
	}
	return symbols->go;
}

void snap_gotable_close(struct snap_file_symbols *symbols)
{
	free(symbols->go);
	symbols->go = NULL;
	symbols->go_tried = false;
}

void snap_gotable_name(struct snap_file_symbols *symbols, struct snap_hit *hits, size_t count)
{
	const struct snap_go_code *code = code_of(symbols);

	for (size_t i = 0; i < count && code; i++) {
		struct snap_go_function function;
		const char *name;
		uint32_t offset;

		if (hits[i].symbol_rank != 0 ||
		    !snap_go_code_function(code, hits[i].vaddr, &function, &offset))
			continue;
		name = snap_go_function_name(&code->table, &function);
		if (name[0] == '\0')
			continue;
		hits[i].symbol = name;
		hits[i].symbol_length = strlen(name);
		hits[i].symbol_start = code->start + function.entry;
		/* Of what begins there as well, nothing is believed more. */
		hits[i].symbol_rank = UINT_MAX;
	}
}

/* False: no memory. */
static bool intern_name(struct snap_symbolizer *symbolizer, const char *name, const char **ret)
{
	*ret = NULL;
	if (!name || name[0] == '\0')
		return true;
	*ret = snap_intern(&symbolizer->names, name,
			   snap_text_cut(name, strlen(name), SNAP_MAX_NAME - 1));
	return *ret != NULL;
}

static bool fill_inlines(struct snap_symbolizer *symbolizer, const struct snap_go_place *places,
			 size_t count, struct snap_hit *hit)
{
	struct snap_inlined *inlines =
		snap_arena_new_array(symbolizer->arena, count, struct snap_inlined);

	if (!inlines)
		return false;
	for (size_t i = 0; i + 1 < count; i++) {
		if (!intern_name(symbolizer, places[i].name, &inlines[i].symbol) ||
		    !intern_name(symbolizer, places[i + 1].file, &inlines[i].call_file))
			return false;
		inlines[i].call_line = inlines[i].call_file ? places[i + 1].line : 0;
	}
	hit->inlines = inlines;
	hit->inline_count = count - 1;
	return true;
}

static bool fill_hit(struct snap_symbolizer *symbolizer, const struct snap_go_code *code,
		     struct snap_hit *hit)
{
	struct snap_go_place places[SNAP_MAX_INLINES];
	struct snap_go_function function;
	uint32_t offset;
	size_t count;

	if (!snap_go_code_function(code, hit->vaddr, &function, &offset))
		return true;
	count = snap_go_places(&code->table, &function, offset, places, SNAP_MAX_INLINES);
	if (count == 0)
		return true;
	if (symbolizer->options->lines) {
		if (!intern_name(symbolizer, places[0].file, &hit->file))
			return false;
		hit->line = hit->file ? places[0].line : 0;
	}
	return count == 1 || !symbolizer->options->inlines ||
	       fill_inlines(symbolizer, places, count, hit);
}

struct stacksnap_error *snap_gotable_find(struct snap_symbolizer *symbolizer,
					  struct snap_file_symbols *symbols, struct snap_hit *hits,
					  size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct snap_go_code *code;

		SNAP_TRY(snap_options_check(symbolizer->options));
		/* DWARF has said all there is. */
		if (hits[i].file || hits[i].function || hits[i].inline_count)
			continue;
		code = code_of(symbols);
		if (!code)
			return NULL;
		SNAP_TRY(snap_no_memory_unless(fill_hit(symbolizer, code, &hits[i])));
	}
	return NULL;
}

/* ---- as Go names it ---- */

size_t snap_gotable_mark(struct snap_file_symbols *symbols, struct snap_hit *hits, size_t count)
{
	const struct snap_go_code *code = code_of(symbols);
	size_t marked = 0;

	for (size_t i = 0; i < count && code; i++) {
		struct snap_go_function function;
		uint32_t offset;

		hits[i].is_go = snap_go_code_function(code, hits[i].vaddr, &function, &offset) &&
				snap_go_function_name(&code->table, &function)[0];
		marked += hits[i].is_go;
	}
	return marked;
}

/* Places are filled in by fill_hit(), as where no other debug information is. */
static bool rename_hit(struct snap_symbolizer *symbolizer, const struct snap_go_code *code,
		       struct snap_hit *hit)
{
	struct snap_go_function function;
	const char *name;
	uint32_t offset;

	if (!snap_go_code_function(code, hit->vaddr, &function, &offset))
		return true;
	hit->file = hit->function = NULL;
	hit->line = hit->column = 0;
	hit->inline_count = 0;
	name = snap_go_function_name(&code->table, &function);
	hit->symbol = name;
	hit->symbol_length = strlen(name);
	hit->symbol_rank = UINT_MAX;
	return fill_hit(symbolizer, code, hit);
}

struct stacksnap_error *snap_gotable_rename(struct snap_symbolizer *symbolizer,
					    struct snap_file_symbols *symbols,
					    struct snap_hit *hits, size_t count)
{
	const struct snap_go_code *code = code_of(symbols);

	for (size_t i = 0; i < count && code; i++) {
		SNAP_TRY(snap_options_check(symbolizer->options));
		if (hits[i].is_go && !rename_hit(symbolizer, code, &hits[i]))
			return snap_error_no_memory();
	}
	return NULL;
}
