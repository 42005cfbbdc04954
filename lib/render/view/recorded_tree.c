/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processes of a recording, hung under each other: see recorded_tree.h. */
#include "render/view/recorded_tree.h"

bool snap_recorded_tree(struct snap_arena *arena, const struct snap_recording *recording,
			struct snap_node **nodes, bool flat, struct snap_snapshot *snapshot)
{
	size_t count = recording->process_count;
	/* Of each process the nearest one above, and from it on, that was there too. */
	_cleanup_free_ size_t *parents = malloc((count + 1) * sizeof(*parents)),
			      *nearest = malloc((count + 1) * sizeof(*nearest));

	snapshot->processes = snap_arena_new_array(arena, count + 1, struct snap_node *);
	if (!parents || !nearest || !snapshot->processes)
		return false;
	for (size_t i = 0; i < count; i++) {
		size_t parent = recording->processes[i].parent;

		parents[i] = parent < i && !flat ? nearest[parent] : SIZE_MAX;
		nearest[i] = nodes[i] ? i : parents[i];
		if (nodes[i] && parents[i] != SIZE_MAX)
			nodes[parents[i]]->child_count++;
	}
	for (size_t i = 0; i < count; i++) {
		struct snap_node *node = nodes[i], *parent;

		if (!node)
			continue;
		node->children =
			snap_arena_new_array(arena, node->child_count + 1, struct snap_node *);
		if (!node->children)
			return false;
		node->child_count = 0;
		parent = parents[i] == SIZE_MAX ? NULL : nodes[parents[i]];
		if (parent)
			parent->children[parent->child_count++] = node;
		else
			snapshot->processes[snapshot->root_count++] = node;
	}
	return true;
}
