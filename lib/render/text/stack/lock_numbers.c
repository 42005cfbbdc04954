/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See lock_numbers.h. */
#include "render/text/stack/lock_numbers.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "model/wait/kind.h"
#include "render/view/walk.h"
#include "render/wait/object.h"

#include <stdio.h>

/* That a thread of a process waits for. */
struct snap_lock {
	pid_t pid;
	const struct snap_wait *wait;
};

SNAP_ORDER(compare_locks, struct snap_lock, a, b, snap_compare(a->pid, b->pid),
	   snap_compare(a->wait->address, b->wait->address));

void snap_lock_numbers_deinit(struct snap_lock_numbers *numbers)
{
	free(numbers->locks);
	snap_pointer_table_deinit(&numbers->numbers);
}

/* A stream's lock has the words of its own, "stdout". */
static bool is_nameless_lock(const struct snap_wait *wait)
{
	return wait && !wait->symbol && !wait->module && wait->address &&
	       wait->kind != SNAP_WAIT_STDIO &&
	       snap_wait_kind_is(wait->kind, SNAP_KIND_LOCK | SNAP_KIND_ADDRESS);
}

static bool add_lock(struct snap_lock_numbers *numbers, pid_t pid, const struct snap_wait *wait)
{
	if (!is_nameless_lock(wait))
		return true;
	return snap_append(numbers->locks, numbers->count, numbers->capacity,
			   (struct snap_lock){ pid, wait });
}

/* And what the owner waits for. */
static bool add_locks(struct snap_lock_numbers *numbers, pid_t pid, const struct snap_wait *wait)
{
	return !wait || (add_lock(numbers, pid, wait) &&
			 add_lock(numbers, wait->owner.pid, wait->owner.wait));
}

static bool add_locks_of_node(struct snap_lock_numbers *numbers, const struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;

	while ((stack = snap_node_next_stack(node, &cursor))) {
		/* In a document it is another one than theirs. */
		if (!add_locks(numbers, node->pid, stack->wait))
			return false;
		for (size_t i = 0; i < stack->thread_count; i++)
			if (!add_locks(numbers, node->pid, stack->threads[i].wait))
				return false;
	}
	return true;
}

/* Those of processes that are hidden are in the lines above. */
static bool add_locks_above(struct snap_lock_numbers *numbers, const struct snap_waits *waits)
{
	for (size_t i = 0; i < waits->deadlock_count; i++)
		for (size_t k = 0; k < waits->deadlocks[i].thread_count; k++) {
			const struct snap_wait_link *link = &waits->deadlocks[i].threads[k];

			if (!add_locks(numbers, link->pid, link->wait))
				return false;
		}
	return snap_all(waits->contended_count, i,
			add_locks(numbers, waits->contended[i].pid, waits->contended[i].wait));
}

/* Locks of one process, sorted; a single one needs no number. */
static bool number_locks(struct snap_lock_numbers *numbers, const struct snap_lock *locks,
			 size_t count)
{
	uint32_t number = 1;

	if (locks[0].wait->address == locks[count - 1].wait->address)
		return true;
	for (size_t i = 0; i < count; i++) {
		struct snap_pointer_entry *entry =
			snap_pointer_table_get(&numbers->numbers, locks[i].wait);

		if (!entry)
			return false;
		number += i && locks[i].wait->address != locks[i - 1].wait->address;
		entry->number = number;
	}
	return true;
}

bool snap_lock_numbers_init(struct snap_lock_numbers *numbers, const struct snap_snapshot *snapshot)
{
	_cleanup_(snap_walk_deinit) struct snap_walk walk;
	struct snap_walk_step step;

	*numbers = (struct snap_lock_numbers){ .locks = NULL };
	snap_walk_init(&walk, snapshot);
	while (snap_walk_next(&walk, &step))
		if (!step.leave && !add_locks_of_node(numbers, step.node))
			return false;
	if (walk.failed || !add_locks_above(numbers, &snapshot->waits))
		return false;
	if (numbers->count)
		qsort(numbers->locks, numbers->count, sizeof(*numbers->locks), compare_locks);
	for (size_t i = 0, end; i < numbers->count; i = end) {
		for (end = i;
		     end < numbers->count && numbers->locks[end].pid == numbers->locks[i].pid;)
			end++;
		if (!number_locks(numbers, numbers->locks + i, end - i))
			return false;
	}
	return true;
}

static void give_number(const struct snap_lock_numbers *numbers, const struct snap_wait *from,
			struct snap_wait *wait, char *name)
{
	const struct snap_pointer_entry *found = snap_pointer_table_find(&numbers->numbers, from);

	if (!found)
		return;
	snprintf(name, sizeof(numbers->names[0]), "#%u", (unsigned)found->number);
	wait->symbol = name;
	wait->offset = 0;
}

struct snap_wait snap_numbered_wait(struct snap_lock_numbers *numbers,
				    const struct snap_options *options,
				    const struct snap_wait *wait)
{
	struct snap_wait shown = *wait;

	if (!numbers || options->verbose)
		return snap_shown_wait(options, wait);
	give_number(numbers, wait, &shown, numbers->names[0]);
	if (shown.owner.wait) {
		numbers->inner = *shown.owner.wait;
		give_number(numbers, wait->owner.wait, &numbers->inner, numbers->names[1]);
		shown.owner.wait = &numbers->inner;
	}
	return snap_shown_wait(options, &shown);
}
