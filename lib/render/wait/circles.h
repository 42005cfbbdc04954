/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Deadlocks of a recording: threads each of which waited for what the next one had, until they were looked
 * at last.
 *
 * Threads are not looked at in one instant, so a circle counts if it stood at two ticks. What only one
 * thread can give back makes a circle; of pipes and sockets others may have an end that were not
 * recorded. Plain values; texts are raw bytes of the recording. Knows no format.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "model/options.h"
#include "model/recording.h"

struct snap_circles {
	struct snap_arena arena;
	struct snap_waits waits; /* its deadlocks alone */
};

/* Nothing with --no-explain. NO_MEMORY; released by snap_circles_deinit() in any case. */
struct stacksnap_error *snap_circles_init(struct snap_circles *circles,
					  const struct snap_recording *recording,
					  const struct snap_options *options) _must_check_;
void snap_circles_deinit(struct snap_circles *circles);

/*
 * One in one line, "DEADLOCK  2 threads: 4670 dl1 waits for mutex accounts, held by 4671 dl2; …";
 * raw, malloc'ed; NULL without memory.
 */
char *snap_circle_line(const struct snap_deadlock *deadlock);
