/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * As whom a process reads files, so that nothing is read for it that it could not read itself.
 * Knows nothing of files.
 */
#ifndef SNAP_PROC_CREDENTIALS_H
#define SNAP_PROC_CREDENTIALS_H

#include "model/capture.h"
#include "proc/procfs.h"

/* Of a process whose status was read; `process_fd` is its directory of procfs. */
void snap_credentials_take(int process_fd, const struct snap_status *status,
			   struct snap_credentials *ret);

/* The same with its status as it is now; ret->known is false when it is gone. */
void snap_credentials_read(int process_fd, struct snap_credentials *ret);

#endif
