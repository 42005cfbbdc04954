/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Words: which memory explains the call that a thread waits in.
 *
 * The word of a futex with what lies around it, as that is the lock; and what other arguments lead
 * to, which dies when the call returns: arrays of descriptors, times, addresses, paths. Knows calls
 * and numbers, and reads nothing.
 */
#ifndef SNAP_STOP_WORDS_H
#define SNAP_STOP_WORDS_H

#include "model/capture.h"

enum { SNAP_MOST_WORD_RANGES = 6 /* of one call */ };

struct snap_word_range {
	uint64_t address;
	uint32_t size; /* not 0; the range does not wrap */
};

/*
 * The ranges that a call's arguments name, in no order; they may overlap, and need not be mapped.
 * How many there are: at most SNAP_MOST_WORD_RANGES.
 */
size_t snap_word_ranges(enum snap_arch arch, const struct snap_thread_call *call,
			struct snap_word_range *ret);

/*
 * What follows from a range that was read, of a call that waits for several futexes: their
 * addresses; at most `most` are written. How many there are: 0 for every other call.
 */
size_t snap_word_futexes(enum snap_arch arch, const struct snap_thread_call *call,
			 const uint8_t *bytes, size_t size, uint64_t *ret, size_t most);

/* The range around a futex word. */
struct snap_word_range snap_word_range_of_futex(uint64_t address);

#endif
