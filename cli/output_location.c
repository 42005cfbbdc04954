/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where a name leads: see output_location.h. */
#include "output_location.h"

#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { MOST_LINKS = 40 }; /* as the kernel's own */

struct walk {
	struct snap_cli_location *at;
	const char *whole, *verb; /* for messages */
	char rest[PATH_MAX];      /* what is still to be walked */
	unsigned links;
};

static bool fail(const struct walk *walk, int os_errno)
{
	return snap_cli_message("cannot %s %s: %s", walk->verb, walk->whole, strerror(os_errno));
}

static bool enter(struct walk *walk, int folder)
{
	if (folder < 0)
		return fail(walk, errno);
	if (walk->at->folder >= 0)
		close(walk->at->folder);
	walk->at->folder = folder;
	return true;
}

static bool is_shared(const struct stat *folder)
{
	return folder->st_mode & 0002 || (folder->st_mode & S_ISVTX && folder->st_mode & 0020);
}

/*
 * Whether what lies in the current folder was laid there by the caller or root. In a user namespace
 * root may be the overflow uid: then the owner of the root directory counts as root, but not in a
 * folder where others write, too, as all of them have this uid there.
 */
static bool is_trusted(const struct walk *walk, uid_t owner)
{
	struct stat root, folder;

	if (owner == geteuid() || owner == 0)
		return true;
	return stat("/", &root) == 0 && root.st_uid == owner &&
	       fstat(walk->at->folder, &folder) == 0 && folder.st_uid == owner &&
	       !is_shared(&folder);
}

static bool is_procfs(int fd)
{
	struct statfs info;

	return fstatfs(fd, &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

/* The file behind an entry of procfs; it is no text that could be walked. */
static bool follow_entry(struct walk *walk, const char *name)
{
	struct snap_cli_location *at = walk->at;

	if (walk->rest[0])
		return enter(walk, openat(at->folder, name, O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (fstatat(at->folder, name, &at->status, 0) < 0)
		return fail(walk, errno);
	at->exists = at->is_open_file = true;
	strcpy(at->name, name);
	return true;
}

/* Goes on where the link points to; a file that a process has open has a name of its own. */
static bool follow_link(struct walk *walk, const char *name, int link)
{
	char text[PATH_MAX], rest[PATH_MAX];
	ssize_t length = readlinkat(link, "", text, sizeof(text) - 1);
	struct stat status, target;
	bool is_entry = is_procfs(link);

	if (length < 0 || fstat(link, &status) < 0)
		return fail(walk, errno);
	text[length] = '\0';
	if (!is_trusted(walk, status.st_uid))
		return snap_cli_message(
			"cannot %s %s: a symbolic link on the way to it (%s) belongs "
			"to another user",
			walk->verb, walk->whole, name);
	if (++walk->links > MOST_LINKS)
		return fail(walk, ELOOP);
	if (is_entry && (walk->rest[0] || fstatat(walk->at->folder, name, &target, 0) < 0 ||
			 !S_ISREG(target.st_mode) || target.st_nlink == 0 || text[0] != '/'))
		return follow_entry(walk, name);
	if ((size_t)snprintf(rest, sizeof(rest), "%s%s%s", text, walk->rest[0] ? "/" : "",
			     walk->rest) >= sizeof(rest))
		return fail(walk, ENAMETOOLONG);
	strcpy(walk->rest, rest);
	return text[0] != '/' || enter(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* One name on the way, or the last one. */
static bool step(struct walk *walk, const char *name)
{
	struct snap_cli_location *at = walk->at;
	int fd = -1;
	bool fine;

	/* A directory is opened as such, so that an automounter mounts it. */
	if (walk->rest[0])
		fd = openat(at->folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return enter(walk, fd);
	fd = openat(at->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno != ENOENT || walk->rest[0]))
		return fail(walk, errno);
	at->exists = fd >= 0;
	strcpy(at->name, name);
	if (fd < 0)
		return true;
	fine = fstat(fd, &at->status) == 0 || fail(walk, errno);
	if (fine && S_ISLNK(at->status.st_mode)) {
		at->name[0] = '\0';
		fine = follow_link(walk, name, fd);
	} else if (fine && walk->rest[0]) {
		fine = fail(walk, ENOTDIR);
	}
	close(fd);
	return fine;
}

/* Cuts the next name off. */
static bool take_name(struct walk *walk, char name[NAME_MAX + 1])
{
	const char *start = walk->rest + strspn(walk->rest, "/"), *end = strchrnul(start, '/');
	size_t length = (size_t)(end - start);

	if (length > NAME_MAX)
		return fail(walk, ENAMETOOLONG);
	/* "folder/": what ends so is no file. */
	if (length == 0)
		return fail(walk, walk->whole[0] ? EISDIR : ENOENT);
	memcpy(name, start, length);
	name[length] = '\0';
	end += *end && !end[strspn(end, "/")] ? 0 : strspn(end, "/");
	memmove(walk->rest, end, strlen(end) + 1);
	return true;
}

static bool check_end(const struct walk *walk)
{
	const struct snap_cli_location *at = walk->at;
	mode_t type = at->status.st_mode & S_IFMT;
	struct stat folder;

	if (!at->exists || at->is_open_file || type == S_IFREG || type == S_IFDIR ||
	    is_trusted(walk, at->status.st_uid))
		return true;
	if (fstat(at->folder, &folder) < 0)
		return fail(walk, errno);
	return !is_shared(&folder) ||
	       snap_cli_message("cannot %s %s: it belongs to another user, in a folder that "
				"all users may write to",
				walk->verb, walk->whole);
}

static bool walk_all(struct walk *walk)
{
	if (strlen(walk->whole) >= sizeof(walk->rest))
		return fail(walk, ENAMETOOLONG);
	strcpy(walk->rest, walk->whole);
	if (!enter(walk, open(walk->rest[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC)))
		return false;
	while (!walk->at->name[0]) {
		char name[NAME_MAX + 1];

		if (!take_name(walk, name) || !step(walk, name))
			return false;
	}
	return check_end(walk);
}

bool snap_cli_locate(const char *path, const char *verb, struct snap_cli_location *ret)
{
	struct snap_cli_location location = { .folder = -1 };
	struct walk walk = { .at = &location, .whole = path, .verb = verb };

	if (!walk_all(&walk)) {
		if (location.folder >= 0)
			close(location.folder);
		return false;
	}
	*ret = location;
	return true;
}
