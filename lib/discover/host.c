/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The machine: its name, kernel and clock. What start times are counted from is decided here.
 */
#include "discover/internal.h"

#include "base/clock.h"

#include <string.h>
#include <sys/utsname.h>

enum { NS_PER_S = 1000000000, NS_PER_MS = 1000000 };

/*
 * Start times count from boot. The wall clock's distance to that clock changes only when somebody
 * sets it; rounding hides the time between the two readings, so that two runs agree.
 */
static int64_t boot_time_ns(void)
{
	int64_t before = snap_clock_ns(CLOCK_BOOTTIME);
	int64_t now = snap_clock_ns(CLOCK_REALTIME);
	int64_t after = snap_clock_ns(CLOCK_BOOTTIME);
	int64_t boot = now - before - (after - before) / 2;

	return (boot + NS_PER_MS / 2) / NS_PER_MS * NS_PER_MS;
}

struct snap_error *snap_discovery_host(struct snap_capture *capture,
				       const struct snap_procfs *procfs)
{
	struct snap_host *host = &capture->host;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), ticks = sysconf(_SC_CLK_TCK);
	struct utsname names;
	char boot_id[64];
	ssize_t length;

	host->cpus = cpus > 0 ? (unsigned)cpus : 1;
	host->ticks_per_second = ticks > 0 ? ticks : 100;
	host->boot_time_ns = boot_time_ns();
	if (uname(&names) == 0) {
		host->name = snap_arena_strdup(&capture->arena, names.nodename);
		host->kernel = snap_arena_strdup(&capture->arena, names.release);
		host->arch = snap_arena_strdup(&capture->arena, names.machine);
		if (!host->name || !host->kernel || !host->arch)
			return snap_error_no_memory();
	}
	length = snap_procfs_system_read(procfs, "sys/kernel/random/boot_id", boot_id,
					 sizeof(boot_id));
	if (length > 0) {
		host->boot_id =
			snap_arena_strndup(&capture->arena, boot_id, strcspn(boot_id, "\n"));
		if (!host->boot_id)
			return snap_error_no_memory();
	}
	return NULL;
}
