/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Opening for reading what was first opened as a mere name (O_PATH) and found harmless.
 *
 * A FIFO or device acts when it is opened, so files of a target are opened with O_PATH, looked at,
 * and then opened again through the descriptor: no name is resolved twice. Linux offers no other
 * way than the procfs entry of the descriptor. Knows nothing of what the file holds.
 */
#ifndef SNAP_BASE_REOPEN_H
#define SNAP_BASE_REOPEN_H

#include "base/error.h"

/* Opens what `path_fd` stands for with `flags`; both descriptors are the caller's. OS. */
struct stacksnap_error *snap_reopen(int path_fd, int flags, int *ret) _must_check_;

/*
 * The same for reading, after fstat has said that it is a regular file: never blocks, never takes
 * a terminal. FORMAT: it is not a regular file.
 */
struct stacksnap_error *snap_reopen_regular(int path_fd, int *ret) _must_check_;

#endif
