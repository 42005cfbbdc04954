/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tree: puts the shown processes of a snapshot below their parents.
 *
 * The snapshot was made from a capture, or was read from a file and is filtered again. Knows
 * nothing of where processes came from. The target decides how deep the tree is, so nothing here
 * recurses.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"
#include "model/snapshot.h"

/*
 * Puts those nodes that the options' filters keep into the snapshot's tree, and counts them and
 * their stacks. `parents`: the index of each node's parent, before it in the list; anything else
 * is a root. What a hidden node has as children moves up. NO_MEMORY.
 */
struct stacksnap_error *snap_tree_build(struct snap_snapshot *snapshot,
					const struct snap_options *options,
					struct snap_node **nodes, const size_t *parents,
					size_t count) _must_check_;
