/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Joins what was copied with each thread (struct snap_thread, memory) to one image of the process,
 * as a stop has it. The copies are of different moments: of what lies in several the first one
 * counts, but for a record that is a thread's own, which counts as it was copied with that thread.
 * Knows nothing of what the bytes mean.
 */
#ifndef SNAP_CAPTURE_JOIN_H
#define SNAP_CAPTURE_JOIN_H

#include "base/shared_memory.h"
#include "model/memory_image.h"

/* An image that grows; all of it lies in the shared memory, of which `most` bytes are for it. */
struct snap_joined_image {
	struct snap_memory_image image;
	size_t capacity; /* of pieces */
	uint64_t most;
};

/*
 * Adds an image whose pieces are sorted and do not overlap. What there is no room for is left out,
 * and the image says so.
 */
void snap_join_image(struct snap_joined_image *joined, struct snap_shared_memory *shared,
		     const struct snap_memory_image *image);

#endif
