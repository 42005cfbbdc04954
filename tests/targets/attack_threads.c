/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that cost more than they should: attack_threads MODE [COUNT].
 *
 * deep: each in ever new deep recursions. woken: they sleep and are all woken together, 20 times a
 * second. vfork: each waits in state D for a child that does not end. churn: they end, and others
 * are made, all the time. unserved: their stacks go on in pages of userfaultfd. traced: another
 * tracer has stopped them. notify: a system call waits for a listener that never answers. leader:
 * the first thread has ended and the others run on. Little of a processor is taken.
 */
#include "attack_fuse.h"
#include "instructions.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>

enum { DEPTH = 300, STACK = 64 << 10 };

static atomic_int in_position;
static atomic_uint turn;
static volatile int sink;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;

/* Two functions that call each other as the bits say: 2^DEPTH shapes. */
__attribute__((noinline)) static void right(uint64_t *seed, int depth);

__attribute__((noinline)) static void go_on(uint64_t *seed, int depth,
					    void (*other)(uint64_t *, int))
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	if (depth == 0)
		attack_sleep_ms(40);
	else
		other(seed, depth - 1);
	sink++;
}

__attribute__((noinline)) static void left(uint64_t *seed, int depth)
{
	if (*seed >> 63)
		go_on(seed, depth, right);
	else
		go_on(seed, depth, left);
	sink++;
}

__attribute__((noinline)) static void right(uint64_t *seed, int depth)
{
	if (*seed >> 62 & 1)
		go_on(seed, depth, left);
	else
		go_on(seed, depth, right);
	sink--;
}

static void *deep_main(void *unused)
{
	uint64_t seed = 0x9e3779b97f4a7c15u * (uint64_t)(1 + in_position++);

	for (;;)
		left(&seed, DEPTH / 2 + (int)(seed >> 33) % (DEPTH / 2));
	return unused;
}

static void *woken_main(void *unused)
{
	pthread_mutex_lock(&lock);
	in_position++;
	for (;;)
		pthread_cond_wait(&bell, &lock);
	return unused;
}

static void *ringer_main(void *unused)
{
	for (;;) {
		attack_sleep_ms(50);
		pthread_cond_broadcast(&bell);
	}
	return unused;
}

static int child_main(void *unused)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (;;)
		pause();
	return unused != NULL;
}

static void *vfork_main(void *unused)
{
	char *stack = malloc(STACK);

	in_position++;
	clone(child_main, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	return unused;
}

static void *short_main(void *unused)
{
	in_position++;
	attack_sleep_ms(3);
	return unused;
}

static void *churn_main(void *unused)
{
	for (;;)
		pthread_join(victim_thread(short_main, unused, STACK), NULL);
	return unused;
}

/* As with the stacks of FUSE, but the page that is missing lies above the stack pointer. */
static void *unserved_main(void *page)
{
	static const struct timespec a_while = { 0, 20000000 };

	in_position++;
	stand_napping((char *)page - 256, &a_while);
}

static void start_unserved(int count)
{
	const size_t size = 8 * 4096;
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	/* An ordinary user gets one for his own accesses alone. */
	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		victim_cannot("userfaultfd");
	for (int i = 0; i < count; i++) {
		char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				0);

		memset(at, 1, size / 2);
		range.range.start = (uint64_t)(uintptr_t)at;
		range.range.len = size;
		if (ioctl(fd, UFFDIO_REGISTER, &range))
			victim_cannot("userfaultfd register");
		victim_thread(unserved_main, at + size / 2, STACK);
	}
}

static void *pause_main(void *unused)
{
	in_position++;
	for (;;)
		pause();
	return unused;
}

/* The tracer is a child; it ends with its parent. */
static void trace_all(void)
{
	pid_t target = getpid();

	if (fork() != 0) {
		while (attack_state(target, target) != 't' && turn == 0)
			turn = 1;
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	prctl(PR_SET_NAME, "other-tracer", 0, 0, 0);
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	for (pid_t tid = target + 1; tid < target + 64; tid++)
		if (attack_state(target, tid) && !ptrace(PTRACE_SEIZE, tid, 0, 0))
			ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	for (;;)
		pause();
}

static void *notify_main(void *unused)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = filter };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
		    &program) < 0)
		victim_cannot("seccomp");
	in_position++;
	syscall(SYS_getppid);
	return unused;
}

/* Returns how many there will be. */
static int start(const char *mode, int count)
{
	static const struct {
		const char *mode;
		void *(*run)(void *);
	} kinds[] = { { "deep", deep_main },    { "woken", woken_main },  { "vfork", vfork_main },
		      { "churn", churn_main },  { "traced", pause_main }, { "leader", pause_main },
		      { "notify", notify_main } };

	if (!strcmp(mode, "unserved")) {
		start_unserved(count);
		return count;
	}
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (int i = 0; i < count && !strcmp(mode, kinds[k].mode); i++)
			victim_thread(kinds[k].run, NULL, STACK);
	if (!strcmp(mode, "woken"))
		victim_thread(ringer_main, NULL, STACK);
	return count;
}

static void *hold_main(void *unused)
{
	victim_hold();
	return unused;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "deep";
	int wanted;
	pid_t bystander;

	/* Pages that hold up the kernel itself are root's alone. */
	if (!strcmp(mode, "unserved"))
		prctl(PR_SET_NAME, "unserved", 0, 0, 0);
	else
		attack_drop();
	if (nice(10) < 0 && errno == EPERM)
		victim_cannot("nice");
	/* Its end is told by the thread that made it, which does not stay. */
	bystander = strcmp(mode, "leader") ? attack_bystander() : 0;
	wanted = start(mode, argc > 2 ? atoi(argv[2]) : 20);
	while (in_position < wanted)
		sched_yield();
	if (!strcmp(mode, "traced"))
		trace_all();
	victim_ready("mode=%s bystander=%d", mode, bystander);
	if (strcmp(mode, "leader") != 0)
		victim_hold();
	victim_thread(hold_main, NULL, STACK);
	pthread_exit(NULL);
}
