/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes of a recording, hung under each other as those of a snapshot are.
 *
 * Knows nothing of what is in a node, and does not recurse.
 */
#ifndef SNAP_RENDER_VIEW_RECORDED_TREE_H
#define SNAP_RENDER_VIEW_RECORDED_TREE_H

#include "model/recording.h"

/*
 * Puts the nodes (one a process of the recording, NULL: not there) into the snapshot's tree, in the
 * recording's order; who has no parent there goes to the nearest one above. `flat`: all are roots.
 * False without memory.
 */
bool snap_recorded_tree(struct snap_arena *arena, const struct snap_recording *recording,
			struct snap_node **nodes, bool flat, struct snap_snapshot *snapshot);

#endif
