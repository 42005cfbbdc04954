/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mappings of files that another process serves (FUSE). Reading one of their pages may wait for
 * that process, which need not answer, and the wait cannot be ended: not even SIGKILL ends it, and
 * what the waiting process has seized stays seized. So such memory is not read. Knows nothing of
 * what is mapped.
 */
#ifndef SNAP_PROC_FUSE_MAPS_H
#define SNAP_PROC_FUSE_MAPS_H

#include "proc/address_space.h"

#include <stdbool.h>

/* Whether there is a mapping of a kind that could be one: then the mounts must be looked at. */
bool snap_fuse_maps_possible(const struct snap_space *space);
/*
 * Makes those of the file systems that "mountinfo" of the process calls so unreadable. A negative
 * descriptor, or one that ends early, leaves the others as they are.
 */
void snap_fuse_maps_hide(const struct snap_space_reader *reader, int mounts_fd,
			 struct snap_space *space);

#endif
