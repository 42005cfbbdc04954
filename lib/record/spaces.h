/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Spaces: unwinds the threads of many address spaces of a log, one here, one there.
 *
 * A parser does it (roles/unwinder/unwinder.h), which is told of a space when its first thread comes; here
 * are the files that it asks for. All that it holds is a cache over the log's spaces: it can be
 * dropped at any time between two stacks, and is when the log moves. Knows nothing of threads'
 * names or of ticks.
 */
#ifndef SNAP_RECORD_SPACES_H
#define SNAP_RECORD_SPACES_H

#include "analyze/unwind/unwind.h"
#include "roles/broker.h"
#include "store/log/log.h"

struct snap_spaces;

/* Keeps pointers to both; they must outlive it. */
struct snap_error *snap_spaces_create(const struct snap_options *options,
				      const struct snap_log *log,
				      struct snap_spaces **ret) _must_check_;
void snap_spaces_destroy(struct snap_spaces *spaces);

static inline void snap_spaces_destroyp(struct snap_spaces **spaces)
{
	snap_spaces_destroy(*spaces);
}

/* Who finds the files of the log's spaces; valid as long as `spaces`. */
const struct snap_broker *snap_spaces_broker(const struct snap_spaces *spaces);

/* Unwinds a thread of a space; the pcs are valid until the next call. NO_MEMORY, OS, CANCELLED. */
struct snap_error *snap_spaces_unwind(struct snap_spaces *spaces, uint32_t space,
				      const struct snap_thread *thread,
				      struct snap_pcs *ret) _must_check_;

/* Nobody runs in it any more, or its mappings are others: they are looked at anew. */
void snap_spaces_leave(struct snap_spaces *spaces, uint32_t space);
/* Spaces may have gone from the log: everything is made anew. */
void snap_spaces_reset(struct snap_spaces *spaces);

/* Between ticks: starts anew when too much is kept of spaces that were left. */
void snap_spaces_tidy(struct snap_spaces *spaces);

/* How many parsers were lost, each with a stack or more, and why the last one; NULL: none. */
unsigned snap_spaces_losses(const struct snap_spaces *spaces, const char **why_ret);

/*
 * Whether a space knows all mappings by which stacks are unwound and named; heaps come and go,
 * which is no news.
 */
bool snap_space_knows(const struct snap_process *space, const struct snap_process *facts);

#endif
