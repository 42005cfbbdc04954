/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * View: the last snapshot that a watch has taken, with its threads by number. Owns the snapshot.
 * Knows nothing of how it was taken, nor what may be wrong with the threads in it.
 */
#pragma once

#include "base/table.h"
#include "model/snapshot.h"

struct snap_view_thread {
	const struct snap_node *node;
	const struct snap_stack *stack;
	const struct snap_member *member;
};

struct snap_view {
	struct snap_snapshot *snapshot; /* NULL: none was taken */
	int64_t taken_ns;               /* CLOCK_MONOTONIC when it began */
	int64_t settled_ns;             /* the first look after it; 0: there was none */
	uint64_t number;                /* counts from 1 */
	struct snap_view_thread *threads;
	size_t thread_count, thread_capacity;
	struct snap_hash_table by_tid;
};

void snap_view_deinit(struct snap_view *view);
/* Takes over the snapshot, in any case. NO_MEMORY. */
struct stacksnap_error *snap_view_set(struct snap_view *view, struct snap_snapshot *snapshot,
				      int64_t taken_ns) _must_check_;
/*
 * Until when a thread may have run without having gone on since the snapshot: a thread that was
 * stopped for it ran when it was released, which the next sweep sees.
 */
int64_t snap_view_left_ns(const struct snap_view *view, const struct snap_member *member);
/* A thread of it; NULL: it has none with these numbers. */
const struct snap_view_thread *snap_view_find(const struct snap_view *view, pid_t pid, pid_t tid);
