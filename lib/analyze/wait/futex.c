/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Futexes: which object a thread waits for: see waiter.h. */
#include "analyze/wait/waiter.h"

struct stacksnap_error *snap_wait_explain_futex(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter)
{
	(void)waits;
	(void)waiter;
	return NULL;
}
