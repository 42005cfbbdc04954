/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The words of waits: see wait.h. The lines are made in text.c. */
#include "model/wait/wait.h"

#include "base/cleanup.h"

#include <string.h>

static const char *const kinds[SNAP_WAIT_KINDS] = {
	[SNAP_WAIT_NONE] = "",
	[SNAP_WAIT_MUTEX] = "mutex",
	[SNAP_WAIT_RWLOCK] = "rwlock",
	[SNAP_WAIT_CONDITION] = "condition",
	[SNAP_WAIT_SEMAPHORE] = "semaphore",
	[SNAP_WAIT_BARRIER] = "barrier",
	[SNAP_WAIT_ONCE] = "once",
	[SNAP_WAIT_THREAD] = "thread",
	[SNAP_WAIT_STDIO] = "stdio",
	[SNAP_WAIT_MALLOC] = "malloc",
	[SNAP_WAIT_GIL] = "gil",
	[SNAP_WAIT_MONITOR] = "monitor",
	[SNAP_WAIT_FUTEX] = "futex",
	[SNAP_WAIT_FUTEX_PI] = "futex_pi",
	[SNAP_WAIT_ATOMIC] = "atomic",
	[SNAP_WAIT_LATCH] = "latch",
	[SNAP_WAIT_FUTURE] = "future",
	[SNAP_WAIT_STATIC_INIT] = "static_init",
	[SNAP_WAIT_PARK] = "park",
	[SNAP_WAIT_CHANNEL] = "channel",
	[SNAP_WAIT_RUNTIME] = "runtime",
	[SNAP_WAIT_SLEEP] = "sleep",
	[SNAP_WAIT_SIGNAL] = "signal",
	[SNAP_WAIT_CHILD] = "child",
	[SNAP_WAIT_VFORK] = "vfork",
	[SNAP_WAIT_PIPE] = "pipe",
	[SNAP_WAIT_FIFO] = "fifo",
	[SNAP_WAIT_FIFO_OPEN] = "fifo_open",
	[SNAP_WAIT_UNIX] = "unix",
	[SNAP_WAIT_TCP] = "tcp",
	[SNAP_WAIT_UDP] = "udp",
	[SNAP_WAIT_SOCKET] = "socket",
	[SNAP_WAIT_FILE] = "file",
	[SNAP_WAIT_FILE_LOCK] = "file_lock",
	[SNAP_WAIT_TTY] = "tty",
	[SNAP_WAIT_EVENTFD] = "eventfd",
	[SNAP_WAIT_TIMERFD] = "timerfd",
	[SNAP_WAIT_SIGNALFD] = "signalfd",
	[SNAP_WAIT_INOTIFY] = "inotify",
	[SNAP_WAIT_PIDFD] = "pidfd",
	[SNAP_WAIT_USERFAULTFD] = "userfaultfd",
	[SNAP_WAIT_MQUEUE] = "mqueue",
	[SNAP_WAIT_IO_URING] = "io_uring",
	[SNAP_WAIT_AIO] = "aio",
	[SNAP_WAIT_POLL] = "poll",
	[SNAP_WAIT_SELECT] = "select",
	[SNAP_WAIT_EPOLL] = "epoll",
	[SNAP_WAIT_MSGQUEUE] = "msgqueue",
	[SNAP_WAIT_SYSV_SEMAPHORE] = "sysv_semaphore",
	[SNAP_WAIT_PAGE_FAULT] = "page_fault",
	[SNAP_WAIT_FROZEN] = "frozen",
	[SNAP_WAIT_STOPPED] = "stopped",
	[SNAP_WAIT_TRACED] = "traced",
	[SNAP_WAIT_DISK] = "disk",
	[SNAP_WAIT_SYSCALL] = "syscall",
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

static const char *const missing[] = {
	"time", "sockets", "network namespaces", "file locks", "rights", "cut",
};
_Static_assert((1 << SNAP_ARRAY_SIZE(missing)) - 1 == SNAP_LACK_ALL, "a word each");

static const char *const missing_texts[] = {
	"there was too little time",
	"the kernel tells little of sockets here",
	"sockets and queues of other namespaces",
	"the kernel's list of file locks is not readable",
	"descriptors of other users' processes",
	"there was more than is looked at",
};
_Static_assert(SNAP_ARRAY_SIZE(missing_texts) == SNAP_ARRAY_SIZE(missing), "a text each");

static const char *const descriptors[SNAP_DESCRIPTOR_KINDS] = {
	[SNAP_DESCRIPTOR_OTHER] = "other",
	[SNAP_DESCRIPTOR_FILE] = "file",
	[SNAP_DESCRIPTOR_FIFO] = "fifo",
	[SNAP_DESCRIPTOR_TTY] = "tty",
	[SNAP_DESCRIPTOR_PIPE] = "pipe",
	[SNAP_DESCRIPTOR_SOCKET] = "socket",
	[SNAP_DESCRIPTOR_EVENTFD] = "eventfd",
	[SNAP_DESCRIPTOR_EPOLL] = "epoll",
	[SNAP_DESCRIPTOR_TIMERFD] = "timerfd",
	[SNAP_DESCRIPTOR_SIGNALFD] = "signalfd",
	[SNAP_DESCRIPTOR_INOTIFY] = "inotify",
	[SNAP_DESCRIPTOR_PIDFD] = "pidfd",
	[SNAP_DESCRIPTOR_USERFAULTFD] = "userfaultfd",
	[SNAP_DESCRIPTOR_IO_URING] = "io_uring",
	[SNAP_DESCRIPTOR_MQUEUE] = "mqueue",
	[SNAP_DESCRIPTOR_MEMFD] = "memfd",
	[SNAP_DESCRIPTOR_FANOTIFY] = "fanotify",
};

const char *snap_wait_kind_word(enum snap_wait_kind kind)
{
	return kinds[kind];
}

enum snap_wait_kind snap_wait_kind_of_word(const char *word)
{
	for (int i = SNAP_WAIT_NONE + 1; i < SNAP_WAIT_KINDS; i++)
		if (strcmp(kinds[i], word) == 0)
			return (enum snap_wait_kind)i;
	return SNAP_WAIT_KINDS;
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
	return missing[bit];
}

const char *snap_wait_lack_text(unsigned bit)
{
	return missing_texts[bit];
}

const char *snap_descriptor_word(enum snap_descriptor_kind kind)
{
	return descriptors[kind];
}

bool snap_wait_is_shown(const struct snap_wait *wait, bool all)
{
	return wait && wait->kind != SNAP_WAIT_NONE &&
	       wait->confidence >= (all ? SNAP_WAIT_IS_GUESS : SNAP_WAIT_IS_LIKELY);
}
