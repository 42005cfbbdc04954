/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The clocks of the kernel, each as one number. Knows nothing of what is timed. */
#pragma once

#include <stdint.h>
#include <time.h>

/* Of 64 bits, so that products do not overflow. */
#define SNAP_NS_PER_MS INT64_C(1000000)
#define SNAP_NS_PER_S INT64_C(1000000000)

/* The time of a clock (clock_gettime(2)), in nanoseconds; 0: this clock does not exist any more. */
static inline int64_t snap_clock_ns(clockid_t id)
{
	struct timespec now = { 0 };

	clock_gettime(id, &now);
	return now.tv_sec * SNAP_NS_PER_S + now.tv_nsec;
}
