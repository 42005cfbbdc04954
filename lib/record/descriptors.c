/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Descriptors of a log: see descriptors.h. */
#include "record/descriptors.h"

#include "base/reopen.h"

#include <fcntl.h>
#include <sys/resource.h>

enum { SHARE = 8, EACH = 5 }; /* of all descriptors that may be open; those of a process */

/* Another directory, or the same one with other mounts below it. */
static bool has_own_root(const struct snap_live *live)
{
	_cleanup_fd_ int host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return live->root_fd >= 0 && !snap_is_same_place(live->root_fd, host);
}

static bool has_nameless_files(const struct snap_process *process)
{
	return snap_any(process->map_count, i,
			process->maps[i].execute && process->maps[i].deleted) ||
	       process->exe_deleted;
}

static bool is_kept(const struct snap_live *live)
{
	return live->root_fd >= 0 || live->exe_fd >= 0 || live->proc_fd >= 0;
}

static bool has_descriptors_left(const struct snap_log *log)
{
	struct rlimit limit = { 0 };
	size_t count = 0;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return false;
	for (size_t i = 0; i < log->capture->process_count; i++)
		count += is_kept(&log->capture->live[i]);
	return (count + 1) * EACH <= limit.rlim_cur / SHARE;
}

const struct snap_live *snap_descriptors_to_keep(const struct snap_log *log,
						 const struct snap_process *process,
						 const struct snap_live *live)
{
	if (!live || !log->capture->live)
		return NULL;
	if (!has_own_root(live) && !has_nameless_files(process))
		return NULL;
	return has_descriptors_left(log) ? live : NULL;
}

void snap_descriptors_close_ended(struct snap_log *log, uint32_t space)
{
	struct snap_live *live;

	if (!log->capture->live)
		return;
	live = &log->capture->live[space];
	snap_close(&live->pidfd);
	snap_close(&live->proc_fd);
	snap_close(&live->files_fd);
}
