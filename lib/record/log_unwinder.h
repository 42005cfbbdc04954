/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The unwinder of a log: unwinds threads of its address spaces, one here, one there.
 *
 * A parser does it (roles/unwinder/unwinder.h), which gets an address space with its first thread;
 * this file serves the files that it asks for. All that it holds is a cache over the log's spaces:
 * it can be dropped at any time between two stacks, and is when the log moves. Knows nothing of
 * threads' names or of ticks.
 */
#ifndef SNAP_RECORD_LOG_UNWINDER_H
#define SNAP_RECORD_LOG_UNWINDER_H

#include "analyze/unwind/unwind.h"
#include "roles/broker.h"
#include "roles/unwinder/unwinder.h"
#include "store/log/log.h"

struct snap_log_unwinder;

/* Keeps pointers to both; they must outlive it. */
struct stacksnap_error *snap_log_unwinder_create(const struct snap_options *options,
						 const struct snap_log *log,
						 struct snap_log_unwinder **ret) _must_check_;
void snap_log_unwinder_destroy(struct snap_log_unwinder *unwinder);

SNAP_POINTER_GUARD(struct snap_log_unwinder, snap_log_unwinder_destroy);

/* Finds the files of the log's unwinder; valid as long as `unwinder`. */
const struct snap_broker *snap_log_unwinder_broker(const struct snap_log_unwinder *unwinder);

/* See snap_remote_unwinder_heed(). */
void snap_log_unwinder_heed(struct snap_log_unwinder *unwinder, _Atomic int64_t *asked_ns);

/* Unwinds a thread of a space; the pcs are valid until the next call. NO_MEMORY, OS, CANCELLED. */
struct stacksnap_error *snap_log_unwind(struct snap_log_unwinder *unwinder, uint32_t space,
					const struct snap_thread *thread,
					struct snap_pcs *ret) _must_check_;

/* What the last one has beside its pcs: managed frames and labels. */
const struct snap_remote_managed *
snap_log_unwinder_managed(const struct snap_log_unwinder *unwinder);

/*
 * The tasks of a space's process, which is `whole` with its threads and memory; NULL in *ret: there
 * is no answer. NO_MEMORY, OS, CANCELLED.
 */
struct stacksnap_error *snap_log_list_tasks(struct snap_log_unwinder *unwinder, uint32_t space,
					    const struct snap_process *whole,
					    const struct snap_remote_tasks **ret) _must_check_;

/* No thread runs in it any more, or its mappings changed: they are read anew. */
void snap_log_unwinder_leave(struct snap_log_unwinder *unwinder, uint32_t space);
/* Spaces may have gone from the log: everything is made anew. */
void snap_log_unwinder_reset(struct snap_log_unwinder *unwinder);

/* Between ticks: starts anew when too much is kept of spaces that were left. */
void snap_log_unwinder_tidy(struct snap_log_unwinder *unwinder);

/* How many parsers were lost, each with a stack or more, and why the last one; NULL: none. */
unsigned snap_log_unwinder_losses(const struct snap_log_unwinder *unwinder, const char **why_ret);

/*
 * Whether a space knows all mappings by which stacks are unwound and named; heaps come and go,
 * which is no news.
 */
bool snap_space_knows(const struct snap_process *space, const struct snap_process *facts);

#endif
