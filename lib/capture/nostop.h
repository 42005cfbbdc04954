/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reading a tree without stopping it (--no-stop): what stands in for the tracer in capture.c.
 *
 * Threads that are blocked are copied while they are (sample/copy_blocked.h); those that run, and those whose copy
 * does not suffice, are stopped one by one for microseconds (stop/single.h). What comes of it is
 * the same as of a stop, but for the one instant. Knows nothing of trees or of stacks' meaning:
 * whether a copy suffices is judged by the caller.
 */
#ifndef SNAP_CAPTURE_NOSTOP_H
#define SNAP_CAPTURE_NOSTOP_H

#include "capture/capture.h"
#include "stop/tracer.h"

struct snap_nostop;

/*
 * `hook`: who judges; NULL: all copies suffice. OTHER: nothing here proves that a thread stood
 * still.
 */
struct snap_error *snap_nostop_create(const struct snap_options *options,
				      const struct snap_stop_hook *hook,
				      struct snap_nostop **ret) _must_check_;
void snap_nostop_destroy(struct snap_nostop *nostop);

static inline void snap_nostop_destroyp(struct snap_nostop **nostop)
{
	snap_nostop_destroy(*nostop);
}

/*
 * Reads the processes of a stop, all of which are in the capture, and those that `again` adds. As
 * with snap_tracer_run() trouble is in the stop; additionally the mappings are in the capture's
 * processes. CANCELLED, NO_MEMORY, OS.
 */
struct snap_error *snap_nostop_run(struct snap_nostop *nostop, struct snap_capture *capture,
				   const struct snap_stop_again *again,
				   struct snap_shared_memory *shared,
				   struct snap_stop *stop) _must_check_;

#endif
