/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When: nanoseconds since the epoch, and lengths of time, as text. Pure, in UTC, no locale. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SNAP_WHEN_SIZE = 48 };

/* "2026-11-20T07:52:18.106000000Z": `separator` between date and time, 1 to 9 decimals. */
void snap_when(int64_t ns, char separator, int decimals, char out[SNAP_WHEN_SIZE]);
/* How long something is up: "42s", "12m05s", "3h07m", "3d04h". */
void snap_when_uptime(int64_t ns, char out[SNAP_WHEN_SIZE]);
/* A short length: "7.4 ms", "850 us", "1.25 s". */
void snap_when_length(int64_t ns, char out[SNAP_WHEN_SIZE]);
