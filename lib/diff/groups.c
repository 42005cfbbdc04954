/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Groups of two looks, by id: see parts.h. */
#include "diff/parts.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <string.h>

enum {
	/* Of recordings: what moves by less than both is noise. */
	LEAST_THREADS = SNAP_DIFF_THREAD / 2,
	LEAST_SHARE = 100, /* one part of so many of all samples */
};

/* The groups of one id: of `before` (0) and `after` (1). */
struct row {
	uint64_t counts[2];
	const struct snap_stack *stack[2];
	const struct snap_node *node[2];
	pid_t pids[2][SNAP_DIFF_PIDS];
	size_t process_counts[2];
	const struct snap_node *last; /* whose group was added last */
};

struct rows {
	struct row *rows;
	size_t count, capacity;
	struct snap_hash_table table; /* of the ids */
	uint64_t totals[2];
};

static void rows_deinit(struct rows *rows)
{
	free(rows->rows);
	snap_hash_table_deinit(&rows->table);
}

static const char *id_of(const struct row *row)
{
	return (row->stack[1] ? row->stack[1] : row->stack[0])->id;
}

/* NULL without memory. */
static struct row *find_group_row(struct rows *rows, const struct snap_stack *stack)
{
	uint64_t hash = snap_hash_text(stack->id, 0);
	struct snap_probe probe = snap_hash_table_probe(&rows->table, hash);

	while (snap_probe_next(&probe))
		if (strcmp(id_of(&rows->rows[probe.number]), stack->id) == 0)
			return &rows->rows[probe.number];
	if (!snap_reserve_array(rows->rows, rows->capacity, rows->count + 1) ||
	    !snap_hash_table_add(&rows->table, hash, rows->count))
		return NULL;
	rows->rows[rows->count] = (struct row){ .last = NULL };
	return &rows->rows[rows->count++];
}

/* Thousandths of threads. */
static uint64_t count_of(const struct snap_stack *stack, const struct snap_recording *recording)
{
	if (!recording)
		return (uint64_t)stack->count * SNAP_DIFF_THREAD;
	return recording->tick_count
		       ? stack->samples * SNAP_DIFF_THREAD / (uint64_t)recording->tick_count
		       : 0;
}

static bool add_group_stack(struct rows *rows, int side, const struct snap_node *node,
			    const struct snap_stack *stack, uint64_t count)
{
	struct row *row = find_group_row(rows, stack);

	if (!row)
		return false;
	/* The first one represents all: the order of the tree is the same in both. */
	if (!row->stack[side]) {
		row->stack[side] = stack;
		row->node[side] = node;
		row->last = NULL;
	}
	row->counts[side] += count;
	rows->totals[side] += count;
	if (row->last == node)
		return true;
	row->last = node;
	if (row->process_counts[side] < SNAP_DIFF_PIDS)
		row->pids[side][row->process_counts[side]] = node->pid;
	row->process_counts[side]++;
	return true;
}

static bool add_side(struct rows *rows, int side, const struct snap_diff_nodes *list,
		     const struct snap_recording *recording)
{
	for (size_t i = 0; i < list->count; i++) {
		struct snap_stack_cursor cursor = { 0 };
		const struct snap_stack *stack;

		while ((stack = snap_node_next_stack(list->nodes[i], &cursor)))
			if (!add_group_stack(rows, side, list->nodes[i], stack,
					     count_of(stack, recording)))
				return false;
	}
	return true;
}

static uint64_t group_distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Of its share of all, in parts of a million. */
static uint64_t share_of_group(uint64_t count, uint64_t total)
{
	return total ? (uint64_t)((unsigned __int128)count * 1000000 / total) : 0;
}

static bool has_changed(const struct rows *rows, const struct row *row, bool noisy)
{
	if (!noisy)
		return row->counts[0] != row->counts[1];
	return group_distance(row->counts[0], row->counts[1]) >= LEAST_THREADS ||
	       group_distance(share_of_group(row->counts[0], rows->totals[0]),
			      share_of_group(row->counts[1], rows->totals[1])) >=
		       1000000 / LEAST_SHARE;
}

static struct snap_diff_group group_of(const struct row *row)
{
	int side = row->counts[1] ? 1 : 0;
	struct snap_diff_group group = {
		.change = !row->counts[0]                   ? SNAP_CHANGE_APPEARED
			  : !row->counts[1]                 ? SNAP_CHANGE_WENT
			  : row->counts[1] > row->counts[0] ? SNAP_CHANGE_GREW
							    : SNAP_CHANGE_SHRANK,
		.before = row->counts[0],
		.after = row->counts[1],
		.stack = row->stack[side],
		.node = row->node[side],
		.process_count = row->process_counts[side],
	};

	group.pid_count =
		group.process_count < SNAP_DIFF_PIDS ? group.process_count : SNAP_DIFF_PIDS;
	memcpy(group.pids, row->pids[side], group.pid_count * sizeof(group.pids[0]));
	return group;
}

SNAP_ORDER(compare_groups, struct snap_diff_group, a, b, snap_compare(a->change, b->change),
	   snap_compare(group_distance(b->before, b->after), group_distance(a->before, a->after)),
	   strcmp(a->stack->id, b->stack->id));

static void warn_if_foreign(struct snap_diff *diff, const struct rows *rows)
{
	if (rows->totals[0] && rows->totals[1] && diff->same_count == 0 && diff->group_count &&
	    diff->groups[0].change == SNAP_CHANGE_APPEARED &&
	    diff->groups[diff->group_count - 1].change == SNAP_CHANGE_WENT) {
		for (size_t i = 0; i < diff->group_count; i++)
			if (diff->groups[i].before && diff->groups[i].after)
				return;
		snap_diff_warn(diff, "nothing_in_common",
			       "no group is in both: they may be of other programs, or grouped or "
			       "named otherwise (--group-by, --debug-dir)");
	}
}

bool snap_diff_groups(struct snap_differ *differ)
{
	_cleanup_(rows_deinit) struct rows rows = { 0 };
	bool noisy = snap_differ_is_noisy(differ);
	struct snap_diff *diff = differ->diff;

	if (!add_side(&rows, 0, &differ->old_nodes, differ->before.recording) ||
	    !add_side(&rows, 1, &differ->new_nodes, differ->after.recording))
		return false;
	for (size_t i = 0; i < rows.count; i++)
		diff->group_count += has_changed(&rows, &rows.rows[i], noisy);
	diff->same_count = rows.count - diff->group_count;
	diff->groups =
		snap_arena_new_array(&diff->arena, diff->group_count + 1, struct snap_diff_group);
	if (!diff->groups)
		return false;
	for (size_t i = 0, kept = 0; i < rows.count; i++)
		if (has_changed(&rows, &rows.rows[i], noisy))
			diff->groups[kept++] = group_of(&rows.rows[i]);
	if (diff->group_count)
		qsort(diff->groups, diff->group_count, sizeof(*diff->groups), compare_groups);
	warn_if_foreign(diff, &rows);
	return true;
}
