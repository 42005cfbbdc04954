/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where the stack of a thread ends. Its mapping tells, unless stacks share one: guard pages are holes
 * in a mapping, no mappings of their own, from glibc 2.42 on Linux 6.13 on (MADV_GUARD_INSTALL in
 * nptl/allocatestack.c). Then the thread pointer tells: the C library puts what it leads to above
 * the stack, in the same memory, so nothing of the stack lies behind it.
 */
#ifndef SNAP_STOP_OWN_STACK_H
#define SNAP_STOP_OWN_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* What is copied behind the thread pointer, at most: struct pthread of x86-64 has 2 KiB. */
enum { SNAP_BEHIND_THREAD_POINTER = 1 << 14 };

/* The end of the stack that has `sp`, whose mapping ends at `end`, or an address behind it. */
static inline uint64_t snap_own_stack_end(uint64_t sp, uint64_t end, uint64_t thread_pointer)
{
	if (thread_pointer < sp || thread_pointer >= end ||
	    end - thread_pointer <= SNAP_BEHIND_THREAD_POINTER)
		return end;
	return (thread_pointer + SNAP_BEHIND_THREAD_POINTER) & ~15ull;
}

/* Whether a copy has all of a stack, whatever could not be read behind it. */
static inline bool snap_own_stack_copied(uint64_t start, uint64_t size, uint64_t thread_pointer)
{
	return thread_pointer >= start && thread_pointer - start < size;
}

#endif
