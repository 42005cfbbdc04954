/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Facts about waits: the data of a capture besides registers and stacks, from which analysis finds the
 * object of each wait, and its owner.
 *
 * Plain values, as the kernel gave them: the call that a thread is in, what its descriptors lead to,
 * sockets with their peers and queues, file locks, other processes that have a pipe, socket or file
 * open. Bytes around futexes are an image of the process (snap_process.words). Facts live in the
 * capture's arena. Knows nothing of what a lock is, nor of names of functions.
 *
 * Facts that could not be read are absent, and `lacks` of the capture says why. So an absent fact
 * does not mean that there is nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Numbers and times of waits are no larger, so that some of them can be added up. */
#define SNAP_WAIT_MOST (INT64_MAX / 4)

/* A number of the kernel's or of a program's as the number of a wait: the nearest one. */
static inline int64_t snap_wait_number(uint64_t number)
{
	return number < SNAP_WAIT_MOST ? (int64_t)number : SNAP_WAIT_MOST;
}

enum {
	SNAP_MAX_LINK = 4096,           /* of a descriptor */
	SNAP_MAX_DESCRIPTORS = 1 << 15, /* of a process that are looked at */
	SNAP_MAX_WATCHED = 1024,        /* descriptors in one epoll that are looked at */
	SNAP_MAX_POLLED = 64,           /* in one poll or select */
	SNAP_MAX_SOCKETS = 1 << 17,     /* of a capture */
	SNAP_MAX_FILE_LOCKS = 1 << 16,  /* of a capture */
	SNAP_MAX_FILE_PEERS = 1 << 17,  /* of a capture */
	SNAP_MAX_OUTSIDERS = 1 << 12,   /* processes outside of the tree that are named */
	SNAP_MAX_QUEUES = 1 << 12,      /* System V queues and semaphore sets */
	SNAP_MAX_GONE = 1 << 12,        /* numbers of threads that are not there */
	SNAP_MAX_SOCKET_NAME = 110,     /* bytes of sun_path and its family (unix(7)) */
	SNAP_WORDS_BEFORE = 96,         /* bytes before a futex word that are copied with it … */
	SNAP_WORDS_BEHIND = 64,         /* … from it on */
	SNAP_CALL_ARGUMENTS = 6,
};

/* A system call that a thread is in, as its registers or /proc/TID/syscall (proc(5)) tell. */
struct snap_thread_call {
	bool known;     /* one of the two was read; false: all else is 0 */
	int64_t number; /* -1: in none */
	uint64_t arguments[SNAP_CALL_ARGUMENTS];
	uint64_t sp, pc;
	uint64_t thread_pointer; /* fs_base on x86-64; 0 unknown */
};

/* What a descriptor leads to, by its link and the kernel's lstat of the link; OTHER without both. */
enum snap_descriptor_kind {
	SNAP_DESCRIPTOR_OTHER,
	SNAP_DESCRIPTOR_FILE, /* a path: regular file, directory, device, FIFO with a name */
	SNAP_DESCRIPTOR_FIFO, /* a path that is a FIFO */
	SNAP_DESCRIPTOR_TTY,
	SNAP_DESCRIPTOR_PIPE,
	SNAP_DESCRIPTOR_SOCKET,
	SNAP_DESCRIPTOR_EVENTFD,
	SNAP_DESCRIPTOR_EPOLL,
	SNAP_DESCRIPTOR_TIMERFD,
	SNAP_DESCRIPTOR_SIGNALFD,
	SNAP_DESCRIPTOR_INOTIFY,
	SNAP_DESCRIPTOR_PIDFD,
	SNAP_DESCRIPTOR_USERFAULTFD,
	SNAP_DESCRIPTOR_IO_URING,
	SNAP_DESCRIPTOR_MQUEUE,
	SNAP_DESCRIPTOR_MEMFD,
	SNAP_DESCRIPTOR_FANOTIFY,
	SNAP_DESCRIPTOR_KINDS,
};

/* A descriptor of a process that one of its threads waits with, or that an epoll watches. */
struct snap_descriptor {
	int32_t number;
	enum snap_descriptor_kind kind;
	bool readable, writable; /* which ends it is: mode of the link (proc(5)) */
	const char *link;        /* raw bytes, capped; NULL unknown */
	/* PIPE, SOCKET: of the brackets; files: of fdinfo; 0 unknown */
	uint64_t inode;
	uint32_t dev_major, dev_minor; /* of files, by mnt_id and mountinfo; 0, 0 unknown */
	/* of fdinfo (proc_pid_fdinfo(5)); 0 where a kind has none */
	/* eventfd-count; io_uring: submissions not taken yet; userfaultfd: pending faults */
	uint64_t count;
	uint64_t id;          /* eventfd-id, plus 1, as the first of a machine has 0; 0: unknown */
	int64_t remaining_ns; /* timerfd: it_value; -1: not armed, or not a timer */
	uint64_t signals;     /* signalfd: sigmask, bit 0 is signal 1 */
	int32_t pid;          /* pidfd: Pid, -1: reaped */
	uint32_t watches; /* inotify: how many; epoll: how many tfd lines, counted up to the cap */
	bool watches_cut; /* there were more */
	int32_t *watched; /* epoll: the first ones */
	size_t watched_count;
};

enum snap_socket_family {
	SNAP_SOCKET_OTHER,
	SNAP_SOCKET_UNIX,
	SNAP_SOCKET_TCP4,
	SNAP_SOCKET_TCP6,
	SNAP_SOCKET_UDP4,
	SNAP_SOCKET_UDP6,
	SNAP_SOCKET_NETLINK,
	SNAP_SOCKET_FAMILIES,
};

struct snap_socket_address {
	uint8_t bytes[16]; /* network order; of IPv4 the first four */
	uint16_t port;     /* host order */
};

/* A socket, as sock_diag(7) or /proc/PID/net/… tell. */
struct snap_socket {
	uint64_t namespace; /* inode of the network namespace */
	uint64_t inode;
	enum snap_socket_family family;
	uint8_t state; /* TCP_ESTABLISHED … of tcp_states.h, for unix too; 0 unknown */
	uint8_t type;  /* SOCK_STREAM … of a unix socket; 0 unknown */
	struct snap_socket_address local, remote; /* TCP and UDP */
	uint64_t receive_queue, send_queue;       /* bytes; of a listener: backlog and its limit */
	bool queues_known;
	uint32_t retransmits; /* of what is under way: idiag_retrans */
	uint64_t peer;        /* inode of the other end of a unix socket; 0 unknown */
	const char *name;     /* unix: path, or NUL as '@' and the abstract name; NULL: none */
	/* A listener's: inodes of those that wait to be accepted (UNIX_DIAG ICONS) are not kept. */
};

/* A line of /proc/locks (proc_locks(5)), or a `lock:` line of the fdinfo of a process. */
struct snap_file_lock {
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	uint64_t start, end; /* bytes, inclusive; end UINT64_MAX: to the end of the file */
	uint32_t number;     /* of the line; a waiter has the number of the lock it waits for */
	pid_t pid;           /* the process that took it, as /proc/locks says; -1: OFD */
	enum { SNAP_LOCK_FLOCK, SNAP_LOCK_POSIX, SNAP_LOCK_OFD, SNAP_LOCK_LEASE } kind;
	bool write;
	bool waits;     /* a line with "->" */
	bool is_holder; /* of fdinfo: `pid` has the file open under this lock */
};

/* That a process has one end of a pipe, a socket or a file open. */
struct snap_file_peer {
	pid_t pid;
	enum snap_descriptor_kind kind; /* PIPE, SOCKET, EVENTFD, FIFO, FILE */
	uint64_t inode;                 /* EVENTFD: its id */
	bool readable, writable;
};

/* A process outside of the tree that something inside waits for: named, never touched. */
struct snap_outsider {
	pid_t pid;
	const char *name; /* comm; NULL unknown */
	char state;       /* letter of stat; 0 unknown */
};

/* A System V message queue or semaphore set (/proc/sysvipc). */
struct snap_ipc_queue {
	bool is_semaphore;
	uint64_t namespace; /* inode of the IPC namespace, in which the id means something */
	int32_t id;
	uint16_t number; /* of the semaphore in its set */
	uint64_t messages, bytes;
	pid_t last_sender,
		last_receiver; /* 0 unknown; semaphores: the last operation, in last_sender */
};

/*
 * A number in memory that a process shares with others, or that was read without a stop, and no thread
 * has it: neither in the pid namespace of this process, nor in one inside of it, by the numbers there.
 * The number was still there afterwards, so it is that of a thread that has ended.
 */
struct snap_gone_thread {
	pid_t pid;       /* of the process */
	pid_t tid;       /* as it would number the thread */
	bool everywhere; /* no other pid namespace has ours inside of it, and threads we cannot see */
};

/* Why something is absent; bits. */
enum snap_wait_lack {
	SNAP_LACK_TIME = 1 << 0,       /* there was no more time */
	SNAP_LACK_SOCKETS = 1 << 1,    /* no sock_diag here */
	SNAP_LACK_NAMESPACES = 1 << 2, /* sockets and queues of some others have no details */
	SNAP_LACK_FILE_LOCKS = 1 << 3, /* no /proc/locks */
	SNAP_LACK_RIGHTS = 1 << 4,     /* descriptors of other users' processes */
	SNAP_LACK_CUT = 1 << 5,        /* there was more than the caps allow */
	/* locks of runtimes, whose owners are not looked for */
	SNAP_LACK_GO_LOCKS = 1 << 6,
	SNAP_LACK_JAVA_LOCKS = 1 << 7,   /* all but monitors */
	SNAP_LACK_PYTHON_LOCKS = 1 << 8, /* threading.Lock keeps no owner */
	SNAP_LACK_OWNERS = 1 << 9,       /* a thread waits for a lock whose owner cannot be named */
	SNAP_LACK_CORE = 1 << 10,        /* what only a kernel with processes can tell */
	SNAP_LACK_IN_FLIGHT = 1 << 11, /* descriptors that wait in sockets, requests of io_uring */
	SNAP_LACK_ALL = (1 << 12) - 1,
};

/* Facts that do not belong to one process. Lists are sorted as said. */
struct snap_wait_facts {
	struct snap_socket *sockets; /* by namespace, then inode */
	size_t socket_count;
	struct snap_file_lock *locks; /* in the order of /proc/locks, those of fdinfo behind them */
	size_t lock_count;
	struct snap_file_peer *peers; /* by kind, inode, pid */
	size_t peer_count;
	struct snap_outsider *outsiders; /* by pid */
	size_t outsider_count;
	struct snap_ipc_queue *queues; /* semaphores last, by namespace, id, number */
	size_t queue_count;
	struct snap_gone_thread *gone; /* by pid, then tid */
	size_t gone_count;
	int64_t monotonic_ns, realtime_ns,
		boottime_ns; /* when all stood still; for absolute timeouts */
	unsigned lacks;      /* bits of enum snap_wait_lack */
};
