/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of this folder: the symbolizer, what it knows of a file, and the hits. There
 * is one hit for each query, and each source of names fills in its part.
 */
#pragma once

#include "analyze/symbol/symbolize.h"
#include "base/bsearch.h"
#include "base/escape.h"

#include <elf.h>

enum {
	SNAP_MAX_INLINES = 64, /* of one address; real code stays below 40 */
	/* Of a symbol. With such a name libiberty needs 2.2 MiB of stack, whatever the name says. */
	SNAP_MAX_MANGLED = 10 << 10,
};

/* What the symbolizer keeps of a file from its first query to its end. */
struct snap_file_symbols {
	struct snap_file_symbols *next;
	const struct snap_module_file *file;
	struct snap_image *debug; /* the separate debug file, NULL: none */
	struct snap_image *alt;   /* what dwz moved out of it, NULL: none */
	struct snap_dwarf *dwarf; /* of the image or of its debug file, NULL: none */
	struct snap_image *mini;  /* MiniDebugInfo, NULL: none */
	uint8_t *mini_bytes;      /* malloc'ed: the image `mini` */
	bool debug_tried, alt_tried, mini_tried;
	struct snap_go_code *go; /* malloc'ed; NULL: none */
	bool go_tried;
	const char *trouble;      /* the first one, in the arena */
	size_t missing_units;     /* of split DWARF that was not found */
	const char *missing_file; /* the first of them, in the arena */
};

struct snap_symbolizer {
	const struct snap_file_finder *finder;
	const struct snap_options *options;
	struct snap_arena *arena;
	struct snap_interner names;
	struct snap_file_symbols *files;
	int64_t until_ns; /* CLOCK_MONOTONIC: when the file of now has had its time; 0: never */
	bool is_late;     /* it has, or time is up for all: it is not read to its end */
};

/* Whether a file is not read on; to be asked after every few thousand steps. */
bool snap_symbolizer_is_late(struct snap_symbolizer *symbolizer);

/* One function inlined at an address, as its caller sees it. */
struct snap_inlined {
	const char *symbol;    /* linkage name, or else the qualified source name; interned */
	bool is_linkage;       /* the former */
	const char *call_file; /* where it was called from; interned; NULL unknown */
	uint32_t call_line, call_column;
};

/* An address on its way to an answer. Sorted by vaddr like the queries. */
struct snap_hit {
	uint64_t vaddr;
	/* symtab.c, plt.c: the best symbol so far; `symbol` is not terminated */
	const char *symbol;
	size_t symbol_length;
	uint64_t symbol_start, symbol_end;
	unsigned symbol_rank; /* 0: none covers the address */
	bool has_aliases;     /* others are as good */
	uint64_t nearest;     /* the closest start of any function symbol at or below */
	bool has_nearest;
	/* analyze/dwarf/lines.c */
	const char *file; /* interned */
	uint32_t line, column;
	/* analyze/dwarf/inlines.c: innermost first, in the arena */
	struct snap_inlined *inlines;
	size_t inline_count;
	/* The real function by DWARF: linkage or qualified name; interned. NULL: a symbol suffices. */
	const char *function;
	bool function_is_linkage;
	bool is_go;  /* Go code, to be named as Go does it */
	bool is_ada; /* by DWARF: symbols are decoded as GNAT makes them */
	/* `function` is what users call it: see snap_language_is_by_source(), and unknown manglings. */
	bool is_by_source;
};

/* What is known of a file, made when it is first asked for; NULL without memory. */
struct snap_file_symbols *snap_symbolizer_symbols(struct snap_symbolizer *symbolizer,
						  struct snap_module_file *file);

/* symbolize.c. The DWARF of a file, which stays NULL where there is none. NO_MEMORY. */
struct stacksnap_error *snap_symbolizer_open_dwarf(struct snap_symbolizer *symbolizer,
						   struct snap_file_symbols *symbols);
/* The time of a file begins; INT64_MAX: it has no limit. */
void snap_symbolizer_begin(struct snap_symbolizer *symbolizer, int64_t most_ns);

/* debugfile.c. Each opens on first call; false: there is none. */
bool snap_debugfile_open(struct snap_symbolizer *symbolizer, struct snap_file_symbols *symbols);
bool snap_debugfile_open_mini(struct snap_symbolizer *symbolizer,
			      struct snap_file_symbols *symbols);
/* The alt file that an image names in .gnu_debugaltlink (dwz). */
bool snap_debugfile_open_alt(struct snap_symbolizer *symbolizer, struct snap_file_symbols *symbols,
			     struct snap_image *image);
/* Closes all of them; they open again when they are asked for. */
void snap_debugfile_close(struct snap_file_symbols *symbols);
/* Remembers the first trouble of a file; none of one that is late, as it is not read to its end. */
void snap_symbols_trouble(struct snap_symbolizer *symbolizer, struct snap_file_symbols *symbols,
			  const char *format, ...) _printf_(3, 4);

/* A symbol table (Elf64_Sym, not aligned) and its strings, in an image. */
struct snap_symtab {
	const struct snap_image *image;
	const uint8_t *symbols;
	size_t count;
	const char *strings;
	size_t strings_size;
};

/* symtab.c. False: there is none. */
bool snap_symtab_get(struct snap_image *image, bool dynamic, struct snap_symtab *ret);
/* The name without its version ("@@GLIBC_2.34"), not terminated; NULL: none. */
const char *snap_symtab_name(const struct snap_symtab *table, const Elf64_Sym *symbol,
			     size_t *length_ret);
/*
 * Whether DWARF is to say which of several functions of C++ or Rust, whose code was folded into one,
 * is meant: that with the file and line. Aliases of C are names of one function.
 */
static inline bool snap_hit_is_folded(const struct snap_hit *hit)
{
	return hit->symbol_rank && hit->has_aliases && hit->symbol_length > 2 &&
	       hit->symbol[0] == '_' && (hit->symbol[1] == 'Z' || hit->symbol[1] == 'R');
}
/* Fills the symbols of the hits from one table of an image; none if it is late. */
void snap_symtab_scan(struct snap_symbolizer *symbolizer, struct snap_image *image, bool dynamic,
		      struct snap_hit *hits, size_t count);
/* The same for variables: STT_OBJECT. */
void snap_symtab_scan_data(struct snap_symbolizer *symbolizer, struct snap_image *image,
			   bool dynamic, struct snap_hit *hits, size_t count);
/* The same, for hits that no symbol covers: a label of assembly code without a size. */
void snap_symtab_scan_labels(struct snap_symbolizer *symbolizer, struct snap_image *image,
			     bool dynamic, struct snap_hit *hits, size_t count);

/* plt.c: names stubs that no symbol covers. Errors: NO_MEMORY. */
struct stacksnap_error *snap_plt_scan(struct snap_symbolizer *symbolizer, struct snap_image *image,
				      struct snap_hit *hits, size_t count) _must_check_;

/* gotable.c. Names what no symbol has named, if it is Go code. */
void snap_gotable_name(struct snap_file_symbols *symbols, struct snap_hit *hits, size_t count);
/* Fills in lines and inlined functions of Go code of which DWARF said nothing. NO_MEMORY, CANCELLED. */
struct stacksnap_error *snap_gotable_find(struct snap_symbolizer *symbolizer,
					  struct snap_file_symbols *symbols, struct snap_hit *hits,
					  size_t count) _must_check_;
/* Tells which hits are Go code; how many they are. */
size_t snap_gotable_mark(struct snap_file_symbols *symbols, struct snap_hit *hits, size_t count);
/* Names those, with lines and inlined functions, whatever else has named them. NO_MEMORY, CANCELLED. */
struct stacksnap_error *snap_gotable_rename(struct snap_symbolizer *symbolizer,
					    struct snap_file_symbols *symbols,
					    struct snap_hit *hits, size_t count) _must_check_;
void snap_gotable_close(struct snap_file_symbols *symbols);

/* The first of `count` sorted hits that is not below `vaddr`; `count` if all are. */
static inline size_t snap_hits_from(const struct snap_hit *hits, size_t count, uint64_t vaddr)
{
	return snap_first_not(count, i, hits[i].vaddr < vaddr);
}
