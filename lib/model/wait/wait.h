/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits: the object that a thread waits for, its owner, and how sure that is; deadlocks, threads that
 * block others, and contended objects. A part of struct snap_snapshot.
 *
 * Plain values in the snapshot's arena; pointers inside are borrowed from it. Strings are raw bytes
 * of the target, NULL: unknown. Knows nothing of how any of it is found.
 */
#pragma once

#include "model/wait/facts.h"

struct snap_snapshot;
struct snap_member;
struct snap_buffer;
struct snap_interner;

/* Files hold these numbers: new ones come last. What is true of each is its row: see kind.h. */
enum snap_wait_kind {
	SNAP_WAIT_NONE, /* it waits for nothing that is known */
	SNAP_WAIT_MUTEX,
	SNAP_WAIT_RWLOCK,
	SNAP_WAIT_CONDITION,
	SNAP_WAIT_SEMAPHORE,
	SNAP_WAIT_BARRIER,
	SNAP_WAIT_ONCE,
	SNAP_WAIT_THREAD, /* its end */
	SNAP_WAIT_STDIO,
	SNAP_WAIT_MALLOC,
	SNAP_WAIT_GIL,
	SNAP_WAIT_MONITOR,
	SNAP_WAIT_FUTEX,
	SNAP_WAIT_FUTEX_PI,
	SNAP_WAIT_ATOMIC,
	SNAP_WAIT_LATCH,
	SNAP_WAIT_FUTURE,
	SNAP_WAIT_STATIC_INIT,
	SNAP_WAIT_PARK,
	SNAP_WAIT_CHANNEL,
	SNAP_WAIT_RUNTIME,
	SNAP_WAIT_SLEEP,
	SNAP_WAIT_SIGNAL,
	SNAP_WAIT_CHILD,
	SNAP_WAIT_VFORK,
	SNAP_WAIT_PIPE,
	SNAP_WAIT_FIFO,
	SNAP_WAIT_FIFO_OPEN,
	SNAP_WAIT_UNIX,
	SNAP_WAIT_TCP,
	SNAP_WAIT_UDP,
	SNAP_WAIT_SOCKET,
	SNAP_WAIT_FILE,
	SNAP_WAIT_FILE_LOCK,
	SNAP_WAIT_TTY,
	SNAP_WAIT_EVENTFD,
	SNAP_WAIT_TIMERFD,
	SNAP_WAIT_SIGNALFD,
	SNAP_WAIT_INOTIFY,
	SNAP_WAIT_PIDFD,
	SNAP_WAIT_USERFAULTFD,
	SNAP_WAIT_MQUEUE,
	SNAP_WAIT_IO_URING,
	SNAP_WAIT_AIO,
	SNAP_WAIT_POLL,
	SNAP_WAIT_SELECT,
	SNAP_WAIT_EPOLL,
	SNAP_WAIT_MSGQUEUE,
	SNAP_WAIT_SYSV_SEMAPHORE,
	SNAP_WAIT_PAGE_FAULT,
	SNAP_WAIT_FROZEN,
	SNAP_WAIT_STOPPED,
	SNAP_WAIT_TRACED,
	SNAP_WAIT_DISK,
	SNAP_WAIT_SYSCALL,
	SNAP_WAIT_KINDS,
};

/* How sure it is; the default report shows the last two. */
enum snap_wait_confidence {
	SNAP_WAIT_IS_UNKNOWN,
	SNAP_WAIT_IS_GUESS,   /* a hint */
	SNAP_WAIT_IS_LIKELY,  /* data alone, or name and data of different moments */
	SNAP_WAIT_IS_CERTAIN, /* name and data agree, and all stood still together */
	SNAP_WAIT_CONFIDENCES,
};

/* Why no living owner can be named; the words of `owner_unknown` are in words.c. */
enum snap_owner_lack {
	SNAP_OWNER_KNOWN,      /* `owner` names it */
	SNAP_OWNER_NOT_KEPT,   /* such an object keeps none: condition, semaphore, musl */
	SNAP_OWNER_CHANGING,   /* tid 0: being taken or released */
	SNAP_OWNER_EXITED,     /* thread owner.tid: no thread can release it */
	SNAP_OWNER_AT_FORK,    /* thread owner.tid of the parent, when this process was forked */
	SNAP_OWNER_DIED,       /* a robust mutex whose owner died */
	SNAP_OWNER_UNREADABLE, /* its bytes could not be read, or changed */
	SNAP_OWNER_NOT_SEEN,   /* a process or thread that is not in this report */
	SNAP_OWNER_REFUSED,    /* PI: the kernel has refused it as a deadlock */
	SNAP_OWNER_OTHER_USER, /* the descriptors of other users' processes cannot be read */
	SNAP_OWNER_YOUNGER,    /* thread owner.tid has the number, but began after the wait did */
	SNAP_OWNER_LACKS,
};

/* A thread or process that a wait is for; tid 0: some thread of the process. */
struct snap_wait_party {
	pid_t pid, tid;
	const char *name;             /* of the thread, or of the process outside */
	char state;                   /* letter of stat; 0 unknown */
	const char *function;         /* its innermost own function; NULL unknown */
	const char *stack;            /* id of the group that it is in; NULL: in none */
	bool outside;                 /* of the report: never stopped or opened */
	const struct snap_wait *wait; /* what it waits for itself; NULL: nothing, or not known */
};

/* One end of a connection, printable: "10.0.0.4:51234", "[::1]:80". */
enum { SNAP_WAIT_ADDRESS_TEXT = 64 };

/* How many are listed: threads of a deadlock; blockers, contended objects, parties of a wait. */
enum { SNAP_DEADLOCK_SHOWN = 16, SNAP_WAIT_LIST = 20 };

enum snap_wait_mode { SNAP_WAIT_ANY_MODE, SNAP_WAIT_READ, SNAP_WAIT_WRITE };

/* How the owner word of an object names the thread. */
enum snap_owner_form {
	SNAP_OWNER_FORM_NONE,   /* it has none, or it takes more than a number */
	SNAP_OWNER_FORM_TID,    /* 32 bits: the thread as its process numbers it; 0: none */
	SNAP_OWNER_FORM_MASKED, /* the same in the lower 30 bits: PI futexes, musl (FUTEX_TID_MASK) */
	SNAP_OWNER_FORMS,
};

struct snap_owner_word {
	uint64_t address; /* 0: none */
	enum snap_owner_form form;
};

/*
 * A wait. Fields that a kind does not have are 0 or NULL; -1 where 0 has a meaning (fd, value,
 * queues …).
 */
struct snap_wait {
	enum snap_wait_kind kind;
	enum snap_wait_confidence confidence;
	const char
		*variant; /* "robust", "recursive", "accept", "connect", "musl" …: a word of ours */
	enum snap_wait_mode mode;
	/* the object */
	uint64_t address;   /* its start; 0: none */
	const char *symbol; /* of data at the address */
	const char *module; /* path of what is mapped there; NULL: anonymous */
	uint64_t offset;    /* of the address: in the symbol if there is one, else in the module */
	const char *place;  /* "heap", "stack of 123" where there is no symbol; NULL */
	int32_t fd;         /* -1: none */
	const char *path;
	int64_t id;           /* pidfd, eventfd, System V ids …; -1 none */
	int64_t message_type; /* MSGQUEUE, as of msgrcv(2); 0: any, or unknown */
	int32_t semaphore;    /* SYSV_SEMAPHORE: its number in the set; -1: several, or unknown */
	const char *call;     /* name of the system call; NULL: in none */
	const char *wchan;
	const char *cgroup; /* FROZEN */
	/* owners and peers */
	bool has_owner;
	struct snap_wait_party owner;
	enum snap_owner_lack owner_lack;
	struct snap_owner_word owner_word; /* by which the owner was found, or would be */
	/* of a file lock; readers that are known; at most SNAP_WAIT_LIST. Hints: see below */
	struct snap_wait_party *holders;
	size_t holder_count;
	/* at the other end; children that are waited for; at most SNAP_WAIT_LIST, of peer_total */
	struct snap_wait_party *peers;
	size_t peer_count, peer_total;
	bool peers_unknown;            /* there may be more, which could not be seen */
	struct snap_wait_party *hints; /* whose stack holds the address; at most 3 */
	size_t hint_count;
	/* numbers of the object; -1: not of this kind, or unknown */
	uint64_t mutex; /* CONDITION: the address of its mutex, 0 unknown */
	const char *mutex_symbol;
	bool mutex_free; /* CONDITION: no thread has it */
	int64_t readers, value, waiters, arrived, needed;
	/* POLL, SELECT, EPOLL */
	int64_t fd_count; /* as asked; -1 */
	int32_t *fds;     /* the first ones … */
	/* … and what each is, of enum snap_descriptor_kind; NULL unknown */
	const uint32_t *fd_kinds;
	size_t fds_count;
	bool fds_cut;
	uint32_t kinds_watched[SNAP_DESCRIPTOR_KINDS]; /* how many of each */
	uint32_t listening, connected;                 /* of sockets among them */
	const char *listen_address;                    /* of the one listener: "tcp 127.0.0.1:80" */
	uint64_t signals;                              /* bit 0: signal 1 */
	pid_t child; /* CHILD: 0 any of `peers`, > 0 that one, < 0 a group */
	/* a socket */
	const char *local, *remote, *socket_state; /* texts; unix: names */
	int64_t recv_queue, send_queue, backlog, backlog_max, retransmits, peer_recv_queue;
	/* a file lock */
	uint64_t range_start, range_end; /* end UINT64_MAX: whole */
	/* time */
	int64_t since_ns;     /* it has been waiting at least so long; -1 unknown */
	bool timed;           /* it ends by itself */
	int64_t remaining_ns; /* if timed: until then, at most; -1 unknown */
};

/* A thread of a deadlock, of those in front or behind. */
struct snap_wait_link {
	pid_t pid, tid;
	const char *name, *function, *file;
	uint32_t line;
	const struct snap_wait *wait;
};

/* Threads each of which waits for the next, the last for the first. No deadlock if it is timed. */
struct snap_deadlock {
	bool certain;     /* else merely possible */
	bool timed;       /* it ends by itself at a time limit */
	int64_t until_ns; /* the first one; -1: there is none, or not known when */
	size_t behind;    /* threads that can never go on because of it */
	struct snap_wait_link
		*threads;    /* begins with the lowest tid; at most SNAP_DEADLOCK_SHOWN */
	size_t thread_count; /* those in `threads` */
	size_t size;         /* all of them */
};

/* A thread that others wait for, directly or through others, and that waits for no lock. */
struct snap_blocker {
	pid_t pid, tid;
	const char *name;
	size_t blocked;               /* threads */
	const char *function;         /* its innermost own function; NULL unknown */
	size_t locks;                 /* distinct objects in between */
	const struct snap_wait *wait; /* its own wait; NULL: it runs, or that is not known */
	char state;
	bool certain;              /* with `lack`: a thread waits for ever, beyond doubt */
	enum snap_owner_lack lack; /* KNOWN; else an owner that can never release it */
};

/* An object that several threads wait for. */
struct snap_contended {
	size_t waiters;
	pid_t pid;                    /* of the first waiter */
	const struct snap_wait *wait; /* that of the first waiter: its object and owner */
};

/* Whether its threads wait for ever, beyond doubt. */
static inline bool snap_deadlock_is_real(const struct snap_deadlock *deadlock)
{
	return deadlock->certain && !deadlock->timed;
}

/* All of a snapshot. Lists are in the order of the report, by count down, then by address. */
struct snap_waits {
	bool asked; /* false: waits were not asked for; nothing is said about them */
	struct snap_deadlock *deadlocks;
	size_t deadlock_count, deadlock_total; /* listed, and all */
	struct snap_blocker *blockers;
	size_t blocker_count;
	struct snap_contended *contended;
	size_t contended_count;
	unsigned lacks; /* bits of enum snap_wait_lack */
};

/* The words of the JSON. */
const char *snap_wait_kind_word(enum snap_wait_kind kind);
const char *snap_wait_confidence_word(enum snap_wait_confidence confidence);
const char *snap_owner_lack_word(enum snap_owner_lack lack);
/* Of a bit's number in enum snap_wait_lack. */
const char *snap_wait_lack_word(unsigned bit);
/* The same for people. */
const char *snap_wait_lack_text(unsigned bit);
const char *snap_descriptor_word(enum snap_descriptor_kind kind);
/* "terminal", "terminals". */
const char *snap_descriptor_noun(enum snap_descriptor_kind kind, bool several);

/* A new wait with nothing else known: all numbers that have a meaning at 0 are -1. */
struct snap_wait snap_wait_init(enum snap_wait_kind kind, enum snap_wait_confidence confidence);

/*
 * A copy in the interner's arena: texts and lists are cut to the limits of a snapshot. Parties that
 * are threads are left out, an owner with the reason why there is none. Parties that are processes
 * have no stack and no wait. False without memory.
 */
bool snap_wait_copy(struct snap_interner *strings, const struct snap_wait *from,
		    struct snap_wait *ret);

/*
 * Whether two threads wait for the same object with the same owner, so that one line describes both:
 * times and confidence may differ.
 */
bool snap_wait_same(const struct snap_wait *a, const struct snap_wait *b);

/* An order of objects, by kind and then by what names them; 0 for more than the same ones. */
int snap_wait_compare(const struct snap_wait *a, const struct snap_wait *b);

/*
 * A hash of the object and its owner, for groups of threads that wait for the same object; of NULL,
 * too. The same in each run if the object has a name.
 */
uint64_t snap_wait_hash(const struct snap_wait *wait, uint64_t seed);

/*
 * A hash for the same wait in processes that are alike. It ignores pids, tids, addresses, numbers of
 * descriptors, how many they are, ports that the kernel gives to clients, queued bytes and times.
 */
uint64_t snap_wait_hash_alike(const struct snap_wait *wait, uint64_t seed);

/* Since when, and how long still at most, of waits that one line describes; -1 unknown. */
struct snap_wait_times {
	int64_t least_since_ns, most_since_ns, least_left_ns, most_left_ns;
};

struct snap_wait_times snap_wait_times_of(const struct snap_wait *wait);
/* Adds those of another wait. */
void snap_wait_times_add(struct snap_wait_times *times, const struct snap_wait *wait);

/*
 * The line of the report without "since" ("waits for mutex ledger_lock, held by 11447 worker-3
 * (running in charge_order)"). It contains raw texts of the target: the code that prints it escapes it.
 * `all`: with hints, since and remaining times (--explain); how long a sleep goes on is said
 * always. NULL without memory; malloc'ed.
 */
char *snap_wait_line(const struct snap_wait *wait, bool all);
/* The same with the times of several waits: "waits 3.2 s to 59 min for mutex …". */
char *snap_wait_line_of(const struct snap_wait *wait, const struct snap_wait_times *times,
			bool all);

/*
 * Parts of the lines at the top of a report, as above: malloc'ed, raw, "" if there is nothing to say,
 * NULL without memory. "17 threads wait, through 2 locks, for 11447 worker-3 (in recv …)".
 */
char *snap_wait_blocker_line(const struct snap_blocker *blocker);
/* "waits for mutex accounts", and its owner: "held by 13564 dl2". */
char *snap_wait_link_line(const struct snap_wait *wait);
char *snap_wait_owner_line(const struct snap_wait *wait);
/* "until a time limit (3.2 s)"; "" where there is none. */
char *snap_wait_until_text(const struct snap_deadlock *deadlock);
/* "DEADLOCK", "possible deadlock", "circle" …; "2 threads, 3 more wait behind them". */
const char *snap_wait_deadlock_word(const struct snap_deadlock *deadlock);
char *snap_wait_deadlock_line(const struct snap_deadlock *deadlock);

/*
 * The object alone, the same for all threads that wait for it ("mutex ledger_lock", "tcp
 * 10.0.0.4:51234 -> 10.0.0.9:5432"): a label of profiles, and the key of --group-by wait together
 * with the owner. "" where there is nothing to name; NULL
 * without memory; malloc'ed.
 */
char *snap_wait_object(const struct snap_wait *wait);
/* The same wait as people read it without -v: addresses of what has no name are not there. */
struct snap_wait snap_wait_plain(const struct snap_wait *wait);

/* Whether a report shows it: certain or likely, with `all` hints, too. */
bool snap_wait_is_shown(const struct snap_wait *wait, bool all);
