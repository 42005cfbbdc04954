/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The file that is rendered: see input.h. */
#include "input.h"

#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
	HEAD_SIZE = 16,
	BLOCK_SIZE = 1 << 16,
	PIPE_SIZE = 1 << 20, /* what every user may ask for (pipe(7)) */
};

/* Of what comes through a pipe: what a document may have, and what any other file may. */
static const off_t MOST_JSON = (off_t)1 << 30, MOST_COPY = (off_t)1 << 42;

int snap_cli_input_open(const char *path)
{
	int fd;

	if (strcmp(path, "-") == 0)
		return dup(STDIN_FILENO);
	do
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	while (fd < 0 && errno == EINTR && !*snap_cli_signals_flag());
	return fd;
}

/* Up to `size` bytes, fewer only at the end; -1 with errno. */
static ssize_t read_some(int fd, char *bytes, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got = read(fd, bytes + done, size - done);

		if (got < 0 && errno == EINTR && !*snap_cli_signals_flag())
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t put = write(fd, bytes, size);

		if (put < 0)
			return false;
		bytes += put;
		size -= (size_t)put;
	}
	return true;
}

/*
 * A file without a name, where there is room for what is larger than memory. It has holes where
 * there are zeros. Below /tmp there may be memory, too.
 */
static int open_unnamed(void)
{
	const char *directory = getenv("TMPDIR");
	char path[PATH_MAX];
	int fd;

	if (!directory || !*directory)
		directory = "/var/tmp";
	fd = open(directory, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;
	/* A file system that knows no such files. */
	if ((size_t)snprintf(path, sizeof(path), "%s/stacksnap-XXXXXX", directory) >= sizeof(path))
		return -1;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

static bool is_zero(const char *bytes, size_t size)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

/* Writes what comes next, or leaves a hole there. */
static bool put(int to, const char *block, size_t size, bool with_holes)
{
	if (with_holes && size == BLOCK_SIZE && is_zero(block, size))
		return lseek(to, (off_t)size, SEEK_CUR) >= 0;
	return write_all(to, block, size);
}

/* All that comes behind the head; it fills at most half of the free space. */
static bool copy_rest(int from, int to, enum stacksnap_file_kind kind)
{
	bool is_core = kind == STACKSNAP_FILE_CORE;
	off_t total = HEAD_SIZE, most = kind == STACKSNAP_FILE_JSON ? MOST_JSON : MOST_COPY;
	char block[BLOCK_SIZE];
	struct statvfs room;
	struct stat status;
	blkcnt_t blocks;
	ssize_t got;

	if (fstatvfs(to, &room) < 0)
		return false;
	/* In memory, where there is no directory for it, as much as a document. */
	blocks = room.f_blocks ? (blkcnt_t)(room.f_bavail / 2 * (room.f_frsize / 512))
			       : MOST_JSON / 512;
	while ((got = read_some(from, block, sizeof(block))) > 0) {
		total += got;
		if (total > most || fstat(to, &status) < 0 || status.st_blocks > blocks) {
			errno = total > most ? EFBIG : ENOSPC;
			return false;
		}
		if (!put(to, block, (size_t)got, is_core))
			return false;
	}
	return got == 0 && (!is_core || ftruncate(to, total) == 0) && lseek(to, 0, SEEK_SET) == 0;
}

/*
 * What a copy names counts as named by the owner of the pipe, and others that may write there. A pipe of
 * root's carries what others wrote: coredumpctl dump | stacksnap core -
 */
static bool keep_owner(int fd, const struct stat *from)
{
	bool fine = from->st_uid && fchown(fd, from->st_uid, from->st_gid) == 0;

	return fchmod(fd, !fine                     ? 0666
			  : S_ISSOCK(from->st_mode) ? 0600
						    : from->st_mode & 0666) == 0;
}

/* What is not ours ends after its head; all others go to a file. */
static bool copy_pipe(struct snap_cli_input *input, const struct stat *from)
{
	int old = input->fd;
	char head[HEAD_SIZE];
	ssize_t got = read_some(old, head, sizeof(head));
	bool is_core, fine;

	if (got < 0)
		return false;
	input->kind = stacksnap_file_kind(head, (size_t)got);
	is_core = input->kind == STACKSNAP_FILE_CORE;
	/*
	 * Gigabytes, perhaps: fewer turns between the writer and us. Without a pipe it does not
	 * matter.
	 */
	if (is_core)
		(void)!fcntl(old, F_SETPIPE_SZ, PIPE_SIZE);
	input->fd = open_unnamed();
	if (input->fd < 0 && !is_core)
		input->fd = memfd_create("stacksnap-input", MFD_CLOEXEC);
	fine = input->fd >= 0 && keep_owner(input->fd, from) &&
	       write_all(input->fd, head, (size_t)got);
	if (fine && got == HEAD_SIZE && input->kind != STACKSNAP_FILE_UNKNOWN)
		fine = copy_rest(old, input->fd, input->kind);
	else if (fine)
		fine = lseek(input->fd, 0, SEEK_SET) == 0;
	close(old);
	return fine;
}

static bool ends_as_packed_json(const char *path)
{
	const char *format = stacksnap_format_of_path(path);

	return format && strcmp(format, "json-gz") == 0;
}

bool snap_cli_input_init(struct snap_cli_input *input, const char *path)
{
	struct stat status;
	char head[HEAD_SIZE];
	ssize_t got;
	off_t at;

	*input = (struct snap_cli_input){ .fd = snap_cli_input_open(path),
					  .kind = STACKSNAP_FILE_UNKNOWN };
	if (input->fd < 0 || fstat(input->fd, &status) < 0)
		return false;
	if (!S_ISREG(status.st_mode))
		return copy_pipe(input, &status);
	at = lseek(input->fd, 0, SEEK_CUR);
	got = pread(input->fd, head, sizeof(head), at < 0 ? 0 : at);
	if (got < 0)
		return false;
	input->kind = stacksnap_file_kind(head, (size_t)got);
	/* Its first bytes show no more than that it is packed. */
	if (input->kind == STACKSNAP_FILE_CORE && ends_as_packed_json(path))
		input->kind = STACKSNAP_FILE_JSON;
	return true;
}

const char *snap_cli_input_why(void)
{
	switch (errno) {
	case EFBIG:
		return "it is too large";
	case ENOSPC:
	case EDQUOT:
		return "there is no room for it in $TMPDIR (/var/tmp)";
	default:
		return strerror(errno);
	}
}

void snap_cli_input_deinit(struct snap_cli_input *input)
{
	if (input->fd >= 0)
		close(input->fd);
	input->fd = -1;
}

static struct stacksnap_error *load_capture(const struct snap_cli_input *input,
					    const struct stacksnap_options *options,
					    struct stacksnap_snapshot **ret)
{
	struct stacksnap_capture *capture = NULL;
	struct stacksnap_error *err;

	if (input->kind == STACKSNAP_FILE_CORE)
		err = stacksnap_core_load(input->fd, options, &capture);
	else
		err = stacksnap_capture_load(input->fd, &capture);
	if (!err)
		err = stacksnap_capture_analyze(capture, options, ret);
	stacksnap_capture_destroy(capture);
	return err;
}

struct stacksnap_error *snap_cli_input_snapshot(const struct snap_cli_input *input,
						const struct stacksnap_options *options,
						struct stacksnap_snapshot **ret)
{
	if (input->kind == STACKSNAP_FILE_JSON)
		return stacksnap_snapshot_load(input->fd, options, ret);
	return load_capture(input, options, ret);
}
