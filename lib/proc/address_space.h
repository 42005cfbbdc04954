/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Address space: the mappings of a process, the first page of each module, the vDSO.
 *
 * The tracing child reads it, and the sampler, which has no stop. So nothing here allocates: memory
 * comes from a region of the caller's. The caller also provides the function that reads memory of the
 * process. Knows nothing else of the process.
 */
#pragma once

#include "base/error.h"
#include "base/shared_memory.h"
#include "model/capture.h"
#include "proc/procfs.h"
#include "proc/space_pool.h"

#include <sys/uio.h>

/* Data that a target can make large is bounded, in bytes. */
enum {
	SNAP_SPACE_TEXT = 24 << 20,   /* of a file "maps" that are read */
	SNAP_SPACE_BYTES = 16 << 20,  /* of mappings, paths and pieces that are kept of a process */
	SNAP_SPACES_BYTES = 64 << 20, /* of all processes together … */
	SNAP_SPACE_LEAST = 128 << 10, /* … but each may have so many, whatever others took, … */
	SNAP_SPACES_MOST = 96 << 20,  /* … until there are so many: then it has these few */
	SNAP_SPACE_FEW = 4 << 10,
};

struct snap_space_reader {
	struct snap_region *records; /* where results go */
	struct snap_map *maps;       /* SNAP_MAX_MAPS of them, used while they are read */
	char *buffer;                /* for lines */
	size_t buffer_size;
	/*
	 * Reads ranges of memory into bytes that lie one after the other, up to the first that
	 * cannot be read; returns how many bytes that are.
	 */
	size_t (*read)(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count);
	void *context;
	/* The part of SNAP_SPACES_BYTES that earlier spaces took; shared memory. NULL: none. */
	uint64_t *taken;
	/* Bytes that several have are kept once, and counted once. NULL: once for each. */
	struct snap_space_pool *pool;
	/* When reading maps last got on, CLOCK_MONOTONIC, for a waiting maker. NULL: none waits. */
	int64_t *sign;
};

struct snap_space {
	struct snap_map *maps; /* sorted, without overlaps */
	size_t map_count;
	struct snap_piece *pieces; /* sorted */
	size_t piece_count;
	bool cut;    /* there were more mappings than may be kept */
	size_t room; /* bytes that its pieces may take */
};

/*
 * Reads a file "maps", as much of it as may be kept: `cut` says that there is more. 0 or a
 * negative errno, then nothing is written: ESRCH, there are none, since the process has gone;
 * ENOMEM, the region is used up.
 */
int snap_space_read_maps(const struct snap_space_reader *reader, int maps_fd,
			 struct snap_space *ret);
/*
 * Reads the pieces of these mappings. A piece that cannot be read, or has no room, is left out.
 * piece_count is at any time the number of whole ones.
 */
void snap_space_read_pieces(const struct snap_space_reader *reader, struct snap_space *space);

/*
 * Copies a space to where the reader keeps such, as if it were read: no more than there is room
 * for. 0 or -ENOMEM: the region is used up.
 */
int snap_space_keep(const struct snap_space_reader *reader, const struct snap_space *from,
		    struct snap_space *ret);

/* A space by itself, in an arena that then holds no more than what it needs. */
struct stacksnap_error *snap_space_copy(struct snap_arena *arena, const struct snap_space *from,
					struct snap_space *ret) _must_check_;

/* The first of sorted mappings that ends behind an address: its own, or the next; else `count`. */
size_t snap_space_find(const struct snap_map *maps, size_t count, uint64_t address);
