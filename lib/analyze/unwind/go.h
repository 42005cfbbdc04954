/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rows of Go code, by the table of functions that each Go program has. The table is there even if
 * symbols and debug information were removed. It also says where Go switches stacks, which
 * .debug_frame does not. Knows nothing of stacks or processes.
 */
#pragma once

#include "analyze/runtime/go/code.h"
#include "analyze/unwind/rows.h"

/*
 * The row for an unbiased address; false: no Go code is there. Of kind SNAP_ROW_NONE it tells where
 * the function begins, and whether it switches stacks.
 */
bool snap_go_row(const struct snap_go_code *code, const struct snap_arch_ops *arch, uint64_t vaddr,
		 struct snap_row *ret);
