/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A thread for each blocking call that the kernel takes up again after a stop; counts those that came back
 * all the same. A line on standard input asks for the counts. "all": threads in calls that a stop ends
 * early, or with a part of their bytes, too. "busy": one of them in an epoll_wait that ends 2,000 times a
 * second, as those of a server do; only EINTR counts.
 */
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { MORE = 1 << 22, MOST_CALLS = 32 };

static struct {
	int quiet[2], full_pipe[2], full_socket[2], part[2], timed[2];
	int listener, no_events, ticks, locked, other, semaphores, messages, file;
	mqd_t queue;
	aio_context_t aio;
	pid_t child;
} used;

static atomic_int in_position;
static atomic_int came_back[MOST_CALLS];
static const char *names[MOST_CALLS];
static char bytes[MORE], received[64];
static sigset_t never_sent;
static struct timespec hour = { 3600, 0 };

static void wait_for_word(void)
{
	static int word;

	syscall(SYS_futex, &word, FUTEX_WAIT, 0, &hour);
}

static void wait_in_select(void)
{
	struct timeval long_time = { 3600, 0 };
	fd_set none;

	FD_ZERO(&none);
	select(0, &none, NULL, NULL, &long_time);
}

static void wait_for_record(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	fcntl(used.other, F_OFD_SETLKW, &lock);
}

/* Is woken by its clock all the time: other returns than that do not count. */
static bool is_epoll_interrupted(void)
{
	struct epoll_event event;
	uint64_t times;

	if (epoll_wait(used.no_events, &event, 1, -1) < 0)
		return errno == EINTR;
	return read(used.ticks, &times, sizeof(times)) < 0 && errno == EINTR;
}

#define CALL(name, call)                               \
	static void *name##_main(void *number)         \
	{                                              \
		prctl(PR_SET_NAME, #name, 0, 0, 0);    \
		names[(intptr_t)number] = #name;       \
		in_position++;                         \
		for (;;) {                             \
			call;                          \
			came_back[(intptr_t)number]++; \
		}                                      \
		return NULL;                           \
	}

CALL(poll, poll(NULL, 0, 3600000))
CALL(ppoll, ppoll(NULL, 0, &hour, NULL))
CALL(select, wait_in_select())
CALL(nanosleep, nanosleep(&hour, NULL))
CALL(clock_sleep, clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL))
CALL(futex, wait_for_word())
CALL(recv, if (recv(used.quiet[0], received, 1, 0)){})
CALL(pause, sigsuspend(&(sigset_t){ 0 }))
CALL(waitpid, waitpid(used.child, NULL, 0))
CALL(msgrcv, if (msgrcv(used.messages, bytes, 8, 1, 0)){})
CALL(mq_receive, if (mq_receive(used.queue, bytes, 8192, NULL)){})
CALL(flock, flock(used.other, LOCK_EX))
CALL(record, wait_for_record())

CALL(epoll_wait, epoll_wait(used.no_events, &(struct epoll_event){ 0 }, 1, -1))
CALL(sigtimedwait, sigtimedwait(&never_sent, NULL, &hour))
CALL(semop, semop(used.semaphores, &(struct sembuf){ .sem_op = -1 }, 1))
CALL(getevents, syscall(SYS_io_getevents, used.aio, 1, 1, &(struct io_event){ 0 }, NULL))
CALL(write, if (write(used.full_pipe[1], bytes, MORE)){})
CALL(send, if (send(used.full_socket[1], bytes, MORE, 0)){})
CALL(recv_all, if (recv(used.part[0], received, 64, MSG_WAITALL)){})
CALL(timed_recv, if (recv(used.timed[0], received, 1, 0)){})
CALL(timed_accept, accept(used.listener, NULL, NULL))
CALL(busy, while (!is_epoll_interrupted()){})

static void *(*const going_on[])(void *) = { poll_main,      ppoll_main,       select_main,
					     nanosleep_main, clock_sleep_main, futex_main,
					     recv_main,      pause_main,       waitpid_main,
					     msgrcv_main,    mq_receive_main,  flock_main,
					     record_main };
static void *(*const ending[])(void *) = { epoll_wait_main, sigtimedwait_main, semop_main,
					   getevents_main,  write_main,        send_main,
					   recv_all_main,   timed_recv_main,   timed_accept_main };

static void make_queues(void)
{
	struct mq_attr few = { .mq_maxmsg = 1, .mq_msgsize = 8192 };
	char name[32];

	snprintf(name, sizeof(name), "/eintr-%d", getpid());
	used.queue = mq_open(name, O_RDWR | O_CREAT, 0600, &few);
	mq_unlink(name);
	used.messages = msgget(IPC_PRIVATE, 0600);
	used.semaphores = semget(IPC_PRIVATE, 1, 0600);
	if (used.queue < 0 || used.messages < 0 || used.semaphores < 0 ||
	    syscall(SYS_io_setup, 1, &used.aio))
		victim_cannot("queues");
}

static void make_sockets(void)
{
	const struct timeval timeout = { 3600, 0 };
	struct sockaddr_un nowhere = { .sun_family = AF_UNIX };

	used.listener = socket(AF_UNIX, SOCK_STREAM, 0);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, used.quiet) || pipe(used.full_pipe) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, used.full_socket) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, used.part) ||
	    write(used.part[1], bytes, 10) != 10 ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, used.timed) ||
	    bind(used.listener, (struct sockaddr *)&nowhere, sizeof(sa_family_t)) ||
	    listen(used.listener, 1) ||
	    setsockopt(used.timed[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) ||
	    setsockopt(used.listener, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)))
		victim_cannot("sockets");
}

static void make_locks(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[] = "/tmp/eintr-XXXXXX";

	used.locked = mkstemp(path);
	used.other = open(path, O_RDWR | O_CLOEXEC);
	unlink(path);
	if (used.other < 0 || flock(used.locked, LOCK_EX) || fcntl(used.locked, F_OFD_SETLK, &lock))
		victim_cannot("locks");
}

/* A child that outlives us, and removes what the kernel would keep. */
static void make_child(void)
{
	int end[2];
	char byte;

	if (pipe(end))
		victim_cannot("pipe");
	used.child = fork();
	if (used.child)
		return;
	setsid();
	close(end[1]);
	while (read(end[0], &byte, 1) > 0)
		;
	msgctl(used.messages, IPC_RMID, NULL);
	semctl(used.semaphores, 0, IPC_RMID);
	_exit(0);
}

static void make_clock(void)
{
	const struct itimerspec often = { .it_interval.tv_nsec = 500000,
					  .it_value.tv_nsec = 500000 };
	struct epoll_event event = { .events = EPOLLIN };

	used.ticks = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	timerfd_settime(used.ticks, 0, &often, NULL);
	if (epoll_ctl(used.no_events, EPOLL_CTL_ADD, used.ticks, &event))
		victim_cannot("epoll");
}

static void tell_counts(intptr_t count)
{
	for (intptr_t i = 0; i < count; i++)
		printf("%s=%d ", names[i], came_back[i]);
	printf("\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	bool busy = argc > 1 && strcmp(argv[1], "busy") == 0;
	intptr_t count = 0;
	char line[16];

	make_queues();
	make_child();
	make_sockets();
	make_locks();
	sigemptyset(&never_sent);
	sigaddset(&never_sent, SIGUSR2);
	used.no_events = epoll_create1(EPOLL_CLOEXEC);
	if (busy) {
		make_clock();
		victim_thread(busy_main, (void *)count++, 0);
	}
	for (size_t i = 0; i < sizeof(going_on) / sizeof(going_on[0]) && !busy; i++)
		victim_thread(going_on[i], (void *)count++, 0);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]) && argc > 1 && !busy; i++)
		victim_thread(ending[i], (void *)count++, 0);
	while (in_position < count)
		sched_yield();
	victim_ready("eintr");
	while (read(STDIN_FILENO, line, sizeof(line)) > 0)
		tell_counts(count);
	return 0;
}
