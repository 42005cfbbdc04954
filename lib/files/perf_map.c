/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The perf map of a process, /tmp/perf-PID.map in its own root: whether it can be trusted.
 *
 * Every user can write into /tmp. So: no symbolic link, a regular file with one name, of the
 * target's user or root, not huge; and with more rights than that user (root, or file capabilities)
 * only when asked for (--perf-map=always). What the file says is read elsewhere.
 */
#include "files/search.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { MAX_PERF_MAP = 256 << 20 };

static struct stacksnap_error *check_perf_map_file(const struct snap_process *process, int fd)
{
	struct stat info;

	if (fstat(fd, &info) < 0)
		return snap_error_os(errno, "cannot stat it");
	if (S_ISLNK(info.st_mode))
		return snap_error_format(SNAP_ERROR_PERMISSION, "it is a symbolic link");
	if (!S_ISREG(info.st_mode))
		return snap_error_format(SNAP_ERROR_PERMISSION, "it is not a regular file");
	if (info.st_nlink != 1)
		return snap_error_format(SNAP_ERROR_PERMISSION, "it has more than one hard link");
	if (info.st_uid != 0 && info.st_uid != process->uid)
		return snap_error_format(SNAP_ERROR_PERMISSION,
					 "it belongs to uid %u, not to the process's user",
					 info.st_uid);
	if (info.st_size > MAX_PERF_MAP)
		return snap_error_format(SNAP_ERROR_PERMISSION, "it is larger than %d MiB",
					 MAX_PERF_MAP >> 20);
	return NULL;
}

static bool is_allowed(const struct snap_options *options, const struct snap_process *process)
{
	return options->perf_map == SNAP_PERF_MAP_ALWAYS || !snap_files_is_foreign(process);
}

static struct stacksnap_error *open_live(const struct snap_files *files,
					 const struct snap_process *process,
					 const struct snap_live *live, int *fd_ret)
{
	_cleanup_fd_ int fd = -1;
	struct snap_file_candidate place = { .kind = SNAP_CANDIDATE_ROOT, .fd = live->root_fd };
	struct stacksnap_error *err;

	if (live->root_fd < 0)
		return snap_error_not_found();
	/* That number may be another process's in our root. */
	if (live == &files->host && process->ns_pid && process->ns_pid != process->pid)
		return snap_error_not_found();
	snprintf(place.path, sizeof(place.path), "tmp/perf-%d.map",
		 process->ns_pid ? process->ns_pid : process->pid);
	err = snap_files_open_name(files, &place, process, false, &fd);
	if (err && snap_error_errno(err) == ELOOP) {
		snap_error_destroy(err);
		return snap_error_format(SNAP_ERROR_PERMISSION, "it is a symbolic link");
	}
	if (err)
		return err;
	if (!is_allowed(files->options, process))
		return snap_error_format(SNAP_ERROR_PERMISSION,
					 "not read as root for another user's process "
					 "(--perf-map=always reads it)");
	SNAP_TRY(check_perf_map_file(process, fd));
	return snap_files_open_contents(files, fd, fd_ret);
}

struct stacksnap_error *snap_perf_map_open(const struct snap_files *files,
					   const struct snap_process *process, int *fd_ret)
{
	const struct snap_live *live = snap_files_live(files, process);

	if (!process || files->options->perf_map == SNAP_PERF_MAP_NEVER)
		return snap_error_not_found();
	if (live)
		return open_live(files, process, live, fd_ret);
	for (size_t i = 0; i < process->embedded_count; i++)
		if (process->embedded[i].kind == SNAP_FILE_PERF_MAP)
			return snap_files_memory(process->embedded[i].data,
						 process->embedded[i].size, fd_ret);
	return snap_error_not_found();
}
