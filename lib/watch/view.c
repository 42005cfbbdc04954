/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The threads of a snapshot by their numbers: see view.h. */
#include "watch/view.h"

#include "base/buffer.h"

void snap_view_deinit(struct snap_view *view)
{
	snap_snapshot_destroy(view->snapshot);
	free(view->threads);
	snap_hash_table_deinit(&view->by_tid);
	*view = (struct snap_view){ .snapshot = NULL };
}

static uint64_t hash_of_view_thread(pid_t pid, pid_t tid)
{
	return snap_hash_add((uint64_t)pid, (uint64_t)tid);
}

static struct stacksnap_error *add_threads(struct snap_view *view, const struct snap_node *node)
{
	for (size_t i = 0; i < node->stack_count; i++) {
		const struct snap_stack *stack = &node->stacks[i];

		for (size_t k = 0; k < stack->thread_count; k++) {
			size_t at = view->thread_count;

			if (!snap_reserve_array(view->threads, view->thread_capacity, at + 1) ||
			    !snap_hash_table_add(
				    &view->by_tid,
				    hash_of_view_thread(node->pid, stack->threads[k].tid), at))
				return snap_error_no_memory();
			view->threads[view->thread_count++] = (struct snap_view_thread){
				.node = node,
				.stack = stack,
				.member = &stack->threads[k],
			};
		}
	}
	return NULL;
}

/* The tree is as deep as its targets like, so what is still to be visited is a list. */
static struct stacksnap_error *add_tree(struct snap_view *view)
{
	const struct snap_snapshot *snapshot = view->snapshot;
	_cleanup_free_ const struct snap_node **left = NULL;
	size_t count = 0, capacity = 0;
	struct stacksnap_error *err = NULL;

	if (!snap_reserve_array(left, capacity, snapshot->root_count + 1))
		return snap_error_no_memory();
	for (size_t i = 0; i < snapshot->root_count; i++)
		left[count++] = snapshot->processes[i];
	while (count && !err) {
		const struct snap_node *node = left[--count];

		if (!snap_reserve_array(left, capacity, count + node->child_count + 1))
			return snap_error_no_memory();
		for (size_t i = 0; i < node->child_count; i++)
			left[count++] = node->children[i];
		err = add_threads(view, node);
	}
	return err;
}

struct stacksnap_error *snap_view_set(struct snap_view *view, struct snap_snapshot *snapshot,
				      int64_t taken_ns)
{
	snap_snapshot_destroy(view->snapshot);
	view->snapshot = snapshot;
	view->taken_ns = taken_ns;
	view->settled_ns = 0;
	view->number++;
	view->thread_count = 0;
	snap_hash_table_clear(&view->by_tid);
	return add_tree(view);
}

const struct snap_view_thread *snap_view_find(const struct snap_view *view, pid_t pid, pid_t tid)
{
	return snap_hash_find_in(&view->by_tid, hash_of_view_thread(pid, tid), view->threads,
				 thread, thread->node->pid == pid && thread->member->tid == tid);
}

int64_t snap_view_left_ns(const struct snap_view *view, const struct snap_member *member)
{
	bool was_stopped = snap_taken_stops(member->taken);

	return was_stopped && view->settled_ns ? view->settled_ns : view->taken_ns;
}
