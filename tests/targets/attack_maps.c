/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * More than anybody wants to hold: attack_maps MODE COUNT [BYTES].
 *
 * paths: COUNT mappings of a file whose path has BYTES. files: COUNT files with such paths, each
 * mapped once. mounts: COUNT mounts at such paths. change: COUNT mappings, of which some come, go
 * and change all the time. arguments: COUNT processes with a command line of BYTES.
 */
#include "attack_fuse.h"

enum { NAME = 250 };

/* Folder in folder, until the path is so long; the last one is the working directory. */
static void go_deep(size_t bytes)
{
	char name[NAME + 1];

	memset(name, 'n', NAME);
	name[NAME] = '\0';
	if (chdir(ATTACK_PLACE))
		victim_cannot(ATTACK_PLACE);
	for (size_t at = 0; at + NAME < bytes; at += NAME + 1)
		if ((mkdir(name, 0755) && errno != EEXIST) || chdir(name))
			victim_cannot("a deep folder");
}

static void map_paths(int count, bool many_files)
{
	int fd = -1;

	for (int i = 0; i < count; i++) {
		char name[32];

		if (many_files || fd < 0) {
			if (fd >= 0)
				close(fd);
			snprintf(name, sizeof(name), "file-%d", i);
			fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
			if (fd < 0 || ftruncate(fd, 8192))
				victim_cannot("a file");
		}
		/* The limit of mappings is near: then there are enough. */
		if (mmap(NULL, 4096, i & 1 ? PROT_READ | PROT_EXEC : PROT_READ, MAP_PRIVATE, fd,
			 0) == MAP_FAILED)
			break;
	}
}

static void mount_many(int count)
{
	for (int i = 0; i < count; i++) {
		char name[32];

		snprintf(name, sizeof(name), "mount-%d", i);
		mkdir(name, 0755);
		if (mount("tmpfs", name, i ? NULL : "tmpfs", 0, NULL) &&
		    mount("mount-0", name, NULL, MS_BIND, NULL))
			victim_cannot("mount");
	}
}

static void *change_main(void *unused)
{
	const size_t size = 64 * 4096;

	for (;;) {
		char *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (size_t i = 0; i < size; i += 8192)
			mprotect(at + i, 4096, PROT_READ | PROT_WRITE);
		attack_sleep_ms(2);
		munmap(at, size);
	}
	return unused;
}

static void change_maps(int count)
{
	for (int i = 0; i < count; i++)
		mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	victim_thread(change_main, NULL, 64 << 10);
	victim_thread(change_main, NULL, 64 << 10);
}

/* The same program, which only waits when it is given more than one word. */
static void start_processes(int count, size_t bytes)
{
	char *word = malloc(bytes + 1);

	if (!word)
		victim_cannot("malloc");
	memset(word, 'w', bytes);
	word[bytes] = '\0';
	for (int i = 0; i < count; i++)
		if (fork() == 0) {
			/* One word has at most 128 KiB. */
			char *argv[64] = { (char[]){ "wait" }, (char[]){ "wait" } };
			size_t words = bytes / (100 << 10) < 60 ? bytes / (100 << 10) : 60;

			prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
			word[100 << 10] = '\0';
			for (size_t w = 0; w < words; w++)
				argv[w + 2] = word;
			close(STDIN_FILENO);
			close(STDOUT_FILENO);
			execv("/proc/self/exe", argv);
			_exit(1);
		}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "paths";
	int count = argc > 2 ? atoi(argv[2]) : 1000;
	size_t bytes = argc > 3 ? strtoul(argv[3], NULL, 0) : 4000;
	pid_t bystander;

	if (!strcmp(mode, "wait"))
		for (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);;)
			pause();
	attack_begin(false);
	bystander = attack_bystander();
	if (strcmp(mode, "arguments") != 0)
		go_deep(bytes);
	if (!strcmp(mode, "mounts"))
		mount_many(count);
	else if (!strcmp(mode, "change"))
		change_maps(count);
	else if (!strcmp(mode, "arguments"))
		start_processes(count, bytes);
	else
		map_paths(count, !strcmp(mode, "files"));
	victim_ready("mode=%s bystander=%d", mode, bystander);
	victim_hold();
}
