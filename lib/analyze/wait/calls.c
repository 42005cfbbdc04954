/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads what the capture has of a waiter, and makes new waits: see waiter.h. */
#include "analyze/wait/waiter.h"

#include "base/bsearch.h"

#include <string.h>

struct snap_wait *snap_wait_new(struct snap_wait_analysis *waits, struct snap_waiter *waiter,
				enum snap_wait_kind kind, enum snap_wait_confidence confidence)
{
	struct snap_wait *wait = snap_arena_new(snap_wait_arena(waits), struct snap_wait);

	if (!wait)
		return NULL;
	*wait = snap_wait_init(kind, confidence);
	wait->since_ns = waiter->thread->thread->blocked_ns;
	waiter->wait = wait;
	return wait;
}

static bool read_call_range(uint64_t start, const uint8_t *bytes, size_t length, uint64_t address,
			    void *out, size_t size)
{
	if (!bytes || address < start || address - start > length ||
	    length - (address - start) < size)
		return false;
	memcpy(out, bytes + (address - start), size);
	return true;
}

SNAP_ORDER(compare_stacks, const struct snap_thread *, a, b,
	   snap_compare((*a)->stack_address, (*b)->stack_address),
	   snap_compare((*a)->tid, (*b)->tid));

const struct snap_wait_stacks *snap_wait_stacks_of(struct snap_analysis *analysis,
						   const struct snap_process *process)
{
	struct snap_wait_stacks *stacks =
		snap_arena_new(&analysis->scratch, struct snap_wait_stacks);

	if (!stacks)
		return NULL;
	stacks->threads = snap_arena_new_array(&analysis->scratch, process->thread_count + 1,
					       const struct snap_thread *);
	if (!stacks->threads)
		return NULL;
	for (size_t i = 0; i < process->thread_count; i++)
		if (process->threads[i].stack && process->threads[i].stack_size)
			stacks->threads[stacks->count++] = &process->threads[i];
	qsort(stacks->threads, stacks->count, sizeof(struct snap_thread *), compare_stacks);
	return stacks;
}

/* Of stacks that overlap, the one that begins nearest before the address. */
static bool read_stack_of_another(const struct snap_wait_stacks *stacks, uint64_t address,
				  void *out, size_t size)
{
	size_t next = stacks ? snap_first_not(stacks->count, i,
					      stacks->threads[i]->stack_address <= address)
			     : 0;
	const struct snap_thread *thread = next ? stacks->threads[next - 1] : NULL;

	return thread && read_call_range(thread->stack_address, thread->stack, thread->stack_size,
					 address, out, size);
}

bool snap_wait_read(const struct snap_waiter *waiter, uint64_t address, void *out, size_t size)
{
	const struct snap_process *process = snap_waiter_process(waiter);
	const struct snap_thread *own = waiter->thread->thread;

	if (waiter->thread->own &&
	    snap_memory_image_read(&waiter->thread->own->words, address, out, size))
		return true;
	if (process->words && snap_memory_image_read(process->words, address, out, size))
		return true;
	if (read_call_range(own->stack_address, own->stack, own->stack_size, address, out, size) ||
	    read_call_range(own->stack2_address, own->stack2, own->stack2_size, address, out, size))
		return true;
	if (read_stack_of_another(waiter->stacks, address, out, size))
		return true;
	for (size_t i = 0; i < process->piece_count; i++)
		if (read_call_range(process->pieces[i].address, process->pieces[i].data,
				    process->pieces[i].size, address, out, size))
			return true;
	return process->memory && snap_memory_image_read(process->memory, address, out, size);
}
