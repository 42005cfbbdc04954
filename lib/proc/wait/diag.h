/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages of sock_diag(7): makes requests and parses answers.
 *
 * Pure functions on bytes; nothing is sent or received here. Every length in an answer is checked, even
 * though the kernel wrote it.
 */
#pragma once

#include "model/wait/facts.h"

enum { SNAP_DIAG_REQUEST = 128 }; /* bytes, at most */

/* The request for all sockets of a family; returns its bytes, 0: sock_diag has no such family. */
size_t snap_diag_request(enum snap_socket_family family, uint8_t ret[SNAP_DIAG_REQUEST]);

enum snap_diag_result {
	SNAP_DIAG_SOCKET,
	SNAP_DIAG_MORE,  /* these bytes are over, others follow */
	SNAP_DIAG_DONE,  /* the end of the dump */
	SNAP_DIAG_ERROR, /* *error_ret is a positive errno */
};

struct snap_diag_answer {
	struct snap_socket socket; /* name and namespace are left out */
	/* A unix socket's, in the bytes that were given: the first is a NUL in an abstract one. */
	const char *name;
	size_t name_length;
	/* A unix listener's: inodes of those that connected and are not accepted, 4 bytes each. */
	const uint8_t *pending;
	size_t pending_count;
};

/* The next message of `size` bytes that were received, from *at on, which is moved. */
enum snap_diag_result snap_diag_next(const uint8_t *bytes, size_t size, size_t *at,
				     enum snap_socket_family family, struct snap_diag_answer *ret,
				     int *error_ret);
