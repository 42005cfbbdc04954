/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The finder: walks the places of a request and hands out the next one that exists.
 *
 * A file is looked at before it is opened, so a FIFO or a device never is; what a target named is
 * opened as the target's user. What it holds is not known here.
 */
#include "files/files.h"

#include "base/reopen.h"
#include "files/search.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

struct stacksnap_error *snap_files_create(const struct snap_options *options,
					  const struct snap_capture *capture,
					  struct snap_files **ret)
{
	struct snap_files *files = calloc(1, sizeof(*files));
	struct stacksnap_error *err;

	SNAP_TRY(snap_no_memory_unless(files));
	files->options = options;
	files->capture = capture;
	files->host_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (files->host_root < 0) {
		int os_errno = errno;

		free(files);
		return snap_error_os(os_errno, "cannot open the root of the file system");
	}
	files->host = (struct snap_live){ -1, -1, files->host_root, -1, -1 };
	err = snap_rights_init(&files->rights);
	if (err) {
		snap_files_destroy(files);
		return err;
	}
	*ret = files;
	return NULL;
}

void snap_files_destroy(struct snap_files *files)
{
	if (!files)
		return;
	snap_close(&files->host_root);
	snap_rights_deinit(&files->rights);
	free(files);
}

const struct snap_live *snap_files_live(const struct snap_files *files,
					const struct snap_process *process)
{
	const struct snap_capture *capture = files->capture;
	const struct snap_live *live;

	if (!capture->live || !process || process < capture->processes ||
	    process >= capture->processes + capture->process_count)
		return NULL;
	live = &capture->live[process - capture->processes];
	return live->root_fd < 0 && live->proc_fd < 0 && live->exe_fd < 0 && live->files_fd < 0
		       ? &files->host
		       : live;
}

struct stacksnap_error *snap_files_memory(const void *bytes, size_t size, int *fd_ret)
{
	_cleanup_fd_ int fd = memfd_create("stacksnap", MFD_CLOEXEC);
	size_t done = 0;

	if (fd < 0)
		return snap_error_os(errno, "cannot create a file in memory");
	while (done < size) {
		ssize_t n = pwrite(fd, (const char *)bytes + done, size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return snap_error_os(n < 0 ? errno : EIO, "cannot write a file in memory");
		done += (size_t)n;
	}
	return snap_reopen_regular(fd, fd_ret);
}

bool snap_files_is_foreign(const struct snap_process *process)
{
	return process && process->uid != 0 && process->uid != geteuid();
}

/*
 * What lies beside another user's program is believed only if that user or root put it there, and
 * never through a symbolic link: we must not read for him what he cannot.
 */
static bool is_guarded(const struct snap_file_candidate *place, const struct snap_process *process)
{
	return place->kind == SNAP_CANDIDATE_NEAR && snap_files_is_foreign(process);
}

/* Chosen by the target: a path of its own, or what it has mapped. */
static bool is_targets(const struct snap_file_candidate *place)
{
	return place->kind != SNAP_CANDIDATE_HOST;
}

static const struct snap_map *module_map(const struct snap_file_request *request)
{
	const struct snap_process *process = request->process;

	return request->kind == SNAP_FILE_MODULE && process && request->map < process->map_count
		       ? &process->maps[request->map]
		       : NULL;
}

static bool has_head(const struct snap_process *process, const struct snap_map *map)
{
	for (size_t i = 0; i < process->piece_count; i++)
		if (process->pieces[i].address == map->start)
			return map->offset == 0;
	return false;
}

/*
 * Whether this is the file that the process has mapped: device and inode are those of the mapping's
 * own entry. Where that cannot be asked, those in maps; overlayfs and btrfs show others there than
 * to stat(2), so there the caller compares it with the copied memory.
 */
static bool is_mapped(const struct snap_live *live, const struct snap_file_request *request,
		      const struct snap_map *map, const struct stat *info)
{
	int files_fd = live->files_fd >= 0 ? live->files_fd : live->proc_fd;
	char entry[SNAP_ENTRY_SIZE];
	struct stat mapped;

	snap_mapping_entry(map, entry);
	if (files_fd >= 0 && snap_look(files_fd, entry, &mapped))
		return mapped.st_dev == info->st_dev && mapped.st_ino == info->st_ino;
	if (info->st_ino == map->inode && major(info->st_dev) == map->dev_major &&
	    minor(info->st_dev) == map->dev_minor)
		return true;
	return has_head(request->process, map);
}

/* ---- what may not come back ---- */

void snap_files_watch(struct snap_files *files, const struct snap_files_watch *watch)
{
	files->watch = *watch;
}

/* The same error as for a file that was waited for: for the caller there is none, with a reason. */
static struct stacksnap_error *silent(void)
{
	return snap_error_format(SNAP_ERROR_NOT_FOUND, "the file could not be opened in time");
}

struct stacksnap_error *snap_files_open_name(const struct snap_files *files,
					     const struct snap_file_candidate *place,
					     const struct snap_process *process, bool follow,
					     int *ret)
{
	const struct snap_files_watch *watch = &files->watch;
	bool is_path = place->kind == SNAP_CANDIDATE_ROOT || place->kind == SNAP_CANDIDATE_NEAR;

	if (!is_path || !process || !watch->begin_process)
		return snap_file_candidate_open(place, follow, ret);
	if (snap_file_candidate_open_known(place, follow, ret))
		return NULL;
	if (!watch->begin_process(watch->context, process->pid))
		return silent();
	return snap_file_candidate_open(place, follow, ret);
}

/*
 * Whether it is on procfs, sysfs or the like, where an open or a read may change something. These
 * have no blocks; a few file systems with programs may have none either.
 */
static bool is_of_the_kernel(int path_fd)
{
	struct statfs info;

	return fstatfs(path_fd, &info) == 0 && info.f_blocks == 0 && info.f_type != TMPFS_MAGIC &&
	       info.f_type != RAMFS_MAGIC && info.f_type != OVERLAYFS_SUPER_MAGIC &&
	       info.f_type != FUSE_SUPER_MAGIC;
}

/* A file system in user space may never answer, so its device was asked for before. */
static struct stacksnap_error *open_contents(int path_fd, int *ret)
{
	if (is_of_the_kernel(path_fd))
		return snap_error_format(SNAP_ERROR_PERMISSION,
					 "it is on a file system without programs");
	return snap_reopen_regular(path_fd, ret);
}

struct stacksnap_error *snap_files_open_contents(const struct snap_files *files, int path_fd,
						 int *ret)
{
	const struct snap_files_watch *watch = &files->watch;
	struct stat info;

	if (watch->begin_device && snap_look(path_fd, "", &info) &&
	    !watch->begin_device(watch->context, info.st_dev))
		return silent();
	return open_contents(path_fd, ret);
}

/* ---- what may be opened ---- */

/* Of a place that a target named: why it is not opened, NULL: it may be. */
static const char *objection(const struct snap_files *files,
			     const struct snap_file_candidate *place,
			     const struct snap_file_request *request, int path_fd, bool is_ours)
{
	const struct snap_process *process = request->process;
	const struct snap_live *live = snap_files_live(files, process);
	const struct snap_map *map = module_map(request);
	struct snap_credentials who = snap_rights_of(process);
	struct stat info;

	if (!snap_look(path_fd, "", &info))
		return "cannot be examined";
	if (is_guarded(place, process) && info.st_uid != 0 && info.st_uid != process->uid)
		return "belongs to another user than the process";
	if (!is_ours && !snap_rights_allow(&who, &info))
		return "may not be read by the process's user";
	/* The file that replaced a deleted one may be a copy: the caller can check. */
	if (map && live && place->kind != SNAP_CANDIDATE_ENTRY && !map->deleted &&
	    !is_mapped(live, request, map, &info))
		return "is not the file that is mapped";
	return NULL;
}

/* Opens a place with the rights that this thread has. */
static struct stacksnap_error *open_place(const struct snap_files *files,
					  const struct snap_file_candidate *place,
					  const struct snap_file_request *request, int path_fd,
					  bool is_ours, int *fd_ret)
{
	const char *why = NULL;
	struct stacksnap_error *err;

	if (is_targets(place))
		why = objection(files, place, request, path_fd, is_ours);
	if (why)
		return snap_error_format(SNAP_ERROR_PERMISSION, "%s %s",
					 place->path[0] ? place->path : "the program", why);
	err = is_targets(place) ? snap_files_open_contents(files, path_fd, fd_ret)
				: open_contents(path_fd, fd_ret);
	return snap_error_wrap(err, "%s", place->path[0] ? place->path : "the program");
}

/*
 * Takes on the rights by which a place is opened. False: they are not the process's user's, so
 * whether he could read it has to be looked up. What a process has mapped, which is no matter of
 * names, may then be opened by all rights that we have.
 */
static bool take_rights(struct snap_files *files, const struct snap_file_candidate *place,
			const struct snap_process *process)
{
	struct snap_credentials who;
	bool is_his;

	if (!is_targets(place) || !process) {
		snap_rights_confine(&files->rights);
		return true;
	}
	who = snap_rights_of(process);
	is_his = snap_rights_become(&files->rights, &who);
	if (!is_his && (place->kind == SNAP_CANDIDATE_ENTRY || place->kind == SNAP_CANDIDATE_FD))
		snap_rights_return(&files->rights);
	return is_his;
}

/*
 * Another program of the process, which it may execute at any moment, can have something else at the same
 * addresses, which its user may not read. So this is asked when the file is open.
 */
static bool is_entry_stale(const struct snap_files *files, const struct snap_file_candidate *place,
			   const struct snap_process *process)
{
	return place->kind == SNAP_CANDIDATE_ENTRY && files->watch.is_unchanged &&
	       !files->watch.is_unchanged(process, place->fd);
}

/*
 * A file of a file system. NOT_FOUND: there is nothing at this place; `count` grows by one if there
 * is something.
 */
static struct stacksnap_error *try_file(struct snap_files *files,
					const struct snap_file_request *request,
					const struct snap_file_candidate *place, unsigned *count,
					int *fd_ret)
{
	_cleanup_fd_ int path_fd = -1;
	bool is_his = take_rights(files, place, request->process);
	struct stacksnap_error *err = snap_files_open_name(
		files, place, request->process, !is_guarded(place, request->process), &path_fd);

	if (err && snap_error_code(err) == SNAP_ERROR_NOT_FOUND)
		return err;
	if (!err && is_entry_stale(files, place, request->process))
		return snap_error_not_found();
	if ((*count)++ != request->attempt) {
		snap_error_destroy(err);
		return snap_error_not_found();
	}
	return err ? err : open_place(files, place, request, path_fd, is_his, fd_ret);
}

static struct stacksnap_error *try_place(struct snap_files *files,
					 const struct snap_file_request *request,
					 const struct snap_file_candidate *place, unsigned *count,
					 int *fd_ret)
{
	struct stacksnap_error *err;

	if (place->kind != SNAP_CANDIDATE_BYTES) {
		err = try_file(files, request, place, count, fd_ret);
		snap_rights_return(&files->rights);
		return err;
	}
	if ((*count)++ != request->attempt)
		return snap_error_not_found();
	return snap_files_memory(place->embedded->data, place->embedded->size, fd_ret);
}

/* A user without the right to read the perf map leaves us without it, too. */
static struct stacksnap_error *find_perf_map(struct snap_files *files,
					     const struct snap_process *process, int *fd_ret)
{
	struct snap_credentials who;
	struct stacksnap_error *err;

	if (!process)
		return snap_error_not_found();
	who = snap_rights_of(process);
	/* Whose file it is decides there. */
	snap_rights_become(&files->rights, &who);
	err = snap_perf_map_open(files, process, fd_ret);
	snap_rights_return(&files->rights);
	return err;
}

static struct stacksnap_error *
find_requested_file(void *context, const struct snap_file_request *request, int *fd_ret)
{
	struct snap_files *files = context;
	struct snap_file_candidate place;
	unsigned count = 0;

	if (request->kind == SNAP_FILE_PERF_MAP)
		return request->attempt == 0 ? find_perf_map(files, request->process, fd_ret)
					     : snap_error_not_found();
	for (size_t i = 0; snap_file_candidate_get(files, request, i, &place); i++) {
		struct stacksnap_error *err = try_place(files, request, &place, &count, fd_ret);

		if (!err || snap_error_code(err) != SNAP_ERROR_NOT_FOUND ||
		    snap_error_says_more(err))
			return err;
		snap_error_destroy(err);
	}
	return snap_error_not_found();
}

struct snap_file_finder snap_files_finder(struct snap_files *files)
{
	return (struct snap_file_finder){ .find = find_requested_file, .context = files };
}
