/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The credentials with which a process reads files, so that no file is read for it that it could not
 * read itself. Knows nothing of files.
 */
#pragma once

#include "model/capture.h"
#include "proc/procfs.h"

/*
 * Whether a process, by its directory of procfs, is in another user namespace than the caller, or that
 * is not known: then it does not count as root, even with uid 0. The process can make this call sleep,
 * so a worker makes it (base/workers.h).
 */
bool snap_credentials_are_confined(int process_fd);

/* Of a process whose status was read. */
void snap_credentials_take(const struct snap_status *status, bool is_confined,
			   struct snap_credentials *ret);

/* Both at once, for a worker; ret->known is false when it is gone. */
void snap_credentials_read(int process_fd, struct snap_credentials *ret);
