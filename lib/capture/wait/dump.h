/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A dump of all sockets of one family in one network namespace: by sock_diag(7), in a namespace of
 * another process as well where that is permitted, else by the tables of its folder net.
 *
 * It is made in a worker, in shared memory. Knows nothing of which of them matter.
 */
#pragma once

#include "capture/wait/asker.h"
#include "model/wait/facts.h"

enum { SNAP_DUMP_BLOCK = 256 };

struct snap_dump_block {
	struct snap_dump_block *next; /* the older one */
	size_t count;
	struct snap_socket sockets[SNAP_DUMP_BLOCK];
};

/* A connection that a unix listener has not accepted yet. */
struct snap_dump_pending {
	struct snap_dump_pending *next;
	uint64_t listener, inode;
};

struct snap_dump {
	pid_t pid; /* one whose namespace it is */
	uint64_t namespace;
	enum snap_socket_family family;
	/* the answer */
	struct snap_dump_block *blocks; /* newest first */
	struct snap_dump_pending *pending;
	size_t count;
	bool is_elsewhere; /* the namespace could not be entered */
	bool is_text;      /* of tables: no peers and names; lines may be made up */
	bool is_cut;
	int status; /* 0 or a negative errno */
};

/* Seen by workers, too. */
struct snap_dumps {
	struct snap_wait_memory *memory;
	struct snap_dump *list;
};

/* For snap_wait_asker_run(); `context` is a struct snap_dumps. */
void snap_dump_run(void *context, uint32_t item);
