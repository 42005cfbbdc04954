/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Inside the worker of the child that makes single stops: reads the stacks of a stopped thread, up
 * to the end of its mapping. It writes only to the current slot, as the child may have given it up
 * by now. Knows no phases.
 */
#include "base/bytes.h"
#include "model/arch/registers.h"
#include "stop/child/single.h"
#include "stop/own_stack.h"
#include "stop/signal_stack.h"

#include <sys/uio.h>

enum {
	UNKNOWN_STACK = 1 << 16, /* bytes to read if the end of the stack is unknown */
	READY_STACKS = 1 << 20,  /* bytes that are made present before the first stop */
};

/* Reads bytes up to the first that cannot be read. */
static size_t read_single_memory(const struct snap_pick *pick, uint64_t address, uint8_t *bytes,
				 size_t size)
{
	struct iovec local = { bytes, size }, remote = { (void *)(uintptr_t)address, size };
	ssize_t got = process_vm_readv(pick->tid, &local, 1, &remote, 1, 0);

	return got > 0 ? (size_t)got : 0;
}

/* Takes room for so many bytes, or all that is left; the unused part is given back. */
static uint8_t *reserve_bytes(const struct snap_channel *channel, struct snap_region *region,
			      uint64_t *size)
{
	size_t room = snap_region_room(region) & ~(size_t)15;

	*size = *size < channel->max_stack ? *size : channel->max_stack;
	*size = *size < room ? *size : room;
	return *size ? snap_region_alloc(region, *size) : NULL;
}

static void return_unused_bytes(struct snap_region *region, uint8_t *bytes, size_t used)
{
	region->next = bytes + ((used + 15) & ~(size_t)15);
}

static bool is_on_usual_stack(void *context, uint64_t sp)
{
	const struct snap_pick *pick = context;

	return sp >= pick->stack_start && sp < pick->stack_end;
}

static uint64_t start_of_stack(const struct snap_pick *pick, uint64_t sp)
{
	uint64_t start = sp < SNAP_STACK_MARGIN ? 0 : (sp - SNAP_STACK_MARGIN) & ~15ull;

	return is_on_usual_stack((void *)pick, sp) && start < pick->stack_start ? pick->stack_start
										: start;
}

/* That of an overflow lies below it. */
static bool is_of_usual_stack(void *context, uint64_t sp)
{
	const struct snap_pick *pick = context;

	return sp < pick->stack_end &&
	       (sp >= pick->stack_start || pick->stack_start - sp <= SNAP_OVERFLOW_BYTES);
}

/* Copies the stack that a handler on another one has interrupted. */
static void copy_interrupted_stack(const struct snap_channel *channel, struct snap_slot *slot)
{
	struct snap_pick *pick = &slot->read;
	struct snap_thread *thread = &pick->copy;
	size_t budget = UNKNOWN_STACK;
	uint64_t sp, start, size;
	uint8_t *bytes;

	if (!pick->stack_end || !thread->stack_size)
		return;
	sp = snap_tracer_interrupted_sp(thread, &budget, is_of_usual_stack, pick);
	start = SNAP_MAX(start_of_stack(pick, sp), pick->stack_start);
	size = pick->stack_end - start;
	bytes = sp ? reserve_bytes(channel, &slot->room, &size) : NULL;
	if (!bytes)
		return;
	thread->stack2_size = read_single_memory(pick, start, bytes, size);
	thread->stack2_address = start;
	thread->stack2 = bytes;
	return_unused_bytes(&slot->room, bytes, thread->stack2_size);
}

static uint64_t slot_thread_pointer(const struct snap_slot *slot)
{
	struct snap_known_registers known = { .thread_pointer = 0 };

	snap_registers_read(SNAP_OWN_ARCH, slot->registers, slot->pick.copy.registers_size, 0,
			    &known);
	return known.thread_pointer;
}

static void read_single_stack(const struct snap_channel *channel, struct snap_slot *slot)
{
	struct snap_pick *pick = &slot->read;
	struct snap_thread *thread = &pick->copy;
	uint64_t sp = slot->sp, start = start_of_stack(pick, sp), wanted, size;
	uint8_t *bytes;

	pick->past_end = !is_on_usual_stack(pick, sp);
	wanted = pick->past_end ? UNKNOWN_STACK : pick->stack_end - start;
	size = wanted;
	bytes = reserve_bytes(channel, &slot->room, &size);
	thread->stack_unreadable = true;
	if (!bytes)
		return;
	thread->stack_size = read_single_memory(pick, start, bytes, size);
	/* The bytes below sp may be in another mapping, or in none. */
	if (!thread->stack_size && start / SNAP_PAGE != sp / SNAP_PAGE) {
		start = sp & ~(uint64_t)(SNAP_PAGE - 1);
		thread->stack_size = read_single_memory(pick, start, bytes, size);
	}
	thread->stack_address = start;
	thread->stack = bytes;
	if (pick->past_end) {
		thread->stack_limited = thread->stack_size == size;
		thread->stack_unreadable = thread->stack_size == 0;
	} else {
		thread->stack_limited = thread->stack_size == size && size < wanted;
		thread->stack_unreadable = thread->stack_size < size &&
					   !snap_own_stack_copied(start, thread->stack_size,
								  slot_thread_pointer(slot));
	}
	return_unused_bytes(&slot->room, bytes, thread->stack_size);
	if (pick->past_end)
		copy_interrupted_stack(channel, slot);
}

/* After the stack, which is useful without the plan. */
static void execute_single_plan(struct snap_channel *channel, struct snap_slot *slot)
{
	struct snap_thread_plan *plan = &channel->plans[channel->list.slot];

	plan->thread = snap_thread_plan_of(slot->pick.tid, slot->pick.ns_tid, slot->registers,
					   slot->pick.copy.registers_size);
	snap_thread_plan_execute(plan, channel->plan_work, SNAP_THREAD_PLAN_STOPPED_NS,
				 &slot->images);
}

void snap_single_read(void *context, uint32_t item _unused_)
{
	struct snap_channel *channel = context;
	struct snap_slot *slot = &channel->slots[channel->list.slot];

	read_single_stack(channel, slot);
	if (slot->has_plan)
		execute_single_plan(channel, slot);
}

void snap_single_get_ready(void *context, uint32_t item _unused_)
{
	struct snap_channel *channel = context;

	snap_region_prefault(&channel->stacks, READY_STACKS);
}
