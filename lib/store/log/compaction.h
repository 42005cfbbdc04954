/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state of a log while it drops unreferenced elements. For forget.c, compact.c and compact_waits.c
 * alone.
 */
#pragma once

#include "store/log/index.h"

/* First marks (not 0: kept), then new numbers. */
struct snap_log_compaction {
	struct snap_log_moves processes, spaces, threads, stacks, frames, label_sets, objects,
		words;
	/* texts that are left */
	struct snap_arena arena;
	struct snap_interner strings;
	const char **thread_names, **reasons;
	struct snap_log_task *tasks; /* those that are left */
	size_t task_count;
	struct snap_log_call *calls;
	struct snap_label **labels; /* of each set that is left */
	struct snap_frame *names;
	size_t name_count;
	/* what threads wait for, with numbers, texts and memory as they will be */
	struct snap_log_wait_bytes *kept_words;
	struct snap_log_object *kept_objects;
	struct snap_socket *sockets;
	uint64_t *socket_stamps;
	size_t socket_count;
	struct snap_log_explained *explained;
	size_t explained_count;
};

/* Drops and renumbers all that it can. */
struct stacksnap_error *snap_log_compact(struct snap_log *log) _must_check_;

size_t snap_log_kept_count(const struct snap_log_moves *moves);

/* Memory that a burst left behind goes back. */
void snap_log_shrink_array(void *pointer_to_array, size_t *capacity, size_t count, size_t size);
#define snap_log_shrink(array, capacity, count) \
	snap_log_shrink_array(&(array), &(capacity), (count), sizeof(*(array)))

/* ---- compact_waits.c ---- */

/* Besides the objects of threads: those of owner changes, and the wait bytes of all. */
void snap_log_mark_waits(const struct snap_log *log, struct snap_log_compaction *compaction);
/* Copies the elements that are left, when everything has its new number. False without memory. */
bool snap_log_copy_waits(const struct snap_log *log,
			 struct snap_log_compaction *compaction) _must_check_;
void snap_log_move_waits(struct snap_log *log, const struct snap_log_compaction *compaction);
