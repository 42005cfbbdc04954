/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits: what each thread of a capture waits for, who holds it, and what follows from that.
 *
 *     call     (registers -> the call and its arguments; whose frames name it)   calls.c, names.c
 *     object   (a futex and its words -> mutex, condition, …)                    futex.c, glibc.c, …
 *              (a descriptor, a child, a signal … -> the same)                   kernel/
 *     owner    (tid, thread pointer -> a thread of the report; how sure)         owner.c
 *     edges    (of whom one must act; peers across processes)                    edges.c
 *     graph    (deadlocks, who blocks whom, what is contended)                   graph/
 *
 * Names come first, data second (names count in modules of a C library alone). Knows no process
 * that runs: what the capture has not is unknown, and said.
 */
#ifndef SNAP_ANALYZE_WAIT_WAIT_H
#define SNAP_ANALYZE_WAIT_WAIT_H

#include "analyze/analysis.h"

/*
 * Sets raw->threads[].wait of all processes, and the snapshot's waits but for what groups tell. All
 * stacks have their names. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_waits_find(struct snap_analysis *analysis) _must_check_;

/*
 * Sets the waits that groups have in common, and in which groups owners and peers are, when the
 * nodes of all processes have their stacks: nodes[i] is of analysis->processes[i], or NULL.
 * NO_MEMORY.
 */
struct stacksnap_error *snap_waits_place(struct snap_analysis *analysis,
					 struct snap_node *const *nodes) _must_check_;

#endif
