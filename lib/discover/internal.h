/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of discovery share: one run of it, and its steps.
 *
 * A run looks at the machine (discover_table), marks what the target options mean
 * (discover_match), grows the tree (discover), and reads each member's labels (discover_facts).
 * For nobody outside of discovery but its tests, which run it on recorded trees.
 */
#ifndef SNAP_DISCOVER_INTERNAL_H
#define SNAP_DISCOVER_INTERNAL_H

#include "base/error.h"
#include "discover/discover.h"
#include "discover/table.h"
#include "model/options.h"
#include "proc/cgroup.h"

struct snap_user {
	uid_t uid;
	const char *name; /* NULL: it has none here */
};

struct snap_discovery {
	const struct snap_options *options;
	struct snap_capture *capture;
	const struct snap_procfs *procfs;
	struct snap_table table;
	size_t process_capacity, live_capacity;
	size_t facts_count; /* processes whose labels have been read */
	long live_budget;   /* live descriptors that may still be opened */
	long whole_budget;  /* of these, for processes that get all four */
	struct snap_user *users;
	size_t user_count, user_capacity;
	const struct snap_discover_known *known; /* NULL: one look, no other */
	char *buffer;                            /* for command lines */
	struct snap_cgroup cgroup;
};

/* `self`: pid of the program that looks, which is left out; 0 for a recorded tree. */
struct snap_error *snap_discovery_init(struct snap_discovery *run,
				       const struct snap_options *options,
				       struct snap_capture *capture,
				       const struct snap_procfs *procfs, pid_t self) _must_check_;
void snap_discovery_deinit(struct snap_discovery *run);

/* snap_discover(), of any tree. */
struct snap_error *snap_discovery_run(struct snap_discovery *run) _must_check_;

/* The process among those that are known, NULL: it is new, or nothing is known. */
static inline const struct snap_process *snap_discovery_known(const struct snap_discovery *run,
							      pid_t pid, uint64_t start_ticks)
{
	if (!run->known || !run->known->find)
		return NULL;
	return run->known->find(run->known->context, pid, start_ticks);
}

/* Marks matched entries; a pid that is not there becomes an entry that says so. */
struct snap_error *snap_discovery_match(struct snap_discovery *run) _must_check_;

/* Appends a process to the capture; its fields are zero but for pid, parent and live (-1). */
struct snap_error *snap_discovery_append(struct snap_discovery *run, pid_t pid, size_t parent,
					 struct snap_process **ret) _must_check_;

/* Appends the matched processes that stand below no other, by pid, each with its tree. */
struct snap_error *snap_discovery_plant(struct snap_discovery *run) _must_check_;

/* Looks again until nothing is found that belongs to the tree, or for so many times. */
struct snap_error *snap_discovery_settle(struct snap_discovery *run) _must_check_;

/* Identity, live descriptors and labels of the processes that were appended since the last call. */
struct snap_error *snap_discovery_facts(struct snap_discovery *run) _must_check_;

/* What went wrong with a process, with a message in the capture's arena. */
void snap_process_trouble(struct snap_capture *capture, struct snap_process *process,
			  enum snap_trouble trouble, const char *format, ...) _printf_(4, 5);

/* Trouble if it is a zombie or a kernel thread; true then. */
bool snap_process_judge(struct snap_capture *capture, struct snap_process *process,
			const struct snap_stat *stat);

/* The cgroup of a process's directory into run->cgroup; 0 or a negative errno. */
int snap_discovery_cgroup(struct snap_discovery *run, int process_fd);

/* The facts of the machine. */
struct snap_error *snap_discovery_host(struct snap_capture *capture,
				       const struct snap_procfs *procfs) _must_check_;

#endif
