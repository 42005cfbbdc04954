/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Signal frames in copied stacks: see signal_stack.h. */
#include "stop/signal_stack.h"

#include "model/arch/registers.h"

#include <string.h>

enum {
	MARGIN = SNAP_STACK_MARGIN,
	LARGEST_SIGNAL_STACK = 64 << 20,
	SCAN_BYTES = 1 << 16, /* of a stack */
};

/*
 * The kernel's struct ucontext on the stack (asm/ucontext.h, asm/sigcontext.h): the same on both
 * processors up to the registers.
 */
enum {
	UC_LINK = 8,
	SS_SP = 16,
	SS_FLAGS = 24,
	SS_SIZE = 32,
	SAVED_SP = SNAP_OWN_ARCH == SNAP_ARCH_AARCH64 ? 176 + 8 + 31 * 8 : 160,
	UC_END = SAVED_SP + 8,
};

static const uint32_t SS_AUTODISARM_BIT = 1u << 31; /* linux/signal.h */

/*
 * The saved stack pointer, if a signal frame's ucontext is at `offset` of the copy; else 0. The
 * alternate stack that it names must be the one that the thread is on.
 */
static uint64_t saved_stack_pointer(const struct snap_thread *thread, size_t offset)
{
	const uint8_t *at = thread->stack + offset;
	uint64_t address = thread->stack_address + offset, link, sp, size, saved, uc_flags;
	uint32_t ss_flags;

	memcpy(&link, at + UC_LINK, sizeof(link));
	memcpy(&sp, at + SS_SP, sizeof(sp));
	memcpy(&size, at + SS_SIZE, sizeof(size));
	memcpy(&saved, at + SAVED_SP, sizeof(saved));
	memcpy(&uc_flags, at, sizeof(uc_flags));
	memcpy(&ss_flags, at + SS_FLAGS, sizeof(ss_flags));
	if (link != 0 || uc_flags >= 256 || sp == 0 || (ss_flags & ~SS_AUTODISARM_BIT) >= 4 ||
	    size > LARGEST_SIGNAL_STACK || sp > thread->stack_address + MARGIN ||
	    address - sp >= size)
		return 0;
	return saved;
}

uint64_t snap_tracer_interrupted_sp(const struct snap_thread *thread, size_t *budget,
				    bool (*accepts)(void *context, uint64_t sp), void *context)
{
	size_t end = thread->stack_size < SCAN_BYTES ? thread->stack_size : SCAN_BYTES;

	for (size_t at = 0; at + UC_END <= end && *budget; at += sizeof(uint64_t)) {
		uint64_t saved = saved_stack_pointer(thread, at);

		*budget -= sizeof(uint64_t);
		if (saved && accepts(context, saved))
			return saved;
	}
	return 0;
}
