/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The file that is rendered: see input.h. */
#include "input.h"

#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_SIZE = 16, BLOCK_SIZE = 1 << 16 };

/* Of what comes through a pipe and has to be kept in memory. */
static const off_t MAX_COPY = (off_t)1 << 33;

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

/* All that comes, into memory; what is not ours ends after its head. */
static bool copy(int from, int to, enum stacksnap_file_kind *kind_ret)
{
	char block[BLOCK_SIZE];
	ssize_t got = read_some(from, block, HEAD_SIZE);
	off_t total = 0;

	if (got < 0)
		return false;
	*kind_ret = stacksnap_file_kind(block, (size_t)got);
	while (got > 0) {
		total += got;
		if (total > MAX_COPY) {
			errno = EFBIG;
			return false;
		}
		if (!write_all(to, block, (size_t)got))
			return false;
		if (*kind_ret == STACKSNAP_FILE_UNKNOWN)
			break;
		got = read_some(from, block, sizeof(block));
		if (got < 0)
			return false;
	}
	return lseek(to, 0, SEEK_SET) == 0;
}

static bool copy_pipe(struct snap_cli_input *input)
{
	int memory = memfd_create("stacksnap-input", MFD_CLOEXEC), old = input->fd;
	bool fine;

	if (memory < 0)
		return false;
	fine = copy(old, memory, &input->kind);
	input->fd = memory;
	close(old);
	return fine;
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
		return copy_pipe(input);
	at = lseek(input->fd, 0, SEEK_CUR);
	got = pread(input->fd, head, sizeof(head), at < 0 ? 0 : at);
	if (got < 0)
		return false;
	input->kind = stacksnap_file_kind(head, (size_t)got);
	return true;
}

void snap_cli_input_deinit(struct snap_cli_input *input)
{
	if (input->fd >= 0)
		close(input->fd);
	input->fd = -1;
}

static struct stacksnap_error *load_capture(int fd, const struct stacksnap_options *options,
					    struct stacksnap_snapshot **ret)
{
	struct stacksnap_capture *capture = NULL;
	struct stacksnap_error *err;

	err = stacksnap_capture_load(fd, &capture);
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
	return load_capture(input->fd, options, ret);
}
