/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The call tree in the text report: runs of functions without a branch on one line, with the state
 * and the threads of those that stand in the last one. With -v, -m and -b each function has a line
 * and its place. Knows nothing of processes; text.c puts trees below them.
 */
#pragma once

#include "render/text/stack.h"
#include "render/view/calls/tree.h"

/*
 * The lines of a tree, the level of whose items has been pushed; `more`: others follow on it.
 * `stacks` says of what samples are a share.
 */
void snap_text_tree(struct snap_text_stacks *stacks, const struct snap_call_tree *tree, bool more);
