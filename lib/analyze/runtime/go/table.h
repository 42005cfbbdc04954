/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The table of functions that every Go program has (pclntab): for an address the function, the size
 * of its frame, file, line, and inlined functions.
 *
 * A pure function over bytes: Go 1.18 and later, little-endian, x86-64. Every offset in them is
 * hostile: an offset that leads outside finds nothing, and a list that does not end is cut. Knows
 * nothing of processes. Code is identified by its offset from the start of the program's text.
 */
#pragma once

#include "analyze/elf/image.h"

enum {
	SNAP_GO_HEADER_BYTES = 72,
	SNAP_GO_MOST_FUNCTIONS = 1 << 24,
	SNAP_GO_MOST_INLINED = 256, /* functions at one place */
	SNAP_GO_NO_DATA = -1,
};

/* Bits of a function's flags. */
enum {
	SNAP_GO_TOP_FRAME = 1 << 0,            /* it has no caller: goexit, mstart */
	SNAP_GO_WRITES_STACK_POINTER = 1 << 1, /* so the size of its frame may be wrong */
};

struct snap_go_table {
	struct snap_bytes names, units, files, values, functions;
	uint32_t function_count;
	bool has_start_line; /* Go 1.20 and later */
	/* Trees of what was inlined (go:func.*), and the bytes of a node; see the finder. */
	struct snap_bytes trees;
	unsigned node_bytes; /* 16 or 20; 0: there are no trees */
	/* Kind of functions that the compiler makes for methods; 0: not looked for. */
	uint8_t wrapper_kind;
};

struct snap_go_function {
	uint32_t entry, end; /* offsets of code */
	int32_t name;
	uint32_t frame_sizes, files, lines; /* offsets of values */
	uint32_t unit;
	uint8_t kind, flags;
	uint32_t data_count, extra_count;
	const uint8_t *data; /* pcdata, then funcdata: 4 bytes each */
};

/* One of the functions at a place, the innermost one first. */
struct snap_go_place {
	const char *name; /* NUL-terminated, in the table; NULL: none */
	const char *file; /* the same */
	uint32_t line;    /* 0: unknown */
	uint8_t kind;
	bool inlined;
};

/* The bytes of a table begin with its header; what lies behind it does not matter. */
bool snap_go_table_parse(struct snap_bytes bytes, struct snap_go_table *ret);
/* What the header says, for the search for the table: where its parts are, from its beginning. */
struct snap_go_header {
	uint32_t names, units, files, values, functions, function_count;
	bool has_start_line;
};
bool snap_go_header_parse(const uint8_t *bytes, size_t size, struct snap_go_header *ret);

/* The first function's offset of code, and the one behind the last function. */
bool snap_go_table_bounds(const struct snap_go_table *table, uint32_t *first_ret,
			  uint32_t *end_ret);

bool snap_go_function_by_number(const struct snap_go_table *table, uint32_t number,
				struct snap_go_function *ret);
/* The function that holds an offset of code. */
bool snap_go_function_find(const struct snap_go_table *table, uint32_t offset,
			   struct snap_go_function *ret);
/* Its name, "" if it has none. */
const char *snap_go_function_name(const struct snap_go_table *table,
				  const struct snap_go_function *function);

/*
 * A function's name as Go prints it: type arguments stand in the table by their shapes, which it
 * leaves out. `name` itself, a static text, or `text`, which it writes to.
 */
const char *snap_go_shown_name(const char *name, char *text, size_t size);

/* The value of a list of the function's at an offset of code. */
bool snap_go_value(const struct snap_go_table *table, uint32_t list,
		   const struct snap_go_function *function, uint32_t offset, int32_t *ret);
/* How many bytes of the stack the function has taken there, without its return address. */
bool snap_go_frame_size(const struct snap_go_table *table, const struct snap_go_function *function,
			uint32_t offset, uint32_t *ret);

/*
 * Whether it has taken its return address off the stack there: the call that makes a process which
 * shares the stack does (syscall.rawVforkSyscall, asm_linux_amd64.s), as that process returns
 * first.
 */
bool snap_go_keeps_return(const struct snap_go_table *table,
			  const struct snap_go_function *function, uint32_t offset);

/*
 * The functions at an offset of code, at most `most`; the last one is the function itself. Their
 * number.
 */
size_t snap_go_places(const struct snap_go_table *table, const struct snap_go_function *function,
		      uint32_t offset, struct snap_go_place *ret, size_t most);

/* The tree of what was inlined into a function, as an offset; false: nothing was. */
bool snap_go_tree_of(const struct snap_go_table *table, const struct snap_go_function *function,
		     uint32_t *ret);
/*
 * Whether bytes can be the trees of this table: nodes of this size name functions, and lie within
 * the function that they are of. Some hundred functions are looked at; *seen_ret: how many had one.
 */
bool snap_go_trees_fit(const struct snap_go_table *table, struct snap_bytes trees,
		       unsigned node_bytes, unsigned *seen_ret);

/* Looks for the kind of wrappers, the greatest there is. */
uint8_t snap_go_wrapper_kind(const struct snap_go_table *table);
