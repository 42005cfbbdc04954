/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * attack_numbers real: threads that wait with the largest numbers that the kernel takes, in each call that can wait.
 * attack_numbers calls VALUE: a thread in every system call that there is, each argument VALUE; a filter holds them
 * at its begin, so no call refuses anything. attack_numbers chain COUNT: each thread waits for the end of the next.
 */
#include "victim.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

enum {
	MAGIC = 0x534e4150,
	LAST_CALL = 470,
	STACK = 64 << 10,
	/* uretprobe(2) and uprobe(2) of x86-64: no filter sees them */
	FIRST_PROBE = 335,
	LAST_PROBE = 336
};

static const struct timespec forever = { LONG_MAX, 999999999 }, century = { 3000000000, 0 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, taken = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static uint32_t word;
static int timer, epoll, full, queue, set, locked, pipes[2];

static void sleep_relative(void)
{
	nanosleep(&century, NULL);
}

static void sleep_for_ever(void)
{
	nanosleep(&forever, NULL);
}

static void sleep_until_the_end(void)
{
	clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &forever, NULL);
}

static void sleep_until_a_century(void)
{
	struct timespec until = { 9223372035, 999999999 };

	clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
}

static void sleep_by_boot_time(void)
{
	struct timespec until = { 9223372035, 999999999 };

	clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL);
}

static void read_timer(void)
{
	uint64_t expired;

	(void)!read(timer, &expired, sizeof(expired));
}

static void poll_timer(void)
{
	struct pollfd fds[] = { { .fd = timer, .events = POLLIN },
				{ .fd = INT_MIN },
				{ .fd = -2 } };

	poll(fds, 3, INT_MAX);
}

static void select_timer(void)
{
	struct timeval most = { 9223372035, 999999 };
	fd_set set_of;

	FD_ZERO(&set_of);
	FD_SET(timer, &set_of);
	select(timer + 1, &set_of, NULL, NULL, &most);
}

static void epoll_timer(void)
{
	struct epoll_event event;

	epoll_wait(epoll, &event, 1, INT_MAX);
}

static void write_full_eventfd(void)
{
	uint64_t one = UINT64_MAX - 1;

	(void)!write(full, &one, sizeof(one));
}

static void wait_for_semaphore(void)
{
	struct sembuf operation = { 65535 % 250, -SHRT_MAX, 0 };

	semtimedop(set, &operation, 1, &century);
}

static void receive_type(long type)
{
	char buffer[64];

	msgrcv(queue, buffer, 8, type, 0);
}

static void receive_least(void)
{
	receive_type(LONG_MIN);
}

static void receive_most(void)
{
	receive_type(LONG_MAX);
}

static void lock_until_the_end(void)
{
	pthread_mutex_timedlock(&taken, &century);
}

static void wait_until_the_end(void)
{
	pthread_mutex_lock(&mutex);
	pthread_cond_timedwait(&condition, &mutex, &forever);
}

static void wait_for_a_futex(void)
{
	struct timespec until = { 9223372035, 999999999 };

	syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &until, NULL, ~0u);
}

static void wait_for_a_signal(void)
{
	sigset_t signals;

	sigfillset(&signals);
	sigtimedwait(&signals, NULL, &forever);
}

static void lock_last_byte(void)
{
	struct flock range = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LONG_MAX, .l_len = 1
	};

	fcntl(locked, F_OFD_SETLKW, &range);
}

static void wait_for_group(void)
{
	waitpid(-INT_MAX, NULL, 0);
}

static void write_a_full_pipe(void)
{
	char bytes[4096] = "";

	for (;;)
		(void)!write(pipes[1], bytes, sizeof(bytes));
}

static void (*const waits[])(void) = {
	sleep_relative,     sleep_for_ever,     sleep_until_the_end, sleep_until_a_century,
	sleep_by_boot_time, read_timer,         poll_timer,          select_timer,
	epoll_timer,        write_full_eventfd, wait_for_semaphore,  receive_least,
	receive_most,       lock_until_the_end, wait_until_the_end,  wait_for_a_futex,
	wait_for_a_signal,  lock_last_byte,     wait_for_group,      write_a_full_pipe,
};

static void *run_wait(void *at)
{
	void (*wait_in)(void) = *(void (*const *)(void))at;

	for (;;) {
		wait_in();
		usleep(50000); /* it returns at once: this kernel does not take it */
	}
	return NULL;
}

static void make_objects(void)
{
	struct itimerspec never = { .it_value = forever };
	struct flock range = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LONG_MAX, .l_len = 1
	};
	struct epoll_event event = { .events = EPOLLIN };
	char path[64];
	int other = memfd_create("numbers", MFD_CLOEXEC);

	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (timer < 0 || timerfd_settime(timer, 0, &never, NULL))
		victim_cannot("timerfd");
	epoll = epoll_create1(EPOLL_CLOEXEC);
	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
	full = eventfd(0, EFD_CLOEXEC);
	(void)!write(full, &(uint64_t){ UINT64_MAX - 1 }, sizeof(uint64_t));
	queue = msgget(IPC_PRIVATE, 0600);
	set = semget(IPC_PRIVATE, 250, 0600);
	fcntl(other, F_OFD_SETLK, &range);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", other);
	locked = open(path, O_RDWR | O_CLOEXEC);
	pthread_mutex_lock(&taken);
	(void)!pipe2(pipes, O_CLOEXEC);
	alarm(UINT_MAX);
}

static unsigned long value;

static void *make_call(void *number)
{
	syscall((long)(uintptr_t)number, value, value, value, value, value, (long)MAGIC);
	return NULL;
}

static void hold_calls(void)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAGIC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(program) / sizeof(*program), program };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
		    &filter) < 0)
		victim_cannot("seccomp");
}

static void *join_one(void *of)
{
	pthread_t thread;

	memcpy(&thread, of, sizeof(thread));
	pthread_join(thread, NULL);
	return NULL;
}

static void *wait_for_line(void *unused __attribute__((unused)))
{
	victim_hold();
	return NULL;
}

int main(int argc, char **argv)
{
	size_t count = 0;

	if (argc > 1 && strcmp(argv[1], "real") == 0) {
		make_objects();
		for (; count < sizeof(waits) / sizeof(*waits); count++)
			victim_thread(run_wait, (void *)(uintptr_t)&waits[count], STACK);
		victim_ready("threads=%zu queue=%d set=%d", count + 1, queue, set);
		victim_hold();
	}
	if (argc > 2 && strcmp(argv[1], "calls") == 0) {
		value = strtoul(argv[2], NULL, 0);
		hold_calls();
		for (; count <= LAST_CALL; count++)
			if (count < FIRST_PROBE || count > LAST_PROBE)
				victim_thread(make_call, (void *)(uintptr_t)count, STACK);
		victim_ready("threads=%zu", count + 1);
		victim_hold();
	}
	if (argc > 2 && strcmp(argv[1], "chain") == 0) {
		pthread_t *threads = calloc((size_t)atoi(argv[2]) + 1, sizeof(*threads));

		threads[0] = victim_thread(wait_for_line, NULL, STACK);
		for (; count < (size_t)atoi(argv[2]); count++)
			threads[count + 1] = victim_thread(join_one, &threads[count], STACK);
		victim_ready("threads=%zu", count + 2);
		pause();
	}
	return 2;
}
