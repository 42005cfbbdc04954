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
	/* Commands of fcntl(2). */
	SET_LOCK_WAIT = 7,
	SET_OPEN_LOCK_WAIT = 38,
};

#define OTHERS SNAP_CALL_FOR_OTHERS
#define FILES SNAP_CALL_IN_FILES
#define ASKED SNAP_CALL_IS_ASKED
#define GOES_ON SNAP_CALL_GOES_ON
#define RESTARTS (SNAP_CALL_RESTARTS | GOES_ON)

/* Columns: fd, pointer, count, timeout. */
#define NO_ARGUMENTS -1, -1, -1, -1
#define ON_FD(call, kind) (call), (kind), 0, -1, -1, -1

/* Calls that several numbers share. */
#define READS ON_FD(SNAP_CALL_READ, SNAP_WAIT_FILE), .mode = SNAP_WAIT_READ, .facts = OTHERS
#define WRITES ON_FD(SNAP_CALL_WRITE, SNAP_WAIT_FILE), .mode = SNAP_WAIT_WRITE, .facts = OTHERS
#define SYNCS ON_FD(SNAP_CALL_SYNC, SNAP_WAIT_FILE), .facts = FILES
#define ACCEPTS ON_FD(SNAP_CALL_ACCEPT, SNAP_WAIT_SOCKET), .variant = "accept"
#define MESSAGES(call) \
	(call), SNAP_WAIT_MSGQUEUE, NO_ARGUMENTS, .ints = 1 << 0, .facts = ASKED | GOES_ON
#define MQUEUES(call, way) \
	(call), SNAP_WAIT_MQUEUE, 0, -1, -1, 4, SNAP_LIMIT_ABSOLUTE, .mode = (way), .facts = GOES_ON
#define EPOLLS(how) SNAP_CALL_EPOLL, SNAP_WAIT_EPOLL, 0, -1, -1, 3, .limit = (how)
/* Of a path; a descriptor of its directory may be in front. */
#define PATH(call, argument, also)                      \
	(call), SNAP_WAIT_DISK, -1, (argument), -1, -1, \
		.bytes = PATH_BYTES, .ints = (1 << (argument)) - 1, .facts = FILES | (also)
#define OPENS(argument) PATH(SNAP_CALL_OPEN, argument, OTHERS)
#define STATS(argument) PATH(SNAP_CALL_STAT, argument, 0)
#define POLLS(how, also)                                        \
	SNAP_CALL_POLL, SNAP_WAIT_POLL, -1, 0, 1, 2, (how),     \
		.bytes = POLLFD_BYTES, .most = SNAP_MAX_POLLED, \
		.facts = OTHERS | ASKED | GOES_ON | (also)
#define SELECTS(how)                                                                      \
	SNAP_CALL_SELECT, SNAP_WAIT_SELECT, -1, 1, -1, 4, (how),                          \
		.bytes = FD_SET_BYTES, .ints = 1 << 0, .longs = 1 << 1 | 1 << 2 | 1 << 3, \
		.facts = OTHERS | ASKED | GOES_ON
#define SEMOPS(at)                                                                      \
	SNAP_CALL_SEMOP, SNAP_WAIT_SYSV_SEMAPHORE, -1, 1, 2, (at), SNAP_LIMIT_RELATIVE, \
		.bytes = SEMBUF_BYTES, .most = MOST_SEMBUF, .ints = 1 << 0, .facts = ASKED

static const struct snap_wait_call_row other = { SNAP_CALL_OTHER, SNAP_WAIT_NONE, NO_ARGUMENTS,
						 .facts = 0 };

/* arch/x86/entry/syscalls/syscall_64.tbl */
static const struct snap_wait_call_row x86_64[] = {
	[0] = { READS },    /* read */
	[1] = { WRITES },   /* write */
	[2] = { OPENS(0) }, /* open */
	[4] = { STATS(0) }, /* stat */
	[5] = { ON_FD(SNAP_CALL_FSTAT, SNAP_WAIT_FILE), .facts = FILES },
	[6] = { STATS(0) }, /* lstat */
	[7] = { POLLS(SNAP_LIMIT_MILLISECONDS, RESTARTS) },
	[16] = { READS },    /* ioctl */
	[17] = { READS },    /* pread64 */
	[18] = { WRITES },   /* pwrite64 */
	[19] = { READS },    /* readv */
	[20] = { WRITES },   /* writev */
	[21] = { STATS(0) }, /* access */
	[23] = { SELECTS(SNAP_LIMIT_TIMEVAL) },
	[34] = { SNAP_CALL_PAUSE, SNAP_WAIT_SIGNAL, NO_ARGUMENTS, .variant = "pause",
		 .facts = GOES_ON },
	[35] = { SNAP_CALL_NANOSLEEP, SNAP_WAIT_SLEEP, -1, -1, -1, 0, SNAP_LIMIT_RELATIVE,
		 .facts = RESTARTS },
	[40] = { WRITES }, /* sendfile */
	[42] = { SNAP_CALL_CONNECT, SNAP_WAIT_SOCKET, 0, 1, 2, -1, .bytes = 1,
		 .most = ADDRESS_BYTES, .variant = "connect", .facts = OTHERS },
	[43] = { ACCEPTS }, /* accept */
	[44] = { WRITES },  /* sendto */
	[45] = { READS },   /* recvfrom */
	[46] = { WRITES },  /* sendmsg */
	[47] = { READS },   /* recvmsg */
	[58] = { SNAP_CALL_VFORK, SNAP_WAIT_VFORK, NO_ARGUMENTS, .facts = OTHERS | GOES_ON },
	[61] = { SNAP_CALL_WAIT4, SNAP_WAIT_CHILD, NO_ARGUMENTS, .ints = 1 << 0,
		 .facts = OTHERS | GOES_ON },
	[65] = { SEMOPS(-1) },
	[69] = { MESSAGES(SNAP_CALL_MSGSND) },
	[70] = { MESSAGES(SNAP_CALL_MSGRCV) },
	[72] = { SNAP_CALL_FCNTL, SNAP_WAIT_FILE_LOCK, 0, 2, -1, -1, .bytes = 32, /* struct flock */
		 .facts = OTHERS | GOES_ON },
	[73] = { ON_FD(SNAP_CALL_FLOCK, SNAP_WAIT_FILE_LOCK), .facts = OTHERS | GOES_ON },
	[74] = { SYNCS },    /* fsync */
	[75] = { SYNCS },    /* fdatasync */
	[77] = { SYNCS },    /* ftruncate */
	[78] = { READS },    /* getdents */
	[85] = { OPENS(0) }, /* creat */
	[128] = { SNAP_CALL_SIGTIMEDWAIT, SNAP_WAIT_SIGNAL, -1, 0, -1, 2, SNAP_LIMIT_RELATIVE,
		  .variant = "sigwait", .bytes = SIGSET_BYTES },
	[130] = { SNAP_CALL_SIGSUSPEND, SNAP_WAIT_SIGNAL, -1, 0, -1, -1, .variant = "sigsuspend",
		  .bytes = SIGSET_BYTES, .facts = GOES_ON },
	[202] = { SNAP_CALL_FUTEX, SNAP_WAIT_FUTEX, -1, -1, -1, 3, SNAP_LIMIT_ABSOLUTE,
		  .facts = OTHERS | RESTARTS },
	[208] = { SNAP_CALL_IO_GETEVENTS, SNAP_WAIT_AIO, -1, -1, -1, 4, SNAP_LIMIT_RELATIVE,
		  .longs = 1 << 0 },
	[217] = { READS }, /* getdents64 */
	[219] = { SNAP_CALL_RESTART, SNAP_WAIT_NONE, NO_ARGUMENTS,
		  .facts = OTHERS | ASKED | GOES_ON },
	[220] = { SEMOPS(3) },
	[230] = { SNAP_CALL_CLOCK_NANOSLEEP, SNAP_WAIT_SLEEP, -1, -1, -1, 2, SNAP_LIMIT_RELATIVE,
		  .facts = RESTARTS },
	[232] = { EPOLLS(SNAP_LIMIT_MILLISECONDS) }, /* epoll_wait */
	[242] = { MQUEUES(SNAP_CALL_MQ_SEND, SNAP_WAIT_WRITE) },
	[243] = { MQUEUES(SNAP_CALL_MQ_RECEIVE, SNAP_WAIT_READ) },
	[247] = { SNAP_CALL_WAITID, SNAP_WAIT_CHILD, NO_ARGUMENTS, .ints = 1 << 0 | 1 << 1,
		  .facts = OTHERS | ASKED | GOES_ON },
	[257] = { OPENS(1) }, /* openat */
	[262] = { STATS(1) }, /* newfstatat */
	[269] = { STATS(1) }, /* faccessat */
	[270] = { SELECTS(SNAP_LIMIT_RELATIVE) },
	[271] = { POLLS(SNAP_LIMIT_RELATIVE, 0) },
	[275] = { WRITES },                          /* splice */
	[277] = { SYNCS },                           /* sync_file_range */
	[281] = { EPOLLS(SNAP_LIMIT_MILLISECONDS) }, /* epoll_pwait */
	[285] = { SYNCS },                           /* fallocate */
	[288] = { ACCEPTS },                         /* accept4 */
	[295] = { READS },                           /* preadv */
	[296] = { WRITES },                          /* pwritev */
	/* recvmmsg(2) looks at its timeout when a message has come, and not before: BUGS there. */
	[299] = { SNAP_CALL_READ, SNAP_WAIT_FILE, 0, -1, -1, 4, SNAP_LIMIT_NONE, SNAP_WAIT_READ,
		  .facts = OTHERS },
	[307] = { WRITES },   /* sendmmsg */
	[327] = { READS },    /* preadv2 */
	[328] = { WRITES },   /* pwritev2 */
	[332] = { STATS(1) }, /* statx */
	[426] = { ON_FD(SNAP_CALL_IO_URING_ENTER, SNAP_WAIT_IO_URING), .facts = 0 },
	[437] = { OPENS(1) }, /* openat2 */
	[439] = { STATS(1) }, /* faccessat2 */
	[441] = { EPOLLS(SNAP_LIMIT_RELATIVE) },
	[449] = { SNAP_CALL_FUTEX_WAITV, SNAP_WAIT_FUTEX, -1, 0, 1, 3, SNAP_LIMIT_ABSOLUTE,
		  .bytes = WAITV_BYTES, .most = MOST_WAITV, .facts = OTHERS | GOES_ON },
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

bool snap_wait_call_may_wait(const struct snap_wait_call_row *row,
			     const struct snap_thread_call *call)
{
	uint32_t command = (uint32_t)call->arguments[1];

	return row->call != SNAP_CALL_FCNTL || command == SET_LOCK_WAIT ||
	       command == SET_OPEN_LOCK_WAIT;
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
