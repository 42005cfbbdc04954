/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sleeps, and waits for signals: see kernel.h. A clock or any process may end them. */
#include "analyze/wait/kernel/kernel.h"

#include <signal.h>

enum {
	/* A mask that leaves out so few signals waits for these; else for any. */
	MOST_NAMED = 8,
};

static uint64_t bit(int signal)
{
	return 1ull << (signal - 1);
}

/* Signals that sigsuspend(2) lets through, if that says something. */
static uint64_t let_through(uint64_t mask)
{
	/* Those that cannot be blocked, and those that glibc keeps (nptl(7)). */
	uint64_t signals = ~mask & ~(bit(SIGKILL) | bit(SIGSTOP) | bit(32) | bit(33));

	return __builtin_popcountll(signals) <= MOST_NAMED ? signals : 0;
}

struct stacksnap_error *snap_wait_explain_signal(struct snap_wait_analysis *waits,
						 struct snap_waiter *waiter)
{
	struct snap_wait *wait =
		snap_wait_new(waits, waiter, SNAP_WAIT_SIGNAL, snap_wait_call_confidence(waiter));
	uint64_t mask;

	SNAP_TRY(snap_no_memory_unless(wait));
	snap_wait_set_timeout(waits, waiter);
	wait->variant = waiter->row->variant;
	if (waiter->row->pointer < 0 ||
	    !snap_wait_read(waiter, waiter->call.arguments[0], &mask, sizeof(mask)))
		return NULL;
	wait->signals = waiter->row->call == SNAP_CALL_SIGSUSPEND ? let_through(mask) : mask;
	return NULL;
}

struct stacksnap_error *snap_wait_explain_sleep(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter)
{
	if (!snap_wait_new(waits, waiter, SNAP_WAIT_SLEEP, snap_wait_call_confidence(waiter)))
		return snap_error_no_memory();
	snap_wait_set_timeout(waits, waiter);
	return NULL;
}
