/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of variables: which symbol of an object covers an address, by the symbol tables of a file
 * and of its debug file. Knows nothing of types or of contents.
 */
#include "analyze/symbol/symbolizer.h"

#include <string.h>

static bool is_whole(struct snap_image *image)
{
	struct snap_symtab table;

	return snap_symtab_get(image, false, &table);
}

static bool fill_data_query(struct snap_symbolizer *symbolizer, const struct snap_hit *hit,
			    struct snap_data_query *query)
{
	const char *name;

	if (hit->symbol_rank == 0)
		return true;
	name = snap_intern(&symbolizer->names, hit->symbol, hit->symbol_length);
	if (name)
		name = symbolizer->options->raw_names ? snap_symbolizer_cut(symbolizer, name)
						      : snap_symbolizer_demangle(symbolizer, name);
	query->symbol = name;
	query->offset = query->vaddr - hit->symbol_start;
	return name != NULL;
}

struct stacksnap_error *snap_symbolize_data(struct snap_symbolizer *symbolizer,
					    struct snap_module_file *file,
					    struct snap_data_query *queries, size_t count)
{
	_cleanup_free_ struct snap_hit *hits = NULL;
	struct snap_file_symbols *symbols;
	struct snap_image *full = file->image;
	bool filled = true;

	if (!file->image || count == 0 || !symbolizer->options->symbols ||
	    snap_options_have_enough(symbolizer->options))
		return NULL;
	snap_file_finder_note(symbolizer->finder, &file->request);
	symbols = snap_symbolizer_symbols(symbolizer, file);
	hits = calloc(count, sizeof(*hits));
	SNAP_TRY(snap_no_memory_unless(hits && symbols));
	for (size_t i = 0; i < count; i++)
		hits[i].vaddr = queries[i].vaddr;
	if (!is_whole(full) && snap_debugfile_open(symbolizer, symbols))
		full = symbols->debug;
	snap_symtab_scan_data(symbolizer, full, false, hits, count);
	snap_symtab_scan_data(symbolizer, file->image, true, hits, count);
	for (size_t i = 0; i < count && filled; i++)
		filled = fill_data_query(symbolizer, &hits[i], &queries[i]);
	snap_debugfile_close(symbols);
	return filled ? NULL : snap_error_no_memory();
}
