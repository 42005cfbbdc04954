/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files that turn snapshots into bytes share: see snapshot_file.h. Nobody else includes
 *it.
 *
 *	tree, head, warnings     snapshot_file.c
 *	processes                snapshot_file_node.c
 *	stacks, frames, threads  snapshot_file_stack.c
 *	what many point to       snapshot_file_share.c
 *
 * Texts, frames and lists of frames have many that point to the same: they are numbered from 1 on,
 * and written where the first one points to them. A number that is one more than the last says
 * that it follows. Pointers that were equal are equal again when read.
 */
#ifndef SNAP_STORE_SNAPSHOT_FILE_INSIDE_H
#define SNAP_STORE_SNAPSHOT_FILE_INSIDE_H

#include "model/snapshot.h"
#include "store/codec.h"

enum {
	SNAP_LONGEST_MESSAGE = SNAP_MAX_ARGS,
	/* The least that a process takes: its fixed members, no texts. */
	SNAP_LEAST_NODE = 120,
};

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

struct snap_snapshot_codec {
	struct snap_codec codec;
	struct snap_shared texts, frames, lists;
	bool no_memory;
	/* READ */
	uint64_t shown; /* about how many bytes of a report were read of */
	size_t stacks;  /* so far */
	size_t threads;
};

void snap_shared_deinit(struct snap_shared *shared);

/*
 * Begins what `*pointer` points to, `*count` bytes or elements. True: it is not known yet, and the
 * caller is to describe it and, when it reads, to call snap_share_end(). False: all is done; when
 * reading, *pointer and *count are set.
 */
bool snap_share_begin(struct snap_snapshot_codec *to, struct snap_shared *shared,
		      const void **pointer, uint64_t *count);
void snap_share_end(struct snap_snapshot_codec *to, struct snap_shared *shared,
		    struct snap_shared_item item);

/* A text that others may point to as well; as snap_code_text(). */
void snap_share_text(struct snap_snapshot_codec *to, const char **text, size_t most);
/* A number that is at most `most`. */
void snap_code_at_most(struct snap_snapshot_codec *to, size_t *value, uint64_t most);
/* A number that is not negative. */
void snap_code_length(struct snap_snapshot_codec *to, int64_t *value);
/* Labels, of which the keys are known and the values are what renderers expect. */
void snap_code_labels(struct snap_snapshot_codec *to, struct snap_label **labels, size_t *count);

/* A process but for its children. */
void snap_code_node(struct snap_snapshot_codec *to, struct snap_node *node);
void snap_code_stacks(struct snap_snapshot_codec *to, struct snap_node *node);

#endif
