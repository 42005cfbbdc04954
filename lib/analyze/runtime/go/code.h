/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The Go code of a file, found in the file alone: the version that Go's linker wrote, the table of
 * functions, and where their code lies. It needs no symbols, no names of sections, and no process.
 * Used to unwind machine stacks, and to name their addresses.
 */
#pragma once

#include "analyze/runtime/go/table.h"

enum {
	/* Words of the runtime's description of a text (moduledata) that matter here. */
	SNAP_GO_WORD_TABLE = 0,
	SNAP_GO_WORD_NAMES = 1,
	SNAP_GO_WORD_UNITS = 4,
	SNAP_GO_WORD_FILES = 7,
	SNAP_GO_WORD_FIRST = 20, /* and the end: addresses of code */
	SNAP_GO_WORD_START = 22, /* what offsets of code count from */
	SNAP_GO_MODULE_WORDS = 64,
	SNAP_GO_VERSION_BYTES = 64,
};

struct snap_go_code {
	struct snap_go_table table;
	uint64_t start, end; /* of the code: unbiased addresses */
};

/*
 * What Go's linker puts into each file that it makes; false: it has not made this one. The version
 * as "1.21.13" and the 21 of it; "" and 0: there is none that is understood.
 */
bool snap_go_version_find(struct snap_image *image, char version_ret[SNAP_GO_VERSION_BYTES + 1],
			  unsigned *minor_ret);

/* The table of functions and its address (unbiased). */
bool snap_go_table_find(struct snap_image *image, struct snap_go_table *ret, uint64_t *address_ret);

/* Whether words are the description of the text that has this table at this address. */
bool snap_go_words_fit(const struct snap_go_table *table, uint64_t table_at,
		       const uint64_t words[SNAP_GO_MODULE_WORDS]);
/* Where such words begin with the code: [start, end). */
void snap_go_words_code(const struct snap_go_table *table,
			const uint64_t words[SNAP_GO_MODULE_WORDS], uint64_t ret[2]);
/* Sets the trees of what was inlined, to which one of the words leads; their bias is known. */
void snap_go_trees_find(struct snap_image *image, struct snap_go_table *table, unsigned minor,
			uint64_t bias, const uint64_t words[SNAP_GO_MODULE_WORDS]);

/* All of it from the file; `wants_trees`: with what was inlined. False: it has no Go code. */
bool snap_go_code_find(struct snap_image *image, bool wants_trees, struct snap_go_code *ret);

/* The function that holds an unbiased address, and its offset from the code's start. */
static inline bool snap_go_code_function(const struct snap_go_code *code, uint64_t vaddr,
					 struct snap_go_function *ret, uint32_t *offset_ret)
{
	if (vaddr < code->start || vaddr >= code->end)
		return false;
	*offset_ret = (uint32_t)(vaddr - code->start);
	return snap_go_function_find(&code->table, *offset_ret, ret);
}
