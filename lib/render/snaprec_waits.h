/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The way back from what runs of a recording wait for, and its holders, to objects and holds of a
 * log. A wait is known by its words alone: so its object has no call, and memory that says nothing
 * but its holder. It also converts the times at which waiting threads ran. See snaprec.c.
 */
#pragma once

#include "model/log.h"

struct snap_snaprec_owner;
struct snap_snaprec_wake;

/* All zero at first; to be released. */
struct snap_snaprec_waits {
	struct snap_snaprec_owner *owners; /* by tick */
	size_t count, next;
	struct snap_snaprec_wake *wakes; /* by tick */
	size_t wake_count, next_wake;
};

void snap_snaprec_waits_deinit(struct snap_snaprec_waits *waits);

/* Objects of a log that has the recording's processes and stacks, in the order of its waits. */
struct stacksnap_error *snap_snaprec_add_waits(struct snap_snaprec_waits *waits,
					       const struct snap_recording *recording,
					       struct snap_log *log) _must_check_;
/* Within a tick: the holders from it on. */
struct stacksnap_error *snap_snaprec_add_owners(struct snap_snaprec_waits *waits,
						const struct snap_recording *recording,
						struct snap_log *log, size_t tick) _must_check_;
/* Behind the changes of a tick: whose threads have run before it. */
void snap_snaprec_add_wakes(struct snap_snaprec_waits *waits, struct snap_log *log, size_t tick);
/* What a run waits for, for its change. */
struct stacksnap_error *snap_snaprec_find_object(const struct snap_recording *recording,
						 struct snap_log *log, const struct snap_run *run,
						 uint32_t *ret) _must_check_;
