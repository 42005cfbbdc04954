/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of calls that wait: see call.h. */
#include "model/wait/call.h"

#include "model/arch/registers.h"

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
	[5] = ON_FD(SNAP_CALL_FSTAT),
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

/*
 * aarch64 has the numbers of all processors that came late (include/uapi/asm-generic/unistd.h), and
 * the same arguments: what the call is on x86-64. Calls that others have made superfluous are not
 * there: no poll but ppoll, no stat but newfstatat. From 424 on both have the same numbers.
 */
static const struct {
	int16_t own, common;
} aarch64[] = {
	{ 4, 208 },   /* io_getevents */
	{ 22, 281 },  /* epoll_pwait */
	{ 25, 72 },   /* fcntl */
	{ 29, 16 },   /* ioctl */
	{ 32, 73 },   /* flock */
	{ 46, 77 },   /* ftruncate */
	{ 47, 285 },  /* fallocate */
	{ 48, 269 },  /* faccessat */
	{ 56, 257 },  /* openat */
	{ 61, 217 },  /* getdents64 */
	{ 63, 0 },    /* read */
	{ 64, 1 },    /* write */
	{ 65, 19 },   /* readv */
	{ 66, 20 },   /* writev */
	{ 67, 17 },   /* pread64 */
	{ 68, 18 },   /* pwrite64 */
	{ 69, 295 },  /* preadv */
	{ 70, 296 },  /* pwritev */
	{ 71, 40 },   /* sendfile */
	{ 72, 270 },  /* pselect6 */
	{ 73, 271 },  /* ppoll */
	{ 76, 275 },  /* splice */
	{ 79, 262 },  /* newfstatat */
	{ 80, 5 },    /* fstat */
	{ 82, 74 },   /* fsync */
	{ 83, 75 },   /* fdatasync */
	{ 84, 277 },  /* sync_file_range */
	{ 95, 247 },  /* waitid */
	{ 98, 202 },  /* futex */
	{ 101, 35 },  /* nanosleep */
	{ 115, 230 }, /* clock_nanosleep */
	{ 128, 219 }, /* restart_syscall */
	{ 133, 130 }, /* rt_sigsuspend */
	{ 137, 128 }, /* rt_sigtimedwait */
	{ 182, 242 }, /* mq_timedsend */
	{ 183, 243 }, /* mq_timedreceive */
	{ 188, 70 },  /* msgrcv */
	{ 189, 69 },  /* msgsnd */
	{ 192, 220 }, /* semtimedop */
	{ 193, 65 },  /* semop */
	{ 202, 43 },  /* accept */
	{ 203, 42 },  /* connect */
	{ 206, 44 },  /* sendto */
	{ 207, 45 },  /* recvfrom */
	{ 211, 46 },  /* sendmsg */
	{ 212, 47 },  /* recvmsg */
	{ 242, 288 }, /* accept4 */
	{ 243, 299 }, /* recvmmsg */
	{ 260, 61 },  /* wait4 */
	{ 269, 307 }, /* sendmmsg */
	{ 286, 327 }, /* preadv2 */
	{ 287, 328 }, /* pwritev2 */
	{ 291, 332 }, /* statx */
};

enum { FIRST_SHARED = 424 };

int64_t snap_wait_call_common(enum snap_arch arch, int64_t number)
{
	if (arch == SNAP_ARCH_UNKNOWN)
		return -1;
	if (arch == SNAP_ARCH_X86_64 || number >= FIRST_SHARED)
		return number;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(aarch64); i++)
		if (aarch64[i].own == number)
			return aarch64[i].common;
	return -1;
}

int64_t snap_wait_call_own(enum snap_arch arch, int64_t common)
{
	if (arch == SNAP_ARCH_UNKNOWN)
		return -1;
	if (arch == SNAP_ARCH_X86_64 || common >= FIRST_SHARED)
		return common;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(aarch64); i++)
		if (aarch64[i].common == common)
			return aarch64[i].own;
	return -1;
}

const struct snap_wait_call_row *snap_wait_call_row(enum snap_arch arch, int64_t number)
{
	int64_t common = snap_wait_call_common(arch, number);

	if (common < 0 || common >= (int64_t)SNAP_ARRAY_SIZE(x86_64) ||
	    x86_64[common].call == SNAP_CALL_OTHER)
		return &other;
	return &x86_64[common];
}

struct snap_thread_call snap_wait_call_of(enum snap_arch arch, const struct snap_thread *thread)
{
	struct snap_thread_call call = { .known = true };
	struct snap_known_registers known;

	if (thread->partial || !snap_registers_of(arch, thread, &known) || known.interrupted)
		return thread->call;
	call.number = known.call;
	memcpy(call.arguments, known.arguments, sizeof(call.arguments));
	call.sp = known.sp;
	call.pc = known.call >= 0 ? known.call_pc : known.pc;
	call.thread_pointer = known.thread_pointer;
	return call;
}
