/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Symbolize: addresses of a file -> function, file, line, inlined functions.
 *
 * It gets distinct addresses, sorted, once for each file. It finds names in one pass over the
 * symbol table, lines in one pass over the line programs of the needed units, and inlined functions
 * in one pass over these units. Knows nothing of processes, threads or stacks.
 */
#pragma once

#include "analyze/elf/module.h"
#include "model/options.h"
#include "model/snapshot.h"

/* One address of a file and what was found there. */
struct snap_query {
	uint64_t vaddr;             /* in: p_vaddr of the looked-up address (pc-1 for callers) */
	struct snap_entry *entries; /* out: innermost inlined first; NULL: nothing known */
	size_t entry_count;
	uint64_t start; /* out: where the function begins, by its symbol; 0: unknown */
};

struct snap_symbolizer;

/* Results and names live in `arena`; `system` flags are not set here. */
struct stacksnap_error *snap_symbolizer_create(const struct snap_file_finder *finder,
					       const struct snap_options *options,
					       struct snap_arena *arena,
					       struct snap_symbolizer **ret) _must_check_;
void snap_symbolizer_destroy(struct snap_symbolizer *symbolizer);

/*
 * Answers the queries, sorted by vaddr and distinct, for one file whose image is open. What cannot
 * be found stays NULL; trouble with debug files (refused, corrupt) is returned by
 * snap_symbolizer_trouble(). Errors: NO_MEMORY, CANCELLED.
 *
 * `most_ns`: how long it may take; INT64_MAX: until options->enough. *is_late_ret: it would have taken
 * longer, so what it answers is a part, or nothing. It begins anew where it is asked again.
 */
struct stacksnap_error *snap_symbolize(struct snap_symbolizer *symbolizer,
				       struct snap_module_file *file, struct snap_query *queries,
				       size_t count, int64_t most_ns,
				       bool *is_late_ret) _must_check_;

/* One address of a file's data and what was found there. */
struct snap_data_query {
	uint64_t vaddr;     /* in */
	const char *symbol; /* out: for people, in the arena; NULL: no symbol covers it */
	uint64_t offset;    /* out: of the address in the symbol */
};

/* The same as snap_symbolize() for variables: sorted by vaddr and distinct, names alone. */
struct stacksnap_error *snap_symbolize_data(struct snap_symbolizer *symbolizer,
					    struct snap_module_file *file,
					    struct snap_data_query *queries,
					    size_t count) _must_check_;

/*
 * A call led to one function, and another one runs: those between ended in a jump to the next one, and
 * have left no frame (DW_AT_call_tail_call).
 */
enum { SNAP_MOST_TAILS = 8 };
struct snap_tail_query {
	uint64_t called, runs; /* in: where the two functions begin */
	/* out: an address in each of them to be named, outermost first; as many as are certain */
	uint64_t tails[SNAP_MOST_TAILS];
	size_t count;
};

/* Where the direct call before a return address of a file leads; 0: unknown, or to a stub of the PLT. */
uint64_t snap_symbolizer_call(const struct snap_module_file *file, uint64_t return_vaddr);
/* NO_MEMORY, CANCELLED. `most_ns`: how long it may take, then the rest has none. */
struct stacksnap_error *snap_symbolizer_tails(struct snap_symbolizer *symbolizer,
					      struct snap_module_file *file,
					      struct snap_tail_query *queries, size_t count,
					      int64_t most_ns) _must_check_;

/* What went wrong with a file's debug information, one sentence; NULL: nothing. */
const char *snap_symbolizer_trouble(const struct snap_symbolizer *symbolizer,
				    const struct snap_module_file *file);
/* How many units of a file have inlined functions in .dwo files that were not found; *first_ret: one. */
size_t snap_symbolizer_missing_units(const struct snap_module_file *file, const char **first_ret);

/*
 * Names of JIT code from the process's perf map: `addresses` sorted and distinct (looked-up
 * addresses), in anonymous executable memory; fills queries whose vaddr is the address.
 * *trouble_ret: why a map that exists was refused, NULL: none.
 */
struct stacksnap_error *snap_symbolize_perf_map(struct snap_symbolizer *symbolizer,
						const struct snap_process *process,
						struct snap_query *queries, size_t count,
						const char **trouble_ret) _must_check_;

/* A name for people: demangled (C++, Rust, D, Ada, Fortran) or the symbol itself. In the arena, interned. */
const char *snap_symbolizer_demangle(struct snap_symbolizer *symbolizer, const char *symbol);
/* Whether a C++ name is of a form that the demangler does not know, such as newer compilers make. */
bool snap_symbolizer_is_unknown(struct snap_symbolizer *symbolizer, const char *name,
				size_t length);
/* The same of a symbol that GNAT made. */
const char *snap_symbolizer_decode_ada(struct snap_symbolizer *symbolizer, const char *symbol);
/* The name itself, or the first SNAP_MAX_NAME - 1 bytes of it, interned; NULL without memory. */
const char *snap_symbolizer_cut(struct snap_symbolizer *symbolizer, const char *name);
