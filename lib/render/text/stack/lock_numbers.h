/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lock numbers: "monitor #2". Where a process has several locks that no symbol names, short numbers tell
 * them apart, in the order of their addresses. Knows no lines.
 */
#pragma once

#include "base/table.h"
#include "model/options.h"
#include "model/snapshot.h"

/* All zero: no lock has a number. */
struct snap_lock_numbers {
	struct snap_lock *locks; /* inside */
	size_t count, capacity;
	struct snap_pointer_table numbers; /* of waits */
	char names[2][24];      /* of the wait that was asked for last, and of its owner's */
	struct snap_wait inner; /* the owner's */
};

/* False without memory. */
bool snap_lock_numbers_init(struct snap_lock_numbers *numbers,
			    const struct snap_snapshot *snapshot) _must_check_;
void snap_lock_numbers_deinit(struct snap_lock_numbers *numbers);

/*
 * A wait as a report shows it, see snap_shown_wait(). Texts are good until the next call. `numbers` NULL:
 * there are none.
 */
struct snap_wait snap_numbered_wait(struct snap_lock_numbers *numbers,
				    const struct snap_options *options,
				    const struct snap_wait *wait);
