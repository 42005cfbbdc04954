/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Context of a wait: what a recording keeps of it besides the stack: memory that explains the call
 * (stop/wait_bytes.h), and what its descriptors lead to.
 *
 * The worker that reads the thread's call finds all of it at once, because only the call's
 * arguments say what there is to read. What says nothing of what is waited for is not there:
 * timeouts, and what an earlier poll left in its array. Neither allocates nor locks, and does not
 * know how a thread is read.
 */
#pragma once

#include "base/shared_memory.h"
#include "model/capture.h"
#include "model/memory_image.h"

#include <sys/types.h>

enum {
	SNAP_WAIT_CONTEXT_WORDS = 1 << 14, /* bytes of memory, of one thread */
	SNAP_WAIT_CONTEXT_ROOM =
		1 << 16, /* that suffices for all of one thread; long links are cut */
};

/* How a thread is read; negative errnos. */
struct snap_wait_context_source {
	/* Up to the first byte that cannot be read. ESTALE: it is another program. */
	ssize_t (*read)(void *context, uint64_t address, uint8_t *bytes, size_t size);
	/* The link of a descriptor: its length, and a NUL behind it. */
	ssize_t (*link)(void *context, int32_t number, char *text, size_t size);
	void *context;
};

/* What came of it; in the room that was given. */
struct snap_wait_context {
	struct snap_memory_piece *pieces; /* in no order; they may overlap */
	size_t piece_count;
	/*
	 * By number: with links, kinds and inodes alone. A link that there is no room for is NULL.
	 */
	struct snap_descriptor *descriptors;
	size_t descriptor_count;
	bool is_futex;    /* or may be: its memory changes with its holder */
	bool is_left_out; /* nothing was read: there had been enough */
	uint32_t reads;   /* that it took */
};

/* Whether a call may have anything: it is one that waits. */
bool snap_wait_context_is_wanted(enum snap_arch arch, const struct snap_thread_call *call);

/*
 * Reads what a call names. 0 or -ESTALE: it is another program. What cannot be read is absent.
 */
int snap_wait_context_read(const struct snap_wait_context_source *source, enum snap_arch arch,
			   const struct snap_thread_call *call, struct snap_region *room,
			   struct snap_wait_context *ret);

/* A copy in memory of SNAP_WAIT_CONTEXT_ROOM bytes, aligned to 16. */
void snap_wait_context_keep(const struct snap_wait_context *from, void *room,
			    struct snap_wait_context *ret);

/*
 * A hash of what the thread waits for, not 0: links, and memory, except futex words, which change
 * with their holders.
 */
uint64_t snap_wait_context_hash(const struct snap_wait_context *context);
