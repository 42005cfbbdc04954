/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See when.h. printf's %f would follow the locale's decimal point, so decimals are made of digits.
 */
#include "render/view/when.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void snap_when(int64_t ns, char separator, int decimals, char out[SNAP_WHEN_SIZE])
{
	int64_t fraction = ns % SNAP_NS_PER_S;
	time_t seconds = (time_t)(ns / SNAP_NS_PER_S);
	char digits[16];
	struct tm tm;

	if (fraction < 0) {
		fraction += SNAP_NS_PER_S;
		seconds--;
	}
	if (!gmtime_r(&seconds, &tm))
		memset(&tm, 0, sizeof(tm));
	snprintf(digits, sizeof(digits), "%09d", (int)fraction);
	snprintf(out, SNAP_WHEN_SIZE, "%04d-%02d-%02d%c%02d:%02d:%02d.%.*sZ", tm.tm_year + 1900,
		 tm.tm_mon + 1, tm.tm_mday, separator, tm.tm_hour, tm.tm_min, tm.tm_sec, decimals,
		 digits);
}

void snap_when_uptime(int64_t ns, char out[SNAP_WHEN_SIZE])
{
	int64_t seconds = ns > 0 ? ns / SNAP_NS_PER_S : 0, minutes = seconds / 60,
		hours = minutes / 60;

	if (minutes == 0)
		snprintf(out, SNAP_WHEN_SIZE, "%" PRId64 "s", seconds);
	else if (hours == 0)
		snprintf(out, SNAP_WHEN_SIZE, "%" PRId64 "m%02" PRId64 "s", minutes, seconds % 60);
	else if (hours < 24)
		snprintf(out, SNAP_WHEN_SIZE, "%" PRId64 "h%02" PRId64 "m", hours, minutes % 60);
	else
		snprintf(out, SNAP_WHEN_SIZE, "%" PRId64 "d%02" PRId64 "h", hours / 24, hours % 24);
}

void snap_when_length(int64_t ns, char out[SNAP_WHEN_SIZE])
{
	int64_t us = ns / 1000 + (ns % 1000 >= 500);

	if (us < 1000)
		snprintf(out, SNAP_WHEN_SIZE, "%" PRId64 " us", us);
	else if (us < 1000000)
		snprintf(out, SNAP_WHEN_SIZE, "%" PRId64 ".%d ms", us / 1000,
			 (int)(us % 1000 / 100));
	else
		snprintf(out, SNAP_WHEN_SIZE, "%" PRId64 ".%02d s", us / 1000000,
			 (int)(us % 1000000 / 10000));
}
