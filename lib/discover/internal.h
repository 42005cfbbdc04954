/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Internal: what the files of discovery share: one run of it, and its steps.
 *
 * A run lists the processes of the machine (seen.c), marks those that the target options mean
 * (match.c), grows the tree (tree.c), and reads the facts and labels of each process (facts.c,
 * labels.c). Workers make the reads that a process can block (ask.c); the new processes of users
 * take turns (turns.c). explain.c says why a process may not be traced. Only tests include this as
 * well, and run it on recorded trees.
 */
#pragma once

#include "base/error.h"
#include "discover/discover.h"
#include "model/options.h"
#include "proc/cgroup.h"
#include "proc/procfs.h"

/* ---- seen.c: all processes that were seen, with their parents ---- */

enum snap_under {
	SNAP_UNDER_UNKNOWN,
	SNAP_UNDER_NONE, /* no process above it is matched */
	SNAP_UNDER_MATCH,
};

struct snap_seen {
	struct snap_stat stat;
	bool blank;  /* existed before the tree was read, and does not matter */
	bool gone;   /* missing at a later look */
	bool silent; /* its stat is blocked: only name, state and parent are known */
	bool own;    /* stacksnap itself or a child of its own: never shown, nor descended into */
	bool matched, named;      /* by any target option; by one that names it */
	bool is_other;            /* absent: its pid is another process's by now */
	enum snap_trouble absent; /* named, but missing; NONE: it exists */
	enum snap_under under;
	size_t index; /* in the capture's processes, SIZE_MAX: not in the tree */
};

struct snap_child {
	pid_t parent, pid;
};

struct snap_asker;

struct snap_seen_table {
	const struct snap_procfs *procfs;
	struct snap_asker *asker;  /* reads stat; NULL: we read it, which may block for ever */
	pid_t self;                /* the program that uses discovery; 0: none, a recorded tree */
	pid_t here;                /* this process, which may be another one */
	struct snap_seen *entries; /* sorted by pid */
	size_t count, capacity;
	struct snap_child *children; /* sorted; see snap_seen_children() */
	size_t child_count;
	pid_t *pids;
	size_t pid_count, pid_capacity; /* of the last look */
	pid_t *fresh;                   /* the new ones of these */
	size_t fresh_capacity;
	int64_t until_ns; /* CLOCK_MONOTONIC: the end of all looks; 0: no limit */
	size_t unseen;    /* of the last look: processes without their turn, for want of time */
};

void snap_seen_init(struct snap_seen_table *table, const struct snap_procfs *procfs, pid_t self);
void snap_seen_deinit(struct snap_seen_table *table);

/* Lists the whole machine; pointers to entries are invalid afterwards. */
struct stacksnap_error *snap_seen_scan(struct snap_seen_table *table) _must_check_;
/* Adds one process alone; *ret is NULL if it does not exist. */
struct stacksnap_error *snap_seen_add(struct snap_seen_table *table, pid_t pid,
				      struct snap_seen **ret) _must_check_;
/* Adds a known process; does nothing if its pid is in the table. */
struct stacksnap_error *snap_seen_know(struct snap_seen_table *table,
				       const struct snap_seen *seen) _must_check_;
/* Links children to parents; a scan does this, other additions need it. */
struct stacksnap_error *snap_seen_link(struct snap_seen_table *table) _must_check_;

struct snap_seen *snap_seen_find(const struct snap_seen_table *table, pid_t pid);
/* NULL if it is unknown, or younger than its child: then the pid was reused. */
struct snap_seen *snap_seen_parent(const struct snap_seen_table *table,
				   const struct snap_seen *seen);
/* The children of a process, *count_ret of them, sorted by pid. */
const struct snap_child *snap_seen_children(const struct snap_seen_table *table, pid_t parent,
					    size_t *count_ret);

/* ---- ask.c: what a process can make sleep ---- */

enum {
	SNAP_ASK_PATIENCE_MS = 200, /* for one process */
	SNAP_ASK_FILES = 256,       /* processes of a list that asks for files, at most */
};

enum snap_answer_kind {
	SNAP_ANSWER_NOT_ASKED, /* others have blocked all workers */
	SNAP_ANSWER_LATE,      /* it did not respond */
	SNAP_ANSWER_GIVEN,
};

enum snap_ask_stage {
	SNAP_ASK_NOTHING,
	SNAP_ASK_STAT,
	SNAP_ASK_ARGUMENTS,
	SNAP_ASK_PROGRAM, /* whether the program's name leads to its file */
};

struct snap_answer {
	enum snap_answer_kind kind;
	enum snap_ask_stage stage; /* LATE: the question it was at */
	/*
	 * These are set for a LATE process, too, unless one of them was late: then exe_size is 0.
	 */
	const char *exe;  /* until the next list begins */
	ssize_t exe_size; /* or a negative errno */
	/* GIVEN */
	bool exe_called_so;    /* its program's file has a name that ends in " (deleted)" */
	const char *args;      /* until the next list begins */
	ssize_t args_size;     /* or a negative errno */
	struct snap_stat stat; /* of snap_asker_run_stats(); then args_size is 0 or its errno */
};

/* snap_asker_new() for any tree. */
struct stacksnap_error *snap_asker_new_on(const struct snap_procfs *procfs, unsigned flags,
					  struct snap_asker **ret) _must_check_;
/*
 * Makes a worker, so that the first list need not wait for it; false: there is none. `may_lend`:
 * with room for snap_asker_lend().
 */
bool snap_asker_prepare(struct snap_asker *asker, bool may_lend);
/* Begins a list of `most` processes, SNAP_MAX_PROCESSES at most. */
void snap_asker_begin(struct snap_asker *asker, size_t most);
void snap_asker_add(struct snap_asker *asker, pid_t pid);
/*
 * Asks them; `most_ns`: the time for all processes that do not respond. `until_ns`,
 * CLOCK_MONOTONIC: for all together; 0: no limit.
 */
void snap_asker_run(struct snap_asker *asker, int64_t most_ns, int64_t until_ns);
/* Asks them only for the path of their program. */
void snap_asker_run_programs(struct snap_asker *asker, int64_t most_ns, int64_t until_ns);
/*
 * Asks them for their stat, and also for descriptors of their root directory and program: of those
 * processes after whose addition snap_asker_want_files() was called. snap_asker_take_files()
 * returns these until the next list begins. SNAP_ASK_FILES at most.
 */
void snap_asker_want_files(struct snap_asker *asker);
void snap_asker_run_files(struct snap_asker *asker, int64_t most_ns, int64_t until_ns);
/* The caller closes them; -1: there is none. */
void snap_asker_take_files(struct snap_asker *asker, size_t index, int *root_ret, int *exe_ret);
/* The stat of one process; 0 or a negative errno. ETIMEDOUT: it does not respond. */
int snap_asker_stat(struct snap_asker *asker, pid_t pid, struct snap_stat *ret);
/* Asks them only for their stat. */
void snap_asker_run_stats(struct snap_asker *asker, int64_t most_ns, int64_t until_ns);
/* The answer of the process that was added after `index` others. */
struct snap_answer snap_asker_answer(const struct snap_asker *asker, size_t index);

/* ---- one run of discovery ---- */

struct snap_user {
	uid_t uid;
	const char *name; /* NULL: no name is known */
};

struct snap_discovery {
	const struct snap_options *options;
	struct snap_capture *capture;
	const struct snap_procfs *procfs;
	struct snap_seen_table table;
	size_t facts_count; /* processes whose labels have been read */
	long live_budget;   /* live descriptors that may still be opened */
	long whole_budget;  /* of these, for processes that get all four */
	struct snap_user *users;
	size_t user_count, user_capacity;
	const struct snap_discover_known *known; /* NULL: the only look */
	struct snap_asker *asker;                /* NULL: made when it is needed */
	bool owns_asker;
	int64_t ask_ns; /* the time for all processes that do not respond */
	/* The time for asking all processes, and again for reading them; 0: no limit. */
	int64_t facts_ns;
	struct snap_cgroup cgroup;
	bool engines_are_late; /* files of container engines were not read in time */
	char clocks[128];      /* the offsets of our own time namespace; "": not read yet */
};

/* `self`: pid of the program that uses discovery, which is left out; 0 for a recorded tree. */
struct stacksnap_error *snap_discovery_init(struct snap_discovery *run,
					    const struct snap_options *options,
					    struct snap_capture *capture,
					    const struct snap_procfs *procfs,
					    pid_t self) _must_check_;
void snap_discovery_deinit(struct snap_discovery *run);

/* snap_discover(), for any tree. */
struct stacksnap_error *snap_discovery_run(struct snap_discovery *run) _must_check_;

/* The process among those that are known, NULL: it is new, or nothing is known. */
static inline const struct snap_process *snap_discovery_known(const struct snap_discovery *run,
							      pid_t pid, uint64_t start_ticks)
{
	if (!run->known || !run->known->find)
		return NULL;
	return run->known->find(run->known->context, pid, start_ticks);
}

/* Marks matched entries; a missing pid becomes an entry that says so. */
struct stacksnap_error *snap_discovery_match(struct snap_discovery *run) _must_check_;

/* Appends a process to the capture; its fields are zero, except for pid, parent and live (-1). */
struct stacksnap_error *snap_discovery_append(struct snap_discovery *run, pid_t pid, size_t parent,
					      struct snap_process **ret) _must_check_;

/* Appends the matched processes without a matched ancestor, by pid, each with its tree. */
struct stacksnap_error *snap_discovery_add_trees(struct snap_discovery *run) _must_check_;

/* Appends descendants until a look finds no new ones, or the looks are used up. */
struct stacksnap_error *snap_discovery_add_descendants(struct snap_discovery *run) _must_check_;

/* run->asker, made if there is none. */
struct stacksnap_error *snap_discovery_need_asker(struct snap_discovery *run) _must_check_;

/*
 * turns.c: the indices of the appended processes without facts, in the order of their turns. The
 * caller frees *ret.
 */
struct stacksnap_error *snap_discovery_turns(const struct snap_discovery *run,
					     size_t **ret) _must_check_;

/* Identity, live descriptors and labels of the processes that were appended since the last call. */
struct stacksnap_error *snap_discovery_facts(struct snap_discovery *run) _must_check_;

/*
 * labels.c, for one process. `fd`: its directory; for groups, that of a thread that its leader left
 * behind. False without memory.
 */
bool snap_discovery_read_groups(struct snap_discovery *run, struct snap_process *process, int fd);
/* Texts of the answer are copied. */
bool snap_discovery_keep_program(struct snap_discovery *run, struct snap_process *process,
				 const struct snap_answer *answer);
void snap_discovery_read_owner(struct snap_discovery *run, struct snap_process *process, int fd);
/* Call this after the same for its parent. It may ask: then answers to an earlier list are gone. */
struct stacksnap_error *snap_discovery_read_ancestors(struct snap_discovery *run,
						      struct snap_process *process) _must_check_;

/* Sets the trouble of a zombie or a kernel thread; true then. */
bool snap_process_explain_state(struct snap_capture *capture, struct snap_process *process,
				const struct snap_stat *stat);

/* The cgroup of a process's directory into run->cgroup; 0 or a negative errno. */
int snap_discovery_cgroup(struct snap_discovery *run, int process_fd);

/* The facts of the machine. */
struct stacksnap_error *snap_discovery_host(struct snap_capture *capture,
					    const struct snap_procfs *procfs) _must_check_;
