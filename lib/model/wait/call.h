/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls that wait: which system calls block, and what their arguments name. A table with a row for each
 * call and processor. The code that copies memory for a wait and the code that explains it read it.
 *
 * Numbers are those of the processor; where code names one by its number, it is that of x86-64
 * (arch/x86/entry/syscalls/syscall_64.tbl of Linux), the common one. Knows no memory.
 */
#pragma once

#include "model/capture.h"
#include "model/wait/wait.h"

/* What a call does, as far as waiting is concerned; several numbers share one. */
enum snap_wait_call {
	SNAP_CALL_OTHER,
	SNAP_CALL_FUTEX,
	SNAP_CALL_FUTEX_WAITV,
	SNAP_CALL_READ, /* read, readv, pread64, preadv, recvfrom, recvmsg, recvmmsg, getdents … */
	SNAP_CALL_WRITE, /* write, writev, pwrite64, sendto, sendmsg, sendmmsg, sendfile, splice … */
	SNAP_CALL_SYNC,   /* fsync, fdatasync, sync_file_range, ftruncate, fallocate */
	SNAP_CALL_FSTAT,  /* fstat: of a descriptor */
	SNAP_CALL_POLL,   /* poll, ppoll */
	SNAP_CALL_SELECT, /* select, pselect6 */
	SNAP_CALL_EPOLL,  /* epoll_wait, epoll_pwait, epoll_pwait2 */
	SNAP_CALL_ACCEPT,
	SNAP_CALL_CONNECT,
	SNAP_CALL_WAIT4,
	SNAP_CALL_WAITID,
	SNAP_CALL_FLOCK,
	SNAP_CALL_FCNTL,
	SNAP_CALL_NANOSLEEP,
	SNAP_CALL_CLOCK_NANOSLEEP,
	SNAP_CALL_PAUSE,
	SNAP_CALL_SIGSUSPEND,
	SNAP_CALL_SIGTIMEDWAIT,
	SNAP_CALL_MSGRCV,
	SNAP_CALL_MSGSND,
	SNAP_CALL_SEMOP, /* semop, semtimedop */
	SNAP_CALL_MQ_RECEIVE,
	SNAP_CALL_MQ_SEND,
	SNAP_CALL_OPEN, /* open, openat, openat2, creat */
	SNAP_CALL_STAT, /* stat, lstat, newfstatat, statx, access: of a path */
	SNAP_CALL_VFORK,
	SNAP_CALL_IO_URING_ENTER,
	SNAP_CALL_IO_GETEVENTS,
	SNAP_CALL_RESTART, /* restart_syscall: the arguments are those of what was interrupted */
};

/* What limits the time that a call waits; which argument, and of which clock, is in the row. */
enum snap_wait_limit {
	SNAP_LIMIT_NONE,
	SNAP_LIMIT_RELATIVE,     /* a timespec */
	SNAP_LIMIT_ABSOLUTE,     /* a timespec, of a clock */
	SNAP_LIMIT_MILLISECONDS, /* the argument itself, an int; below 0: none */
	SNAP_LIMIT_TIMEVAL,      /* relative */
};

/* Facts of a call; bits. */
enum snap_wait_call_fact {
	SNAP_CALL_FOR_OTHERS = 1 << 0, /* another thread must act: a circle may never end */
	SNAP_CALL_RESTARTS = 1 << 1,   /* after a stop it goes on as restart_syscall */
	SNAP_CALL_IN_FILES = 1 << 2,   /* file systems may hold it up, in state S as well */
	SNAP_CALL_IS_ASKED = 1 << 3,   /* it names something to ask of, without a descriptor */
	/*
	 * After a stop it goes on and returns what it would have returned (signal(7); ERESTART* of the
	 * kernel). All others may end with EINTR, or with a part of their bytes.
	 */
	SNAP_CALL_GOES_ON = 1 << 4,
};

/* A call. Arguments are numbers from 0 on, -1: it has no such argument. */
struct snap_wait_call_row {
	enum snap_wait_call call;
	enum snap_wait_kind kind; /* that decides what explains it: see analyze/wait/kernel */
	int8_t fd;                /* which argument is a descriptor */
	int8_t pointer;           /* which one points to memory to be copied: array, path … */
	int8_t count;             /* which one counts the elements there */
	int8_t timeout;           /* which one limits the time … */
	enum snap_wait_limit limit;
	enum snap_wait_mode mode; /* what it does with its descriptor */
	const char *variant;      /* of its wait, where the call alone decides that; else NULL */
	uint32_t bytes;           /* how many bytes there, at most; arrays: of an element */
	uint32_t most;            /* elements at most */
	/* Other arguments that say for what it waits, a bit each: of 32 bits, and whole. */
	uint8_t ints, longs;
	uint8_t facts; /* bits of enum snap_wait_call_fact */
};

/* The row of a call, one with SNAP_CALL_OTHER if it has none. Never NULL. */
const struct snap_wait_call_row *snap_wait_call_row(enum snap_arch arch, int64_t number);

/* False: a call that only looks as if it waits: fcntl(2), but for two of its commands. */
bool snap_wait_call_may_wait(const struct snap_wait_call_row *row,
			     const struct snap_thread_call *call);

/*
 * The number that a call has on x86-64, and the one that it has on a processor; -1: it is none that
 * waits, or is not there.
 */
int64_t snap_wait_call_common(enum snap_arch arch, int64_t number);
int64_t snap_wait_call_own(enum snap_arch arch, int64_t common);

/*
 * The call that a thread is in: of its registers, if those are whole, else what procfs said.
 * `known` is false where neither is there.
 */
struct snap_thread_call snap_wait_call_of(enum snap_arch arch, const struct snap_thread *thread);
