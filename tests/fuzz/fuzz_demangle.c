/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mangled names of C++, Rust and D. */
#include "analyze/symbol/symbolize.h"
#include "fuzz.h"
#include "roles/broker.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct snap_file_finder finder = snap_no_files();
	struct snap_symbolizer *symbolizer = NULL;
	struct snap_options options;
	struct snap_arena arena;
	const char *name;
	char *symbol;

	snap_options_init(&options);
	snap_arena_init(&arena);
	fuzz_no_error(snap_symbolizer_create(&finder, &options, &arena, &symbolizer));
	size = size < SNAP_MAX_NAME ? size : SNAP_MAX_NAME;
	symbol = strndup((const char *)data, size);
	name = symbol ? snap_symbolizer_demangle(symbolizer, symbol) : NULL;
	fuzz_check(!name || strlen(name) <= SNAP_MAX_NAME, "a name is capped");
	free(symbol);
	snap_symbolizer_destroy(symbolizer);
	snap_arena_deinit(&arena);
	snap_options_deinit(&options);
	return 0;
}
