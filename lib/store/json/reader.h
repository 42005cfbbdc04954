/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The reader of snapshots' JSON: the document and its processes are read.c, their stacks stacks.c,
 * groups of all processes together.c, frames frames.c, what runtimes add tasks.c, waits waits.c.
 * No other file includes it.
 */
#pragma once

#include "base/table.h"
#include "model/snapshot.h"
#include "store/json/pick.h"

/* The frames of a process, each once. */
struct snap_json_frame_set {
	struct snap_frame **frames;
	size_t count, capacity;
	struct snap_hash_table table;
};

struct snap_json_reader {
	struct snap_json_pick pick;
	struct snap_snapshot *snapshot;
	struct snap_json_frame_set set;
	struct snap_entry *entries; /* of the frame that is being read */
	size_t entry_capacity;
	size_t thread_count, task_count; /* of all processes so far, shown or not */
	pid_t crashed_tid;               /* of the process that is being read; 0: none */
	bool together; /* stacks are of all processes: threads and tasks say of which */
};

enum snap_state snap_json_pick_state(struct snap_json_pick *pick, const struct snap_json *object);

/* The entries of a stack as its frames, and its gap. */
void snap_json_read_frames(struct snap_json_reader *reader, const struct snap_json *object,
			   struct snap_stack *stack);
/* What follows is of another process. */
void snap_json_forget_frames(struct snap_json_reader *reader);
/* The array "stacks" of a process, sorted. */
void snap_json_read_stacks(struct snap_json_reader *reader, const struct snap_json *object,
			   struct snap_stack **stacks, size_t *count);
/* The array "stacks" of the document itself, if it has one, as those of its processes. */
void snap_json_read_together(struct snap_json_reader *reader, const struct snap_json *root);
/* As many as the stack counts. */
void snap_json_read_tasks(struct snap_json_reader *reader, const struct snap_json *object,
			  struct snap_stack *stack);
void snap_json_read_runtimes(struct snap_json_reader *reader, const struct snap_json *object,
			     struct snap_node *node);
/* The object "wait" of a thread or stack; NULL: it has none. */
const struct snap_wait *snap_json_read_wait(struct snap_json_pick *pick,
					    const struct snap_json *object);
/* The waits of the document as a whole. */
void snap_json_read_waits(struct snap_json_reader *reader, const struct snap_json *root);
void snap_json_read_logical(struct snap_json_reader *reader, const struct snap_json *object,
			    struct snap_node *node);
