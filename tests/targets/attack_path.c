/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Files that cannot be looked for: attack_path MODE.
 *
 * covered: the program was removed, and a FUSE file system that never answers lies over its folder.
 * root: the root directory is inside one. folder: the working directory is. program: the program is
 * a file of one, which does not answer any more. mapped: a file of an overlay over one is mapped.
 * truncated: a program that a thread stands in gets shorter and longer all the time.
 */
#include "attack_fuse.h"

static atomic_int in_position;

static void copy_program(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

	attack_read_image();
	if (fd < 0 || write(fd, attack_image, attack_image_size) != (ssize_t)attack_image_size)
		victim_cannot(path);
	close(fd);
}

/* Goes on in main of the new program, as the same process. */
static void become(const char *path, char *mode)
{
	char *const argv[] = { (char[]){ "attack" }, mode, (char[]){ "again" }, NULL };

	fcntl(attack_device, F_SETFD, 0);
	execv(path, argv);
	victim_cannot(path);
}

/* After the exec the device is the lowest descriptor that was kept. */
static void find_device_again(void)
{
	char path[64], name[64];

	for (int fd = 3; fd < 64; fd++) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, name, sizeof(name) - 1);
		if (length > 0 && (name[length] = '\0', strstr(name, "/fuse")))
			attack_device = fd;
	}
}

static void *in_file_main(void *code)
{
	prctl(PR_SET_NAME, "in-file", 0, 0, 0);
	in_position++;
	((void (*)(void))code)();
	return NULL;
}

/* A thread in the middle of a file, which waits there. */
static void stand_in(const char *path)
{
	static const uint8_t code[] = { 0xb8, 0x22, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7 };
	uint8_t *at = attack_map(path, NULL, 0x3000, PROT_READ | PROT_WRITE | PROT_EXEC);

	memcpy(at + 0x1000, code, sizeof(code));
	victim_thread(in_file_main, at + 0x1000, 64 << 10);
	while (!in_position)
		sched_yield();
}

static void *truncate_main(void *unused)
{
	for (;;) {
		int fd = open(ATTACK_PLACE "/short", O_RDWR | O_CLOEXEC);

		if (ftruncate(fd, 0x2000))
			return unused;
		if (write(fd, attack_image, attack_image_size) < 0)
			return unused;
		close(fd);
		attack_sleep_ms(1);
	}
}

static void change_places(const char *mode)
{
	if (!strcmp(mode, "root") && chroot(ATTACK_FUSE "/dir"))
		victim_cannot("chroot");
	if ((!strcmp(mode, "folder") || !strcmp(mode, "root")) && chdir(ATTACK_FUSE "/dir") &&
	    chdir("/"))
		victim_cannot("chdir");
	if (!strcmp(mode, "mapped")) {
		mkdir(ATTACK_PLACE "/empty", 0755);
		mkdir(ATTACK_PLACE "/over", 0755);
		if (mount("overlay", ATTACK_PLACE "/over", "overlay", 0,
			  "lowerdir=" ATTACK_FUSE ":" ATTACK_PLACE "/empty"))
			victim_cannot("mount of an overlay");
		stand_in(ATTACK_PLACE "/over/file");
	}
}

/* Known to the program that comes after an exec. */
static pid_t start_bystander(void)
{
	pid_t child = attack_bystander();
	char text[16];

	snprintf(text, sizeof(text), "%d", child);
	setenv("BYSTANDER", text, 1);
	return child;
}

int main(int argc, char **argv)
{
	static char mode[16];
	bool again = argc > 2;
	pid_t bystander;

	snprintf(mode, sizeof(mode), "%s", argc > 1 ? argv[1] : "covered");
	if (again)
		find_device_again();
	else
		attack_begin(strcmp(mode, "truncated") != 0);
	bystander = again ? atoi(getenv("BYSTANDER")) : start_bystander();
	if (!again && !strcmp(mode, "covered")) {
		mkdir(ATTACK_PLACE "/covered", 0755);
		copy_program(ATTACK_PLACE "/covered/program");
		become(ATTACK_PLACE "/covered/program", mode);
	}
	if (!strcmp(mode, "truncated")) {
		copy_program(ATTACK_PLACE "/short");
		stand_in(ATTACK_PLACE "/short");
		victim_thread(truncate_main, NULL, 64 << 10);
	} else if (!again || !strcmp(mode, "covered")) {
		if (again)
			unlink(ATTACK_PLACE "/covered/program");
		attack_mount(again ? ATTACK_PLACE "/covered" : ATTACK_FUSE);
		change_places(mode);
	}
	if (!again && !strcmp(mode, "program"))
		become(ATTACK_FUSE "/file", mode);
	victim_ready("mode=%s bystander=%d", mode, bystander);
	if (attack_server)
		attack_server->silent = ATTACK_ALL;
	else if (again)
		attack_sleep_ms(access(ATTACK_FUSE "/hush", F_OK) ? 0 : 1);
	victim_hold();
}
