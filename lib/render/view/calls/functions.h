/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Numbers for the functions of stacks: what a call tree takes for one function has one number.
 *
 * A function is known by its name and where it is: its module, or of code in none, as an
 * interpreter's, its file. In which line it stands does not count. Without a name each place is a
 * function of its own. Two things have numbers as well, as a tree tells of them in the place of
 * functions: frames that were left out (-n), and that a stack is not whole. For the files of this
 * folder.
 */
#pragma once

#include "base/table.h"
#include "model/options.h"
#include "model/snapshot.h"

enum snap_call_kind {
	SNAP_CALL_FUNCTION,
	SNAP_CALL_GAP, /* frames that were left out */
	SNAP_CALL_END, /* the stack is not whole: callers may be missing */
};

struct snap_call_function {
	const char *name;  /* NULL: none is known */
	const char *place; /* module or file; NULL: neither is known */
	uint64_t number; /* without a name: an offset, else an address; END: enum snap_unwind_end */
	enum snap_call_kind kind;
	bool has_offset, kernel;
};

/* All zero but for the options: empty. */
struct snap_call_functions {
	const struct snap_options *options;
	struct snap_call_function *functions; /* by number */
	size_t count;
	/* inside */
	size_t capacity;
	struct snap_hash_table table;     /* of functions */
	struct snap_pointer_table frames; /* where the numbers of a frame begin, + 1 */
	uint32_t *numbers;                /* of the entries of frames */
	size_t number_count, number_capacity;
};

void snap_call_functions_deinit(struct snap_call_functions *functions);

/* The numbers of the entries of a frame, borrowed until the next call. NULL without memory. */
const uint32_t *snap_call_functions_of(struct snap_call_functions *functions,
				       const struct snap_frame *frame);
/* The number of what is no function; `number`: as in the structure. False without memory. */
bool snap_call_functions_of_kind(struct snap_call_functions *functions, enum snap_call_kind kind,
				 uint64_t number, uint32_t *ret) _must_check_;

/* By name, those without one last, then by place: 0 for the same function alone. */
int snap_call_function_compare(const struct snap_call_function *a,
			       const struct snap_call_function *b);

/* What an entry is called, raw; NULL: nothing is known. */
const char *snap_call_name(const struct snap_options *options, const struct snap_entry *entry);
