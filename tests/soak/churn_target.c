/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Targets that change all the time: threads that start their successor and exit, short threads,
 * short children with children of their own, a program that executes itself anew. See churn.h.
 */
#include "churn.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOT_BYTES = 32 << 10, STAMP_US = 3, SHORT_US = 50, EXEC_US = 4000, CROWD = 300 };

static struct churn_log *the_log;

void churn_stamp(struct churn_log *log)
{
	uint64_t place = __atomic_fetch_add(&log->next, 1, __ATOMIC_RELAXED) % CHURN_STAMPS;
	struct timespec now;

	log->stamps[place].tid = (pid_t)syscall(SYS_gettid);
	clock_gettime(CLOCK_REALTIME, &now);
	__atomic_store_n(&log->stamps[place].time_ns, now.tv_sec * 1000000000ll + now.tv_nsec,
			 __ATOMIC_RELEASE);
}

/* On a processor; a stamp is old after some microseconds, and their number has an end. */
static void work(long us)
{
	int64_t now = soak_now(), until = now + us * 1000, next;

	while (now < until) {
		churn_stamp(the_log);
		next = now + STAMP_US * 1000;
		while ((now = soak_now()) < next)
			;
	}
}

static void name_line(uintptr_t line)
{
	char name[16];

	snprintf(name, sizeof(name), "line-%d", (int)line);
	prctl(PR_SET_NAME, name);
}

/* Threads without a C library of their own: the kernel says by the word when a stack is free. */
struct slot {
	volatile pid_t tid; /* 0: free */
	int flags;
	char *stack;
};

static struct slot slots[CHURN_LINES][CHURN_SLOTS];

static int relay_main(void *argument);

static void start_successor(size_t line, int flags)
{
	for (size_t i = 0;; i = (i + 1) % CHURN_SLOTS) {
		struct slot *slot = &slots[line][i];

		if (slot->tid)
			continue;
		slot->tid = -1;
		slot->flags = flags;
		if (clone(relay_main, slot->stack + SLOT_BYTES,
			  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
				  CLONE_SYSVSEM | CLONE_CHILD_CLEARTID | flags,
			  slot, NULL, NULL, &slot->tid) > 0)
			return;
		slot->tid = 0;
	}
}

static int relay_main(void *argument)
{
	struct slot *slot = argument;

	churn_stamp(the_log);
	start_successor((size_t)(slot - slots[0]) / CHURN_SLOTS, slot->flags);
	return 0;
}

/* Names are inherited: each thread of a line has the line's. */
static void start_relays(int flags)
{
	for (size_t line = 0; line < CHURN_LINES; line++) {
		for (size_t i = 0; i < CHURN_SLOTS; i++)
			slots[line][i].stack = mmap(NULL, SLOT_BYTES, PROT_READ | PROT_WRITE,
						    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		name_line(line);
		start_successor(line, flags);
		the_log->lines[line] = 1;
	}
	prctl(PR_SET_NAME, "churn-main");
}

static void *short_main(void *unused)
{
	work(SHORT_US);
	return unused;
}

static void *maker_main(void *line)
{
	pthread_t made[4];

	name_line((uintptr_t)line);
	the_log->lines[(uintptr_t)line] = 1;
	for (;;) {
		size_t count = 0;

		churn_stamp(the_log);
		while (count < 4 && !pthread_create(&made[count], NULL, short_main, NULL))
			count++;
		while (count)
			pthread_join(made[--count], NULL);
	}
	return NULL;
}

static void child_main(bool with_child)
{
	pid_t pid = with_child ? fork() : -1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	work(SHORT_US);
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	_exit(0);
}

static void *forker_main(void *line)
{
	name_line((uintptr_t)line);
	the_log->lines[(uintptr_t)line] = 1;
	for (int turn = 0;; turn++) {
		pid_t pid = fork();

		if (pid == 0)
			child_main(turn & 1);
		churn_stamp(the_log);
		while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	return NULL;
}

static void *pulse_main(void *line)
{
	name_line((uintptr_t)line);
	the_log->lines[(uintptr_t)line] = 1;
	for (;;) {
		work(SHORT_US);
		soak_sleep_us(SHORT_US);
	}
	return NULL;
}

static void execute(int fd, int turn, bool crowded)
{
	static char crowd[] = "crowd";
	char file[24], next[24];
	char *argv[] = { (char[]){ "soak" }, (char[]){ "--exec" }, file, next, NULL, NULL };

	snprintf(file, sizeof(file), "%d", fd);
	snprintf(next, sizeof(next), "%d", turn + 1);
	if (crowded)
		argv[4] = crowd;
	work(EXEC_US);
	execv("/proc/self/exe", argv);
	_exit(1);
}

struct turn {
	int fd, number;
	bool crowded;
};

static void *idle_main(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* Seizing many takes long, so that an exec falls into the middle of it. */
static void gather_crowd(void)
{
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, SLOT_BYTES);
	for (int i = 0; i < CROWD; i++)
		pthread_create(&thread, &small, idle_main, NULL);
}

static void *executor_main(void *argument)
{
	const struct turn *turn = argument;

	execute(turn->fd, turn->number, turn->crowded);
	return NULL;
}

/* Every second exec is by a thread that is not the first; others run meanwhile. */
static void live_once(struct turn *turn)
{
	pthread_t thread;

	if (turn->crowded)
		gather_crowd();
	for (uintptr_t line = 0; line < CHURN_LINES; line++)
		if (pthread_create(&thread, NULL, pulse_main, (void *)line))
			_exit(1);
	if (turn->number % 2 == 0)
		execute(turn->fd, turn->number, turn->crowded);
	if (pthread_create(&thread, NULL, executor_main, turn))
		_exit(1);
	for (;;)
		pause();
}

int soak_exec_main(int argc, char **argv)
{
	struct turn turn = { .fd = argc > 3 ? atoi(argv[2]) : -1 };

	if (turn.fd < 0)
		return 64;
	turn.number = atoi(argv[3]);
	turn.crowded = argc > 4;
	the_log = mmap(NULL, sizeof(*the_log), PROT_READ | PROT_WRITE, MAP_SHARED, turn.fd, 0);
	if (the_log == MAP_FAILED)
		return 1;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	live_once(&turn);
	return 0;
}

static void start_lines(void *(*run)(void *line))
{
	pthread_t thread;

	for (uintptr_t line = 0; line < CHURN_LINES; line++)
		if (pthread_create(&thread, NULL, run, (void *)line))
			_exit(1);
}

void churn_main(const char *kind, struct churn_log *log, int fd)
{
	struct turn turn = { .fd = fd };

	the_log = log;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	prctl(PR_SET_NAME, "churn-main");
	if (strcmp(kind, "relay") == 0)
		start_relays(0);
	else if (strcmp(kind, "untraced") == 0)
		start_relays(CLONE_UNTRACED);
	else if (strcmp(kind, "threads") == 0)
		start_lines(maker_main);
	else if (strcmp(kind, "forks") == 0)
		start_lines(forker_main);
	else
		execute(fd, turn.number, strcmp(kind, "execs-crowd") == 0);
	for (;;)
		pause();
}
