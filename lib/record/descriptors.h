/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Descriptors: which of a process a log is given.
 *
 * Files of most processes are found by their names on this host, now and when they have gone. Only
 * those with a root of their own, or with files that have no name any more, need descriptors, and
 * there are only so many of these. Knows nothing of what is in the files.
 */
#pragma once

#include "model/log.h"

/* The descriptors to be duplicated for a space of this process; NULL: none. */
const struct snap_live *snap_descriptors_to_keep(const struct snap_log *log,
						 const struct snap_process *process,
						 const struct snap_live *live);

/* The process has gone: what leads to itself leads nowhere. */
void snap_descriptors_close_ended(struct snap_log *log, uint32_t space);
