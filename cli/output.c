/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where a report goes: see output.h. */
#include "output.h"

#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* With errno; a signal that asked to end needs no words. */
static bool print_failure(const char *what, const char *path)
{
	if (errno == EINTR && snap_cli_signals_caught())
		return false;
	if (errno == EINTR && snap_cli_signals_timed_out())
		return snap_cli_message("cannot %s %s: it has no reader (--timeout)", what, path);
	return snap_cli_message("cannot %s %s: %s", what, path, strerror(errno));
}

const char *snap_cli_output_name(const struct snap_cli_output *output)
{
	return output->path ? output->path : "standard output";
}

static mode_t current_umask(void)
{
	mode_t mask = umask(077);

	umask(mask);
	return mask;
}

/* What an old file leaves to the one that takes its place; one of another user leaves nothing. */
struct rights {
	mode_t mode;
	bool has_group;
	gid_t group;
};

static struct rights rights_of(const struct snap_cli_location *at, bool secret)
{
	struct rights rights = { .mode = 0666 & ~current_umask() };

	if (secret)
		rights = (struct rights){ 0600, true, getegid() };
	else if (at->exists && at->status.st_uid == geteuid())
		rights = (struct rights){ at->status.st_mode & 0777, true, at->status.st_gid };
	return rights;
}

/* A name that no other user can have put there beforehand; short enough whatever the name is. */
static bool make_temporary(struct snap_cli_output *output)
{
	enum { TRIES = 100 };
	uint64_t number;

	for (int i = 0; i < TRIES && output->fd < 0; i++) {
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return false;
		snprintf(output->temporary, sizeof(output->temporary), ".%.200s.%012llx",
			 output->at.name, (unsigned long long)number & 0xffffffffffff);
		output->fd = openat(output->at.folder, output->temporary,
				    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (output->fd < 0 && errno != EEXIST)
			break;
	}
	if (output->fd < 0)
		output->temporary[0] = '\0';
	return output->fd >= 0;
}

/*
 * Makes a file beside the place, so that the rename stays in one file system. It is new, so no
 * process has it open, and only the caller can open it before it has its mode.
 */
static bool open_beside(struct snap_cli_output *output, struct rights rights)
{
	if (!make_temporary(output))
		return print_failure("create", output->path);
	output->leftover = (struct snap_cli_leftover){ output->at.folder, output->temporary };
	snap_cli_signals_add_leftover(&output->leftover);
	/*
	 * Another group than the old file's gets no rights. A file system without owners and modes
	 * is no reason to give up.
	 */
	if (rights.has_group && fchown(output->fd, (uid_t)-1, rights.group) < 0)
		rights.mode &= ~(mode_t)070;
	if (fchmod(output->fd, rights.mode) < 0 && errno != EPERM && errno != EOPNOTSUPP)
		return print_failure("set the mode of", output->path);
	return true;
}

/*
 * A FIFO waits here for its reader: nothing is stopped yet. What is opened is what was looked at:
 * a user that could replace it gets nothing.
 */
static bool open_straight(struct snap_cli_output *output)
{
	const struct snap_cli_location *at = &output->at;
	int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | (at->is_open_file ? 0 : O_NOFOLLOW);
	struct stat status;

	do
		output->fd = openat(at->folder, at->name, flags);
	while (output->fd < 0 && errno == EINTR && !*snap_cli_signals_flag());
	if (output->fd < 0)
		return print_failure("write", output->path);
	if (fstat(output->fd, &status) < 0)
		return print_failure("write", output->path);
	if (status.st_dev != at->status.st_dev || status.st_ino != at->status.st_ino)
		return snap_cli_message("cannot write %s: it was replaced meanwhile", output->path);
	return true;
}

/* A file, or nothing yet: replaced by renaming. */
static bool is_file(const struct snap_cli_location *at)
{
	return !at->exists || (S_ISREG(at->status.st_mode) && !at->is_open_file);
}

static bool look_at_place(struct snap_cli_output *output, const char *path)
{
	*output = (struct snap_cli_output){ .fd = -1, .at = { .folder = -1 } };
	if (!path || strcmp(path, "-") == 0) {
		output->fd = STDOUT_FILENO;
		return true;
	}
	/* Through symbolic links: what they point to is replaced, not they. */
	output->path = strdup(path);
	return output->path ? snap_cli_locate(path, "write", &output->at)
			    : snap_cli_message("out of memory");
}

bool snap_cli_output_init(struct snap_cli_output *output, const char *path, bool secret)
{
	if (!look_at_place(output, path))
		return false;
	if (!output->path)
		return true;
	if (!is_file(&output->at))
		return open_straight(output);
	return open_beside(output, rights_of(&output->at, secret));
}

/* In a folder like /tmp only few may replace a file; what else forbids it shows later. */
static bool can_replace(const struct snap_cli_output *output)
{
	const struct snap_cli_location *at = &output->at;
	struct stat folder;

	return !at->exists || geteuid() == 0 || at->status.st_uid == geteuid() ||
	       fstat(at->folder, &folder) < 0 || !(folder.st_mode & S_ISVTX) ||
	       folder.st_uid == geteuid();
}

/* A file without a name shows whether one can be made; not every file system has them. */
static bool probe_folder(struct snap_cli_output *output)
{
	int fd;

	if (!can_replace(output)) {
		errno = EPERM;
		return print_failure("write", output->path);
	}
	fd = openat(output->at.folder, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	else if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)
		return open_beside(output, (struct rights){ .mode = 0600 });
	return fd >= 0 || print_failure("write", output->path);
}

bool snap_cli_output_probe(struct snap_cli_output *output, const char *path)
{
	bool fine;

	if (!look_at_place(output, path))
		return false;
	output->keeps_open = true;
	if (!output->path)
		return true;
	if (!is_file(&output->at))
		return open_straight(output);
	fine = probe_folder(output);
	snap_cli_output_deinit(output);
	return fine;
}

static bool put_in_place(struct snap_cli_output *output)
{
	if (renameat(output->at.folder, output->temporary, output->at.folder, output->at.name) < 0)
		return print_failure("write", output->path);
	snap_cli_signals_remove_leftover(&output->leftover);
	output->temporary[0] = '\0';
	return true;
}

bool snap_cli_output_init_growing(struct snap_cli_output *output, const char *path)
{
	if (!snap_cli_output_init(output, path, false))
		return false;
	return !output->temporary[0] || put_in_place(output);
}

bool snap_cli_output_commit(struct snap_cli_output *output)
{
	int fd = output->fd;

	if (!output->path || output->keeps_open)
		return true;
	output->fd = -1;
	if (close(fd) < 0)
		return print_failure("write", output->path);
	return !output->temporary[0] || put_in_place(output);
}

void snap_cli_output_deinit(struct snap_cli_output *output)
{
	if (output->path && output->fd >= 0)
		close(output->fd);
	if (output->temporary[0]) {
		snap_cli_signals_remove_leftover(&output->leftover);
		unlinkat(output->at.folder, output->temporary, 0);
	}
	if (output->path && output->at.folder >= 0)
		close(output->at.folder);
	free(output->path);
	*output = (struct snap_cli_output){ .fd = -1, .at = { .folder = -1 } };
}
