/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Labels: what is said of a thread and of a group of threads, besides its stack.
 *
 * One table names them, in the order in which they are printed. A label on which the threads of a
 * group differ is absent; names that differ in numbers only share their pattern ("worker-*").
 */
#ifndef SNAP_ANALYZE_LABEL_H
#define SNAP_ANALYZE_LABEL_H

#include "base/arena.h"
#include "model/options.h"
#include "model/snapshot.h"

struct snap_raw_stack;

/* Names of the capture are copied through the interner. False without memory. */
bool snap_label_member(struct snap_interner *strings, const struct snap_process *process,
		       const struct snap_thread *thread, const struct snap_raw_stack *stack,
		       struct snap_member *ret);

/* A hash of the labels that `group_by` names (bits of enum snap_group_by). */
uint64_t snap_label_key(const struct snap_member *member, unsigned group_by, uint64_t seed);

/* Fills the labels of a stack whose threads are there. False without memory. */
bool snap_label_stack(struct snap_interner *strings, struct snap_stack *stack);

/*
 * The one name or pattern of all threads, written to `out` (SNAP_MAX_COMM bytes); false: they have
 * none in common.
 */
bool snap_label_fold(const struct snap_member *threads, size_t count, char *out);

#endif
