/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits: what each thread of a capture waits for, its holder, and what follows from both.
 *
 *     call    (registers -> the call and its arguments; frames that name it)   calls.c, names.c
 *     object  (a futex and its words -> mutex, condition, …)                   futex.c, glibc.c, …
 *             (a descriptor, a child, a signal … -> the same)                  kernel/
 *     owner   (tid, thread pointer -> a thread of the report; how sure)        owner.c
 *     edges   (threads of which one must act; peers across processes)          edges.c
 *     graph   (deadlocks, blockers, contended objects)                         graph/
 *     limit   (fewer of them, where there are too many)                        limit.c
 *
 * Names come first, data second; names count in modules of a C library alone. Knows no running
 * process: what the capture does not have is unknown, and the report says so.
 */
#pragma once

#include "analyze/analysis.h"

/*
 * Sets raw->threads[].wait of all processes, and the snapshot's waits but for what groups tell. All
 * stacks have their names. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_waits_find(struct snap_analysis *analysis) _must_check_;

/*
 * Sets raw->threads[].wait alone: kinds, objects and their names, of threads that were not there at
 * one moment. Their timeouts are not known, and holders are not looked for: neither hints,
 * deadlocks nor blockers. The capture has facts of waits. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_waits_explain(struct snap_analysis *analysis) _must_check_;

/*
 * Sets in which groups owners and peers are, when the nodes of all processes have their stacks:
 * nodes[i] is of analysis->processes[i], or NULL. NO_MEMORY.
 */
struct stacksnap_error *snap_waits_place(struct snap_analysis *analysis,
					 struct snap_node *const *nodes) _must_check_;

/* A control group keeps it from running, as far as its wchan and process->frozen tell. */
bool snap_wait_is_frozen(const struct snap_process *process, const struct snap_thread *thread);

/* ---- limits ---- */

/* What was left out. */
struct snap_wait_cut {
	size_t length; /* bytes to which texts were cut; 0: none were */
	bool lists;    /* of processes at the other end only the first one is there */
	size_t waits;  /* threads whose waits are not there */
};

/*
 * What the waits of a node take in the largest report; NULL: the deadlocks, blockers and contended
 * objects of all. NO_MEMORY.
 */
struct stacksnap_error *snap_waits_report_bytes(const struct snap_node *node,
						const struct snap_waits *waits,
						uint64_t *ret) _must_check_;
/* Leaves out so much that they take `most` bytes; adds what that was. NO_MEMORY. */
struct stacksnap_error *snap_waits_limit(struct snap_interner *strings,
					 const struct snap_node *node,
					 const struct snap_waits *waits, uint64_t most,
					 struct snap_wait_cut *cut) _must_check_;
