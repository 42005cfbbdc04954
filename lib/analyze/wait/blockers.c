/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blockers, and what is contended: see waiter.h. */
#include "analyze/wait/waiter.h"

struct stacksnap_error *snap_wait_find_blockers(struct snap_wait_analysis *waits)
{
	(void)waits;
	return NULL;
}

struct stacksnap_error *snap_wait_find_contended(struct snap_wait_analysis *waits)
{
	(void)waits;
	return NULL;
}
