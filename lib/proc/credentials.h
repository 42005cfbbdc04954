/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The credentials with which a process reads files, so that no file is read for it that it could not
 * read itself. Knows nothing of files.
 *
 * A process may have been root a moment ago, and may have become another program since. So its
 * credentials are read before something of it is looked at, and compared afterwards; its program is
 * looked at before the first reading and after the second one. Equal credentials of one program are
 * those of the look: rights that a process has given up come back by an exec alone, and an exec makes it
 * another program. So what it has before and after, it could use all the time in between. Otherwise they
 * are unknown: files are opened as uid 65534, in no group.
 */
#pragma once

#include "model/capture.h"
#include "proc/procfs.h"

/*
 * Before the look, by the directory of a process or thread. The process can make both calls sleep, so
 * a worker makes them (base/workers.h). In another user namespace than the caller, or if that is not
 * known, it does not count as root, even with uid 0.
 */
void snap_credentials_begin(int task_fd, struct snap_credentials *ret);

/* After the look: whether it still has these credentials, and still runs that program. */
bool snap_credentials_hold(int task_fd, const struct snap_credentials *credentials);
