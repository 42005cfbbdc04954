/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The table of all processes that were seen, by pid, and who is whose child.
 *
 * One line of stat a process, read once; a later look at the same machine reads only what is new
 * and what may have got another parent. Knows nothing of targets: what is in the tree is marked by
 * whoever asks.
 */
#ifndef SNAP_DISCOVER_TABLE_H
#define SNAP_DISCOVER_TABLE_H

#include "base/error.h"
#include "proc/procfs.h"

#include <stdint.h>

enum snap_under {
	SNAP_UNDER_UNKNOWN,
	SNAP_UNDER_NONE, /* no process above it is matched */
	SNAP_UNDER_MATCH,
};

struct snap_seen {
	struct snap_stat stat;
	bool blank; /* there before the tree was read, and of no interest */
	bool gone;  /* not there at a later look */
	bool own;   /* stacksnap itself or a child of its own: never shown, nor descended into */
	bool matched, named;      /* by a target option; by one that names */
	enum snap_trouble absent; /* named, but not there; NONE: it is there */
	enum snap_under under;
	size_t index; /* in the capture's processes, SIZE_MAX: not in the tree */
};

struct snap_child {
	pid_t parent, pid;
};

struct snap_table {
	const struct snap_procfs *procfs;
	pid_t self;                /* of the program that looks; 0: none, a recorded tree */
	pid_t here;                /* of this process, which may look on its behalf */
	struct snap_seen *entries; /* sorted by pid */
	size_t count, capacity;
	struct snap_child *children; /* sorted; see snap_table_children() */
	size_t child_count;
	pid_t *pids;
	size_t pid_count, pid_capacity; /* of the last look */
};

void snap_table_init(struct snap_table *table, const struct snap_procfs *procfs, pid_t self);
void snap_table_deinit(struct snap_table *table);

/* Looks at the whole machine; pointers to entries are void afterwards. */
struct snap_error *snap_table_scan(struct snap_table *table) _must_check_;
/* Adds one process without a look at the others; *ret is NULL if it is not there. */
struct snap_error *snap_table_add(struct snap_table *table, pid_t pid,
				  struct snap_seen **ret) _must_check_;
/* Adds what is known already; without an effect if its pid is there. */
struct snap_error *snap_table_know(struct snap_table *table,
				   const struct snap_seen *seen) _must_check_;
/* Sorts out who is whose child; done by a scan, to be done after other additions. */
struct snap_error *snap_table_link(struct snap_table *table) _must_check_;

struct snap_seen *snap_table_find(const struct snap_table *table, pid_t pid);
/* NULL if it is not known, or not older than its child: then the pid was reused. */
struct snap_seen *snap_table_parent(const struct snap_table *table, const struct snap_seen *seen);
/* The children of a process, *count_ret of them, sorted by pid. */
const struct snap_child *snap_table_children(const struct snap_table *table, pid_t parent,
					     size_t *count_ret);

#endif
