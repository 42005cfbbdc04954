/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of calls that wait: see call.h. */
#include "model/wait/call.h"

#include <string.h>

enum {
	PATH_BYTES = 256,
	ADDRESS_BYTES = 128, /* of sockaddr_storage (unix(7), ipv6(7)) */
	FD_SET_BYTES = 128,  /* 1,024 descriptors (select(2)) */
	POLLFD_BYTES = 8,
	WAITV_BYTES = 24, /* struct futex_waitv (linux/futex.h) */
	MOST_WAITV = 128,
	SEMBUF_BYTES = 6,
	MOST_SEMBUF = 64,
	SIGSET_BYTES = 8,
	TIMESPEC_BYTES = 16,
};

#define NONE .fd = -1, .pointer = -1, .count = -1, .timeout = -1
#define ON_FD(c)                                                        \
	{                                                               \
		(c), .fd = 0, .pointer = -1, .count = -1, .timeout = -1 \
	}
#define OF_PATH(c, argument)                                                            \
	{                                                                               \
		(c), .fd = -1, .pointer = (argument), .bytes = PATH_BYTES, .count = -1, \
		     .timeout = -1                                                      \
	}

static const struct snap_wait_call_row other = { SNAP_CALL_OTHER, NONE };

/* arch/x86/entry/syscalls/syscall_64.tbl */
static const struct snap_wait_call_row x86_64[] = {
	[0] = ON_FD(SNAP_CALL_READ),  /* read */
	[1] = ON_FD(SNAP_CALL_WRITE), /* write */
	[2] = OF_PATH(SNAP_CALL_OPEN, 0),
	[4] = OF_PATH(SNAP_CALL_STAT, 0), /* stat */
	[6] = OF_PATH(SNAP_CALL_STAT, 0), /* lstat */
	[7] = { SNAP_CALL_POLL, .fd = -1, .pointer = 0, .bytes = POLLFD_BYTES, .count = 1,
		.most = SNAP_MAX_POLLED, .timeout = -1 },
	[16] = ON_FD(SNAP_CALL_READ),      /* ioctl */
	[17] = ON_FD(SNAP_CALL_READ),      /* pread64 */
	[18] = ON_FD(SNAP_CALL_WRITE),     /* pwrite64 */
	[19] = ON_FD(SNAP_CALL_READ),      /* readv */
	[20] = ON_FD(SNAP_CALL_WRITE),     /* writev */
	[21] = OF_PATH(SNAP_CALL_STAT, 0), /* access */
	[23] = { SNAP_CALL_SELECT, .fd = -1, .pointer = 1, .bytes = FD_SET_BYTES, .count = -1,
		 .timeout = 4 },
	[34] = { SNAP_CALL_PAUSE, NONE },
	[35] = { SNAP_CALL_NANOSLEEP, .fd = -1, .pointer = -1, .count = -1, .timeout = 0 },
	[40] = ON_FD(SNAP_CALL_WRITE), /* sendfile */
	[42] = { SNAP_CALL_CONNECT, .fd = 0, .pointer = 1, .bytes = ADDRESS_BYTES, .count = -1,
		 .timeout = -1 },
	[43] = ON_FD(SNAP_CALL_ACCEPT), /* accept */
	[44] = ON_FD(SNAP_CALL_WRITE),  /* sendto */
	[45] = ON_FD(SNAP_CALL_READ),   /* recvfrom */
	[46] = ON_FD(SNAP_CALL_WRITE),  /* sendmsg */
	[47] = ON_FD(SNAP_CALL_READ),   /* recvmsg */
	[58] = { SNAP_CALL_VFORK, NONE },
	[61] = { SNAP_CALL_WAIT4, NONE },
	[65] = { SNAP_CALL_SEMOP, .fd = -1, .pointer = 1, .bytes = SEMBUF_BYTES, .count = 2,
		 .most = MOST_SEMBUF, .timeout = -1 },
	[69] = { SNAP_CALL_MSGSND, NONE },
	[70] = { SNAP_CALL_MSGRCV, NONE },
	[72] = { SNAP_CALL_FCNTL, .fd = 0, .pointer = 2, .bytes = 32, .count = -1,
		 .timeout = -1 }, /* struct flock */
	[73] = ON_FD(SNAP_CALL_FLOCK),
	[74] = ON_FD(SNAP_CALL_SYNC),      /* fsync */
	[75] = ON_FD(SNAP_CALL_SYNC),      /* fdatasync */
	[77] = ON_FD(SNAP_CALL_SYNC),      /* ftruncate */
	[78] = ON_FD(SNAP_CALL_READ),      /* getdents */
	[85] = OF_PATH(SNAP_CALL_OPEN, 0), /* creat */
	[128] = { SNAP_CALL_SIGTIMEDWAIT, .fd = -1, .pointer = 0, .bytes = SIGSET_BYTES,
		  .count = -1, .timeout = 2 },
	[130] = { SNAP_CALL_SIGSUSPEND, .fd = -1, .pointer = 0, .bytes = SIGSET_BYTES, .count = -1,
		  .timeout = -1 },
	[202] = { SNAP_CALL_FUTEX, .fd = -1, .pointer = -1, .count = -1, .timeout = 3 },
	[208] = { SNAP_CALL_IO_GETEVENTS, .fd = -1, .pointer = -1, .count = -1, .timeout = 4 },
	[217] = ON_FD(SNAP_CALL_READ), /* getdents64 */
	[219] = { SNAP_CALL_RESTART, NONE },
	[220] = { SNAP_CALL_SEMOP, .fd = -1, .pointer = 1, .bytes = SEMBUF_BYTES, .count = 2,
		  .most = MOST_SEMBUF, .timeout = 3 },
	[230] = { SNAP_CALL_CLOCK_NANOSLEEP, .fd = -1, .pointer = -1, .count = -1, .timeout = 2 },
	[232] = ON_FD(SNAP_CALL_EPOLL), /* epoll_wait */
	[242] = { SNAP_CALL_MQ_SEND, .fd = 0, .pointer = -1, .count = -1, .timeout = 4 },
	[243] = { SNAP_CALL_MQ_RECEIVE, .fd = 0, .pointer = -1, .count = -1, .timeout = 4 },
	[247] = { SNAP_CALL_WAITID, NONE },
	[257] = OF_PATH(SNAP_CALL_OPEN, 1), /* openat */
	[262] = OF_PATH(SNAP_CALL_STAT, 1), /* newfstatat */
	[269] = OF_PATH(SNAP_CALL_STAT, 1), /* faccessat */
	[270] = { SNAP_CALL_PSELECT, .fd = -1, .pointer = 1, .bytes = FD_SET_BYTES, .count = -1,
		  .timeout = 4 },
	[271] = { SNAP_CALL_PPOLL, .fd = -1, .pointer = 0, .bytes = POLLFD_BYTES, .count = 1,
		  .most = SNAP_MAX_POLLED, .timeout = 2 },
	[275] = ON_FD(SNAP_CALL_WRITE),  /* splice */
	[277] = ON_FD(SNAP_CALL_SYNC),   /* sync_file_range */
	[281] = ON_FD(SNAP_CALL_EPOLL),  /* epoll_pwait */
	[285] = ON_FD(SNAP_CALL_SYNC),   /* fallocate */
	[288] = ON_FD(SNAP_CALL_ACCEPT), /* accept4 */
	[295] = ON_FD(SNAP_CALL_READ),   /* preadv */
	[296] = ON_FD(SNAP_CALL_WRITE),  /* pwritev */
	[299] = { SNAP_CALL_READ, .fd = 0, .pointer = -1, .count = -1,
		  .timeout = 4 },           /* recvmmsg */
	[307] = ON_FD(SNAP_CALL_WRITE),     /* sendmmsg */
	[327] = ON_FD(SNAP_CALL_READ),      /* preadv2 */
	[328] = ON_FD(SNAP_CALL_WRITE),     /* pwritev2 */
	[332] = OF_PATH(SNAP_CALL_STAT, 1), /* statx */
	[426] = { SNAP_CALL_IO_URING_ENTER, .fd = 0, .pointer = -1, .count = -1, .timeout = -1 },
	[437] = OF_PATH(SNAP_CALL_OPEN, 1), /* openat2 */
	[439] = OF_PATH(SNAP_CALL_STAT, 1), /* faccessat2 */
	[441] = { SNAP_CALL_EPOLL, .fd = 0, .pointer = -1, .count = -1, .timeout = 3 },
	[449] = { SNAP_CALL_FUTEX_WAITV, .fd = -1, .pointer = 0, .bytes = WAITV_BYTES, .count = 1,
		  .most = MOST_WAITV, .timeout = 3 },
};

const struct snap_wait_call_row *snap_wait_call_row(enum snap_arch arch, int64_t number)
{
	if (arch != SNAP_ARCH_X86_64 || number < 0 ||
	    number >= (int64_t)(sizeof(x86_64) / sizeof(*x86_64)) ||
	    x86_64[number].call == SNAP_CALL_OTHER)
		return &other;
	return &x86_64[number];
}

/* Places in NT_PRSTATUS on x86-64, in words of 8 bytes (struct user_regs_struct, sys/user.h). */
enum {
	WORD_R10 = 7,
	WORD_R9 = 8,
	WORD_R8 = 9,
	WORD_RDX = 12,
	WORD_RSI = 13,
	WORD_RDI = 14,
	WORD_ORIG_RAX = 15,
	WORD_RIP = 16,
	WORD_RSP = 19,
	WORD_FS_BASE = 21,
	WORDS = 27,
};

struct snap_thread_call snap_wait_call_of(enum snap_arch arch, const struct snap_thread *thread)
{
	static const uint8_t places[SNAP_CALL_ARGUMENTS] = { WORD_RDI, WORD_RSI, WORD_RDX,
							     WORD_R10, WORD_R8,  WORD_R9 };
	struct snap_thread_call call = { .known = true };
	uint64_t words[WORDS];

	if (arch != SNAP_ARCH_X86_64 || thread->partial || !thread->registers ||
	    thread->registers_size < sizeof(words))
		return thread->call;
	memcpy(words, thread->registers, sizeof(words));
	call.number = (int32_t)words[WORD_ORIG_RAX];
	if (call.number < 0)
		call.number = -1;
	for (int i = 0; i < SNAP_CALL_ARGUMENTS; i++)
		call.arguments[i] = words[places[i]];
	call.sp = words[WORD_RSP];
	call.pc = words[WORD_RIP];
	call.thread_pointer = words[WORD_FS_BASE];
	return call;
}
