/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is asked once all run again: see resolve.h. */
#include "capture/wait/resolve.h"

void snap_capture_resolve_waits(const struct snap_options *options _unused_,
				struct snap_capture *capture _unused_, int64_t until_ns _unused_)
{
}
