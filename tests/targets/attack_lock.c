/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes of which nobody can read maps, command line or memory: attack_lock MODE [COUNT].
 *
 * lock: one thread sleeps in a read that holds the lock of the address space, the next one queues
 * for it to change a mapping; so whoever wants to look at it waits. arguments: the page of the
 * command line is one that is never served. huge: the command line is said to be a gigabyte.
 * exec: a thread is in an exec of a file that is never read, which holds the lock that all who
 * trace, or look at memory, have to take. flush: a child is in an exec that closes a file, and the
 * closing is never answered. kin: as flush, and that child has one of its own which looks as if it
 * were the tool's: it ends without a signal. late: on a line of input such a child is made, which
 * begins its exec when its command line has been read, with a crowd of others that are read after
 * it; "held" is printed when it is there. Of all but arguments, huge and late there are COUNT
 * processes.
 */
#include "attack_fuse.h"

#include <linux/prctl.h>
#include <sys/syscall.h>

static volatile uint8_t sink;
static atomic_int in_position;
static _Atomic pid_t waiter;

static void *reader_main(void *page)
{
	prctl(PR_SET_NAME, "reader", 0, 0, 0);
	in_position++;
	sink = *(volatile uint8_t *)page;
	return NULL;
}

static void *writer_main(void *unused)
{
	prctl(PR_SET_NAME, "writer", 0, 0, 0);
	waiter = (pid_t)syscall(SYS_gettid);
	while (!attack_server->asked)
		sched_yield();
	for (;;)
		munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
	return unused;
}

static bool wait_for_disk(const _Atomic pid_t *tid)
{
	for (int i = 0; i < 2000; i++) {
		if (*tid && attack_state(getpid(), *tid) == 'D')
			return true;
		attack_sleep_ms(1);
	}
	return false;
}

/* The first read of the page fails, the kernel tries again, and then it keeps the lock. */
static void hold_lock(void)
{
	uint8_t *page = attack_map(ATTACK_FUSE "/file", NULL, 4096, PROT_READ);

	attack_server->failures_of_read = 1;
	attack_server->silent = ATTACK_BIT(FUSE_READ);
	/* To start a thread the lock is needed, too. */
	victim_thread(writer_main, NULL, 64 << 10);
	while (!waiter)
		sched_yield();
	victim_thread(reader_main, page, 64 << 10);
	if (!wait_for_disk(&waiter))
		victim_cannot("lock of the address space");
}

enum { PAGE = 4096, LONG_NAME = 3 * PAGE };

/* Begins anew, with a first argument that has a page of its own: this program needs the others. */
static void lengthen_arguments(char **argv)
{
	static char name[LONG_NAME + 1];
	char *again[] = { name, argv[1], NULL };

	if (strlen(argv[0]) >= LONG_NAME) {
		prctl(PR_SET_NAME, "attack_lock", 0, 0, 0);
		return;
	}
	memset(name, 'x', LONG_NAME);
	execv("/proc/self/exe", again);
	victim_cannot("execv");
}

static void replace_arguments(const char *arguments)
{
	uintptr_t page = ((uintptr_t)arguments + PAGE - 1) & ~(uintptr_t)(PAGE - 1);

	attack_map(ATTACK_FUSE "/file", (void *)page, PAGE, PROT_READ | PROT_WRITE);
	attack_server->silent = ATTACK_BIT(FUSE_READ);
}

static void claim_huge_arguments(void)
{
	const size_t size = 1ul << 30;
	uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct prctl_mm_map map = { .exe_fd = (uint32_t)-1 };
	unsigned long values[7] = { 0 };
	FILE *stat = fopen("/proc/self/stat", "re");
	void *heap = sbrk(0);

	if (!stat ||
	    fscanf(stat,
		   "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
		   "%*d %*d %*d %*d %*u %*u %*d %*u %lu %lu %lu %*u %*u %*u %*u %*u %*u "
		   "%*u %*u %*u %*d %*d %*u %*u %*u %*u %*d %lu %lu %lu",
		   &values[0], &values[1], &values[2], &values[3], &values[4], &values[5]) != 6)
		victim_cannot("/proc/self/stat");
	fclose(stat);
	map.start_code = values[0], map.end_code = values[1], map.start_stack = values[2];
	map.start_data = values[3], map.end_data = values[4], map.start_brk = values[5];
	map.brk = (uint64_t)(uintptr_t)heap;
	map.arg_start = (uint64_t)(uintptr_t)at, map.arg_end = map.arg_start + size - 4096;
	map.env_start = map.arg_end, map.env_end = map.arg_start + size;
	memset(at, 'a', 1 << 20);
	if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0))
		victim_cannot("PR_SET_MM");
}

static void *exec_main(void *unused)
{
	char *const argv[] = { (char[]){ "file" }, NULL };

	prctl(PR_SET_NAME, "in-exec", 0, 0, 0);
	in_position++;
	execv(ATTACK_FUSE "/file", argv);
	return unused;
}

static void start_exec(void)
{
	attack_server->silent = ATTACK_BIT(FUSE_READ);
	victim_thread(exec_main, NULL, 64 << 10);
	while (!attack_server->asked)
		sched_yield();
}

/* Its parent has no signal of its end. */
static void make_kin(void)
{
	if (syscall(SYS_clone, 0, NULL, NULL, NULL, NULL) != 0)
		return;
	prctl(PR_SET_NAME, "kin", 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (;;)
		pause();
}

static pid_t start_flush(bool with_kin)
{
	char *const argv[] = { (char[]){ "true" }, NULL };
	pid_t child;

	attack_server->silent = ATTACK_BIT(FUSE_FLUSH);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		close(STDIN_FILENO);
		close(STDOUT_FILENO);
		if (with_kin)
			make_kin();
		if (open(ATTACK_FUSE "/file", O_RDONLY | O_CLOEXEC) >= 0)
			execv("/bin/true", argv);
		_exit(1);
	}
	while (!attack_server->asked)
		sched_yield();
	return child;
}

enum { CROWD = 200 };

static void begin_child(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	if (getppid() != parent)
		_exit(1);
}

/* The page is only there once somebody has asked for it: so it is known when that was. */
static _Noreturn void run_late(const char *arguments)
{
	char *const argv[] = { (char[]){ "true" }, NULL };

	prctl(PR_SET_NAME, "late", 0, 0, 0);
	replace_arguments(arguments);
	attack_server->silent = ATTACK_BIT(FUSE_FLUSH);
	if (open(ATTACK_FUSE "/file", O_RDONLY | O_CLOEXEC) < 0)
		_exit(1);
	while (!attack_server->reads)
		;
	execv("/bin/true", argv);
	_exit(1);
}

static void make_late(const char *arguments)
{
	pid_t parent = getpid();

	if (fork() == 0) {
		begin_child(parent);
		run_late(arguments);
	}
	for (int i = 0; i < CROWD; i++) {
		if (fork() != 0)
			continue;
		begin_child(parent);
		attack_innocent_wait();
	}
	while (!attack_server->asked)
		attack_sleep_ms(1);
}

static pid_t hold(const char *mode)
{
	attack_mount(ATTACK_FUSE);
	if (!strcmp(mode, "lock"))
		hold_lock();
	else if (!strcmp(mode, "huge"))
		claim_huge_arguments();
	else if (!strcmp(mode, "exec"))
		start_exec();
	else if (!strcmp(mode, "flush") || !strcmp(mode, "kin"))
		return start_flush(!strcmp(mode, "kin"));
	return 0;
}

/* Each has a file system of its own, one upon the other. */
static void start_others(const char *mode, int count)
{
	for (int i = 0; i < count; i++) {
		pid_t parent = getpid();

		if (fork() != 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		if (unshare(CLONE_NEWNS) || getppid() != parent)
			_exit(1);
		hold(mode);
		for (;;)
			pause();
	}
}

int main(int argc, char **argv)
{
	/* The lock is needed to allocate. */
	static char mode[16], output[4096];
	pid_t bystander, child;
	char line[16];
	bool is_late;

	setvbuf(stdout, output, _IOFBF, sizeof(output));
	snprintf(mode, sizeof(mode), "%s", argc > 1 ? argv[1] : "lock");
	is_late = !strcmp(mode, "late");
	if (is_late || !strcmp(mode, "arguments"))
		lengthen_arguments(argv);
	attack_begin(is_late || !strcmp(mode, "arguments"));
	bystander = attack_bystander();
	start_others(mode, argc > 2 ? atoi(argv[2]) - 1 : 0);
	child = hold(mode);
	victim_ready("mode=%s bystander=%d child=%d", mode, bystander, child);
	if (!strcmp(mode, "arguments"))
		replace_arguments(argv[0]);
	if (is_late && read(STDIN_FILENO, line, sizeof(line)) > 0) {
		make_late(argv[0]);
		printf("held\n");
		fflush(stdout);
	}
	victim_hold();
}
