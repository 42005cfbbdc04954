/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of discovery share: one run of it, and its steps.
 *
 * A run looks at the machine (seen.c), marks what the target options mean (match.c), grows the
 * tree (tree.c), and reads the facts and labels of each process (facts.c, labels.c). A worker asks
 * for what a process can make sleep (ask.c); users take turns with their new processes (turns.c).
 * explain.c says why one may not be traced. Nobody else includes this but tests, which run it on
 * recorded trees.
 */
#ifndef SNAP_DISCOVER_INTERNAL_H
#define SNAP_DISCOVER_INTERNAL_H

#include "base/error.h"
#include "discover/discover.h"
#include "model/options.h"
#include "proc/cgroup.h"
#include "proc/procfs.h"

/* ---- seen.c: all processes that were seen, and who is whose child ---- */

enum snap_under {
	SNAP_UNDER_UNKNOWN,
	SNAP_UNDER_NONE, /* no process above it is matched */
	SNAP_UNDER_MATCH,
};

struct snap_seen {
	struct snap_stat stat;
	bool blank;  /* there before the tree was read, and of no interest */
	bool gone;   /* not there at a later look */
	bool silent; /* does not tell its stat: only name, state and parent are known */
	bool own;    /* stacksnap itself or a child of its own: never shown, nor descended into */
	bool matched, named;      /* by a target option; by one that names */
	enum snap_trouble absent; /* named, but not there; NONE: it is there */
	enum snap_under under;
	size_t index; /* in the capture's processes, SIZE_MAX: not in the tree */
};

struct snap_child {
	pid_t parent, pid;
};

struct snap_asker;

struct snap_seen_table {
	const struct snap_procfs *procfs;
	struct snap_asker *asker;  /* who reads stat; NULL: we do, which may take for ever */
	pid_t self;                /* of the program that looks; 0: none, a recorded tree */
	pid_t here;                /* of this process, which may look on its behalf */
	struct snap_seen *entries; /* sorted by pid */
	size_t count, capacity;
	struct snap_child *children; /* sorted; see snap_seen_children() */
	size_t child_count;
	pid_t *pids;
	size_t pid_count, pid_capacity; /* of the last look */
	pid_t *fresh;                   /* of these: those that were not known */
	size_t fresh_capacity;
	int64_t until_ns; /* CLOCK_MONOTONIC: then no more are looked at; 0: there is no hurry */
	size_t unseen;    /* of the last look: those that were not, for want of time */
};

void snap_seen_init(struct snap_seen_table *table, const struct snap_procfs *procfs, pid_t self);
void snap_seen_deinit(struct snap_seen_table *table);

/* Looks at the whole machine; pointers to entries are void afterwards. */
struct stacksnap_error *snap_seen_scan(struct snap_seen_table *table) _must_check_;
/* Adds one process without a look at the others; *ret is NULL if it is not there. */
struct stacksnap_error *snap_seen_add(struct snap_seen_table *table, pid_t pid,
				      struct snap_seen **ret) _must_check_;
/* Adds what is known already; without an effect if its pid is there. */
struct stacksnap_error *snap_seen_know(struct snap_seen_table *table,
				       const struct snap_seen *seen) _must_check_;
/* Sorts out who is whose child; done by a scan, to be done after other additions. */
struct stacksnap_error *snap_seen_link(struct snap_seen_table *table) _must_check_;

struct snap_seen *snap_seen_find(const struct snap_seen_table *table, pid_t pid);
/* NULL if it is not known, or not older than its child: then the pid was reused. */
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
	SNAP_ANSWER_NOT_ASKED, /* others held all that could have asked */
	SNAP_ANSWER_LATE,      /* it did not respond */
	SNAP_ANSWER_GIVEN,
};

enum snap_ask_stage {
	SNAP_ASK_NOTHING,
	SNAP_ASK_STAT,
	SNAP_ASK_ARGUMENTS,
	SNAP_ASK_PROGRAM, /* which file there is under the program's name */
};

struct snap_answer {
	enum snap_answer_kind kind;
	enum snap_ask_stage stage; /* LATE: of what */
	/* Also of one that is LATE, if it was not over these: then exe_size is 0. */
	const char *exe;  /* until the next list begins */
	ssize_t exe_size; /* or a negative errno */
	bool is_confined; /* is in another user namespace, as far as known */
	/* GIVEN */
	bool exe_called_so;    /* its program's file really has a name that ends in " (deleted)" */
	const char *args;      /* until the next list begins */
	ssize_t args_size;     /* or a negative errno */
	struct snap_stat stat; /* of snap_asker_run_stats(); then args_size is 0 or its errno */
};

/* snap_asker_new() for any tree. */
struct stacksnap_error *snap_asker_new_on(const struct snap_procfs *procfs, unsigned flags,
					  struct snap_asker **ret) _must_check_;
/* How long one process is waited for by now; NULL: by an asker that is yet to be made. */
int snap_asker_patience_ms(const struct snap_asker *asker);
/*
 * Makes a worker, so that the first list need not wait for it; false: there is none. `may_lend`:
 * with room for snap_asker_lend().
 */
bool snap_asker_prepare(struct snap_asker *asker, bool may_lend);
/* A new list of `most` processes, SNAP_MAX_PROCESSES at most. */
void snap_asker_begin(struct snap_asker *asker, size_t most);
void snap_asker_add(struct snap_asker *asker, pid_t pid);
/*
 * Asks them; `most_ns` is how long all may take that do not respond. `until_ns`, CLOCK_MONOTONIC, is
 * for all together; 0: there is no hurry.
 */
void snap_asker_run(struct snap_asker *asker, int64_t most_ns, int64_t until_ns);
/* Asks them for the path of their program alone. */
void snap_asker_run_programs(struct snap_asker *asker, int64_t most_ns, int64_t until_ns);
/*
 * Asks them for their stat, and those that were added before a call of snap_asker_want_files() for
 * descriptors of their root directory and their program: snap_asker_take_files() has them, until the
 * next list begins. SNAP_ASK_FILES at most.
 */
void snap_asker_want_files(struct snap_asker *asker);
void snap_asker_run_files(struct snap_asker *asker, int64_t most_ns, int64_t until_ns);
/* The caller's to close; -1: there is none. */
void snap_asker_take_files(struct snap_asker *asker, size_t index, int *root_ret, int *exe_ret);
/* The stat of one process; 0 or a negative errno. ETIMEDOUT: it does not respond. */
int snap_asker_stat(struct snap_asker *asker, pid_t pid, struct snap_stat *ret);
/* Asks them for their stat alone. */
void snap_asker_run_stats(struct snap_asker *asker, int64_t most_ns, int64_t until_ns);
/* About the process that was added after `index` others. */
struct snap_answer snap_asker_answer(const struct snap_asker *asker, size_t index);

/* ---- one run of discovery ---- */

struct snap_user {
	uid_t uid;
	const char *name; /* NULL: it has none here */
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
	const struct snap_discover_known *known; /* NULL: one look, no other */
	struct snap_asker *asker;                /* NULL: made when it is needed */
	bool owns_asker;
	int64_t ask_ns; /* how long all may take that do not respond */
	/* How long all may be asked in all, and then again how long they may be read; 0: no hurry. */
	int64_t facts_ns;
	struct snap_cgroup cgroup;
};

/* `self`: pid of the program that looks, which is left out; 0 for a recorded tree. */
struct stacksnap_error *snap_discovery_init(struct snap_discovery *run,
					    const struct snap_options *options,
					    struct snap_capture *capture,
					    const struct snap_procfs *procfs,
					    pid_t self) _must_check_;
void snap_discovery_deinit(struct snap_discovery *run);

/* snap_discover(), of any tree. */
struct stacksnap_error *snap_discovery_run(struct snap_discovery *run) _must_check_;

/* The process among those that are known, NULL: it is new, or nothing is known. */
static inline const struct snap_process *snap_discovery_known(const struct snap_discovery *run,
							      pid_t pid, uint64_t start_ticks)
{
	if (!run->known || !run->known->find)
		return NULL;
	return run->known->find(run->known->context, pid, start_ticks);
}

/* Marks matched entries; a pid that is not there becomes an entry that says so. */
struct stacksnap_error *snap_discovery_match(struct snap_discovery *run) _must_check_;

/* Appends a process to the capture; its fields are zero but for pid, parent and live (-1). */
struct stacksnap_error *snap_discovery_append(struct snap_discovery *run, pid_t pid, size_t parent,
					      struct snap_process **ret) _must_check_;

/* Appends the matched processes that stand below no other, by pid, each with its tree. */
struct stacksnap_error *snap_discovery_add_trees(struct snap_discovery *run) _must_check_;

/* Appends descendants until a look finds no new ones, or for so many looks. */
struct stacksnap_error *snap_discovery_add_descendants(struct snap_discovery *run) _must_check_;

/* run->asker, made if there is none. */
struct stacksnap_error *snap_discovery_need_asker(struct snap_discovery *run) _must_check_;

/*
 * turns.c: the indices of the processes that were appended and have no facts yet, in the order in
 * which they have their turns. *ret is freed by the caller.
 */
struct stacksnap_error *snap_discovery_turns(const struct snap_discovery *run,
					     size_t **ret) _must_check_;

/* Identity, live descriptors and labels of the processes that were appended since the last call. */
struct stacksnap_error *snap_discovery_facts(struct snap_discovery *run) _must_check_;

/*
 * labels.c, of one process. `fd`: its directory, or of groups, that of a thread that its leader left
 * behind. False without memory.
 */
bool snap_discovery_read_groups(struct snap_discovery *run, struct snap_process *process, int fd);
/* Texts of the answer are copied. */
bool snap_discovery_keep_program(struct snap_discovery *run, struct snap_process *process,
				 const struct snap_answer *answer);
void snap_discovery_read_owner(struct snap_discovery *run, struct snap_process *process, int fd,
			       bool is_confined);
/* After its parent's. May ask: answers to another list are gone then. */
struct stacksnap_error *snap_discovery_read_ancestors(struct snap_discovery *run,
						      struct snap_process *process) _must_check_;

/* Trouble if it is a zombie or a kernel thread; true then. */
bool snap_process_explain_state(struct snap_capture *capture, struct snap_process *process,
				const struct snap_stat *stat);

/* The cgroup of a process's directory into run->cgroup; 0 or a negative errno. */
int snap_discovery_cgroup(struct snap_discovery *run, int process_fd);

/* The facts of the machine. */
struct stacksnap_error *snap_discovery_host(struct snap_capture *capture,
					    const struct snap_procfs *procfs) _must_check_;

#endif
