/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that wait in calls other than futex(2) and those of peers.c: descriptors of each kind,
 * poll and its kind, children, sleeps, signals, System V, page faults, stops. See truth.h.
 */
#include "truth.h"

#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

enum { LONG_SECONDS = 3000, PIDFD = 3 };

static int number_of(struct actor *me)
{
	return (int)(intptr_t)me->object;
}

static void *with_number(int number)
{
	return (void *)(intptr_t)number; /* NOLINT */
}

/* ---- descriptors ---- */

static NOINLINE void read_descriptor(struct actor *me)
{
	char buffer[4096];
	int fd = number_of(me);

	truth(me->row, "'kind':'%s','fd':%d,'call':'read'", me->row, fd);
	for (;;)
		(void)!read(fd, buffer, sizeof(buffer));
}

static NOINLINE void read_events(struct actor *me)
{
	char buffer[4096];

	truth(me->row, "'kind':'inotify','variant':'fanotify','fd':%d,'value':2,'call':'read'",
	      number_of(me));
	for (;;)
		(void)!read(number_of(me), buffer, sizeof(buffer));
}

static NOINLINE void read_timer(struct actor *me)
{
	uint64_t count;

	truth(me->row, "'kind':'timerfd','fd':%d,'most_s':%d", number_of(me), LONG_SECONDS);
	for (;;)
		(void)!read(number_of(me), &count, sizeof(count));
}

static NOINLINE void read_signals(struct actor *me)
{
	struct signalfd_siginfo info;

	truth(me->row, "'kind':'signalfd','fd':%d,'signals':[%d,%d]", number_of(me), SIGUSR1,
	      SIGTERM);
	for (;;)
		(void)!read(number_of(me), &info, sizeof(info));
}

static NOINLINE void receive_message(struct actor *me)
{
	char buffer[64];

	truth(me->row, "'kind':'mqueue','fd':%d,'mode':'read'", number_of(me));
	for (;;)
		(void)!mq_receive(number_of(me), buffer, sizeof(buffer), NULL);
}

static NOINLINE void send_message(struct actor *me)
{
	struct timespec until = { .tv_sec = LONG_SECONDS };
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	until.tv_sec += now.tv_sec;
	truth(me->row, "'kind':'mqueue','fd':%d,'mode':'write','timed':true,'most_s':%d",
	      number_of(me), LONG_SECONDS);
	for (;;)
		mq_timedsend(number_of(me), "x", 1, 0, &until);
}

/* Full of messages: nobody receives them. */
static int full_queue(int flags)
{
	struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	char name[64];
	int queue, again;

	snprintf(name, sizeof(name), "/waits-full-%d", getpid());
	queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0600, &attributes);
	while (queue >= 0 && mq_send(queue, "x", 1, 0) == 0)
		;
	again = mq_open(name, flags);
	mq_unlink(name);
	return again;
}

static int own_queue(void)
{
	struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 64 };
	char name[64];
	int queue;

	snprintf(name, sizeof(name), "/waits-%d", getpid());
	queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
	mq_unlink(name);
	return queue;
}

static int own_terminal(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY);

	if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
		return -1;
	return open(ptsname(master), O_RDWR | O_NOCTTY);
}

static void make_descriptors(const char *unused)
{
	struct itimerspec in_long = { .it_value.tv_sec = LONG_SECONDS };
	int timer = timerfd_create(CLOCK_MONOTONIC, 0), notes = inotify_init1(0);
	int queue = own_queue(), full = full_queue(O_WRONLY), terminal = own_terminal();
	int events = fanotify_init(0, O_RDONLY);

	int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	unsigned long api[3] = { 0xaa, 0, 0 }; /* struct uffdio_api */
	sigset_t set;

	(void)unused;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	timerfd_settime(timer, 0, &in_long, NULL);
	inotify_add_watch(notes, "/dev/shm", IN_UNMOUNT);
	start(read_descriptor, "eventfd", with_number(eventfd(0, 0)), NULL);
	start(read_timer, "timerfd", with_number(timer), NULL);
	start(read_signals, "signalfd", with_number(signalfd(-1, &set, 0)), NULL);
	start(read_descriptor, "inotify", with_number(notes), NULL);
	if (queue >= 0)
		start(receive_message, "mqueue", with_number(queue), NULL);
	if (full >= 0)
		start(send_message, "mqueue.full", with_number(full), NULL);
	if (events >= 0 &&
	    fanotify_mark(events, FAN_MARK_ADD, FAN_CLOSE_WRITE, -1, "/dev/full") == 0 &&
	    fanotify_mark(events, FAN_MARK_ADD, FAN_CLOSE_WRITE, -1, "/dev/shm") == 0)
		start(read_events, "fanotify", with_number(events), NULL);
	if (terminal >= 0)
		start(read_descriptor, "tty", with_number(terminal), NULL);
	if (faults >= 0 && ioctl(faults, 0xc018aa3f /* UFFDIO_API */, api) == 0)
		start(read_descriptor, "userfaultfd", with_number(faults), NULL);
}

/* ---- several descriptors ---- */

static NOINLINE void in_poll(struct actor *me)
{
	struct pollfd fds[2] = { { .fd = eventfd(0, 0), .events = POLLIN },
				 { .fd = timerfd_create(CLOCK_MONOTONIC, 0), .events = POLLIN } };

	truth(me->row, "'kind':'poll','fd_count':2,'fds':[%d,%d],'timed':false", fds[0].fd,
	      fds[1].fd);
	for (;;)
		(void)!poll(fds, 2, -1);
}

static NOINLINE void in_ppoll(struct actor *me)
{
	struct pollfd fds[1] = { { .fd = eventfd(0, 0), .events = POLLIN } };
	struct timespec timeout = { .tv_sec = LONG_SECONDS };

	truth(me->row, "'kind':'poll','fd_count':1,'fds':[%d],'timed':true,'most_s':%d", fds[0].fd,
	      LONG_SECONDS);
	for (;;)
		(void)!ppoll(fds, 1, &timeout, NULL);
}

static NOINLINE void in_select(struct actor *me)
{
	int one = eventfd(0, 0), other = timerfd_create(CLOCK_MONOTONIC, 0);
	struct timespec timeout = { .tv_sec = LONG_SECONDS };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(one, &set);
	FD_SET(other, &set);
	truth(me->row, "'kind':'select','fds':[%d,%d],'timed':%s", one, other,
	      me->number ? "true" : "false");
	for (;;)
		if (me->number)
			pselect(other + 1, &set, NULL, NULL, &timeout, NULL);
		else
			select(other + 1, &set, NULL, NULL, NULL);
}

static NOINLINE void in_pselect(struct actor *me)
{
	me->number = 1;
	in_select(me);
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		victim_cannot("epoll_ctl");
}

static NOINLINE void in_epoll(struct actor *me)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int epoll = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM, 0), pair[2];
	struct timespec timeout = { .tv_sec = LONG_SECONDS };
	struct epoll_event event;

	if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 8) ||
	    getsockname(listener, (struct sockaddr *)&address, &size) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		victim_cannot("sockets");
	watch(epoll, listener);
	watch(epoll, pair[0]);
	watch(epoll, eventfd(0, 0));
	watch(epoll, timerfd_create(CLOCK_MONOTONIC, 0));
	truth(me->row,
	      "'kind':'epoll','fd':%d,'fd_count':4,'listening':1,'connected':1,"
	      "'listen_address':['127.0.0.1:%d','tcp 127.0.0.1:%d'],'timed':%s",
	      epoll, ntohs(address.sin_port), ntohs(address.sin_port),
	      me->number ? "true" : "false");
	while (me->number == 2)
		syscall(441 /* epoll_pwait2 */, epoll, &event, 1, &timeout, NULL, 8);
	for (;;)
		epoll_wait(epoll, &event, 1, me->number ? LONG_SECONDS * 1000 : -1);
}

static NOINLINE void in_epoll_timed(struct actor *me)
{
	me->number = 1;
	in_epoll(me);
}

static NOINLINE void in_epoll_pwait2(struct actor *me)
{
	me->number = 2;
	in_epoll(me);
}

static void make_polls(const char *unused)
{
	(void)unused;
	start(in_poll, "poll", NULL, NULL);
	start(in_ppoll, "ppoll", NULL, NULL);
	start(in_select, "select", NULL, NULL);
	start(in_pselect, "pselect", NULL, NULL);
	start(in_epoll, "epoll", NULL, NULL);
	start(in_epoll_timed, "epoll.timed", NULL, NULL);
	start(in_epoll_pwait2, "epoll.pwait2", NULL, NULL);
}

/* ---- children ---- */

static void child_rests(void *unused)
{
	(void)unused;
	rest("child");
}

static void child_stops(void *unused)
{
	(void)unused;
	truth("child.stopped", "'kind':'stopped'");
	raise(SIGSTOP);
}

static NOINLINE void wait_for_child(struct actor *me)
{
	truth(me->row, "'kind':'child','children':[%d]", number_of(me));
	for (;;)
		(void)!waitpid(number_of(me), NULL, 0);
}

static NOINLINE void waitid_for_child(struct actor *me)
{
	siginfo_t info;

	truth(me->row, "'kind':'child','children':[%d]", number_of(me));
	for (;;)
		(void)!waitid(P_PID, (id_t)number_of(me), &info, WEXITED);
}

static NOINLINE void waitid_for_pidfd(struct actor *me)
{
	int pidfd = (int)syscall(434 /* pidfd_open */, number_of(me), 0);
	siginfo_t info;

	truth(me->row, "'kind':'child','children':[%d]", number_of(me));
	for (;;)
		(void)!waitid((idtype_t)PIDFD, (id_t)pidfd, &info, WEXITED);
}

static NOINLINE void wait_for_any(struct actor *me)
{
	const pid_t *children = me->object;

	truth(me->row, "'kind':'child','children':[%d,%d]", children[0], children[1]);
	for (;;)
		(void)!waitpid(-1, NULL, 0);
}

static NOINLINE void wait_for_group(struct actor *me)
{
	const pid_t *children = me->object;

	truth(me->row, "'kind':'child','pgrp':%d,'children':[%d,%d],'call':'wait4'", children[0],
	      children[0], children[1]);
	for (;;)
		(void)!waitpid(-children[0], NULL, 0);
}

static NOINLINE void waitid_for_group(struct actor *me)
{
	const pid_t *children = me->object;
	siginfo_t info;

	truth(me->row, "'kind':'child','pgrp':%d,'children':[%d,%d],'call':'waitid'", children[0],
	      children[0], children[1]);
	for (;;)
		(void)!waitid(P_PGID, (id_t)children[0], &info, WEXITED);
}

static NOINLINE void wait_for_own_group(struct actor *me)
{
	truth(me->row, "'kind':'child','pgrp':%d,'children':[%d],'call':'wait4'", getpgrp(),
	      number_of(me));
	for (;;)
		(void)!waitpid(0, NULL, 0);
}

/* Two children are a group of their own, and a third one is in ours. */
static void make_groups(const char *unused)
{
	static pid_t children[2];
	pid_t other = start_child(child_rests, NULL);

	(void)unused;
	for (int i = 0; i < 2; i++) {
		children[i] = start_child(child_rests, NULL);
		if (setpgid(children[i], children[0]) != 0)
			victim_cannot("setpgid");
	}
	start(wait_for_group, "child.group", children, NULL);
	start(waitid_for_group, "child.group-waitid", children, NULL);
	start(wait_for_own_group, "child.own-group", with_number(other), NULL);
}

static void make_children(const char *unused)
{
	static pid_t children[2];

	(void)unused;
	children[0] = start_child(child_rests, NULL);
	children[1] = start_child(child_stops, NULL);
	start(wait_for_child, "child.wait4", with_number(children[0]), NULL);
	start(wait_for_child, "child.wait4-stopped", with_number(children[1]), NULL);
	start(waitid_for_child, "child.waitid", with_number(children[0]), NULL);
	start(waitid_for_pidfd, "child.pidfd", with_number(children[0]), NULL);
	start(wait_for_any, "child.any", children, NULL);
}

/* The child runs in its parent's memory until it execs or exits, and the parent's thread waits. */
static NOINLINE void in_vfork(struct actor *me)
{
	truth(me->row, "'kind':'vfork'");
	if (vfork() == 0) {
		syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		for (;;)
			syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
	}
}

static void make_vfork(const char *unused)
{
	(void)unused;
	start(in_vfork, "vfork", NULL, NULL);
}

/* ---- sleeps and signals ---- */

static const char *const sleeps[] = { "nanosleep", "usleep",  "sleep",     "monotonic",
				      "realtime",  "no-poll", "no-select", NULL };

static NOINLINE void sleep_in(struct actor *me)
{
	struct timespec asked = { .tv_sec = LONG_SECONDS }, until;
	struct timeval timeout = { .tv_sec = LONG_SECONDS };
	char row[32];

	snprintf(row, sizeof(row), "sleep.%s", me->row);
	truth(row, "'kind':'sleep','timed':true,'most_s':%d", LONG_SECONDS);
	if (strcmp(me->row, "nanosleep") == 0)
		nanosleep(&asked, NULL);
	else if (strcmp(me->row, "usleep") == 0)
		usleep(LONG_SECONDS * 1000000U);
	else if (strcmp(me->row, "sleep") == 0)
		sleep(LONG_SECONDS);
	else if (strcmp(me->row, "no-poll") == 0)
		poll(NULL, 0, LONG_SECONDS * 1000);
	else if (strcmp(me->row, "no-select") == 0)
		select(0, NULL, NULL, NULL, &timeout);
	clock_gettime(strcmp(me->row, "realtime") ? CLOCK_MONOTONIC : CLOCK_REALTIME, &until);
	until.tv_sec += LONG_SECONDS;
	clock_nanosleep(strcmp(me->row, "realtime") ? CLOCK_MONOTONIC : CLOCK_REALTIME,
			TIMER_ABSTIME, &until, NULL);
}

static void make_sleeps(const char *unused)
{
	(void)unused;
	for (int i = 0; sleeps[i]; i++)
		start(sleep_in, sleeps[i], NULL, NULL);
}

static NOINLINE void wait_for_signal(struct actor *me)
{
	struct timespec timeout = { .tv_sec = LONG_SECONDS };
	sigset_t set;
	int got;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGRTMIN + 3);
	truth(me->row, "'kind':'signal','signals':[%d,%d],'timed':%s", SIGUSR1, SIGRTMIN + 3,
	      me->number ? "true" : "false");
	while (me->number)
		sigtimedwait(&set, NULL, &timeout);
	for (;;)
		sigwait(&set, &got);
}

static NOINLINE void wait_for_signal_timed(struct actor *me)
{
	me->number = 1;
	wait_for_signal(me);
}

static NOINLINE void suspend(struct actor *me)
{
	sigset_t set;

	sigemptyset(&set);
	truth(me->row, "'kind':'signal'");
	for (;;)
		sigsuspend(&set);
}

static NOINLINE void in_pause(struct actor *me)
{
	(void)me;
	rest("signal.pause");
}

/* Of nothing, for ever. */
static NOINLINE void poll_nothing(struct actor *me)
{
	truth(me->row, "'kind':'signal'");
	for (;;)
		poll(NULL, 0, -1);
}

static void make_signals(const char *unused)
{
	(void)unused;
	start(poll_nothing, "signal.poll", NULL, NULL);
	start(wait_for_signal, "signal.sigwait", NULL, NULL);
	start(wait_for_signal_timed, "signal.sigtimedwait", NULL, NULL);
	start(suspend, "signal.sigsuspend", NULL, NULL);
	start(in_pause, "", NULL, NULL);
}

/* ---- System V ---- */

struct message {
	long type;
	char text[1024];
};

static NOINLINE void receive(struct actor *me)
{
	struct message message;

	truth(me->row, "'kind':'msgqueue','id':%d,'mode':'read','msgtype':%ld%s", number_of(me),
	      me->number, me->other ? ",'variant':'except'" : "");
	for (;;)
		msgrcv(number_of(me), &message, sizeof(message.text), me->number,
		       me->other ? MSG_EXCEPT : 0);
}

static NOINLINE void receive_seven(struct actor *me)
{
	me->number = 7;
	receive(me);
}

static NOINLINE void receive_up_to_seven(struct actor *me)
{
	me->number = -7;
	receive(me);
}

static NOINLINE void receive_others(struct actor *me)
{
	me->number = 7;
	me->other = me;
	receive(me);
}

static NOINLINE void send_to_full(struct actor *me)
{
	struct message message = { .type = 12 };

	while (msgsnd(number_of(me), &message, sizeof(message.text), IPC_NOWAIT) == 0)
		;
	truth(me->row, "'kind':'msgqueue','id':%d,'mode':'write','msgtype':12", number_of(me));
	for (;;)
		msgsnd(number_of(me), &message, sizeof(message.text), 0);
}

static NOINLINE void decrement(struct actor *me)
{
	struct sembuf operation = { .sem_num = 1, .sem_op = -1 };

	truth(me->row, "'kind':'sysv_semaphore','id':%d,'semaphore':1,'needed':1", number_of(me));
	for (;;)
		semop(number_of(me), &operation, 1);
}

static NOINLINE void decrement_timed(struct actor *me)
{
	struct sembuf operations[2] = { { .sem_num = 0, .sem_op = 0 },
					{ .sem_num = 1, .sem_op = -3 } };
	struct timespec timeout = { .tv_sec = LONG_SECONDS };

	truth(me->row, "'kind':'sysv_semaphore','id':%d,'semaphore':0,'timed':true,'most_s':%d",
	      number_of(me), LONG_SECONDS);
	for (;;)
		semtimedop(number_of(me), operations, 2, &timeout);
}

/* Queues outlive processes: a child in a session of its own removes them when we end. */
static void remove_at_end(int queue, int full, int set)
{
	int ends[2];
	char byte;

	if (pipe(ends) != 0)
		victim_cannot("pipe");
	if (fork() == 0) {
		setsid();
		close(ends[1]);
		close(STDOUT_FILENO);
		if (read(ends[0], &byte, 1) == 0) {
			msgctl(queue, IPC_RMID, NULL);
			msgctl(full, IPC_RMID, NULL);
			semctl(set, 0, IPC_RMID);
		}
		_exit(0);
	}
	close(ends[0]); /* its writing end closes with this process */
}

static void make_sysv(const char *unused)
{
	int queue = msgget(IPC_PRIVATE, 0600), full = msgget(IPC_PRIVATE, 0600);
	int set = semget(IPC_PRIVATE, 2, 0600);

	(void)unused;
	if (queue < 0 || full < 0 || set < 0)
		victim_cannot("msgget");
	remove_at_end(queue, full, set);
	start(receive, "sysv.msgrcv", with_number(queue), NULL);
	start(receive_seven, "sysv.msgrcv-type", with_number(queue), NULL);
	start(receive_up_to_seven, "sysv.msgrcv-up-to", with_number(queue), NULL);
	start(receive_others, "sysv.msgrcv-except", with_number(queue), NULL);
	start(send_to_full, "sysv.msgsnd", with_number(full), NULL);
	start(decrement, "sysv.semop", with_number(set), NULL);
	start(decrement_timed, "sysv.semtimedop", with_number(set), NULL);
}

/* Each namespace begins to count its queues anew. */
static void wait_elsewhere(void *argument)
{
	struct message message = { .type = 1 };
	struct sembuf operation = { .sem_num = 2, .sem_op = -1 };
	int messages = *(int *)argument, queue, set;

	if (unshare(CLONE_NEWIPC) != 0)
		victim_cannot("unshare");
	queue = msgget(IPC_PRIVATE, 0600);
	set = semget(IPC_PRIVATE, 3, 0600);
	for (int i = 0; i < messages; i++)
		msgsnd(queue, &message, 1, 0);
	if (messages == 0) {
		truth("sysv.elsewhere-set",
		      "'kind':'sysv_semaphore','id':%d,'semaphore':2,'needed':1", set);
		for (;;)
			semop(set, &operation, 1);
	}
	truth("sysv.elsewhere", "'kind':'msgqueue','id':%d,'msgtype':7,'value':%d", queue,
	      messages);
	for (;;)
		msgrcv(queue, &message, sizeof(message.text), 7, 0);
}

static void make_namespaces(const char *unused)
{
	(void)unused;
	for (int messages = 0; messages < 4; messages++)
		start_child(wait_elsewhere, &messages);
}

/* ---- others ---- */

static NOINLINE void touch_page(struct actor *me)
{
	truth(me->row, "'kind':'page_fault'");
	*(volatile char *)me->object = 1;
	abort();
}

static void make_fault(const char *unused)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	unsigned long api[3] = { 0xaa, 0, 0 };                    /* struct uffdio_api */
	unsigned long range[4] = { 0, 4096, 1 /* MISSING */, 0 }; /* struct uffdio_register */
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)unused;
	range[0] = (unsigned long)page;
	if (fd < 0 || ioctl(fd, 0xc018aa3f /* UFFDIO_API */, api) != 0 ||
	    ioctl(fd, 0xc020aa00 /* UFFDIO_REGISTER */, range) != 0)
		victim_cannot("userfaultfd");
	start(touch_page, "page_fault", page, NULL);
}

static NOINLINE void in_uring(struct actor *me)
{
	char parameters[120] = "";
	int fd = (int)syscall(425 /* io_uring_setup */, 4, parameters);

	if (fd < 0) {
		me->failed = true;
		return;
	}
	truth(me->row, "'kind':'io_uring','fd':%d", fd);
	for (;;)
		syscall(426 /* io_uring_enter */, fd, 0, 1, 1 /* GETEVENTS */, NULL, 0);
}

static NOINLINE void in_aio(struct actor *me)
{
	unsigned long context = 0;
	char event[32];

	if (syscall(SYS_io_setup, 4, &context) != 0) {
		me->failed = true;
		return;
	}
	truth(me->row, "'kind':'aio'");
	for (;;)
		syscall(SYS_io_getevents, context, 1, 1, event, NULL);
}

static void make_rings(const char *unused)
{
	(void)unused;
	start(in_uring, "io_uring", NULL, NULL);
	start(in_aio, "aio", NULL, NULL);
}

/* A word of which nobody but its program knows what it is. */
static _Atomic int raw_word[32];

static NOINLINE void in_futex(struct actor *me)
{
	truth(me->row,
	      "'kind':['futex','atomic'],'address':'%p','owner':0,'confidence':['guess','likely']",
	      me->object);
	for (;;)
		syscall(SYS_futex, me->object, 0x80 /* PRIVATE */, 0, NULL, NULL, 0);
}

/* Around it stands what a mutex of thread 1 would look like. */
static NOINLINE void in_false_mutex(struct actor *me)
{
	raw_word[16] = 2;
	raw_word[18] = 1;
	truth(me->row, "'owner':0,'confidence':['guess','likely']");
	for (;;)
		syscall(SYS_futex, &raw_word[16], 0x80 /* PRIVATE */, 2, NULL, NULL, 0);
}

static void make_raw(const char *unused)
{
	(void)unused;
	start(in_futex, "futex.raw", &raw_word[0], NULL);
	start(in_false_mutex, "futex.false-mutex", NULL, NULL);
}

int main(int argc, char **argv)
{
	static const struct truth_mode modes[] = {
		{ "descriptors", make_descriptors },
		{ "polls", make_polls },
		{ "children", make_children },
		{ "groups", make_groups },
		{ "vfork", make_vfork },
		{ "sleeps", make_sleeps },
		{ "signals", make_signals },
		{ "sysv", make_sysv },
		{ "namespaces", make_namespaces },
		{ "fault", make_fault },
		{ "rings", make_rings },
		{ "raw", make_raw },
		{ NULL, NULL },
	};

	(void)argc;
	return truth_main(modes, argv);
}
