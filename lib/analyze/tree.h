/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tree: the shown processes of a snapshot, hung under each other.
 *
 * Of a capture, or of a snapshot that was read from elsewhere and is filtered anew. Knows nothing
 * of where processes came from. Depth of the tree is the target's: nothing here recurses.
 */
#ifndef SNAP_ANALYZE_TREE_H
#define SNAP_ANALYZE_TREE_H

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

#endif
