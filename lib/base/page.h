/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sizes of pages of memory that kernels have, and rounding. Does not ask what this kernel has. */
#ifndef SNAP_BASE_PAGE_H
#define SNAP_BASE_PAGE_H

#include <stdint.h>

enum {
	/* The smallest: memory within one is readable to its end, or not at all. */
	SNAP_PAGE = 4096,
	/*
	 * The largest (aarch64 has 4, 16 and 64 KiB): what is unmapped, or given back by itself,
	 * begins and ends at multiples of it in its mapping.
	 */
	SNAP_MOST_PAGE = 65536,
};

/* The next multiple of a power of two. */
static inline uint64_t snap_round_up(uint64_t number, uint64_t unit)
{
	return (number + unit - 1) & ~(unit - 1);
}

#endif
