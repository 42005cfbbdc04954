/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory as bytes: the sizes of pages, rounding, and numbers at addresses that may not be aligned.
 * Asks nothing about this machine, and knows nothing of what the bytes mean.
 */
#pragma once

#include <stdint.h>
#include <string.h>

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

static inline uint32_t snap_u32_at(const void *bytes)
{
	uint32_t number;

	memcpy(&number, bytes, sizeof(number));
	return number;
}

static inline uint64_t snap_u64_at(const void *bytes)
{
	uint64_t number;

	memcpy(&number, bytes, sizeof(number));
	return number;
}
