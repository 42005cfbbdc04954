/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where a report goes: see output.h. */
#include "output.h"

#include "message.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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

/* Makes .NAME.XXXXXX beside output->path, so that the rename stays in one file system. */
static bool open_beside(struct snap_cli_output *output, mode_t mode, const struct stat *old)
{
	const char *slash = strrchr(output->path, '/');
	const char *name = slash ? slash + 1 : output->path;

	if (asprintf(&output->temporary, "%.*s.%.200s.XXXXXX", (int)(name - output->path),
		     output->path, name) < 0) {
		output->temporary = NULL;
		return snap_cli_message("out of memory");
	}
	output->fd = mkostemp(output->temporary, O_CLOEXEC);
	if (output->fd < 0) {
		free(output->temporary);
		output->temporary = NULL;
		return print_failure("create", output->path);
	}
	snap_cli_signals_add_leftover(output->temporary);
	/*
	 * Owner and mode stay where they can; another group than the old one gets no rights. A file
	 * system without owners and modes is no reason to give up.
	 */
	if (old && fchown(output->fd, old->st_uid, old->st_gid) < 0)
		mode &= ~(mode_t)070;
	if (fchmod(output->fd, mode) < 0 && errno != EPERM && errno != EOPNOTSUPP)
		return print_failure("set the mode of", output->temporary);
	return true;
}

/* A FIFO waits here for its reader: nothing is stopped yet. */
static bool open_straight(struct snap_cli_output *output)
{
	do
		output->fd = open(output->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	while (output->fd < 0 && errno == EINTR && !*snap_cli_signals_flag());
	return output->fd >= 0 || print_failure("write", output->path);
}

/* What is known of a place before it is opened. */
struct place {
	struct stat status;
	bool exists, is_stdout, is_file; /* a file, or nothing yet: replaced by renaming */
};

static bool look_at_place(struct snap_cli_output *output, const char *path, struct place *ret)
{
	struct place place = { .exists = false };

	*output = (struct snap_cli_output){ .fd = -1 };
	if (!path || strcmp(path, "-") == 0) {
		output->fd = STDOUT_FILENO;
		place.is_stdout = true;
		*ret = place;
		return true;
	}
	place.exists = stat(path, &place.status) == 0;
	if (!place.exists && errno != ENOENT)
		return print_failure("write", path);
	place.is_file = !place.exists || S_ISREG(place.status.st_mode);
	/* Through symbolic links: what they point to is replaced, not they. */
	output->path = place.exists && place.is_file ? realpath(path, NULL) : strdup(path);
	if (!output->path)
		return print_failure("write", path);
	*ret = place;
	return true;
}

bool snap_cli_output_init(struct snap_cli_output *output, const char *path, bool secret)
{
	struct place place;

	if (!look_at_place(output, path, &place))
		return false;
	if (place.is_stdout)
		return true;
	if (!place.is_file)
		return open_straight(output);
	if (!place.exists)
		return open_beside(output, secret ? 0600 : 0666 & ~current_umask(), NULL);
	return open_beside(output, place.status.st_mode & 0777, &place.status);
}

/* A file without a name shows whether one can be made; not every file system has them. */
static bool probe_folder(struct snap_cli_output *output)
{
	const char *slash = strrchr(output->path, '/');
	char *folder =
		slash ? strndup(output->path, (size_t)(slash - output->path) + 1) : strdup(".");
	int fd;

	if (!folder)
		return snap_cli_message("out of memory");
	fd = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	free(folder);
	if (fd >= 0)
		close(fd);
	else if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)
		return open_beside(output, 0600, NULL);
	return fd >= 0 || print_failure("write", output->path);
}

bool snap_cli_output_probe(struct snap_cli_output *output, const char *path)
{
	struct place place;
	bool fine;

	if (!look_at_place(output, path, &place))
		return false;
	output->keeps_open = true;
	if (place.is_stdout)
		return true;
	if (!place.is_file)
		return open_straight(output);
	fine = probe_folder(output);
	snap_cli_output_deinit(output);
	return fine;
}

bool snap_cli_output_init_growing(struct snap_cli_output *output, const char *path)
{
	*output = (struct snap_cli_output){ .fd = -1, .path = strdup(path) };
	if (!output->path)
		return snap_cli_message("out of memory");
	output->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
	return output->fd >= 0 || print_failure("write", path);
}

bool snap_cli_output_commit(struct snap_cli_output *output)
{
	int fd = output->fd;

	if (!output->path || output->keeps_open)
		return true;
	output->fd = -1;
	if (close(fd) < 0)
		return print_failure("write", output->path);
	if (!output->temporary)
		return true;
	if (rename(output->temporary, output->path) < 0)
		return print_failure("write", output->path);
	snap_cli_signals_remove_leftover(output->temporary);
	free(output->temporary);
	output->temporary = NULL;
	return true;
}

void snap_cli_output_deinit(struct snap_cli_output *output)
{
	if (output->path && output->fd >= 0)
		close(output->fd);
	if (output->temporary) {
		snap_cli_signals_remove_leftover(output->temporary);
		unlink(output->temporary);
	}
	free(output->temporary);
	free(output->path);
	*output = (struct snap_cli_output){ .fd = -1 };
}
