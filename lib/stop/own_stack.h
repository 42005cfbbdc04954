/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Own stack: finds where the stack of a thread ends. Its mapping says so, unless stacks share one:
 * from glibc 2.42 and Linux 6.13 on, guard pages are holes in a mapping, and no mappings of their
 * own (MADV_GUARD_INSTALL in nptl/allocatestack.c). Then the thread pointer says so: the C library
 * keeps its thread structure above the stack, in the same memory, so the stack ends before it.
 * Knows nothing of how memory is read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The bytes behind the thread pointer that are copied at most: struct pthread of x86-64 has 2 KiB.
 */
enum { SNAP_BEHIND_THREAD_POINTER = 1 << 14 };

/* The end of the stack that has `sp`, whose mapping ends at `end`, or an address behind it. */
static inline uint64_t snap_own_stack_end(uint64_t sp, uint64_t end, uint64_t thread_pointer)
{
	if (thread_pointer < sp || thread_pointer >= end ||
	    end - thread_pointer <= SNAP_BEHIND_THREAD_POINTER)
		return end;
	return (thread_pointer + SNAP_BEHIND_THREAD_POINTER) & ~15ull;
}

/* Whether a copy has all of a stack, even if memory behind the stack could not be read. */
static inline bool snap_own_stack_copied(uint64_t start, uint64_t size, uint64_t thread_pointer)
{
	return thread_pointer >= start && thread_pointer - start < size;
}
