/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls that wait: which system calls block, and what their arguments name. A table with a row for each
 * call and processor. The code that copies memory for a wait and the code that explains it read it.
 *
 * Numbers are those of the processor; where code names one by its number, it is that of x86-64
 * (arch/x86/entry/syscalls/syscall_64.tbl of Linux), the common one. Knows no memory.
 */
#ifndef SNAP_MODEL_WAIT_CALL_H
#define SNAP_MODEL_WAIT_CALL_H

#include "model/capture.h"
#include "model/wait/facts.h"

/* What a call does, as far as waiting is concerned; several numbers share one. */
enum snap_wait_call {
	SNAP_CALL_OTHER,
	SNAP_CALL_FUTEX,
	SNAP_CALL_FUTEX_WAITV,
	SNAP_CALL_READ, /* read, readv, pread64, preadv, recvfrom, recvmsg, recvmmsg, getdents … */
	SNAP_CALL_WRITE, /* write, writev, pwrite64, sendto, sendmsg, sendmmsg, sendfile, splice … */
	SNAP_CALL_SYNC,  /* fsync, fdatasync, sync_file_range, ftruncate, fallocate */
	SNAP_CALL_FSTAT, /* fstat: of a descriptor */
	SNAP_CALL_POLL,
	SNAP_CALL_PPOLL,
	SNAP_CALL_SELECT,
	SNAP_CALL_PSELECT,
	SNAP_CALL_EPOLL, /* epoll_wait, epoll_pwait, epoll_pwait2: see `number` */
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
	SNAP_CALL_KINDS,
};

/* The arguments of a call; -1: it has no such argument. */
struct snap_wait_call_row {
	enum snap_wait_call call;
	int8_t fd;      /* which argument is a descriptor */
	int8_t pointer; /* which one points to memory to be copied: array, address, path … */
	uint32_t bytes; /* how many bytes there, at most; arrays: of an element */
	int8_t count;   /* which argument counts the elements */
	uint32_t most;  /* elements at most */
	int8_t timeout; /* which one leads to a timespec */
};

/* The row of a call, one with SNAP_CALL_OTHER if it has none. Never NULL. */
const struct snap_wait_call_row *snap_wait_call_row(enum snap_arch arch, int64_t number);

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

#endif
