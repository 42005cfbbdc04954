/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process with many mappings of files with long paths: mappings FOLDER LEVELS FILES COUNT.
 *
 * FILES files lie in FOLDER below LEVELS folders with names of 200 bytes, one in the other, so a
 * path may be longer than any that can be given to the kernel. COUNT mappings of a page each, of
 * the files in turns.
 */
#include "victim.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { NAME = 200 };

static void descend(int levels)
{
	char name[NAME + 1];

	memset(name, 'd', NAME);
	name[NAME] = '\0';
	for (int i = 0; i < levels; i++)
		if ((mkdir(name, 0755) && errno != EEXIST) || chdir(name))
			victim_cannot("mkdir");
}

static int open_file(int number)
{
	char name[NAME + 1];
	int fd;

	memset(name, 'f', NAME);
	snprintf(name + NAME - 10, 11, "%010d", number);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, 4096))
		victim_cannot("open");
	return fd;
}

/* Neighbours are not to be joined, so every other one may be written to. */
static void map_files(int files, int count)
{
	for (int i = 0; i < count; i++) {
		int fd = open_file(i % files);

		if (mmap(NULL, 4096, PROT_READ | (i % 2 ? PROT_WRITE : 0), MAP_PRIVATE, fd, 0) ==
		    MAP_FAILED)
			victim_cannot("mmap");
		close(fd);
	}
}

int main(int argc, char **argv)
{
	if (argc < 5 || chdir(argv[1]))
		victim_cannot("FOLDER");
	descend(atoi(argv[2]));
	map_files(atoi(argv[3]), atoi(argv[4]));
	victim_ready("mappings=%s", argv[4]);
	victim_hold();
}
