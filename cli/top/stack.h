/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stack: the one row that was opened, as a copy that stays when its threads have gone elsewhere.
 *
 * Knows nothing of screens.
 */
#pragma once

#include "top/table.h"

/* Borrowed texts became its own. */
struct snap_top_line {
	char *text;
	char *place; /* file and line, or a module; NULL: not known, or no function */
};

struct snap_top_stack {
	char key[SNAP_TOP_KEY_SIZE]; /* of its row; "": nothing was opened */
	struct snap_top_line *lines; /* what is said of it, an empty line, its functions */
	size_t count;
	bool gone; /* no thread stood there in the last seconds: the lines are older */
};

void snap_top_stack_deinit(struct snap_top_stack *stack);
/* Copies a row's. False without memory: then it is as it was. */
bool snap_top_stack_take(struct snap_top_stack *stack, struct snap_top_table *table,
			 const struct snap_top_row *row, enum snap_top_rows rows);
/* The same again from a newer table, in which it may be gone. */
void snap_top_stack_renew(struct snap_top_stack *stack, struct snap_top_table *table,
			  enum snap_top_rows rows);
