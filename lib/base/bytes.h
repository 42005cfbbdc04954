/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers at any address, which may not be aligned for them. Knows nothing of what they mean. */
#ifndef SNAP_BASE_BYTES_H
#define SNAP_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

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

#endif
