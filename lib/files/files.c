/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The finder: walks the places of a request and hands out the next one that exists.
 *
 * A file is looked at before it is opened, so a FIFO or a device never is. What it holds is not
 * known here.
 */
#include "files/files.h"

#include "base/reopen.h"
#include "files/search.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct stacksnap_error *snap_files_create(const struct snap_options *options,
					  const struct snap_capture *capture,
					  struct snap_files **ret)
{
	struct snap_files *files = calloc(1, sizeof(*files));

	if (!files)
		return snap_error_no_memory();
	files->options = options;
	files->capture = capture;
	files->host_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (files->host_root < 0) {
		int os_errno = errno;

		free(files);
		return snap_error_os(os_errno, "cannot open the root of the file system");
	}
	files->host = (struct snap_live){ -1, -1, files->host_root, -1, -1 };
	*ret = files;
	return NULL;
}

void snap_files_destroy(struct snap_files *files)
{
	if (!files)
		return;
	snap_download_destroy(files->download);
	snap_close(&files->host_root);
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
static bool is_guarded(const struct snap_candidate *place, const struct snap_process *process)
{
	return place->kind == SNAP_CANDIDATE_NEAR && snap_files_is_foreign(process);
}

/*
 * Whether this is the file that the process has mapped. Devices are not compared: overlayfs and
 * btrfs show others in maps (stat(2)).
 */
static bool is_mapped(const struct snap_file_request *request, const struct stat *info)
{
	const struct snap_process *process = request->process;

	return request->kind == SNAP_FILE_MODULE && request->map < process->map_count &&
	       process->maps[request->map].inode == info->st_ino;
}

/* Where another user chose the name of a file: why it is not opened, NULL: it may be. */
static const char *objection(const struct snap_candidate *place,
			     const struct snap_file_request *request, int path_fd)
{
	const struct snap_process *process = request->process;
	bool chosen = place->kind == SNAP_CANDIDATE_NEAR || place->kind == SNAP_CANDIDATE_ROOT;
	struct stat info;

	if (!chosen || !snap_files_is_foreign(process))
		return NULL;
	if (fstat(path_fd, &info) < 0)
		return "cannot be examined";
	if (is_guarded(place, process) && info.st_uid != 0 && info.st_uid != process->uid)
		return "belongs to another user than the process";
	if (info.st_uid != process->uid && !(info.st_mode & S_IROTH) && !is_mapped(request, &info))
		return "may not be read by the process's user";
	return NULL;
}

static struct stacksnap_error *open_place(const struct snap_candidate *place,
					  const struct snap_file_request *request, int path_fd,
					  int *fd_ret)
{
	const char *why = objection(place, request, path_fd);
	struct stacksnap_error *err;

	if (why)
		return snap_error_format(SNAP_ERROR_PERMISSION, "%s %s", place->path, why);
	err = snap_reopen_regular(path_fd, fd_ret);
	return snap_error_wrap(err, "%s", place->path[0] ? place->path : "the program");
}

/* NOT_FOUND: there is nothing at this place. `count` grows by one if there is something. */
static struct stacksnap_error *try_place(struct snap_files *files,
					 const struct snap_file_request *request,
					 const struct snap_candidate *place, unsigned *count,
					 int *fd_ret)
{
	_cleanup_fd_ int path_fd = -1;
	struct stacksnap_error *err = NULL;

	if (place->kind != SNAP_CANDIDATE_BYTES && place->kind != SNAP_CANDIDATE_DOWNLOAD)
		err = snap_candidate_open(place, !is_guarded(place, request->process), &path_fd);
	if (err && snap_error_code(err) == SNAP_ERROR_NOT_FOUND)
		return err;
	if ((*count)++ != request->attempt) {
		snap_error_destroy(err);
		return snap_error_not_found();
	}
	if (err)
		return err;
	if (place->kind == SNAP_CANDIDATE_BYTES)
		return snap_files_memory(place->embedded->data, place->embedded->size, fd_ret);
	if (place->kind == SNAP_CANDIDATE_DOWNLOAD)
		return snap_download_find(&files->download, files->options, request, fd_ret);
	return open_place(place, request, path_fd, fd_ret);
}

static struct stacksnap_error *find(void *context, const struct snap_file_request *request,
				    int *fd_ret)
{
	struct snap_files *files = context;
	struct snap_candidate place;
	unsigned count = 0;

	if (request->kind == SNAP_FILE_PERF_MAP)
		return request->attempt == 0 ? snap_perf_map_open(files, request->process, fd_ret)
					     : snap_error_not_found();
	for (size_t i = 0; snap_candidate_get(files, request, i, &place); i++) {
		struct stacksnap_error *err = try_place(files, request, &place, &count, fd_ret);

		if (!err || snap_error_code(err) != SNAP_ERROR_NOT_FOUND)
			return err;
		snap_error_destroy(err);
	}
	return snap_error_not_found();
}

struct snap_file_finder snap_files_finder(struct snap_files *files)
{
	return (struct snap_file_finder){ .find = find, .context = files };
}
