/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory image: the memory of a process that a plan (model/memory_plan.h) has copied, with addresses.
 *
 * Sparse; its pieces are sorted by address and do not overlap, though they may touch. A plain
 * value, in the memory of the capture that it is a part of. Knows nothing of what the bytes mean.
 */
#pragma once

#include "model/memory_plan.h"

struct snap_memory_piece {
	uint64_t address, size;
	const uint8_t *bytes;
};

/* The result of a step of the plan. */
struct snap_plan_result {
	uint64_t records, bytes;
	uint32_t cut; /* enum snap_plan_cut */
};

struct snap_memory_image {
	struct snap_memory_piece *pieces;
	size_t piece_count;
	uint64_t bytes;   /* of all pieces */
	int64_t taken_ns; /* how long it took, while the process stood still */
	struct snap_plan_result steps[SNAP_PLAN_MOST_STEPS];
	uint32_t step_count;
};

/*
 * Copies `size` bytes at an address, out of several pieces if they touch; false if some byte is
 * not in the image: then `out` is undefined.
 */
bool snap_memory_image_read(const struct snap_memory_image *image, uint64_t address, void *out,
			    size_t size);

/* `size` bytes at an address where one piece has them all; NULL: none has. */
const uint8_t *snap_memory_image_bytes(const struct snap_memory_image *image, uint64_t address,
				       uint64_t size);

/*
 * Where the first bytes lie that the image has, at an address or behind it, and how many without a
 * gap; false: there are none.
 */
bool snap_memory_image_next(const struct snap_memory_image *image, uint64_t address,
			    uint64_t *start_ret, uint64_t *size_ret);
