/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits of every kind, and the line that each is to make; and a snapshot in which a thread waits for
 * each of them, with deadlocks, blockers and contended objects. Made anew for each test, in memory
 * that is never given back.
 */
#pragma once

#include "snapshots.h"

struct wait_row {
	struct snap_wait wait;
	bool all;
	const char *line, *object;
};

enum { MOST_WAIT_ROWS = 100 };

struct wait_rows {
	struct wait_row rows[MOST_WAIT_ROWS];
	struct snap_wait others[MOST_WAIT_ROWS]; /* what owners and peers wait for */
	struct snap_wait_party parties[MOST_WAIT_ROWS];
	size_t count, other_count, party_count;
};

/* The wait of a new row; `object` may be NULL. */
static inline struct snap_wait *add_row(struct wait_rows *rows, enum snap_wait_kind kind, bool all,
					const char *line, const char *object)
{
	struct wait_row *row = &rows->rows[rows->count++];

	assert_true(rows->count <= MOST_WAIT_ROWS);
	row->wait = snap_wait_init(kind, SNAP_WAIT_IS_CERTAIN);
	row->all = all;
	row->line = line;
	row->object = object;
	return &row->wait;
}

static inline struct snap_wait *add_other(struct wait_rows *rows, enum snap_wait_kind kind,
					  const char *call)
{
	struct snap_wait *wait = &rows->others[rows->other_count++];

	*wait = snap_wait_init(kind, SNAP_WAIT_IS_CERTAIN);
	wait->call = call;
	return wait;
}

static inline struct snap_wait_party party_of(pid_t tid, const char *name, char state,
					      const struct snap_wait *wait, const char *function)
{
	return (struct snap_wait_party){ .pid = tid,
					 .tid = tid,
					 .name = name,
					 .state = state,
					 .wait = wait,
					 .function = function };
}

static inline void set_owner(struct snap_wait *wait, struct snap_wait_party party)
{
	wait->has_owner = true;
	wait->owner = party;
}

static inline struct snap_wait_party *add_party(struct wait_rows *rows,
						struct snap_wait_party party)
{
	rows->parties[rows->party_count] = party;
	return &rows->parties[rows->party_count++];
}

static inline void set_peer(struct wait_rows *rows, struct snap_wait *wait,
			    struct snap_wait_party party)
{
	wait->peers = add_party(rows, party);
	wait->peer_count = wait->peer_total = 1;
}

static inline struct snap_wait *tcp_of(struct snap_wait *wait, enum snap_wait_mode mode,
				       const char *local, const char *remote)
{
	wait->mode = mode;
	wait->local = local;
	wait->remote = remote;
	return wait;
}

/* ---- locks ---- */

static inline void add_mutexes(struct wait_rows *rows)
{
	struct snap_wait *wait, *other;

	wait = add_row(rows, SNAP_WAIT_MUTEX, true,
		       "waits 3h12m for mutex ledger_lock, held by 11447 worker-3 (running in "
		       "charge_order)",
		       "mutex ledger_lock");
	wait->symbol = "ledger_lock";
	wait->address = 0x5555000;
	wait->since_ns = (3 * 3600 + 12 * 60 + 59) * 1000000000ll;
	set_owner(wait, party_of(11447, "worker-3", 'R', NULL, "charge_order"));

	wait = add_row(rows, SNAP_WAIT_MUTEX, false,
		       "waits for mutex 0x7f21c0 (heap), held by 11447 worker-3 (in recv on tcp "
		       "10.0.0.4:51234 -> 10.0.0.9:5432)",
		       "mutex 0x7f21c0 (heap)");
	wait->address = 0x7f21c0;
	wait->place = "heap";
	wait->since_ns = 5000000000;
	other = tcp_of(add_other(rows, SNAP_WAIT_TCP, "recvfrom"), SNAP_WAIT_READ, "10.0.0.4:51234",
		       "10.0.0.9:5432");
	set_owner(wait, party_of(11447, "worker-3", 'S', other, "charge_order"));

	wait = add_row(
		rows, SNAP_WAIT_MUTEX, false,
		"waits for robust mutex /dev/shm/ledger+0x40, held by 812 orderd (stopped by a "
		"signal)",
		"robust mutex /dev/shm/ledger+0x40");
	wait->variant = "robust";
	wait->module = "/dev/shm/ledger";
	wait->offset = 0x40;
	wait->address = 0x7f000040;
	set_owner(wait, party_of(812, "orderd", 'T', NULL, NULL));

	wait = add_row(
		rows, SNAP_WAIT_MUTEX, false,
		"waits for mutex 0x5581a0, whose owner, thread 29747, has exited: no thread can "
		"release it",
		NULL);
	wait->address = 0x5581a0;
	wait->owner.tid = 29747;
	wait->owner_lack = SNAP_OWNER_EXITED;

	wait = add_row(rows, SNAP_WAIT_MUTEX, false,
		       "waits for mutex log_lock, held by thread 29744 of the parent when this "
		       "process was forked: no thread can release it",
		       NULL);
	wait->symbol = "log_lock";
	wait->address = 0x5581c0;
	wait->owner.tid = 29744;
	wait->owner_lack = SNAP_OWNER_AT_FORK;

	wait = add_row(
		rows, SNAP_WAIT_MUTEX, true,
		"waits for mutex 0x5581a0 (owner unknown: musl keeps none; its address is on "
		"the stack of 4671 abba-b)",
		NULL);
	wait->address = 0x5581a0;
	wait->variant = "musl";
	wait->owner_lack = SNAP_OWNER_NOT_KEPT;
	wait->hints = add_party(rows, party_of(4671, "abba-b", 'S', NULL, NULL));
	wait->hint_count = 1;

	wait = add_row(rows, SNAP_WAIT_MUTEX, false,
		       "waits for mutex 0x5581a0 (owner unknown: musl keeps none)", NULL);
	*wait = rows->rows[rows->count - 2].wait;

	wait = add_row(rows, SNAP_WAIT_MUTEX, false,
		       "waits for PI mutex 0x10: PI deadlock, refused by the kernel",
		       "PI mutex 0x10");
	wait->address = 0x10;
	wait->variant = "pi";
	wait->owner_lack = SNAP_OWNER_REFUSED;

	wait = add_row(rows, SNAP_WAIT_MUTEX, false,
		       "waits for robust mutex 0x10, whose owner died", NULL);
	wait->address = 0x10;
	wait->variant = "robust";
	wait->owner_lack = SNAP_OWNER_DIED;

	wait = add_row(rows, SNAP_WAIT_MUTEX, false,
		       "waits for mutex 0x10 (being taken or released)", NULL);
	wait->address = 0x10;
	wait->owner_lack = SNAP_OWNER_CHANGING;

	wait = add_row(rows, SNAP_WAIT_MUTEX, false,
		       "waits for mutex 0x10 (owner unknown: address unreadable)", NULL);
	wait->address = 0x10;
	wait->owner_lack = SNAP_OWNER_UNREADABLE;
}

static inline void add_locks(struct wait_rows *rows)
{
	struct snap_wait *wait;

	wait = add_row(rows, SNAP_WAIT_RWLOCK, false,
		       "waits to write rwlock cache_lock, held by 2 readers", "rwlock cache_lock");
	wait->symbol = "cache_lock";
	wait->address = 0x1000;
	wait->mode = SNAP_WAIT_WRITE;
	wait->readers = 2;
	wait->owner_lack = SNAP_OWNER_NOT_KEPT;

	wait = add_row(rows, SNAP_WAIT_RWLOCK, false,
		       "waits to read rwlock cache_lock, held for writing by 4711 loader (running)",
		       "rwlock cache_lock");
	wait->symbol = "cache_lock";
	wait->address = 0x1000;
	wait->mode = SNAP_WAIT_READ;
	set_owner(wait, party_of(4711, "loader", 'R', NULL, NULL));

	wait = add_row(rows, SNAP_WAIT_CONDITION, true,
		       "waits on condition queue_filled (mutex queue_lock, free), for up to 3.2 s "
		       "more",
		       "condition queue_filled");
	wait->symbol = "queue_filled";
	wait->address = 0x1100;
	wait->mutex = 0x1140;
	wait->mutex_symbol = "queue_lock";
	wait->mutex_free = true;
	wait->owner_lack = SNAP_OWNER_NOT_KEPT;
	wait->timed = true;
	wait->remaining_ns = 3299999999;

	wait = add_row(rows, SNAP_WAIT_SEMAPHORE, false, "waits for semaphore slots (0, 2 waiters)",
		       "semaphore slots");
	wait->symbol = "slots";
	wait->address = 0x1200;
	wait->value = 0;
	wait->waiters = 2;
	wait->owner_lack = SNAP_OWNER_NOT_KEPT;

	wait = add_row(rows, SNAP_WAIT_BARRIER, false,
		       "waits at barrier 0x5581e0: 2 of 3 have come", "barrier 0x5581e0");
	wait->address = 0x5581e0;
	wait->arrived = 2;
	wait->needed = 3;

	wait = add_row(rows, SNAP_WAIT_THREAD, false,
		       "waits for thread 15113 idle to end (in pause)", "thread 15113");
	set_owner(wait,
		  party_of(15113, "idle", 'S', add_other(rows, SNAP_WAIT_SIGNAL, "pause"), NULL));
}

static inline void add_runtime_locks(struct wait_rows *rows)
{
	struct snap_wait *wait, *other;

	wait = add_row(
		rows, SNAP_WAIT_ONCE, false,
		"waits for once init_tables, run by 15111 once-runner (in read of /etc/hosts)",
		"once init_tables");
	wait->symbol = "init_tables";
	wait->address = 0x1300;
	other = add_other(rows, SNAP_WAIT_FILE, "read");
	other->mode = SNAP_WAIT_READ;
	other->path = "/etc/hosts";
	set_owner(wait, party_of(15111, "once-runner", 'S', other, NULL));

	wait = add_row(rows, SNAP_WAIT_STDIO, false,
		       "waits for stdout (FILE 0x5581c0), held by 21230 holder",
		       "FILE _IO_2_1_stdout_");
	wait->symbol = "_IO_2_1_stdout_";
	wait->address = 0x5581c0;
	set_owner(wait, party_of(21230, "holder", 'S', NULL, NULL));

	wait = add_row(rows, SNAP_WAIT_MALLOC, false,
		       "waits for itself: malloc in a signal handler that interrupted malloc",
		       "arena main_arena");
	wait->symbol = "main_arena";
	wait->address = 0x1400;
	wait->variant = "self";
	set_owner(wait, party_of(5, "self", 'S', NULL, NULL));

	wait = add_row(rows, SNAP_WAIT_GIL, false,
		       "waits for the GIL, held by 13301 gil-holder (in clock_nanosleep)", "GIL");
	set_owner(wait, party_of(13301, "gil-holder", 'S',
				 add_other(rows, SNAP_WAIT_SLEEP, "clock_nanosleep"), NULL));

	wait = add_row(rows, SNAP_WAIT_MONITOR, false,
		       "waits for monitor 0x7f27900568, held by 18288 mon-b (waits for a "
		       "monitor)",
		       "monitor 0x7f27900568");
	wait->address = 0x7f27900568;
	other = add_other(rows, SNAP_WAIT_MONITOR, "futex");
	other->address = 0x7f279c0015;
	set_owner(wait, party_of(18288, "mon-b", 'S', other, NULL));

	wait = add_row(rows, SNAP_WAIT_PARK, false, "waits to be unparked", "park");
	wait = add_row(rows, SNAP_WAIT_RUNTIME, false, "waits in its runtime", "runtime");
}

/* ---- sockets, pipes, files ---- */

static inline void add_sockets(struct wait_rows *rows)
{
	struct snap_wait *wait;

	wait = tcp_of(add_row(rows, SNAP_WAIT_TCP, false,
			      "recv on tcp 10.0.0.4:51234 -> 10.0.0.9:5432, established, 0 bytes "
			      "queued",
			      "tcp 10.0.0.4:51234 -> 10.0.0.9:5432"),
		      SNAP_WAIT_READ, "10.0.0.4:51234", "10.0.0.9:5432");
	wait->socket_state = "established";
	wait->recv_queue = 0;
	wait->fd = 3;

	wait = tcp_of(add_row(rows, SNAP_WAIT_TCP, false,
			      "send on tcp 127.0.0.1:49278 -> 127.0.0.1:53269 (11467 deaf), 3.8 MB "
			      "queued, 128 kB unread there",
			      NULL),
		      SNAP_WAIT_WRITE, "127.0.0.1:49278", "127.0.0.1:53269");
	wait->socket_state = "established";
	wait->send_queue = 3990000;
	wait->peer_recv_queue = 131072;
	set_peer(rows, wait, party_of(11467, "deaf", 'S', NULL, "main"));

	wait = tcp_of(add_row(rows, SNAP_WAIT_TCP, false,
			      "connect to tcp 10.0.0.9:5432, 3rd SYN unanswered",
			      "tcp 10.0.0.9:5432"),
		      SNAP_WAIT_ANY_MODE, NULL, "10.0.0.9:5432");
	wait->variant = "connect";
	wait->retransmits = 2;

	wait = tcp_of(add_row(rows, SNAP_WAIT_TCP, false,
			      "accept on tcp 127.0.0.1:60103, 0 of 7 queued",
			      "tcp 127.0.0.1:60103"),
		      SNAP_WAIT_ANY_MODE, "127.0.0.1:60103", NULL);
	wait->variant = "accept";
	wait->backlog = 0;
	wait->backlog_max = 7;

	wait = add_row(rows, SNAP_WAIT_UNIX, false, "recv on a unix socket to 19558 us-sleeper",
		       "unix socket");
	wait->mode = SNAP_WAIT_READ;
	set_peer(rows, wait, party_of(19558, "us-sleeper", 'S', NULL, NULL));

	wait = tcp_of(
		add_row(rows, SNAP_WAIT_UNIX, false,
			"connect to unix @waits\033[31m, 1 of 0 queued at 3359 (accepts nothing)",
			"unix @waits\033[31m"),
		SNAP_WAIT_ANY_MODE, NULL, "@waits\033[31m");
	wait->variant = "connect";
	wait->backlog = 1;
	wait->backlog_max = 0;
	set_peer(rows, wait, party_of(3359, "lazy", 'S', NULL, NULL));
}

static inline void add_pipes(struct wait_rows *rows)
{
	struct snap_wait *wait, *other;

	wait = add_row(rows, SNAP_WAIT_PIPE, false,
		       "read on a pipe written by 2102 pp-writer (in clock_nanosleep)", "pipe 7");
	wait->mode = SNAP_WAIT_READ;
	wait->fd = 7;
	set_peer(rows, wait,
		 party_of(2102, "pp-writer", 'S',
			  add_other(rows, SNAP_WAIT_SLEEP, "clock_nanosleep"), NULL));

	wait = add_row(rows, SNAP_WAIT_PIPE, false,
		       "write to a full pipe read by 2101 pp-parent (waits for child 2103)", NULL);
	wait->mode = SNAP_WAIT_WRITE;
	wait->fd = 8;
	other = add_other(rows, SNAP_WAIT_CHILD, "wait4");
	other->child = 2103;
	set_peer(rows, wait, party_of(2101, "pp-parent", 'S', other, NULL));

	wait = add_row(rows, SNAP_WAIT_PIPE, false,
		       "read on a pipe written by 1 a (running), 2 b, 3 c and 17 more", NULL);
	wait->mode = SNAP_WAIT_READ;
	set_peer(rows, wait, party_of(1, "a", 'R', NULL, NULL));
	add_party(rows, party_of(2, "b", 'S', NULL, NULL));
	add_party(rows, party_of(3, "c", 'S', NULL, NULL));
	add_party(rows, party_of(4, "d", 'S', NULL, NULL));
	wait->peer_count = 4;
	wait->peer_total = 20;

	wait = add_row(rows, SNAP_WAIT_PIPE, false, "read on a pipe whose writers are not seen",
		       "pipe 9");
	wait->mode = SNAP_WAIT_READ;
	wait->fd = 9;
	wait->peers_unknown = true;

	wait = add_row(rows, SNAP_WAIT_FIFO, false,
		       "write to full FIFO /run/log whose readers are not seen", "FIFO /run/log");
	wait->mode = SNAP_WAIT_WRITE;
	wait->path = "/run/log";

	wait = add_row(rows, SNAP_WAIT_FIFO_OPEN, false,
		       "open of FIFO /run/ctl: no process has opened it for writing",
		       "FIFO /run/ctl");
	wait->mode = SNAP_WAIT_READ;
	wait->call = "open";
	wait->path = "/run/ctl";

	wait = add_row(rows, SNAP_WAIT_FILE, false,
		       "fsync of /var/lib/db/journal, DISK in jbd2_log_wait_commit",
		       "/var/lib/db/journal");
	wait->call = "fsync";
	wait->path = "/var/lib/db/journal";
	wait->wchan = "jbd2_log_wait_commit";

	wait = add_row(rows, SNAP_WAIT_FILE_LOCK, false,
		       "flock on /var/lib/db/LOCK, held by 19519 fl-b", "lock on /var/lib/db/LOCK");
	wait->variant = "flock";
	wait->path = "/var/lib/db/LOCK";
	wait->range_end = UINT64_MAX;
	wait->holders = add_party(rows, party_of(19519, "fl-b", 'S', NULL, NULL));
	wait->holder_count = 1;

	wait = add_row(rows, SNAP_WAIT_FILE_LOCK, false,
		       "fcntl lock on ledger.db 120-129, held by 19520 rec-hold",
		       "lock on ledger.db 120-129");
	wait->path = "ledger.db";
	wait->range_start = 120;
	wait->range_end = 129;
	wait->holders = add_party(rows, party_of(19520, "rec-hold", 'S', NULL, NULL));
	wait->holder_count = 1;
}

/* ---- the rest ---- */

static inline void add_polls(struct wait_rows *rows)
{
	static int32_t fds[] = { 7, 9 };
	static const uint32_t kinds[] = { SNAP_DESCRIPTOR_EVENTFD, SNAP_DESCRIPTOR_PIPE };
	struct snap_wait *wait;

	wait = add_row(
		rows, SNAP_WAIT_EPOLL, false,
		"epoll: 1 listening socket (tcp 127.0.0.1:8080), 212 connections, 1 timer, 1 "
		"eventfd",
		NULL);
	wait->fd = 4;
	wait->listening = 1;
	wait->connected = 212;
	wait->listen_address = "tcp 127.0.0.1:8080";
	wait->kinds_watched[SNAP_DESCRIPTOR_SOCKET] = 213;
	wait->kinds_watched[SNAP_DESCRIPTOR_EVENTFD] = 1;
	wait->kinds_watched[SNAP_DESCRIPTOR_TIMERFD] = 1;

	wait = add_row(rows, SNAP_WAIT_EPOLL, false, "epoll 5", NULL);
	wait->fd = 5;

	wait = add_row(rows, SNAP_WAIT_POLL, false,
		       "poll: 2 descriptors (eventfd 7, pipe 9), no timeout", NULL);
	wait->fd_count = 2;
	wait->fds = fds;
	wait->fds_count = 2;
	wait->fd_kinds = kinds;
	wait->kinds_watched[SNAP_DESCRIPTOR_EVENTFD] = 1;
	wait->kinds_watched[SNAP_DESCRIPTOR_PIPE] = 1;
}

static inline void add_rest(struct wait_rows *rows)
{
	struct snap_wait *wait;

	wait = add_row(rows, SNAP_WAIT_CHILD, false, "waits for child 4472 (stopped by a signal)",
		       "child 4472");
	wait->child = 4472;
	set_peer(rows, wait, party_of(4472, "child", 'T', NULL, NULL));

	wait = add_row(rows, SNAP_WAIT_CHILD, false, "waits for any of 3 children",
		       "any of 3 children");
	wait->peers = add_party(rows, party_of(11, "a", 'S', NULL, NULL));
	add_party(rows, party_of(12, "b", 'S', NULL, NULL));
	add_party(rows, party_of(13, "c", 'S', NULL, NULL));
	wait->peer_count = wait->peer_total = 3;

	wait = add_row(rows, SNAP_WAIT_VFORK, false, "waits until child 77 execs or exits",
		       "child 77");
	wait->child = 77;

	wait = add_row(rows, SNAP_WAIT_SLEEP, false, "sleeps 59 min more", NULL);
	wait->timed = true;
	wait->remaining_ns = (59 * 60 + 59) * 1000000000ll;

	wait = add_row(rows, SNAP_WAIT_SIGNAL, false, "waits for SIGUSR1, SIGRTMIN+3", NULL);
	wait->signals = 1ull << 9 | 1ull << 36;
	wait->call = "rt_sigtimedwait";

	wait = add_row(rows, SNAP_WAIT_PAGE_FAULT, false,
		       "page fault on memory of a FUSE file system that does not answer", NULL);
	wait->variant = "fuse";

	wait = add_row(rows, SNAP_WAIT_FROZEN, false, "frozen by control group /batch",
		       "control group /batch");
	wait->cgroup = "/batch";

	wait = add_row(rows, SNAP_WAIT_STOPPED, false, "stopped by a signal", NULL);
	wait = add_row(rows, SNAP_WAIT_TRACED, false, "traced by 99 gdb", NULL);
	set_owner(wait, party_of(99, "gdb", 'S', NULL, NULL));
	wait = add_row(rows, SNAP_WAIT_MSGQUEUE, false, "read on message queue 5",
		       "message queue 5");
	wait->mode = SNAP_WAIT_READ;
	wait->id = 5;
}

/* Last, so that all others keep their numbers. */
static inline void add_poll_of_one(struct wait_rows *rows)
{
	static int32_t fds[] = { 9 };
	static const uint32_t kinds[] = { SNAP_DESCRIPTOR_PIPE };
	struct snap_wait *wait;

	wait = add_row(rows, SNAP_WAIT_POLL, true,
		       "poll: 1 descriptor (pipe 9), no timeout, other end: 2102 writer (in pause)",
		       NULL);
	wait->fd_count = wait->fds_count = 1;
	wait->fds = fds;
	wait->fd_kinds = kinds;
	wait->kinds_watched[SNAP_DESCRIPTOR_PIPE] = 1;
	set_peer(rows, wait, party_of(2102, "writer", 'S', NULL, "pause"));
}

/* All rows; the same memory each time. */
static inline struct wait_rows *all_wait_rows(void)
{
	static struct wait_rows rows;

	rows = (struct wait_rows){ .count = 0 };
	add_mutexes(&rows);
	add_locks(&rows);
	add_runtime_locks(&rows);
	add_sockets(&rows);
	add_pipes(&rows);
	add_polls(&rows);
	add_rest(&rows);
	add_poll_of_one(&rows);
	return &rows;
}

/* ---- a snapshot with all of them ---- */

/* A thread waits for each row, the first two hold up each other. */
static inline struct snap_snapshot waiting_snapshot(void)
{
	static struct snap_member members[MOST_WAIT_ROWS + 2], pool[3];
	static struct snap_stack stacks[2];
	static struct snap_node node, *root = &node;
	static struct snap_wait pooled[3];
	static struct snap_wait_link links[2];
	static struct snap_deadlock deadlocks[2];
	static struct snap_blocker blockers[2];
	static struct snap_contended contended[2];
	struct wait_rows *rows = all_wait_rows();
	size_t count = rows->count;

	for (size_t i = 0; i < count; i++)
		members[i] = (struct snap_member){ .tid = 3000 + (pid_t)i,
						   .name = "waiter",
						   .state = SNAP_STATE_SLEEPING,
						   .cpu = -1,
						   .wait = &rows->rows[i].wait };
	/* In a circle. */
	rows->rows[0].wait.owner.wait = &rows->rows[1].wait;
	rows->rows[1].wait.owner.wait = &rows->rows[0].wait;
	for (size_t i = 0; i < 3; i++) {
		pooled[i] = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_CERTAIN);
		pooled[i].symbol = "pool_lock";
		pooled[i].address = 0x7000;
		pooled[i].since_ns = (int64_t)(i + 2) * 1000000000;
		pooled[i].owner = party_of(3003, "holder", 'R', NULL, "main");
		pooled[i].has_owner = true;
		pool[i] = (struct snap_member){ .tid = 4000 + (pid_t)i,
						.name = "pool",
						.state = SNAP_STATE_SLEEPING,
						.cpu = -1,
						.wait = &pooled[i] };
	}
	stacks[0] = (struct snap_stack){ .id = "aaaaaaaaaaaaaaaa",
					 .count = count,
					 .description = "waiter_main",
					 .threads = members,
					 .thread_count = count,
					 .frames = worker_frames,
					 .frame_count = 7 };
	stacks[1] = (struct snap_stack){ .id = "bbbbbbbbbbbbbbbb",
					 .count = 3,
					 .description = "pool_main",
					 .threads = pool,
					 .thread_count = 3,
					 .wait = &pooled[0],
					 .frames = worker_frames,
					 .frame_count = 7 };
	node = (struct snap_node){ .pid = 3000,
				   .name = "waits",
				   .description = "waits",
				   .uid = (uid_t)-1,
				   .thread_count = count + 3,
				   .stacks = stacks,
				   .stack_count = 2 };
	links[0] = (struct snap_wait_link){ .pid = 3000,
					    .tid = 3000,
					    .name = "waiter",
					    .function = "transfer",
					    .file = "/src/bank.c",
					    .line = 41,
					    .wait = &rows->rows[0].wait };
	links[1] = (struct snap_wait_link){ .pid = 3000,
					    .tid = 3001,
					    .name = "waiter",
					    .function = "audit",
					    .file = "/src/bank.c",
					    .line = 77,
					    .wait = &rows->rows[1].wait };
	deadlocks[0] = (struct snap_deadlock){ .certain = true,
					       .until_ns = -1,
					       .behind = 2,
					       .threads = links,
					       .thread_count = 2,
					       .size = 2 };
	deadlocks[1] = (struct snap_deadlock){ .timed = true,
					       .until_ns = 3200000000,
					       .threads = links,
					       .thread_count = 2,
					       .size = 2000 };
	blockers[0] = (struct snap_blocker){ .pid = 3000,
					     .tid = 3003,
					     .name = "holder",
					     .blocked = 17,
					     .locks = 2,
					     .wait = &rows->rows[2].wait,
					     .state = 'S' };
	blockers[1] = (struct snap_blocker){
		.tid = 29747, .blocked = 1, .locks = 1, .lack = SNAP_OWNER_EXITED
	};
	contended[0] = (struct snap_contended){ 12, 3000, &rows->rows[0].wait };
	contended[1] = (struct snap_contended){ 4, 3000, &pooled[0] };
	return (struct snap_snapshot){
		.host = TEST_HOST,
		.time_ns = 1,
		.process_count = 1,
		.thread_count = count + 3,
		.stack_count = 2,
		.processes = &root,
		.root_count = 1,
		.waits = { .asked = true,
			   .deadlocks = deadlocks,
			   .deadlock_count = 2,
			   .deadlock_total = 3,
			   .blockers = blockers,
			   .blocker_count = 2,
			   .contended = contended,
			   .contended_count = 2,
			   .lacks = SNAP_LACK_TIME | SNAP_LACK_RIGHTS },
	};
}
