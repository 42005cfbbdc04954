/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Calls other than futex(2): what a descriptor, a child or a signal is: see waiter.h. */
#include "analyze/wait/waiter.h"

struct stacksnap_error *snap_wait_explain_call(struct snap_wait_analysis *waits,
					       struct snap_waiter *waiter)
{
	(void)waits;
	(void)waiter;
	return NULL;
}
