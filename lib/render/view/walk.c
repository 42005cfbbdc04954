/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See walk.h. */
#include "render/view/walk.h"
#include "base/buffer.h"

/* Siblings, of which the one before `next` is entered. */
struct snap_walk_level {
	const struct snap_node *parent;
	struct snap_node *const *nodes;
	size_t count, next;
};

void snap_walk_init(struct snap_walk *walk, const struct snap_snapshot *snapshot)
{
	*walk = (struct snap_walk){ .snapshot = snapshot };
}

void snap_walk_deinit(struct snap_walk *walk)
{
	free(walk->levels);
	*walk = (struct snap_walk){ 0 };
}

static bool push(struct snap_walk *walk, const struct snap_node *parent,
		 struct snap_node *const *nodes, size_t count)
{
	if (!snap_reserve_array(walk->levels, walk->capacity, walk->depth + 1)) {
		walk->failed = true;
		return false;
	}
	walk->levels[walk->depth++] = (struct snap_walk_level){ parent, nodes, count, 0 };
	return true;
}

static void describe_level(const struct snap_walk_level *level, bool leave,
			   struct snap_walk_step *step)
{
	*step = (struct snap_walk_step){
		.node = level->nodes[level->next - 1],
		.parent = level->parent,
		.leave = leave,
		.first = level->next == 1,
		.last = level->next == level->count,
	};
}

bool snap_walk_next(struct snap_walk *walk, struct snap_walk_step *step)
{
	const struct snap_snapshot *snapshot = walk->snapshot;
	struct snap_walk_level *level;

	if (!walk->begun) {
		walk->begun = true;
		if (!push(walk, NULL, snapshot->processes, snapshot->root_count))
			return false;
	}
	if (walk->failed || walk->depth == 0)
		return false;
	level = &walk->levels[walk->depth - 1];
	if (level->next == level->count) {
		if (--walk->depth == 0)
			return false;
		describe_level(&walk->levels[walk->depth - 1], true, step);
		return true;
	}
	level->next++;
	describe_level(level, false, step);
	return push(walk, step->node, step->node->children, step->node->child_count);
}
