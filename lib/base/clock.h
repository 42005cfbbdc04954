/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The clocks as one number. Knows nothing of what is timed. */
#ifndef SNAP_BASE_CLOCK_H
#define SNAP_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* In nanoseconds; of 64 bits, so that no product overflows. */
#define SNAP_NS_PER_MS INT64_C(1000000)
#define SNAP_NS_PER_S INT64_C(1000000000)

/* What a clock says (clock_gettime(2)), in nanoseconds; 0: there is no such clock any more. */
static inline int64_t snap_clock_ns(clockid_t id)
{
	struct timespec now = { 0 };

	clock_gettime(id, &now);
	return now.tv_sec * SNAP_NS_PER_S + now.tv_nsec;
}

#endif
