/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Starts of functions, sorted: see functions.h. The list is made once for a file, and only if a
 * thread is in code of this file without call frame information. Its length is limited, because
 * tables are hostile.
 */
#include "analyze/elf/functions.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <string.h>

enum {
	MAX_FUNCTIONS = 1 << 20, /* 16 MiB */
	MAX_SYMBOLS = 1 << 22,   /* the largest programs have some millions */
	RETURN_SYMBOLS = 1 << 18,
	/* How many symbols may begin inside of a function before an address in it. */
	MAX_INNER = 16,
};

struct function {
	uint64_t start;
	uint32_t size;
	bool is_label; /* it has no size of its own: it reaches to the next symbol */
	bool is_exported;
};

struct snap_functions {
	struct function *list;
	size_t count, capacity;
};

bool snap_symbol_is_code(const Elf64_Sym *symbol)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS &&
	       symbol->st_shndx != SHN_COMMON &&
	       (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

static bool add_symbol(struct snap_functions *functions, struct snap_image *image,
		       const Elf64_Sym *symbol)
{
	struct function function = { .start = symbol->st_value,
				     .is_label = symbol->st_size == 0,
				     .is_exported =
					     ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
					     ELF64_ST_VISIBILITY(symbol->st_other) == STV_DEFAULT };
	uint64_t size = symbol->st_size, end;

	/* Local labels are mostly places inside of functions. */
	if (!snap_symbol_is_code(symbol) ||
	    (function.is_label && ELF64_ST_TYPE(symbol->st_info) == STT_NOTYPE &&
	     ELF64_ST_BIND(symbol->st_info) == STB_LOCAL))
		return true;
	if (function.is_label) {
		end = snap_image_section_end(image, symbol->st_shndx, symbol->st_value);
		size = end > symbol->st_value ? end - symbol->st_value : 0;
	}
	if (size == 0)
		return true;
	function.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
	if (!snap_reserve_array_most(functions->list, functions->capacity, functions->count + 1,
				     MAX_FUNCTIONS))
		return functions->count == MAX_FUNCTIONS;
	functions->list[functions->count++] = function;
	return true;
}

/* True: there was such a table. *failed_ret: there was no memory. */
static bool add_table(struct snap_functions *functions, struct snap_image *image, bool dynamic,
		      bool *failed_ret)
{
	struct snap_bytes symbols, strings;
	Elf64_Sym symbol;
	size_t count;

	if (!image || !snap_image_symbols(image, dynamic, &symbols, &strings))
		return false;
	count = symbols.size / sizeof(symbol);
	for (size_t i = 0; i < count && i < MAX_SYMBOLS && !*failed_ret; i++) {
		/* What lies behind goes back now and then: a table may be longer than memory. */
		if (i % RETURN_SYMBOLS == RETURN_SYMBOLS - 1)
			snap_image_let_go(image,
					  (struct snap_bytes){ symbols.data, i * sizeof(symbol) });
		memcpy(&symbol, symbols.data + i * sizeof(symbol), sizeof(symbol));
		*failed_ret = !add_symbol(functions, image, &symbol);
	}
	return true;
}

/* Labels last: of what begins at one address, one that has a size is looked at first. */
SNAP_ORDER(compare_functions, struct function, a, b, snap_compare(a->start, b->start),
	   snap_compare(a->is_label, b->is_label), snap_compare(a->size, b->size));

struct snap_functions *snap_functions_create(struct snap_image *image, struct snap_image *debug)
{
	struct snap_functions *functions = calloc(1, sizeof(*functions));
	bool failed = false;

	if (!functions)
		return NULL;
	if (!add_table(functions, image, false, &failed) &&
	    !add_table(functions, debug, false, &failed))
		add_table(functions, image, true, &failed);
	if (failed) {
		snap_functions_destroy(functions);
		return NULL;
	}
	if (functions->count)
		qsort(functions->list, functions->count, sizeof(*functions->list),
		      compare_functions);
	return functions;
}

void snap_functions_destroy(struct snap_functions *functions)
{
	if (!functions)
		return;
	free(functions->list);
	free(functions);
}

struct snap_function snap_functions_find(const struct snap_functions *functions, uint64_t vaddr)
{
	const struct function *list = functions->list;
	size_t next = snap_first_not(functions->count, i, list[i].start <= vaddr);
	const struct function *nearest = next ? &list[next - 1] : NULL;
	uint64_t earliest = 0;

	for (size_t i = next; i-- > 0 && next - i <= MAX_INNER;) {
		if (list[i].is_label)
			continue;
		if (vaddr - list[i].start < list[i].size)
			return (struct snap_function){ list[i].start, SNAP_START_EXACT,
						       list[i].is_exported };
		if (list[i].start + list[i].size > earliest)
			earliest = list[i].start + list[i].size;
	}
	/* A label ends where the next symbol begins. */
	if (nearest && nearest->is_label && vaddr - nearest->start < nearest->size)
		return (struct snap_function){ nearest->start, SNAP_START_LABEL,
					       nearest->is_exported };
	return (struct snap_function){ .start = earliest };
}
