/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Merged: the groups of stacks of many snapshots, each with the hosts that have it.
 *
 * A plain value in one arena. Nothing in it depends on the order in which documents came:
 * hosts are sorted by name and boot id, groups with the odd ones first. A set of hosts is a list of
 * ranges of their numbers here. Knows nothing of files, and of processes only numbers and names.
 */
#pragma once

#include "base/arena.h"

#include <sys/types.h>

enum { SNAP_MERGED_EXAMPLES = 3, SNAP_MERGED_ODD_PERCENT = 5 };

/* Ends are part of it; ranges of a set are in order and do not touch. */
struct snap_host_range {
	uint32_t first, last;
};

struct snap_host_set {
	struct snap_host_range *ranges;
	size_t count, capacity;
};

/* A host is its name and its boot: after a reboot it is another one. */
struct snap_merged_host {
	const char *name, *boot_id; /* NULL unknown */
	int64_t *times;             /* of its documents, in order */
	size_t time_count;
};

/* A thread or task, by which a reader finds it in the document. */
struct snap_merged_example {
	uint32_t host;
	int64_t time_ns;
	pid_t pid, tid;                      /* 0: none */
	const char *process, *thread, *task; /* names, and the id of a task; NULL none */
};

/* How many of the hosts have a group. */
enum snap_oddity {
	SNAP_ODD_NOT,
	SNAP_ODD_MISSING, /* on all hosts but a few */
	SNAP_ODD_RARE,    /* on few hosts */
};

struct snap_merged_group {
	char id[17];
	enum snap_oddity odd;
	/*
	 * JSON, the same for every writer of a document: the array of entries, then the members
	 * "kind" to "gap" of the object. If documents differ, the smallest.
	 */
	const char *body;
	size_t entries_size, body_size;
	/* Members of "labels", each with a newline behind it: those that all documents agree on. */
	const char *labels;
	size_t labels_size;
	struct snap_host_set hosts;
	size_t host_count;
	uint64_t process_count, thread_count, task_count;          /* of all documents */
	struct snap_merged_example examples[SNAP_MERGED_EXAMPLES]; /* of different hosts */
	size_t example_count;
};

/* A file that frames are in, as one build of it; sorted by path, then build id. */
struct snap_merged_module {
	const char *path, *build_id;
	struct snap_host_set hosts;
	size_t host_count;
};

struct snap_merged {
	struct snap_arena arena;
	struct snap_merged_host *hosts;
	size_t host_count, document_count;
	struct snap_host_set deadlocks; /* hosts of which a document has one, beyond doubt */
	size_t deadlock_count;          /* of them */
	struct snap_merged_module *modules;
	size_t module_count;
	struct snap_merged_group *groups;
	size_t group_count, odd_count;
};
