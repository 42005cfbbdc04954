/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Resolving waits: what the numbers in the calls of threads mean (descriptors, sockets, locks),
 * asked of the kernel once all run again.
 */
#ifndef SNAP_CAPTURE_WAIT_RESOLVE_H
#define SNAP_CAPTURE_WAIT_RESOLVE_H

#include "model/capture.h"
#include "model/options.h"

/*
 * Fills in capture->waits, which is there, and what processes and threads have of waits, until
 * `until_ns` (CLOCK_MONOTONIC) at most. What is not found out is absent, and `lacks` says why.
 */
void snap_capture_resolve_waits(const struct snap_options *options, struct snap_capture *capture,
				int64_t until_ns);

#endif
