/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Keeps what was copied with each thread (struct snap_thread, memory). The copies are of different
 * moments, and memory is freed and used again between them: so each thread has an image of its own.
 * What several have alike is kept once, in one image of the process: of each address what was
 * copied first. Knows nothing of what the bytes mean.
 */
#pragma once

#include "base/shared_memory.h"
#include "model/memory_image.h"

/* An image that grows; all of it lies in the shared memory, of which `most` bytes are for it. */
struct snap_joined_image {
	struct snap_memory_image image;
	size_t capacity; /* of pieces */
	uint64_t apart;  /* bytes that the images of threads take beside it */
	uint64_t most;
};

/*
 * Adds an image whose pieces are sorted and do not overlap. It is returned as it is kept, in the
 * shared memory; NULL: there is no room. What there is no room for is left out of both, which say
 * so.
 */
const struct snap_memory_image *snap_join_image(struct snap_joined_image *joined,
						struct snap_shared_memory *shared,
						const struct snap_memory_image *image);
