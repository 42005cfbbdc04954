/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A scan of a process's table of descriptors: which of the wanted ends it has.
 *
 * It is made in a worker, in shared memory. Does not know what they are wanted for.
 */
#pragma once

#include "capture/wait/asker.h"
#include "model/wait/facts.h"

/* A pipe, socket, FIFO, eventfd or file whose owners are wanted. */
struct snap_wanted_peer {
	enum snap_descriptor_kind kind;
	uint64_t inode;                /* EVENTFD: its id */
	uint32_t dev_major, dev_minor; /* FIFO, FILE; 0, 0: unknown */
	const char *name;              /* FIFO, FILE: base name, without " (deleted)" */
};

struct snap_scan_end {
	struct snap_scan_end *next;
	uint32_t wanted; /* in the list */
	bool readable, writable;
};

struct snap_scan_lock {
	struct snap_scan_lock *next;
	struct snap_file_lock lock;
};

/* A process. */
struct snap_scan {
	pid_t pid;
	/* the answer */
	int status; /* 0 or a negative errno */
	struct snap_scan_end *ends;
	struct snap_scan_lock *locks; /* that it holds, on wanted files */
	uint64_t links, found;        /* that were looked at; ends and locks */
	uint64_t sockets;             /* that were asked what they hold */
	size_t lock_count;
	/* If it has some: its identity. */
	uint64_t start_ticks;
	char state;
	char name[SNAP_MAX_COMM];
};

/* Seen by workers, too. */
struct snap_scans {
	struct snap_wait_memory *memory;
	struct snap_scan *list;
	const struct snap_wanted_peer *wanted; /* sorted by kind, then inode */
	size_t wanted_count;                   /* at most SNAP_MAX_FILE_PEERS */
	bool kinds[SNAP_DESCRIPTOR_KINDS];     /* of the wanted ones */
	/* Beside the first ones of each process, so that no process takes them from others. */
	uint64_t links, most_links, found, most_found;
	bool is_cut;
	bool is_tree;   /* of the tree, where sockets and io_urings are looked at */
	bool in_flight; /* a socket holds descriptors not yet received, or there is an io_uring */
};

int snap_scan_compare(const void *left, const void *right); /* of struct snap_wanted_peer */

/* For snap_wait_asker_run(); `context` is a struct snap_scans. */
void snap_scan_run(void *context, uint32_t item);
