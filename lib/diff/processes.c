/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processes of two looks at one host, by pid and start: see parts.h. */
#include "diff/parts.h"

/* Dead ones have gone already, though their parent has not collected them. */
static bool is_node_alive(const struct snap_node *node)
{
	return node->type != SNAP_TYPE_DEAD && node->type != SNAP_TYPE_NONE;
}

static uint64_t hash_of_process(const struct snap_node *node)
{
	return snap_hash_add((uint64_t)node->pid, node->start_ticks);
}

static bool is_same_process(const struct snap_node *a, const struct snap_node *b)
{
	return a->pid == b->pid && a->start_ticks == b->start_ticks;
}

static bool index_nodes(const struct snap_diff_nodes *list, struct snap_hash_table *table)
{
	return snap_all(list->count, i,
			!is_node_alive(list->nodes[i]) ||
				snap_hash_table_add(table, hash_of_process(list->nodes[i]), i));
}

static bool has_node(const struct snap_diff_nodes *list, const struct snap_hash_table *table,
		     const struct snap_node *node)
{
	return snap_hash_find(table, hash_of_process(node), i,
			      is_same_process(list->nodes[i], node)) != SIZE_MAX;
}

/* Those of `from` that are not in `to`. */
static bool add_missing(struct snap_diff *diff, const struct snap_diff_nodes *from,
			const struct snap_diff_nodes *to, bool came)
{
	struct snap_hash_table table = { 0 };
	bool fine = index_nodes(to, &table);

	for (size_t i = 0; fine && i < from->count; i++)
		if (is_node_alive(from->nodes[i]) && !has_node(to, &table, from->nodes[i]))
			diff->processes[diff->process_count++] =
				(struct snap_diff_process){ came, from->nodes[i] };
	snap_hash_table_deinit(&table);
	return fine;
}

bool snap_diff_processes(struct snap_differ *differ)
{
	struct snap_diff *diff = differ->diff;

	/* Elsewhere every process is another one, which says nothing. */
	if (!diff->same_boot)
		return true;
	diff->processes = snap_arena_new_array(
		&diff->arena, differ->old_nodes.count + differ->new_nodes.count + 1,
		struct snap_diff_process);
	return diff->processes && add_missing(diff, &differ->new_nodes, &differ->old_nodes, true) &&
	       add_missing(diff, &differ->old_nodes, &differ->new_nodes, false);
}
