/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A snapshot read back from its JSON (stacksnap-json(5)), which need not be ours: types, ranges
 * and counts are checked, keys that are not known are left alone.
 *
 * Rendered as JSON again it gives the same bytes. What the document cannot say, which processes
 * were asked for by name, is taken to be none; what is missing follows from the rest.
 */
#ifndef SNAP_STORE_JSON_READ_H
#define SNAP_STORE_JSON_READ_H

#include "model/snapshot.h"
#include "store/json/pick.h"

enum { SNAP_JSON_MAX_BYTES = 1 << 30 };

/* From the descriptor's position to its end. FORMAT: no such document; OS, NO_MEMORY. */
struct snap_error *snap_snapshot_read_json(int fd, struct snap_snapshot **ret) _must_check_;

/* ---- read.c and read_stack.c to each other ---- */

/* The frames of a process, each once. */
struct snap_frame_set {
	struct snap_frame **slots;
	size_t slot_count, used;
};

struct snap_json_reader {
	struct snap_json_pick pick;
	struct snap_snapshot *snapshot;
	struct snap_frame_set frames;
	size_t thread_count; /* of all processes so far, shown or not */
};

/* The index of a word, by the function that gives the words of 0 … count - 1. */
unsigned snap_json_read_word(struct snap_json_reader *reader, const struct snap_json *object,
			     const char *key, const char *(*word_of)(unsigned), unsigned count);
const char *snap_json_state_word(unsigned state);
/* Fills the node's stacks; errors are in reader->pick. */
void snap_json_read_stacks(struct snap_json_reader *reader, const struct snap_json *process,
			   struct snap_node *node);

#endif
