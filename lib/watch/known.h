/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What conditions know of a thread, for the files that check them alone (conditions.c, blockers.c):
 * what a sweep sees of it now, beside the wait that the last snapshot has of it. It does not know
 * when a condition that holds is reported; alarms do.
 */
#pragma once

#include "base/table.h"
#include "watch/conditions.h"

/* The threads of a sweep by their numbers. */
struct snap_sweep_index {
	struct snap_hash_table table;
	const struct snap_sweep *sweep;
};

/* NULL: it has gone. */
const struct snap_sweep_thread *snap_sweep_find(const struct snap_sweep_index *index, pid_t pid,
						pid_t tid);

/*
 * Whether a thread in such a wait wakes up by itself, only to check and wait on: by a timeout, or
 * as threads do for Python's interpreter lock and Java's monitors, though no timeout ends these.
 */
bool snap_conditions_looks_again(const struct snap_wait *wait);

/*
 * For how long a thread has been in the wait that the view has of it, as far as is known; -1: it is
 * in another one by now, or that is unknown.
 */
int64_t snap_conditions_age(const struct snap_conditions *conditions,
			    const struct snap_sweep_thread *thread,
			    const struct snap_member *member);

/* The process of the view with a pid; NULL: it has no threads there. */
const struct snap_node *snap_conditions_node(const struct snap_view *view, pid_t pid);

/* blockers.c: which threads hold up others. NO_MEMORY. */
struct stacksnap_error *
snap_conditions_check_blockers(const struct snap_conditions *conditions,
			       const struct snap_sweep_index *index) _must_check_;
