/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Calls other than futex(2): what a thread waits for in them, of captures made by hand. */
#include "wait_bed.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

/* Numbers of x86-64. */
enum {
	NR_READ = 0,
	NR_WRITE = 1,
	NR_OPEN = 2,
	NR_POLL = 7,
	NR_SELECT = 23,
	NR_NANOSLEEP = 35,
	NR_CONNECT = 42,
	NR_ACCEPT = 43,
	NR_RECVFROM = 45,
	NR_VFORK = 58,
	NR_WAIT4 = 61,
	NR_MSGRCV = 70,
	NR_FCNTL = 72,
	NR_FLOCK = 73,
	NR_FSYNC = 74,
	NR_RT_SIGTIMEDWAIT = 128,
	NR_RT_SIGSUSPEND = 130,
	NR_FUTEX = 202,
	NR_RESTART = 219,
	NR_SEMTIMEDOP = 220,
	NR_CLOCK_NANOSLEEP = 230,
	NR_EPOLL_WAIT = 232,
	NR_WAITID = 247,
	NR_EPOLL_PWAIT2 = 441,
};

enum { ESTABLISHED = 1, SYN_SENT = 2, LISTEN = 10 };

#define SECOND INT64_C(1000000000)

static const struct snap_wait *only(struct bed *bed, pid_t tid, enum snap_wait_kind kind)
{
	const struct snap_wait *wait;

	if (!bed->found)
		bed_find(bed);
	wait = bed_wait(bed, tid);
	assert_non_null(wait);
	assert_string_equal(snap_wait_kind_word(wait->kind), snap_wait_kind_word(kind));
	return wait;
}

/* ---- times ---- */

static void sleeps_know_their_end(void **state)
{
	struct timespec until = { .tv_sec = 1003 }, asked = { .tv_sec = 60, .tv_nsec = 5 };
	struct timespec late = { .tv_sec = 10 }, never = { .tv_sec = INT64_MAX };
	struct timespec odd = { .tv_nsec = SECOND };
	struct snap_process *process;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 1, 0);
	bed_thread(process, 1, NR_CLOCK_NANOSLEEP, CLOCK_MONOTONIC, TIMER_ABSTIME,
		   bed_bytes(&bed, process, &until, sizeof(until)), 0);
	bed_thread(process, 2, NR_NANOSLEEP, bed_bytes(&bed, process, &asked, sizeof(asked)), 0, 0,
		   0)
		->blocked_ns = 20 * SECOND;
	bed_thread(process, 3, NR_CLOCK_NANOSLEEP, CLOCK_MONOTONIC, TIMER_ABSTIME,
		   bed_bytes(&bed, process, &late, sizeof(late)), 0);
	bed_thread(process, 4, NR_CLOCK_NANOSLEEP, CLOCK_MONOTONIC, 0,
		   bed_bytes(&bed, process, &never, sizeof(never)), 0);
	bed_thread(process, 5, NR_CLOCK_NANOSLEEP, CLOCK_MONOTONIC, 0, 0xdead000, 0);
	bed_thread(process, 6, NR_CLOCK_NANOSLEEP, CLOCK_MONOTONIC, 0,
		   bed_bytes(&bed, process, &odd, sizeof(odd)), 0);
	bed_thread(process, 7, NR_CLOCK_NANOSLEEP, 3 /* CPU time */, TIMER_ABSTIME,
		   bed_bytes(&bed, process, &until, sizeof(until)), 0);
	assert_int_equal(only(&bed, 1, SNAP_WAIT_SLEEP)->remaining_ns, 3 * SECOND);
	assert_true(bed_wait(&bed, 1)->timed);
	assert_string_equal(bed_wait(&bed, 1)->call, "clock_nanosleep");
	assert_int_equal(only(&bed, 2, SNAP_WAIT_SLEEP)->remaining_ns, 40 * SECOND + 5);
	assert_int_equal(only(&bed, 3, SNAP_WAIT_SLEEP)->remaining_ns, 0);
	assert_false(only(&bed, 4, SNAP_WAIT_SLEEP)->timed);
	for (pid_t tid = 5; tid <= 7; tid++) {
		assert_true(only(&bed, tid, SNAP_WAIT_SLEEP)->timed);
		assert_int_equal(bed_wait(&bed, tid)->remaining_ns, -1);
	}
	bed_deinit(&bed);
}

static void restarted_calls_are_told_by_the_kernel(void **state)
{
	struct timespec asked = { .tv_sec = 60 };
	struct pollfd polled = { .fd = 3, .events = POLLIN };
	struct snap_process *process;
	struct bed bed;
	uint64_t time;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 1, 0);
	time = bed_bytes(&bed, process, &asked, sizeof(asked));
	bed_thread(process, 1, NR_RESTART, CLOCK_MONOTONIC, 0, time, 0)->wchan =
		"hrtimer_nanosleep";
	bed_thread(process, 2, NR_RESTART, time, 0, 0, 0)->wchan = "hrtimer_nanosleep";
	bed_thread(process, 3, NR_RESTART, bed_bytes(&bed, process, &polled, sizeof(polled)), 1,
		   5000, 0)
		->wchan = "poll_schedule_timeout.constprop.0";
	bed_thread(process, 4, NR_RESTART, time, 0, 0, 0);
	assert_string_equal(only(&bed, 1, SNAP_WAIT_SLEEP)->call, "clock_nanosleep");
	assert_string_equal(only(&bed, 2, SNAP_WAIT_SLEEP)->call, "nanosleep");
	assert_string_equal(only(&bed, 3, SNAP_WAIT_POLL)->call, "poll");
	assert_int_equal(bed_wait(&bed, 3)->remaining_ns, 5 * SECOND);
	assert_string_equal(only(&bed, 4, SNAP_WAIT_SYSCALL)->call, "restart_syscall");
	bed_deinit(&bed);
}

/* What an argument names may lie on another thread's stack, of many that there are. */
static void stacks_of_others_are_read(void **state)
{
	static const struct timespec times[3] = { { .tv_sec = 1 },
						  { .tv_sec = 2 },
						  { .tv_sec = 3 } };
	struct snap_process *process;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 1, 0);
	for (pid_t i = 0; i < 3; i++) {
		struct snap_thread *thread =
			bed_thread(process, 1 + i, NR_NANOSLEEP,
				   0x70000 + 0x1000 * ((uint64_t)(i + 1) % 3), 0, 0, 0);

		/* Not in the order of their threads. */
		thread->stack_address = 0x70000 + 0x1000 * (uint64_t)(2 - i);
		thread->stack = (const uint8_t *)&times[2 - i];
		thread->stack_size = sizeof(times[0]);
	}
	bed_thread(process, 4, NR_NANOSLEEP, 0x70000 + sizeof(times[0]), 0, 0, 0);
	bed_thread(process, 5, NR_NANOSLEEP, 0x6ffff, 0, 0, 0);
	assert_int_equal(only(&bed, 1, SNAP_WAIT_SLEEP)->remaining_ns, 2 * SECOND);
	assert_int_equal(only(&bed, 2, SNAP_WAIT_SLEEP)->remaining_ns, 3 * SECOND);
	assert_int_equal(only(&bed, 3, SNAP_WAIT_SLEEP)->remaining_ns, 1 * SECOND);
	assert_int_equal(only(&bed, 4, SNAP_WAIT_SLEEP)->remaining_ns, -1);
	assert_int_equal(only(&bed, 5, SNAP_WAIT_SLEEP)->remaining_ns, -1);
	bed_deinit(&bed);
}

/* ---- descriptors ---- */

static void pipes_know_the_other_end(void **state)
{
	struct snap_process *reader, *writer;
	const struct snap_wait *wait;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	reader = bed_process(&bed, 10, 0);
	writer = bed_process(&bed, 20, 10);
	bed_thread(reader, 10, NR_READ, 3, 0, 0, 0);
	bed_thread(reader, 11, NR_WRITE, 4, 0, 0, 0)->call_confirmed = false;
	bed_thread(writer, 20, NR_CLOCK_NANOSLEEP, 1, 0, 0, 0);
	bed_descriptor(reader, 3, SNAP_DESCRIPTOR_PIPE, "pipe:[7]", 7);
	bed_descriptor(reader, 4, SNAP_DESCRIPTOR_PIPE, "pipe:[8]", 8);
	bed_end(&bed, 10, SNAP_DESCRIPTOR_PIPE, 7, true, false);
	bed_end(&bed, 20, SNAP_DESCRIPTOR_PIPE, 7, false, true);
	bed_end(&bed, 10, SNAP_DESCRIPTOR_PIPE, 8, false, true);
	bed_end(&bed, 99, SNAP_DESCRIPTOR_PIPE, 8, true, false);
	bed.facts.outsiders[bed.facts.outsider_count++] = (struct snap_outsider){ 99, "cat", 'T' };
	wait = only(&bed, 10, SNAP_WAIT_PIPE);
	assert_int_equal(wait->mode, SNAP_WAIT_READ);
	assert_int_equal(wait->fd, 3);
	assert_int_equal(wait->confidence, SNAP_WAIT_IS_CERTAIN);
	assert_int_equal(wait->peer_count, 1);
	assert_int_equal(wait->peers[0].pid, 20);
	assert_ptr_equal(wait->peers[0].wait, bed_wait(&bed, 20));
	assert_false(wait->peers_unknown);
	wait = only(&bed, 11, SNAP_WAIT_PIPE);
	assert_int_equal(wait->confidence, SNAP_WAIT_IS_LIKELY);
	assert_int_equal(wait->peers[0].pid, 99);
	assert_string_equal(wait->peers[0].name, "cat");
	assert_int_equal(wait->peers[0].state, 'T');
	assert_true(wait->peers[0].outside);
	assert_true(wait->peers_unknown);
	bed_deinit(&bed);
}

/* A file may be called like a pipe: what it is, the capture says, and not the text. */
static void links_are_texts(void **state)
{
	struct snap_process *process;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 1, 0);
	bed_thread(process, 1, NR_READ, 3, 0, 0, 0);
	bed_thread(process, 2, NR_READ, 4, 0, 0, 0);
	bed_thread(process, 3, NR_READ, 5, 0, 0, 0);
	bed_descriptor(process, 3, SNAP_DESCRIPTOR_FILE, "pipe:[1]", 5);
	bed_descriptor(process, 4, (enum snap_descriptor_kind)4711, "socket:[1]\n\x1b[31m", 0);
	bed_end(&bed, 1, SNAP_DESCRIPTOR_PIPE, 1, true, true);
	assert_int_equal(only(&bed, 1, SNAP_WAIT_FILE)->peer_count, 0);
	assert_string_equal(bed_wait(&bed, 1)->path, "pipe:[1]");
	assert_string_equal(only(&bed, 2, SNAP_WAIT_SYSCALL)->path, "socket:[1]\n\x1b[31m");
	assert_int_equal(only(&bed, 3, SNAP_WAIT_SYSCALL)->fd, 5);
	bed_deinit(&bed);
}

static void who_runs_or_ends_waits_for_nothing(void **state)
{
	static const char states[] = "RZX";
	struct snap_process *process;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 1, 0);
	for (pid_t i = 0; states[i]; i++)
		bed_thread(process, 1 + i, NR_READ, 3, 0, 0, 0)->state = states[i];
	bed_find(&bed);
	for (pid_t i = 0; states[i]; i++)
		assert_null(bed_wait(&bed, 1 + i));
	bed_deinit(&bed);
}

/* ---- sockets ---- */

static struct snap_socket *socket_of(struct bed *bed, uint64_t inode,
				     enum snap_socket_family family, uint8_t state)
{
	struct snap_socket *socket = &bed->facts.sockets[bed->facts.socket_count++];

	*socket = (struct snap_socket){ .namespace = 1,
					.inode = inode,
					.family = family,
					.state = state,
					.type = SOCK_STREAM,
					.queues_known = true };
	return socket;
}

static void set_address(struct snap_socket_address *address, uint8_t last, uint16_t port)
{
	const uint8_t bytes[4] = { 10, 0, 0, last };

	memcpy(address->bytes, bytes, sizeof(bytes));
	address->port = port;
}

static void connections_know_their_peer(void **state)
{
	struct snap_process *client, *server;
	struct snap_socket *near, *far;
	const struct snap_wait *wait;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	client = bed_process(&bed, 10, 0);
	server = bed_process(&bed, 20, 10);
	bed_thread(client, 10, NR_RECVFROM, 3, 0, 0, 0);
	bed_thread(server, 20, NR_ACCEPT, 4, 0, 0, 0);
	bed_descriptor(client, 3, SNAP_DESCRIPTOR_SOCKET, "socket:[100]", 100);
	bed_descriptor(server, 4, SNAP_DESCRIPTOR_SOCKET, "socket:[300]", 300);
	near = socket_of(&bed, 100, SNAP_SOCKET_TCP4, ESTABLISHED);
	set_address(&near->local, 4, 51234);
	set_address(&near->remote, 9, 5432);
	/* The other end is a socket of IPv6 that was connected by IPv4. */
	far = socket_of(&bed, 200, SNAP_SOCKET_TCP6, ESTABLISHED);
	far->receive_queue = 77;
	memcpy(far->local.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x09", 16);
	memcpy(far->remote.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x04", 16);
	far->local.port = 5432;
	far->remote.port = 51234;
	far = socket_of(&bed, 300, SNAP_SOCKET_TCP4, LISTEN);
	set_address(&far->local, 9, 5432);
	far->receive_queue = 2;
	far->send_queue = 7;
	bed_end(&bed, 10, SNAP_DESCRIPTOR_SOCKET, 100, true, true);
	bed_end(&bed, 20, SNAP_DESCRIPTOR_SOCKET, 200, true, true);
	wait = only(&bed, 10, SNAP_WAIT_TCP);
	assert_string_equal(wait->local, "10.0.0.4:51234");
	assert_string_equal(wait->remote, "10.0.0.9:5432");
	assert_string_equal(wait->socket_state, "established");
	assert_int_equal(wait->recv_queue, 0);
	assert_int_equal(wait->peer_recv_queue, 77);
	assert_int_equal(wait->peer_count, 1);
	assert_int_equal(wait->peers[0].pid, 20);
	wait = only(&bed, 20, SNAP_WAIT_TCP);
	assert_string_equal(wait->variant, "accept");
	assert_string_equal(wait->local, "10.0.0.9:5432");
	assert_int_equal(wait->backlog, 2);
	assert_int_equal(wait->backlog_max, 7);
	assert_int_equal(wait->recv_queue, -1);
	bed_deinit(&bed);
}

static void connects_name_the_listener(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "\0x\x1b[31m" };
	struct sockaddr_in6 six = { .sin6_family = AF_INET6,
				    .sin6_port = htons(80),
				    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	size_t size = offsetof(struct sockaddr_un, sun_path) + 7;
	struct snap_process *client, *server;
	struct snap_socket *listener;
	const struct snap_wait *wait;
	struct bed bed;
	uint64_t at;

	(void)state;
	bed_init(&bed);
	client = bed_process(&bed, 10, 0);
	server = bed_process(&bed, 20, 10);
	at = bed_bytes(&bed, client, &address, sizeof(address));
	bed_thread(client, 10, NR_CONNECT, 3, at, size, 0);
	bed_thread(client, 11, NR_CONNECT, 3, at, UINT64_MAX, 0);
	bed_thread(client, 14, NR_CONNECT, 3, at, sizeof(address), 0);
	bed_thread(client, 12, NR_CONNECT, 3, 0xdead000, size, 0);
	bed_thread(client, 13, NR_CONNECT, 9, bed_bytes(&bed, client, &six, sizeof(six)),
		   sizeof(six), 0);
	bed_thread(server, 20, NR_CLOCK_NANOSLEEP, 1, 0, 0, 0);
	bed_descriptor(client, 3, SNAP_DESCRIPTOR_SOCKET, "socket:[100]", 100);
	socket_of(&bed, 100, SNAP_SOCKET_UNIX, 7);
	listener = socket_of(&bed, 200, SNAP_SOCKET_UNIX, LISTEN);
	listener->name = "@x\x1b[31m";
	listener->receive_queue = 1;
	bed_end(&bed, 20, SNAP_DESCRIPTOR_SOCKET, 200, true, true);
	wait = only(&bed, 10, SNAP_WAIT_UNIX);
	assert_string_equal(wait->variant, "connect");
	assert_string_equal(wait->remote, "@x\x1b[31m");
	assert_int_equal(wait->backlog, 1);
	assert_int_equal(wait->backlog_max, 0);
	assert_int_equal(wait->peers[0].pid, 20);
	/* The whole array is another name than its beginning, and reads like it. */
	wait = only(&bed, 14, SNAP_WAIT_UNIX);
	assert_string_equal(wait->remote, "@x\x1b[31m");
	assert_int_equal(wait->peer_count, 0);
	assert_null(only(&bed, 11, SNAP_WAIT_UNIX)->remote);
	assert_null(only(&bed, 12, SNAP_WAIT_UNIX)->remote);
	assert_string_equal(only(&bed, 13, SNAP_WAIT_SOCKET)->remote, "[::1]:80");
	bed_deinit(&bed);
}

/* ---- several descriptors ---- */

static void polls_are_counted_by_class(void **state)
{
	struct pollfd polled[4] = { { .fd = 3 }, { .fd = -1 }, { .fd = 4 }, { .fd = 77 } };
	struct pollfd ignored = { .fd = -5 };
	struct snap_process *process;
	const struct snap_wait *wait;
	struct bed bed;
	uint64_t at;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 1, 0);
	at = bed_bytes(&bed, process, polled, sizeof(polled));
	bed_thread(process, 1, NR_POLL, at, 4, 2000, 0);
	bed_thread(process, 2, NR_POLL, 0, 0, UINT32_MAX, 0);
	/* The array ends, or is not there, or has a million elements. */
	bed_thread(process, 3, NR_POLL, at, 1000000, UINT32_MAX, 0);
	bed_thread(process, 4, NR_POLL, 0xdead000, 2, UINT32_MAX, 0);
	bed_thread(process, 5, NR_POLL, bed_bytes(&bed, process, &ignored, sizeof(ignored)), 1,
		   UINT32_MAX, 0);
	bed_thread(process, 6, NR_POLL, 0, 0, 5000, 0);
	bed_descriptor(process, 3, SNAP_DESCRIPTOR_EVENTFD, "anon_inode:[eventfd]", 0);
	bed_descriptor(process, 4, SNAP_DESCRIPTOR_TIMERFD, "anon_inode:[timerfd]", 0)
		->remaining_ns = SECOND;
	wait = only(&bed, 1, SNAP_WAIT_POLL);
	assert_int_equal(wait->fd_count, 4);
	assert_int_equal(wait->fds_count, 3);
	assert_int_equal(wait->fds[2], 77);
	assert_int_equal(wait->fd_kinds[0], SNAP_DESCRIPTOR_EVENTFD);
	assert_int_equal(wait->fd_kinds[1], SNAP_DESCRIPTOR_TIMERFD);
	assert_int_equal(wait->fd_kinds[2], SNAP_DESCRIPTOR_OTHER);
	assert_int_equal(wait->kinds_watched[SNAP_DESCRIPTOR_EVENTFD], 1);
	assert_int_equal(wait->kinds_watched[SNAP_DESCRIPTOR_OTHER], 1);
	assert_false(wait->fds_cut);
	assert_true(wait->timed);
	assert_int_equal(wait->remaining_ns, SECOND);
	assert_string_equal(only(&bed, 2, SNAP_WAIT_SIGNAL)->variant, "pause");
	assert_true(only(&bed, 6, SNAP_WAIT_SLEEP)->timed);
	wait = only(&bed, 3, SNAP_WAIT_POLL);
	assert_int_equal(wait->fd_count, 1000000);
	assert_true(wait->fds_cut);
	assert_true(only(&bed, 4, SNAP_WAIT_POLL)->fds_cut);
	only(&bed, 5, SNAP_WAIT_SIGNAL);
	bed_deinit(&bed);
}

static void selects_join_their_sets(void **state)
{
	uint64_t reads[16] = { 0x28 }, writes[16] = { 0x8, 1 };
	struct timeval timeout = { .tv_sec = 1, .tv_usec = 500000 };
	struct snap_process *process;
	const struct snap_wait *wait;
	struct snap_thread *thread;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 1, 0);
	thread = bed_thread(process, 1, NR_SELECT, 65,
			    bed_bytes(&bed, process, reads, sizeof(reads)),
			    bed_bytes(&bed, process, writes, sizeof(writes)), 0);
	thread->call.arguments[4] = bed_bytes(&bed, process, &timeout, sizeof(timeout));
	bed_thread(process, 2, NR_SELECT, 0, 0, 0, 0);
	bed_thread(process, 3, NR_SELECT, (uint64_t)-3, 1, 1, 1);
	bed_thread(process, 4, NR_SELECT, 1000000, 0xdead000, 0, 0);
	wait = only(&bed, 1, SNAP_WAIT_SELECT);
	assert_int_equal(wait->fd_count, 3);
	assert_int_equal(wait->fds[0], 3);
	assert_int_equal(wait->fds[2], 64);
	assert_int_equal(wait->remaining_ns, 3 * SECOND / 2);
	only(&bed, 2, SNAP_WAIT_SIGNAL);
	only(&bed, 3, SNAP_WAIT_SIGNAL);
	assert_true(only(&bed, 4, SNAP_WAIT_SELECT)->fds_cut);
	bed_deinit(&bed);
}

static void epolls_are_counted_once(void **state)
{
	int32_t watched[4] = { 3, 4, 6, 5 };
	struct timespec timeout = { .tv_sec = 2 };
	struct snap_descriptor *epoll;
	struct snap_process *process;
	struct snap_socket *listener;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 1, 0);
	bed_thread(process, 1, NR_EPOLL_WAIT, 5, 0, 1, UINT64_MAX)->blocked_ns = 7;
	bed_thread(process, 2, NR_EPOLL_WAIT, 5, 0, 1, 3000)->blocked_ns = 8;
	bed_thread(process, 3, NR_EPOLL_PWAIT2, 5, 0, 1,
		   bed_bytes(&bed, process, &timeout, sizeof(timeout)));
	bed_descriptor(process, 3, SNAP_DESCRIPTOR_SOCKET, "socket:[100]", 100);
	bed_descriptor(process, 4, SNAP_DESCRIPTOR_SOCKET, "socket:[200]", 200);
	epoll = bed_descriptor(process, 5, SNAP_DESCRIPTOR_EPOLL, "anon_inode:[eventpoll]", 0);
	epoll->watched = watched;
	epoll->watched_count = 4;
	epoll->watches = 1024;
	epoll->watches_cut = true;
	listener = socket_of(&bed, 100, SNAP_SOCKET_TCP4, LISTEN);
	set_address(&listener->local, 1, 80);
	socket_of(&bed, 200, SNAP_SOCKET_UNIX, ESTABLISHED);
	for (pid_t tid = 1; tid <= 3; tid++) {
		const struct snap_wait *wait = only(&bed, tid, SNAP_WAIT_EPOLL);

		assert_int_equal(wait->fd_count, 1024);
		assert_true(wait->fds_cut);
		assert_int_equal(wait->listening, 1);
		assert_int_equal(wait->connected, 1);
		assert_string_equal(wait->listen_address, "tcp 10.0.0.1:80");
		assert_int_equal(wait->kinds_watched[SNAP_DESCRIPTOR_EPOLL], 1);
		assert_int_equal(wait->timed, tid > 1);
	}
	assert_int_equal(bed_wait(&bed, 1)->since_ns, 7);
	assert_int_equal(bed_wait(&bed, 2)->remaining_ns, 3 * SECOND - 8);
	assert_int_equal(bed_wait(&bed, 3)->remaining_ns, 2 * SECOND);
	bed_deinit(&bed);
}

/* ---- children ---- */

static void children_are_found(void **state)
{
	struct snap_process *parent, *stopped, *sleeper;
	struct snap_descriptor *pidfd;
	const struct snap_wait *wait;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	parent = bed_process(&bed, 10, 0);
	stopped = bed_process(&bed, 20, 10);
	sleeper = bed_process(&bed, 30, 10);
	bed_thread(parent, 10, NR_WAIT4, 20, 0, 0, 0);
	bed_thread(parent, 11, NR_WAIT4, (uint32_t)-1, 0, 0, 0);
	bed_thread(parent, 12, NR_WAITID, 1, 30, 0, 0);
	bed_thread(parent, 13, NR_WAITID, 3, 5, 0, 0);
	bed_thread(parent, 14, NR_WAIT4, 4711, 0, 0, 0);
	bed_thread(parent, 15, NR_WAIT4, (uint32_t)-77, 0, 0, 0);
	bed_thread(parent, 16, NR_VFORK, 0, 0, 0, 0)->state = 'D';
	bed_thread(stopped, 20, NR_READ, 0, 0, 0, 0)->state = 'T';
	bed_thread(sleeper, 30, NR_CLOCK_NANOSLEEP, 1, 0, 0, 0);
	sleeper->start_ticks = 5;
	pidfd = bed_descriptor(parent, 5, SNAP_DESCRIPTOR_PIDFD, "anon_inode:[pidfd]", 0);
	pidfd->pid = 30;
	wait = only(&bed, 10, SNAP_WAIT_CHILD);
	assert_int_equal(wait->child, 20);
	assert_int_equal(wait->peers[0].state, 'T');
	assert_int_equal(wait->peers[0].wait->kind, SNAP_WAIT_STOPPED);
	wait = only(&bed, 11, SNAP_WAIT_CHILD);
	assert_int_equal(wait->child, 0);
	assert_int_equal(wait->peer_total, 2);
	assert_false(wait->peers_unknown);
	assert_int_equal(only(&bed, 12, SNAP_WAIT_CHILD)->child, 30);
	assert_int_equal(only(&bed, 13, SNAP_WAIT_CHILD)->peers[0].pid, 30);
	wait = only(&bed, 14, SNAP_WAIT_CHILD);
	assert_int_equal(wait->child, 4711);
	assert_int_equal(wait->peer_count, 0);
	/* A capture that has no groups. */
	wait = only(&bed, 15, SNAP_WAIT_CHILD);
	assert_int_equal(wait->child, -77);
	assert_int_equal(wait->peer_count, 0);
	assert_true(wait->peers_unknown);
	wait = only(&bed, 16, SNAP_WAIT_VFORK);
	assert_int_equal(wait->child, 30);
	assert_int_equal(wait->confidence, SNAP_WAIT_IS_LIKELY);
	bed_deinit(&bed);
}

static void has_children(struct bed *bed, pid_t tid, pid_t group, pid_t one, pid_t other)
{
	const struct snap_wait *wait = only(bed, tid, SNAP_WAIT_CHILD);

	assert_int_equal(wait->child, -group);
	assert_int_equal(wait->peer_count, (one != 0) + (other != 0));
	if (one)
		assert_int_equal(wait->peers[0].pid, one);
	if (other)
		assert_int_equal(wait->peers[1].pid, other);
}

static void groups_of_children_are_found(void **state)
{
	struct snap_process *processes[4];
	struct bed bed;

	(void)state;
	for (int foreign = 0; foreign < 2; foreign++) {
		bed_init(&bed);
		for (int i = 0; i < 4; i++) {
			processes[i] = bed_process(&bed, 10 * (i + 1), i ? 10 : 0);
			processes[i]->pgrp = i < 2 ? 10 : 30;
			processes[i]->in_host_namespace = !foreign;
			processes[i]->ns_pid = foreign ? i + 2 : processes[i]->pid;
			if (i)
				bed_thread(processes[i], processes[i]->pid, NR_CLOCK_NANOSLEEP, 1,
					   0, 0, 0);
		}
		bed_thread(processes[0], 10, NR_WAIT4, 0, 0, 0, 0);
		bed_thread(processes[0], 11, NR_WAIT4, (uint32_t)(foreign ? -4 : -30), 0, 0, 0);
		bed_thread(processes[0], 12, NR_WAITID, 2, foreign ? 4 : 30, 0, 0);
		bed_thread(processes[0], 13, NR_WAITID, 2, 0, 0, 0);
		bed_thread(processes[0], 14, NR_WAITID, 2, 4711, 0, 0);
		has_children(&bed, 10, 10, 20, 0);
		has_children(&bed, 11, 30, 30, 40);
		has_children(&bed, 12, 30, 30, 40);
		has_children(&bed, 13, 10, 20, 0);
		has_children(&bed, 14, 4711, 0, 0);
		assert_true(bed_wait(&bed, 14)->peers_unknown);
		assert_int_equal(bed_wait(&bed, 11)->peers_unknown, foreign);
		bed_deinit(&bed);
	}
}

/* In a namespace of its own the parent knows its child by another number. */
static void children_have_their_parents_numbers(void **state)
{
	struct snap_process *parent, *child;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	parent = bed_process(&bed, 10, 0);
	child = bed_process(&bed, 20, 10);
	parent->in_host_namespace = child->in_host_namespace = false;
	child->ns_pid = 2;
	bed_thread(parent, 10, NR_WAIT4, 2, 0, 0, 0);
	bed_thread(parent, 11, NR_WAIT4, 20, 0, 0, 0);
	bed_thread(child, 20, NR_CLOCK_NANOSLEEP, 1, 0, 0, 0);
	assert_int_equal(only(&bed, 10, SNAP_WAIT_CHILD)->child, 20);
	assert_int_equal(bed_wait(&bed, 10)->peer_count, 1);
	assert_int_equal(only(&bed, 11, SNAP_WAIT_CHILD)->peer_count, 0);
	bed_deinit(&bed);
}

/* ---- signals ---- */

static void signals_are_named(void **state)
{
	uint64_t wanted = 1ull << 9 | 1ull << 36, all_but = ~(1ull << 9);
	struct snap_process *process;
	uint64_t none = 0;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 1, 0);
	bed_thread(process, 1, NR_RT_SIGTIMEDWAIT,
		   bed_bytes(&bed, process, &wanted, sizeof(wanted)), 0, 0, 8);
	bed_thread(process, 2, NR_RT_SIGSUSPEND,
		   bed_bytes(&bed, process, &all_but, sizeof(all_but)), 8, 0, 0);
	bed_thread(process, 3, NR_RT_SIGSUSPEND, bed_bytes(&bed, process, &none, sizeof(none)), 8,
		   0, 0);
	assert_int_equal(only(&bed, 1, SNAP_WAIT_SIGNAL)->signals, wanted);
	assert_false(bed_wait(&bed, 1)->timed);
	assert_int_equal(only(&bed, 2, SNAP_WAIT_SIGNAL)->signals, 1ull << 9);
	assert_int_equal(only(&bed, 3, SNAP_WAIT_SIGNAL)->signals, 0);
	bed_deinit(&bed);
}

/* ---- locks of files ---- */

static struct snap_file_lock *lock_of(struct bed *bed, uint32_t number, pid_t pid, int kind)
{
	struct snap_file_lock *lock = &bed->facts.locks[bed->facts.lock_count++];

	*lock = (struct snap_file_lock){ .dev_major = 8,
					 .dev_minor = 1,
					 .inode = 55,
					 .end = UINT64_MAX,
					 .number = number,
					 .pid = pid,
					 .write = true };
	lock->kind = kind;
	return lock;
}

static void locked_file(struct snap_process *process, int32_t fd)
{
	struct snap_descriptor *file =
		bed_descriptor(process, fd, SNAP_DESCRIPTOR_FILE, "/var/lib/db/LOCK", 55);

	file->dev_major = 8;
	file->dev_minor = 1;
}

static void true_holders_are_named(void **state)
{
	struct flock range = { .l_type = F_WRLCK, .l_start = 120, .l_len = 10 };
	struct snap_process *waiter, *holder;
	struct snap_file_lock *lock;
	const struct snap_wait *wait;
	struct bed bed;
	uint64_t at;

	(void)state;
	bed_init(&bed);
	waiter = bed_process(&bed, 10, 0);
	holder = bed_process(&bed, 20, 10);
	at = bed_bytes(&bed, waiter, &range, sizeof(range));
	bed_thread(waiter, 10, NR_FLOCK, 3, LOCK_EX, 0, 0);
	bed_thread(waiter, 11, NR_FCNTL, 3, F_SETLKW, at, 0);
	bed_thread(waiter, 12, NR_FCNTL, 3, F_OFD_SETLKW, at, 0);
	bed_thread(waiter, 13, NR_FCNTL, 3, F_SETLK, at, 0);
	bed_thread(holder, 20, NR_CLOCK_NANOSLEEP, 1, 0, 0, 0);
	locked_file(waiter, 3);
	/* Who took the first one has ended; an heir has it. */
	lock_of(&bed, 1, 4711, SNAP_LOCK_FLOCK);
	lock_of(&bed, 1, 10, SNAP_LOCK_FLOCK)->waits = true;
	lock = lock_of(&bed, 2, 20, SNAP_LOCK_POSIX);
	lock->start = 100;
	lock->end = 200;
	lock = lock_of(&bed, 2, 10, SNAP_LOCK_POSIX);
	lock->start = 120;
	lock->end = 129;
	lock->waits = true;
	lock_of(&bed, 3, -1, SNAP_LOCK_OFD);
	lock = lock_of(&bed, 3, -1, SNAP_LOCK_OFD);
	lock->start = 120;
	lock->waits = true;
	lock_of(&bed, 9, 20, SNAP_LOCK_FLOCK)->is_holder = true;
	wait = only(&bed, 10, SNAP_WAIT_FILE_LOCK);
	assert_string_equal(wait->path, "/var/lib/db/LOCK");
	assert_int_equal(wait->holder_count, 1);
	assert_int_equal(wait->holders[0].pid, 20);
	assert_true(wait->has_owner);
	assert_int_equal(wait->owner.tid, 20);
	wait = only(&bed, 11, SNAP_WAIT_FILE_LOCK);
	assert_int_equal(wait->range_start, 120);
	assert_int_equal(wait->range_end, 129);
	assert_int_equal(wait->holders[0].pid, 20);
	wait = only(&bed, 12, SNAP_WAIT_FILE_LOCK);
	assert_int_equal(wait->holder_count, 0);
	assert_int_equal(wait->owner_lack, SNAP_OWNER_NOT_SEEN);
	only(&bed, 13, SNAP_WAIT_SYSCALL);
	bed_deinit(&bed);
}

/* ---- states ---- */

static void states_come_before_calls(void **state)
{
	struct snap_process *process;
	struct snap_thread *thread;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 1, 0);
	process->cgroup = "/batch";
	bed_descriptor(process, 3, SNAP_DESCRIPTOR_FILE, "/var/lib/db/journal", 5);
	bed_thread(process, 1, NR_READ, 3, 0, 0, 0)->state = 't';
	thread = bed_thread(process, 2, NR_FSYNC, 3, 0, 0, 0);
	thread->state = 'D';
	thread->wchan = "jbd2_log_wait_commit";
	thread = bed_thread(process, 3, -1, 0, 0, 0, 0);
	thread->wchan = "handle_userfault";
	thread = bed_thread(process, 4, -1, 0, 0, 0, 0);
	thread->state = 'D';
	thread->wchan = "folio_wait_bit_common";
	bed_thread(process, 5, -1, 0, 0, 0, 0);
	thread = bed_thread(process, 6, NR_OPEN,
			    bed_bytes(&bed, process, "/run/\nfake", sizeof("/run/\nfake")),
			    O_RDONLY, 0, 0);
	thread->wchan = "wait_for_partner";
	bed_thread(process, 7, NR_OPEN, bed_bytes(&bed, process, "xx", 2), O_RDONLY, 0, 0);
	only(&bed, 1, SNAP_WAIT_TRACED);
	assert_string_equal(only(&bed, 2, SNAP_WAIT_DISK)->path, "/var/lib/db/journal");
	assert_string_equal(bed_wait(&bed, 2)->wchan, "jbd2_log_wait_commit");
	only(&bed, 3, SNAP_WAIT_PAGE_FAULT);
	only(&bed, 4, SNAP_WAIT_PAGE_FAULT);
	assert_null(bed_wait(&bed, 5));
	assert_string_equal(only(&bed, 6, SNAP_WAIT_FIFO_OPEN)->path, "/run/\nfake");
	assert_int_equal(bed_wait(&bed, 6)->mode, SNAP_WAIT_READ);
	assert_null(only(&bed, 7, SNAP_WAIT_SYSCALL)->path);
	bed_deinit(&bed);
}

/* A stop's signal turns S into D, and changes nothing of what is waited for. */
static void who_waits_for_a_server_of_files(void **state)
{
	static const char states[] = "SD";
	struct snap_process *process;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 1, 0);
	bed_descriptor(process, 3, SNAP_DESCRIPTOR_FILE, "/mnt/f", 5);
	for (int i = 0; i < 2; i++) {
		struct snap_thread *thread = bed_thread(process, 1 + 2 * i, NR_READ, 3, 0, 0, 0);

		thread->state = states[i];
		thread->wchan = "request_wait_answer";
		thread = bed_thread(process, 2 + 2 * i, NR_OPEN,
				    bed_bytes(&bed, process, "/mnt/g", sizeof("/mnt/g")), O_RDONLY,
				    0, 0);
		thread->state = states[i];
		thread->wchan = "request_wait_answer";
	}
	for (int tid = 1; tid <= 4; tid++) {
		const struct snap_wait *wait = only(&bed, tid, SNAP_WAIT_DISK);

		assert_string_equal(wait->variant, "fuse");
		assert_string_equal(wait->path, tid % 2 ? "/mnt/f" : "/mnt/g");
	}
	bed_deinit(&bed);
}

static void frozen_ones_are_told_by_their_group(void **state)
{
	struct snap_process *process;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 1, 0);
	process->cgroup = "/batch";
	process->frozen = true;
	bed_thread(process, 1, NR_READ, 3, 0, 0, 0);
	assert_string_equal(only(&bed, 1, SNAP_WAIT_FROZEN)->cgroup, "/batch");
	bed_deinit(&bed);
}

static void queues_hint_at_who_used_them(void **state)
{
	struct snap_process *process;
	const struct snap_wait *wait;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	process = bed_process(&bed, 10, 0);
	bed_thread(process, 10, NR_MSGRCV, 6, 0, 0, 0);
	bed_thread(process, 11, NR_MSGRCV, 7, 0, 0, 0);
	bed.facts.queues[bed.facts.queue_count++] =
		(struct snap_ipc_queue){ .id = 6, .messages = 2, .bytes = 30, .last_sender = 99 };
	wait = only(&bed, 10, SNAP_WAIT_MSGQUEUE);
	assert_int_equal(wait->id, 6);
	assert_int_equal(wait->value, 2);
	assert_int_equal(wait->hint_count, 1);
	assert_int_equal(wait->hints[0].pid, 99);
	assert_int_equal(only(&bed, 11, SNAP_WAIT_MSGQUEUE)->hint_count, 0);
	bed_deinit(&bed);
}

/* The same id in two namespaces, and in one that is not known; and a set's semaphores. */
static void queues_are_those_of_their_namespace(void **state)
{
	static const uint16_t operations[][3] = { { 1, (uint16_t)-2, 0 }, { 4, 1, 0 } };
	static const struct snap_ipc_queue queues[] = {
		{ .namespace = 1, .id = 6, .messages = 1, .last_sender = 99 },
		{ .namespace = 2, .id = 6, .messages = 2, .last_sender = 98 },
		{ .is_semaphore = true, .namespace = 2, .id = 6, .number = 1, .last_sender = 97 },
		{ .is_semaphore = true, .namespace = 2, .id = 6, .number = 4, .last_sender = 96 },
	};
	static const uint64_t namespaces[] = { 1, 2, 3, 0 };
	static const pid_t hints[] = { 99, 98, 0, 0 };
	struct snap_process *process;
	const struct snap_wait *wait;
	struct bed bed;

	(void)state;
	bed_init(&bed);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(queues); i++)
		bed.facts.queues[bed.facts.queue_count++] = queues[i];
	for (int i = 0; i < 4; i++) {
		process = bed_process(&bed, 10 + 10 * i, 0);
		process->ipc_namespace = namespaces[i];
		bed_thread(process, 10 + 10 * i, NR_MSGRCV, 6, 0, 0, (uint64_t)-5);
	}
	for (int i = 0; i < 2; i++)
		bed_thread(
			&bed.capture.processes[1], 21 + i, NR_SEMTIMEDOP, 6,
			bed_bytes(&bed, &bed.capture.processes[1], operations, sizeof(operations)),
			(uint64_t)i + 1, 0);
	for (int i = 0; i < 4; i++) {
		wait = only(&bed, 10 + 10 * i, SNAP_WAIT_MSGQUEUE);
		assert_int_equal(wait->message_type, -5);
		assert_int_equal(wait->hint_count, hints[i] != 0);
		if (hints[i])
			assert_int_equal(wait->hints[0].pid, hints[i]);
		assert_int_equal(wait->value, hints[i] ? i + 1 : -1);
	}
	wait = only(&bed, 21, SNAP_WAIT_SYSV_SEMAPHORE);
	assert_int_equal(wait->semaphore, 1);
	assert_int_equal(wait->needed, 2);
	assert_int_equal(wait->hints[0].pid, 97);
	assert_int_equal(only(&bed, 22, SNAP_WAIT_SYSV_SEMAPHORE)->semaphore, -1);
	bed_deinit(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sleeps_know_their_end),
		cmocka_unit_test(restarted_calls_are_told_by_the_kernel),
		cmocka_unit_test(stacks_of_others_are_read),
		cmocka_unit_test(pipes_know_the_other_end),
		cmocka_unit_test(links_are_texts),
		cmocka_unit_test(who_runs_or_ends_waits_for_nothing),
		cmocka_unit_test(connections_know_their_peer),
		cmocka_unit_test(connects_name_the_listener),
		cmocka_unit_test(polls_are_counted_by_class),
		cmocka_unit_test(selects_join_their_sets),
		cmocka_unit_test(epolls_are_counted_once),
		cmocka_unit_test(children_are_found),
		cmocka_unit_test(groups_of_children_are_found),
		cmocka_unit_test(children_have_their_parents_numbers),
		cmocka_unit_test(signals_are_named),
		cmocka_unit_test(true_holders_are_named),
		cmocka_unit_test(states_come_before_calls),
		cmocka_unit_test(who_waits_for_a_server_of_files),
		cmocka_unit_test(frozen_ones_are_told_by_their_group),
		cmocka_unit_test(queues_hint_at_who_used_them),
		cmocka_unit_test(queues_are_those_of_their_namespace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
