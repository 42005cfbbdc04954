/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds where the functions of a file begin, by its symbol tables. The unwinder asks where call
 * frame information has no answer. Knows nothing of names: these belong to the symbolizer.
 */
#pragma once

#include "analyze/elf/image.h"

#include <elf.h>

/* Whether a symbol is code: a function, or a label that assembly code forgot to call one. */
bool snap_symbol_is_code(const Elf64_Sym *symbol);

struct snap_functions;

/*
 * From .symtab of the image or else of its debug file (NULL: none), or else from .dynsym. NULL
 * without memory.
 */
struct snap_functions *snap_functions_create(struct snap_image *image, struct snap_image *debug);
void snap_functions_destroy(struct snap_functions *functions);

/* How well the beginning of the function at an address is known. */
enum snap_start {
	SNAP_START_EARLIEST, /* it begins there or later: no symbol covers the address */
	SNAP_START_LABEL,    /* a label without a size: another function may begin in between */
	SNAP_START_EXACT,
};

struct snap_function {
	uint64_t start;
	enum snap_start how;
	bool is_exported; /* calls of it in its own module may go by a stub, too */
};

/* The function that holds an address. */
struct snap_function snap_functions_find(const struct snap_functions *functions, uint64_t vaddr);
