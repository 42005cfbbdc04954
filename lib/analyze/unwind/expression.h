/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Expression: evaluates the DWARF expressions that occur in CFI.
 *
 * Every expression is hostile: stack depth and number of steps have limits, so an endless loop is
 * refused. Knows nothing of rows, or of where the operations come from.
 */
#pragma once

#include "analyze/unwind/rows.h"

/* An operation: its code (DW_OP_…), operands, and where it stands, which is what jumps name. */
struct snap_operation {
	uint8_t atom;
	uint64_t number, number2, offset;
};

struct snap_expression {
	const struct snap_operation *ops;
	size_t count;
};

/*
 * Evaluates as a location description: the value of the register that it names, the value before
 * DW_OP_stack_value, else the word at the resulting address. A CFA is a plain expression:
 * `is_value`.
 */
enum snap_wide_result snap_expression_evaluate(struct snap_expression expression, bool is_value,
					       uint64_t cfa, const struct snap_frame_state *state,
					       uint64_t *ret, uint64_t *missing_ret);
