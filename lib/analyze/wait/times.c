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
};

/* From there on the kernel waits for ever: KTIME_SEC_MAX (linux/ktime.h). */
static const int64_t most_seconds = INT64_MAX / SNAP_NS_PER_S;

struct timeout {
	enum snap_wait_limit form;
	clockid_t clock;
	uint64_t argument; /* 0: none, but for SNAP_LIMIT_MILLISECONDS */
};

/* futex(2): the timeout of FUTEX_WAIT is relative, those of all others are moments. */
static struct timeout of_futex(const struct snap_thread_call *call, uint64_t argument)
{
	struct timeout timeout = { SNAP_LIMIT_ABSOLUTE, CLOCK_MONOTONIC, argument };

	if (call->arguments[1] & FUTEX_REALTIME)
		timeout.clock = CLOCK_REALTIME;
	switch (call->arguments[1] & FUTEX_OPERATION) {
	case OPERATION_WAIT:
		timeout.form = SNAP_LIMIT_RELATIVE;
		break;
	case OPERATION_LOCK_PI:
		timeout.clock = CLOCK_REALTIME;
		break;
	case OPERATION_LOCK_PI2:
	case OPERATION_WAIT_BITSET:
	case OPERATION_WAIT_REQUEUE_PI:
		break;
	default:
		timeout.form = SNAP_LIMIT_NONE;
	}
	return timeout;
}

static struct timeout timeout_of(const struct snap_waiter *waiter)
{
	const uint64_t *arguments = waiter->call.arguments;
	int at = waiter->row->timeout;
	struct timeout timeout = { waiter->row->limit, CLOCK_MONOTONIC,
				   at >= 0 ? arguments[at] : 0 };

	switch (waiter->row->call) {
	case SNAP_CALL_FUTEX:
		return of_futex(&waiter->call, timeout.argument);
	case SNAP_CALL_FUTEX_WAITV:
		timeout.clock = (clockid_t)arguments[4];
		break;
	case SNAP_CALL_CLOCK_NANOSLEEP:
		timeout.clock = (clockid_t)arguments[0];
		if (arguments[1] & TIMER_ABSTIME)
			timeout.form = SNAP_LIMIT_ABSOLUTE;
		break;
	case SNAP_CALL_MQ_RECEIVE:
	case SNAP_CALL_MQ_SEND:
		timeout.clock = CLOCK_REALTIME;
		break;
	default:
		break;
	}
	return timeout;
}

/* A time in memory, in ns; -1: it cannot be read, or the kernel would not have taken it. */
static int64_t read_time(const struct snap_waiter *waiter, const struct timeout *timeout)
{
	int64_t words[2], unit = timeout->form == SNAP_LIMIT_TIMEVAL ? 1000 : 1;

	if (!snap_wait_read(waiter, timeout->argument, words, sizeof(words)) || words[0] < 0 ||
	    words[1] < 0 || words[1] >= SNAP_NS_PER_S / unit)
		return -1;
	return words[0] >= most_seconds ? INT64_MAX : words[0] * SNAP_NS_PER_S + words[1] * unit;
}

/* -1: the clock was not read. */
static int64_t clock_now(const struct snap_wait_facts *facts, const struct snap_process *process,
			 clockid_t clock)
{
	if (process->has_other_clocks && clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_ALARM)
		return -1;
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

static void set_remaining(const struct snap_wait_analysis *waits, const struct snap_waiter *waiter,
			  const struct timeout *timeout, int64_t ns)
{
	struct snap_wait *wait = waiter->wait;
	int64_t before;

	if (timeout->form == SNAP_LIMIT_ABSOLUTE)
		before = clock_now(waits->facts, snap_waiter_process(waiter), timeout->clock);
	else /* how long it has waited at least, so what is left is a bound */
		before = wait->since_ns > 0 ? wait->since_ns : 0;
	if (ns < 0 || before < 0 || (timeout->form == SNAP_LIMIT_ABSOLUTE && before == 0))
		return;
	/* Past: it is about to wake up. */
	wait->remaining_ns = ns > before ? snap_wait_number((uint64_t)(ns - before)) : 0;
}

void snap_wait_set_timeout(const struct snap_wait_analysis *waits, struct snap_waiter *waiter)
{
	struct timeout timeout = timeout_of(waiter);
	int64_t ns;

	if (!waiter->wait || !waiter->call.known || timeout.form == SNAP_LIMIT_NONE)
		return;
	if (timeout.form == SNAP_LIMIT_MILLISECONDS)
		ns = (int64_t)(int32_t)timeout.argument * 1000000;
	else if (timeout.argument == 0)
		return;
	else
		ns = read_time(waiter, &timeout);
	if (timeout.form == SNAP_LIMIT_MILLISECONDS ? ns < 0 : ns == INT64_MAX)
		return;
	waiter->wait->timed = true;
	set_remaining(waits, waiter, &timeout, ns);
}
