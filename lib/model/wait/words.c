/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The words of waits: see wait.h and kind.h. The lines are made in text.c. */
#include "model/wait/kind.h"

#include "base/cleanup.h"

static const struct snap_wait_kind_row kinds[SNAP_WAIT_KINDS] = {
	[SNAP_WAIT_NONE] = { "", NULL, NULL, SNAP_KIND_IDLE },
	[SNAP_WAIT_MUTEX] = { "mutex", NULL, "for ", SNAP_KIND_HELD | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_RWLOCK] = { "rwlock", NULL, "for ", SNAP_KIND_HELD | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_CONDITION] = { "condition", NULL, "on ", SNAP_KIND_IDLE | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_SEMAPHORE] = { "semaphore", NULL, "for ", SNAP_KIND_IDLE | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_BARRIER] = { "barrier", NULL, "at ", SNAP_KIND_ADDRESS },
	[SNAP_WAIT_ONCE] = { "once", NULL, "for ",
			     SNAP_KIND_HELD | SNAP_KIND_RUN | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_THREAD] = { "thread", NULL, "for ", SNAP_KIND_ENDED_BY_OWNER },
	[SNAP_WAIT_STDIO] = { "stdio", "FILE", "for ", SNAP_KIND_HELD | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_MALLOC] = { "malloc", "arena", "for ", SNAP_KIND_HELD | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_GIL] = { "gil", "GIL", "for the ", SNAP_KIND_HELD },
	[SNAP_WAIT_MONITOR] = { "monitor", NULL, "for ", SNAP_KIND_HELD | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_FUTEX] = { "futex", NULL, "for ", SNAP_KIND_IDLE | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_FUTEX_PI] = { "futex_pi", "PI futex", "for ",
				 SNAP_KIND_HELD | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_ATOMIC] = { "atomic", NULL, "for ", SNAP_KIND_IDLE | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_LATCH] = { "latch", NULL, "for ", SNAP_KIND_ADDRESS },
	[SNAP_WAIT_FUTURE] = { "future", NULL, "for ", SNAP_KIND_ADDRESS },
	[SNAP_WAIT_STATIC_INIT] = { "static_init", "static initialiser", "for ",
				    SNAP_KIND_HELD | SNAP_KIND_RUN | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_PARK] = { "park", NULL, "to be unparked", SNAP_KIND_IDLE | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_CHANNEL] = { "channel", NULL, "on ", SNAP_KIND_IDLE | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_RUNTIME] = { "runtime", NULL, "in its runtime",
				SNAP_KIND_IDLE | SNAP_KIND_ADDRESS },
	[SNAP_WAIT_SLEEP] = { "sleep", NULL, NULL, SNAP_KIND_IDLE },
	[SNAP_WAIT_SIGNAL] = { "signal", NULL, "for ", SNAP_KIND_IDLE },
	[SNAP_WAIT_CHILD] = { "child", NULL, "for ", SNAP_KIND_STUCK },
	[SNAP_WAIT_VFORK] = { "vfork", NULL, "until ", 0 },
	[SNAP_WAIT_PIPE] = { "pipe", NULL, NULL,
			     SNAP_KIND_HAS_ENDS | SNAP_KIND_STUCK_WRITER | SNAP_KIND_NUMBER },
	[SNAP_WAIT_FIFO] = { "fifo", "FIFO", NULL, SNAP_KIND_STUCK_WRITER | SNAP_KIND_NUMBER },
	[SNAP_WAIT_FIFO_OPEN] = { "fifo_open", "FIFO", NULL, SNAP_KIND_STUCK | SNAP_KIND_NUMBER },
	[SNAP_WAIT_UNIX] = { "unix", "unix socket", NULL,
			     SNAP_KIND_HAS_ENDS | SNAP_KIND_STUCK_WRITER | SNAP_KIND_SOCKET },
	[SNAP_WAIT_TCP] = { "tcp", NULL, NULL,
			    SNAP_KIND_HAS_ENDS | SNAP_KIND_STUCK_WRITER | SNAP_KIND_SOCKET },
	[SNAP_WAIT_UDP] = { "udp", NULL, NULL, SNAP_KIND_SOCKET },
	[SNAP_WAIT_SOCKET] = { "socket", NULL, NULL, SNAP_KIND_SOCKET },
	[SNAP_WAIT_FILE] = { "file", NULL, NULL, SNAP_KIND_STUCK },
	[SNAP_WAIT_FILE_LOCK] = { "file_lock", "file lock", NULL,
				  SNAP_KIND_LOCK | SNAP_KIND_STUCK | SNAP_KIND_HAS_ENDS },
	[SNAP_WAIT_TTY] = { "tty", "terminal", NULL, SNAP_KIND_IDLE | SNAP_KIND_NUMBER },
	[SNAP_WAIT_EVENTFD] = { "eventfd", NULL, NULL, SNAP_KIND_IDLE | SNAP_KIND_NUMBER },
	[SNAP_WAIT_TIMERFD] = { "timerfd", NULL, NULL, SNAP_KIND_IDLE | SNAP_KIND_NUMBER },
	[SNAP_WAIT_SIGNALFD] = { "signalfd", NULL, NULL, SNAP_KIND_IDLE | SNAP_KIND_NUMBER },
	[SNAP_WAIT_INOTIFY] = { "inotify", NULL, NULL, SNAP_KIND_IDLE | SNAP_KIND_NUMBER },
	[SNAP_WAIT_PIDFD] = { "pidfd", NULL, NULL, SNAP_KIND_NUMBER },
	[SNAP_WAIT_USERFAULTFD] = { "userfaultfd", NULL, NULL, SNAP_KIND_IDLE | SNAP_KIND_NUMBER },
	[SNAP_WAIT_MQUEUE] = { "mqueue", "message queue", NULL, SNAP_KIND_IDLE | SNAP_KIND_NUMBER },
	[SNAP_WAIT_IO_URING] = { "io_uring", NULL, "for ", SNAP_KIND_IDLE | SNAP_KIND_NUMBER },
	[SNAP_WAIT_AIO] = { "aio", NULL, "for ", SNAP_KIND_NUMBER },
	[SNAP_WAIT_POLL] = { "poll", NULL, NULL, SNAP_KIND_IDLE | SNAP_KIND_POLL },
	[SNAP_WAIT_SELECT] = { "select", NULL, NULL, SNAP_KIND_IDLE | SNAP_KIND_POLL },
	[SNAP_WAIT_EPOLL] = { "epoll", NULL, NULL, SNAP_KIND_IDLE | SNAP_KIND_POLL },
	[SNAP_WAIT_MSGQUEUE] = { "msgqueue", "message queue", NULL,
				 SNAP_KIND_IDLE | SNAP_KIND_NUMBER },
	[SNAP_WAIT_SYSV_SEMAPHORE] = { "sysv_semaphore", "semaphore set", NULL,
				       SNAP_KIND_IDLE | SNAP_KIND_NUMBER },
	[SNAP_WAIT_PAGE_FAULT] = { "page_fault", "page fault", NULL, SNAP_KIND_STUCK },
	[SNAP_WAIT_FROZEN] = { "frozen", "control group", NULL, SNAP_KIND_HALTED },
	[SNAP_WAIT_STOPPED] = { "stopped", NULL, NULL, SNAP_KIND_HALTED },
	[SNAP_WAIT_TRACED] = { "traced", NULL, NULL, SNAP_KIND_HALTED },
	[SNAP_WAIT_DISK] = { "disk", NULL, NULL, 0 },
	[SNAP_WAIT_SYSCALL] = { "syscall", NULL, NULL, SNAP_KIND_IDLE },
};

static const char *const confidences[SNAP_WAIT_CONFIDENCES] = {
	[SNAP_WAIT_IS_UNKNOWN] = "unknown",
	[SNAP_WAIT_IS_GUESS] = "guess",
	[SNAP_WAIT_IS_LIKELY] = "likely",
	[SNAP_WAIT_IS_CERTAIN] = "certain",
};

static const char *const lacks[SNAP_OWNER_LACKS] = {
	[SNAP_OWNER_KNOWN] = "",
	[SNAP_OWNER_NOT_KEPT] = "not kept",
	[SNAP_OWNER_CHANGING] = "being taken or released",
	[SNAP_OWNER_EXITED] = "exited",
	[SNAP_OWNER_AT_FORK] = "held at fork",
	[SNAP_OWNER_DIED] = "owner died",
	[SNAP_OWNER_UNREADABLE] = "unreadable",
	[SNAP_OWNER_NOT_SEEN] = "not seen",
	[SNAP_OWNER_REFUSED] = "refused by the kernel",
	[SNAP_OWNER_OTHER_USER] = "a process of another user",
	[SNAP_OWNER_YOUNGER] = "owner younger",
};

/* Of each bit of enum snap_wait_lack: the word of the JSON, and what people read. */
static const char *const missing[][2] = {
	{ "time", "there was too little time" },
	{ "sockets", "the kernel tells little of sockets here" },
	{ "network namespaces", "sockets and queues of other namespaces" },
	{ "file locks", "the kernel's list of file locks is not readable" },
	{ "rights", "descriptors of other users' processes" },
	{ "cut", "there was more than is looked at" },
	{ "go locks", "owners of goroutines' locks" },
	{ "java locks", "owners of locks of java.util.concurrent" },
	{ "python locks", "owners of Python's locks" },
	{ "owners", "owners of locks that keep none" },
	{ "core", "a core has no descriptors, no locks of files and no other processes" },
	{ "in flight",
	  "descriptors in sockets and requests of io_uring, with which the kernel may act" },
};
_Static_assert((1 << SNAP_ARRAY_SIZE(missing)) - 1 == SNAP_LACK_ALL, "a row each");

/* The word of the JSON, and what people call one and several. */
static const char *const descriptors[SNAP_DESCRIPTOR_KINDS][3] = {
	[SNAP_DESCRIPTOR_OTHER] = { "other", "other", "others" },
	[SNAP_DESCRIPTOR_FILE] = { "file", "file", "files" },
	[SNAP_DESCRIPTOR_FIFO] = { "fifo", "FIFO", "FIFOs" },
	[SNAP_DESCRIPTOR_TTY] = { "tty", "terminal", "terminals" },
	[SNAP_DESCRIPTOR_PIPE] = { "pipe", "pipe", "pipes" },
	[SNAP_DESCRIPTOR_SOCKET] = { "socket", "socket", "sockets" },
	[SNAP_DESCRIPTOR_EVENTFD] = { "eventfd", "eventfd", "eventfds" },
	[SNAP_DESCRIPTOR_EPOLL] = { "epoll", "epoll", "epolls" },
	[SNAP_DESCRIPTOR_TIMERFD] = { "timerfd", "timer", "timers" },
	[SNAP_DESCRIPTOR_SIGNALFD] = { "signalfd", "signalfd", "signalfds" },
	[SNAP_DESCRIPTOR_INOTIFY] = { "inotify", "inotify", "inotifies" },
	[SNAP_DESCRIPTOR_PIDFD] = { "pidfd", "pidfd", "pidfds" },
	[SNAP_DESCRIPTOR_USERFAULTFD] = { "userfaultfd", "userfaultfd", "userfaultfds" },
	[SNAP_DESCRIPTOR_IO_URING] = { "io_uring", "io_uring", "io_urings" },
	[SNAP_DESCRIPTOR_MQUEUE] = { "mqueue", "message queue", "message queues" },
	[SNAP_DESCRIPTOR_MEMFD] = { "memfd", "memfd", "memfds" },
	[SNAP_DESCRIPTOR_FANOTIFY] = { "fanotify", "fanotify", "fanotifies" },
};

const char *snap_wait_kind_word(enum snap_wait_kind kind)
{
	return kinds[kind].word;
}

const struct snap_wait_kind_row *snap_wait_kind_row(enum snap_wait_kind kind)
{
	return &kinds[kind];
}

bool snap_wait_kind_is(enum snap_wait_kind kind, unsigned facts)
{
	/* A codec asks before it has checked all of a wait. */
	return kind < SNAP_WAIT_KINDS && (kinds[kind].facts & facts) == facts;
}

const char *snap_wait_confidence_word(enum snap_wait_confidence confidence)
{
	return confidences[confidence];
}

const char *snap_owner_lack_word(enum snap_owner_lack lack)
{
	return lacks[lack];
}

struct snap_wait snap_wait_init(enum snap_wait_kind kind, enum snap_wait_confidence confidence)
{
	return (struct snap_wait){
		.kind = kind,
		.confidence = confidence,
		.fd = -1,
		.id = -1,
		.semaphore = -1,
		.readers = -1,
		.value = -1,
		.waiters = -1,
		.arrived = -1,
		.needed = -1,
		.fd_count = -1,
		.recv_queue = -1,
		.send_queue = -1,
		.backlog = -1,
		.backlog_max = -1,
		.retransmits = -1,
		.peer_recv_queue = -1,
		.since_ns = -1,
		.remaining_ns = -1,
	};
}

const char *snap_wait_lack_word(unsigned bit)
{
	return missing[bit][0];
}

const char *snap_wait_lack_text(unsigned bit)
{
	return missing[bit][1];
}

const char *snap_descriptor_word(enum snap_descriptor_kind kind)
{
	return descriptors[kind][0];
}

const char *snap_descriptor_noun(enum snap_descriptor_kind kind, bool several)
{
	return descriptors[kind][several ? 2 : 1];
}

bool snap_wait_is_shown(const struct snap_wait *wait, bool all)
{
	return wait && wait->kind != SNAP_WAIT_NONE &&
	       wait->confidence >= (all ? SNAP_WAIT_IS_GUESS : SNAP_WAIT_IS_LIKELY);
}
