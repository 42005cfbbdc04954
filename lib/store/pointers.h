/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec of things that many point to: texts, frames, lists of frames (see codec.h for the rest).
 *
 * They are numbered from 1 on, and written where the first one points to them. A number that is one
 * more than the last says that it follows; 0 stands for NULL. Pointers that were equal are equal
 * again when read. For bytes that go from one process to another, never on disk: what is read is
 * checked as renderers rely on it, as it may come from a process that hostile bytes have taken
 * over.
 */
#ifndef SNAP_STORE_POINTERS_H
#define SNAP_STORE_POINTERS_H

#include "model/snapshot.h"
#include "store/codec.h"

enum { SNAP_LONGEST_MESSAGE = SNAP_MAX_ARGS };

/* When read: what a number stands for. */
struct snap_shared_item {
	const void *pointer;
	uint64_t count; /* of its bytes or elements */
	uint64_t shown; /* about how many bytes of a report it makes */
};

/* When written: the number of a pointer; 0: free. */
struct snap_shared_slot {
	const void *pointer;
	uint64_t count;
	uint32_t number;
};

struct snap_shared {
	size_t count;
	struct snap_shared_item *items; /* READ */
	size_t item_capacity;
	struct snap_shared_slot *slots; /* COUNT, WRITE: open addressing, at most half full */
	size_t slot_count;
};

struct snap_sharing {
	struct snap_codec codec;
	struct snap_shared texts, frames, lists;
	bool no_memory; /* what was counted, written or read is of no use */
	/* READ */
	uint64_t shown;  /* about how many bytes of a report so far */
	const char *hex; /* the last text that was found to be hexadecimal */
};

void snap_sharing_deinit(struct snap_sharing *to);

/*
 * Begins what `*pointer` points to, `*count` bytes or elements. True: it is not known yet, and the
 * caller is to describe it and, when it reads, to call snap_share_end(). False: all is done; when
 * reading, *pointer and *count are set.
 */
bool snap_share_begin(struct snap_sharing *to, struct snap_shared *shared, const void **pointer,
		      uint64_t *count);
void snap_share_end(struct snap_sharing *to, struct snap_shared *shared,
		    struct snap_shared_item item);

/* A text that others may point to as well; as snap_code_text(). */
void snap_share_text(struct snap_sharing *to, const char **text, size_t most);
/* A frame that nobody else points to, whose texts are shared. */
void snap_code_frame(struct snap_sharing *to, struct snap_frame *frame);
/* A frame that others may point to as well; not NULL. */
void snap_share_frame(struct snap_sharing *to, const struct snap_frame **frame);
void snap_code_warning(struct snap_sharing *to, struct snap_warning *warning);

/* A number that is at most `most`. */
void snap_code_at_most(struct snap_sharing *to, size_t *value, uint64_t most);
/* A length of time: not negative, and two of them can be added up. */
void snap_code_length(struct snap_sharing *to, int64_t *value);
/* A moment: the time between two of them is a number. */
void snap_code_moment(struct snap_sharing *to, int64_t *value);

#endif
