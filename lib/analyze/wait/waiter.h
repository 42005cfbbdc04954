/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of this folder, of kernel/ and of graph/: waiters, how they are found, and
 * what each step provides to the others. See wait.h for the order of steps.
 */
#pragma once

#include "analyze/wait/wait.h"
#include "base/table.h"
#include "model/wait/call.h"

/* What is asked once. */
enum snap_answer { SNAP_ANSWER_UNKNOWN, SNAP_ANSWER_NO, SNAP_ANSWER_YES };

/*
 * Processes of which any thread can end a wait: those at the other end of a pipe, the holders of a
 * file lock, children. All that wait for the same share one set, so a thousand readers of a pipe
 * with a thousand writers cost two thousand edges. Each process stands in it once.
 */
struct snap_wait_set {
	size_t *processes; /* in analysis->processes */
	size_t count;
};

/* The threads of a process whose stacks were copied, by where these begin. */
struct snap_wait_stacks {
	const struct snap_thread **threads;
	size_t count;
};

/* A thread, and what is found out of its wait. */
struct snap_waiter {
	struct snap_raw_process *raw;
	struct snap_raw_thread *thread;
	const struct snap_wait_stacks *stacks; /* of its process */
	size_t process;                        /* in analysis->processes */
	struct snap_thread_call call;
	int64_t number; /* of the call, as on x86-64: snap_wait_call_common() */
	const struct snap_wait_call_row *row;
	struct snap_wait *wait; /* NULL: none; in the snapshot's arena */
	/*
	 * Edges: places in the list of waiters, of which one must act so that this one goes on; and
	 * a set of processes, any thread of which may as well (those of its own process, too: its
	 * own edge to itself is then a member). `any_known`: they are all that there are; false:
	 * something unknown could wake it. `any_certain`: and none of them is merely likely.
	 */
	size_t *any_of;
	size_t any_count;
	size_t any_set; /* in waits->sets; SNAP_NO_SET: none */
	bool any_known, any_certain;
	uint64_t object; /* the same for all that wait for one object, in all processes; 0: none */
	bool is_deadlocked;        /* in a deadlock, or behind one */
	struct snap_waiter *owner; /* the one whose party is wait->owner; NULL: not in the report */
};

/* The calls of functions that were looked at, each once: callee.c. */
struct snap_wait_callees {
	struct snap_hash_table table;
	struct snap_wait_callee *list;
	size_t count, capacity;
	uint64_t looked_at; /* relocations, of what a hostile file may have billions */
};

enum { SNAP_NO_SET = -1 };

struct snap_wait_analysis {
	struct snap_analysis *analysis;
	const struct snap_wait_facts *facts; /* NULL: the capture has none */
	bool has_times;                      /* timeouts are known */
	struct snap_waiter *waiters;         /* by process as in the capture, then by tid */
	size_t waiter_count;
	size_t *first;  /* of each process: its first waiter; process_count + 1 of them */
	size_t *by_pid; /* processes in the order of their pids */
	struct snap_wait_set *sets; /* at most one a waiter */
	size_t set_count;
	/* find.c: waiters by process and their own number, by process and thread pointer, by tid */
	struct snap_hash_table ns_tids, thread_pointers, tids;
	struct snap_wait_callees callees;
	struct snap_wait_stack_names **stack_names; /* by process, by stack: names.c */
	enum snap_answer *static_musl; /* by process: a static program made with musl; names.c */
	struct snap_wait_mapping *mappings; /* shared ones, of all processes: owner.c */
	size_t mapping_count;
	bool has_mappings;
	struct snap_wait_lookup *lookup; /* of kernel/ */
};

static inline struct snap_arena *snap_wait_arena(struct snap_wait_analysis *waits)
{
	return snap_analysis_arena(waits->analysis);
}

static inline const struct snap_process *snap_waiter_process(const struct snap_waiter *waiter)
{
	return waiter->raw->process;
}

/*
 * It was in its call at one moment with all others of which that is true. What could not be stopped
 * was asked for its call later; in D it did not move until then.
 */
static inline bool snap_waiter_is_confirmed(const struct snap_waiter *waiter)
{
	const struct snap_thread *thread = waiter->thread->thread;

	if (!snap_taken_at_once(thread->taken))
		return thread->confirmed;
	return thread->result == SNAP_THREAD_COPIED || thread->state == 'D' || thread->confirmed;
}

/* ---- calls.c ---- */

/* The stacks of a process, in the scratch arena. NULL without memory. */
const struct snap_wait_stacks *snap_wait_stacks_of(struct snap_analysis *analysis,
						   const struct snap_process *process);

/* A new wait of a kind with nothing else known, all numbers -1. NULL without memory. */
struct snap_wait *snap_wait_new(struct snap_wait_analysis *waits, struct snap_waiter *waiter,
				enum snap_wait_kind kind, enum snap_wait_confidence confidence);

/*
 * Bytes at an address of the waiter's process as they were in the stop: of its words, of copied
 * stacks, of captured pieces. False: the capture has them not, or not all.
 */
bool snap_wait_read(const struct snap_waiter *waiter, uint64_t address, void *out, size_t size);

/* ---- find.c: threads ---- */

/* Makes the lists that the others search, when all waiters are listed. NO_MEMORY. */
struct stacksnap_error *snap_wait_index(struct snap_wait_analysis *waits) _must_check_;
void snap_wait_index_deinit(struct snap_wait_analysis *waits);

/* The waiter with a tid as the process itself numbers it; NULL: none of its threads has it. */
struct snap_waiter *snap_waiter_by_ns_tid(struct snap_wait_analysis *waits, size_t process,
					  uint64_t ns_tid);
/* With a thread pointer; NULL: none, or several. */
struct snap_waiter *snap_waiter_by_thread_pointer(struct snap_wait_analysis *waits, size_t process,
						  uint64_t pointer);
/* The waiter with a tid as this host numbers it. */
struct snap_waiter *snap_waiter_by_tid(struct snap_wait_analysis *waits, pid_t tid);
/* The process with a pid, as this host numbers it; SIZE_MAX: not in the report. */
size_t snap_wait_process_by_pid(const struct snap_wait_analysis *waits, pid_t pid);
/* What is known of a thread of the report, as the owner or a peer of a wait. */
struct snap_wait_party snap_wait_party_of(const struct snap_waiter *waiter);

/* ---- restart.c ---- */

/*
 * The call that restart_syscall(2) goes on with, whose arguments are still in their registers; the
 * call itself where it is another one, or cannot be known. The thread's stack has its names; of the
 * waiter nothing is read that says which call it is in.
 */
struct snap_thread_call snap_wait_restarted(struct snap_wait_analysis *waits,
					    const struct snap_waiter *waiter,
					    struct snap_thread_call call);

/* ---- times.c ---- */

/*
 * Sets `timed` and `remaining_ns` of the wait that a waiter has, by the timeout that its call was
 * given, futex(2) included. What is left of a relative timeout is a bound, which `since_ns` lowers.
 */
void snap_wait_set_timeout(const struct snap_wait_analysis *waits, struct snap_waiter *waiter);

/* ---- find.c: parties ---- */

/*
 * What parties wait for themselves, of all waits: once all are explained. So code that fills in an
 * owner, holder, peer or hint need not know it.
 */
void snap_wait_join_parties(struct snap_wait_analysis *waits);

/* ---- hints.c ---- */

/*
 * On whose stacks the addresses of locks stand that keep no owner: sets the hints of those waits,
 * if the options ask for hints. NO_MEMORY.
 */
struct stacksnap_error *snap_wait_find_hints(struct snap_wait_analysis *waits) _must_check_;

/* ---- data_symbol.c ---- */

/* Symbol, or module and place, of each wait's address and mutex. NO_MEMORY, CANCELLED. */
struct stacksnap_error *snap_wait_name_data(struct snap_wait_analysis *waits) _must_check_;

/* ---- objects: each sets waiter->wait, or leaves it NULL where it knows nothing ---- */

/* futex.c: a thread in futex(2) or futex_waitv(2). NO_MEMORY. */
struct stacksnap_error *snap_wait_explain_futex(struct snap_wait_analysis *waits,
						struct snap_waiter *waiter) _must_check_;
/* kernel/explain.c: any other call, and none (page faults, stops). NO_MEMORY. */
struct stacksnap_error *snap_wait_explain_call(struct snap_wait_analysis *waits,
					       struct snap_waiter *waiter) _must_check_;

/* What the files of kernel/ keep; NULL without memory. Destroy takes NULL. */
struct snap_wait_lookup *snap_wait_lookup_create(void);
void snap_wait_lookup_destroy(struct snap_wait_lookup *lookup);

/* ---- edges.c ---- */

/* any_of of each waiter, from its owner, holders and peers. NO_MEMORY. */
struct stacksnap_error *snap_wait_find_edges(struct snap_wait_analysis *waits) _must_check_;

/* ---- graph/place.c ---- */

/* Where parties stand, of all waits. */
void snap_wait_place_parties(struct snap_wait_analysis *waits);

/* ---- graph/ ---- */

/* The snapshot's deadlocks, blockers and contended objects. NO_MEMORY. */
struct stacksnap_error *snap_wait_find_deadlocks(struct snap_wait_analysis *waits) _must_check_;
struct stacksnap_error *snap_wait_find_blockers(struct snap_wait_analysis *waits) _must_check_;
struct stacksnap_error *snap_wait_find_contended(struct snap_wait_analysis *waits) _must_check_;
