/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Timeouts: the latest time at which a call returns: see waiter.h. Knows clocks, and no objects. */
#include "analyze/wait/waiter.h"

#include "base/clock.h"

#include <time.h>

enum {
	FUTEX_OPERATION = 0x7f,
	FUTEX_REALTIME = 0x100,
	OPERATION_WAIT = 0,
	OPERATION_LOCK_PI = 6,
	OPERATION_WAIT_BITSET = 9,
	OPERATION_WAIT_REQUEUE_PI = 11,
	OPERATION_LOCK_PI2 = 13,
	CALL_EPOLL_PWAIT2 = 441,
};

/* From there on the kernel waits for ever: KTIME_SEC_MAX (linux/ktime.h). */
static const int64_t most_seconds = INT64_MAX / SNAP_NS_PER_S;

enum form {
	FORM_NONE,
	FORM_RELATIVE,     /* a timespec */
	FORM_ABSOLUTE,     /* a timespec of `clock` */
	FORM_MILLISECONDS, /* the argument itself, an int; below 0: none */
	FORM_TIMEVAL,      /* relative */
};

struct timeout {
	enum form form;
	clockid_t clock;
	uint64_t argument; /* 0: none, but for FORM_MILLISECONDS */
};

/* futex(2): the timeout of FUTEX_WAIT is relative, those of all others are moments. */
static struct timeout of_futex(const struct snap_thread_call *call, uint64_t argument)
{
	struct timeout timeout = { FORM_ABSOLUTE, CLOCK_MONOTONIC, argument };

	if (call->arguments[1] & FUTEX_REALTIME)
		timeout.clock = CLOCK_REALTIME;
	switch (call->arguments[1] & FUTEX_OPERATION) {
	case OPERATION_WAIT:
		timeout.form = FORM_RELATIVE;
		break;
	case OPERATION_LOCK_PI:
		timeout.clock = CLOCK_REALTIME;
		break;
	case OPERATION_LOCK_PI2:
	case OPERATION_WAIT_BITSET:
	case OPERATION_WAIT_REQUEUE_PI:
		break;
	default:
		timeout.form = FORM_NONE;
	}
	return timeout;
}

static struct timeout timeout_of(const struct snap_waiter *waiter)
{
	const uint64_t *arguments = waiter->call.arguments;
	int at = waiter->row->timeout;
	uint64_t argument = at >= 0 ? arguments[at] : 0;

	switch (waiter->row->call) {
	case SNAP_CALL_FUTEX:
		return of_futex(&waiter->call, argument);
	case SNAP_CALL_FUTEX_WAITV:
		return (struct timeout){ FORM_ABSOLUTE, (clockid_t)arguments[4], argument };
	case SNAP_CALL_POLL:
		return (struct timeout){ FORM_MILLISECONDS, CLOCK_MONOTONIC, arguments[2] };
	case SNAP_CALL_EPOLL:
		if (waiter->number == CALL_EPOLL_PWAIT2)
			return (struct timeout){ FORM_RELATIVE, CLOCK_MONOTONIC, argument };
		return (struct timeout){ FORM_MILLISECONDS, CLOCK_MONOTONIC, arguments[3] };
	case SNAP_CALL_SELECT:
		return (struct timeout){ FORM_TIMEVAL, CLOCK_MONOTONIC, argument };
	case SNAP_CALL_CLOCK_NANOSLEEP:
		return (struct timeout){ arguments[1] & TIMER_ABSTIME ? FORM_ABSOLUTE
								      : FORM_RELATIVE,
					 (clockid_t)arguments[0], argument };
	case SNAP_CALL_MQ_RECEIVE:
	case SNAP_CALL_MQ_SEND:
		return (struct timeout){ FORM_ABSOLUTE, CLOCK_REALTIME, argument };
	case SNAP_CALL_NANOSLEEP:
	case SNAP_CALL_PPOLL:
	case SNAP_CALL_PSELECT:
	case SNAP_CALL_SIGTIMEDWAIT:
	case SNAP_CALL_SEMOP:
	case SNAP_CALL_IO_GETEVENTS:
		return (struct timeout){ FORM_RELATIVE, CLOCK_MONOTONIC, argument };
	/* recvmmsg(2) looks at its timeout when a message has come, and not before: BUGS there. */
	case SNAP_CALL_READ:
	case SNAP_CALL_OTHER:
	case SNAP_CALL_WRITE:
	case SNAP_CALL_SYNC:
	case SNAP_CALL_FSTAT:
	case SNAP_CALL_ACCEPT:
	case SNAP_CALL_CONNECT:
	case SNAP_CALL_WAIT4:
	case SNAP_CALL_WAITID:
	case SNAP_CALL_FLOCK:
	case SNAP_CALL_FCNTL:
	case SNAP_CALL_PAUSE:
	case SNAP_CALL_SIGSUSPEND:
	case SNAP_CALL_MSGRCV:
	case SNAP_CALL_MSGSND:
	case SNAP_CALL_OPEN:
	case SNAP_CALL_STAT:
	case SNAP_CALL_VFORK:
	case SNAP_CALL_IO_URING_ENTER:
	case SNAP_CALL_RESTART:
	case SNAP_CALL_KINDS:
		break;
	}
	return (struct timeout){ .form = FORM_NONE };
}

/* A time in memory, in ns; -1: it cannot be read, or the kernel would not have taken it. */
static int64_t read_time(const struct snap_waiter *waiter, const struct timeout *timeout)
{
	int64_t words[2], unit = timeout->form == FORM_TIMEVAL ? 1000 : 1;

	if (!snap_wait_read(waiter, timeout->argument, words, sizeof(words)) || words[0] < 0 ||
	    words[1] < 0 || words[1] >= SNAP_NS_PER_S / unit)
		return -1;
	if (words[0] >= most_seconds)
		return INT64_MAX;
	return words[0] * SNAP_NS_PER_S + words[1] * unit;
}

/* -1: the clock was not read. */
static int64_t clock_now(const struct snap_wait_facts *facts, clockid_t clock)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_ALARM:
		return facts->realtime_ns;
	case CLOCK_MONOTONIC:
		return facts->monotonic_ns;
	case CLOCK_BOOTTIME:
	case CLOCK_BOOTTIME_ALARM:
		return facts->boottime_ns;
	}
	return -1;
}

static void set_remaining(const struct snap_wait_analysis *waits, struct snap_wait *wait,
			  const struct timeout *timeout, int64_t ns)
{
	int64_t before;

	if (timeout->form == FORM_ABSOLUTE)
		before = clock_now(waits->facts, timeout->clock);
	else /* how long it has waited at least, so what is left is a bound */
		before = wait->since_ns > 0 ? wait->since_ns : 0;
	if (ns < 0 || before < 0 || (timeout->form == FORM_ABSOLUTE && before == 0))
		return;
	/* Past: it is about to wake up. */
	wait->remaining_ns = ns > before ? ns - before : 0;
}

void snap_wait_set_timeout(const struct snap_wait_analysis *waits, struct snap_waiter *waiter)
{
	struct timeout timeout = timeout_of(waiter);
	int64_t ns;

	if (!waiter->wait || !waiter->call.known || timeout.form == FORM_NONE)
		return;
	if (timeout.form == FORM_MILLISECONDS)
		ns = (int64_t)(int32_t)timeout.argument * 1000000;
	else if (timeout.argument == 0)
		return;
	else
		ns = read_time(waiter, &timeout);
	if (timeout.form == FORM_MILLISECONDS ? ns < 0 : ns == INT64_MAX)
		return;
	waiter->wait->timed = true;
	set_remaining(waits, waiter->wait, &timeout, ns);
}
