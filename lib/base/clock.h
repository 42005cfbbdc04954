/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The clocks as one number. Knows nothing of what is timed. */
#ifndef SNAP_BASE_CLOCK_H
#define SNAP_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* What a clock says (clock_gettime(2)), in nanoseconds; 0: there is no such clock any more. */
static inline int64_t snap_clock_ns(clockid_t id)
{
	struct timespec now = { 0 };

	clock_gettime(id, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
