/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Words: finds out which memory explains the call that a thread waits in.
 *
 * This is the word of a futex with the memory around it, which is the lock; and what other
 * arguments point to, which is gone when the call returns: arrays of descriptors, times, addresses,
 * paths. Knows calls and numbers, and reads nothing.
 */
#pragma once

#include "model/capture.h"
#include "proc/procfs.h"

enum { SNAP_MOST_WAIT_RANGES = 6 /* of one call */ };

struct snap_wait_range {
	uint64_t address;
	uint32_t size; /* not 0; the range does not wrap */
};

/* The call of a line of /proc/TID/syscall; an unknown thread pointer is 0. */
struct snap_thread_call snap_call_of_line(const struct snap_syscall_line *line,
					  uint64_t thread_pointer);

/*
 * The ranges that a call's arguments name, in no order; they may overlap, and need not be mapped.
 * Returns their number: at most `most`; SNAP_MOST_WAIT_RANGES is always enough.
 */
size_t snap_wait_ranges(enum snap_arch arch, const struct snap_thread_call *call,
			struct snap_wait_range *ret, size_t most);

/* Whether its first range is an array that leads to more: of futex_waitv(2). */
bool snap_wait_ranges_lead_on(enum snap_arch arch, const struct snap_thread_call *call);

/* The addresses in that array, at most `most`; returns their number. */
size_t snap_futexes_of_array(const uint8_t *array, size_t size, uint64_t *ret, size_t most);

/* The range around a futex word. */
struct snap_wait_range snap_wait_range_of_futex(uint64_t address);
