/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Opens a file for reading that was first opened as a mere name (O_PATH) and found harmless; and reads
 * what the kernel knows of a name without asking its file system, as one in user space may never answer.
 *
 * A FIFO or device acts when it is opened, so files of a target are opened with O_PATH, looked at,
 * and then opened again through the descriptor: no name is resolved twice. Linux offers no other
 * way than the procfs entry of the descriptor. Knows nothing of what the file holds.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <sys/stat.h>

/* Opens the file of `path_fd` with `flags`; both descriptors are the caller's. OS. */
struct stacksnap_error *snap_reopen(int path_fd, int flags, int *ret) _must_check_;

/*
 * The same for reading, if it is a regular file: never waits for a writer, never takes a terminal; its
 * file system may take its time. FORMAT: it is not a regular file.
 */
struct stacksnap_error *snap_reopen_regular(int path_fd, int *ret) _must_check_;

/*
 * Like fstatat(2), with AT_EMPTY_PATH and links followed; what the kernel does not know is 0.
 * False: errno says why.
 */
bool snap_look(int directory_fd, const char *name, struct stat *ret);

/*
 * Whether two directories are one and the same in one mount: what is mounted below is the same
 * then, as a mount lies in one mount namespace alone. Kernels before 5.8 do not say: false.
 */
bool snap_is_same_place(int fd, int other);
