/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The scout: finds out which memory of managed runtimes a stop has to copy, before it.
 *
 *     collector --process (mappings)--> parser: runs the runtimes' scouts in the sandbox
 *         ^        <--file, memory-----   |  asks for files (opener) and for memory (a worker)
 *         +------------plan---------------+
 *
 * A parser that stays is asked about one process after the other, and answers with a plan. What it
 * says is checked, and believed no further: a plan only reads, in the process it was asked about,
 * and addresses that it names itself lie in files that are mapped there, or right behind them. It
 * reads memory of the process that it is asked about and of no other. Knows no runtime.
 */
#ifndef SNAP_ROLES_SCOUT_SCOUT_H
#define SNAP_ROLES_SCOUT_SCOUT_H

#include "analyze/runtime/runtime.h"
#include "model/capture.h"

#include <sys/uio.h>

struct snap_scout;

/*
 * The options and the list of runtimes, which NULL ends, must outlive it. `is_of_thread`: plans of
 * snap_scout_plan() are for single threads. NO_MEMORY.
 */
struct stacksnap_error *snap_scout_create(const struct snap_options *options,
					  const struct snap_runtime *const *runtimes,
					  bool is_of_thread, struct snap_scout **ret) _must_check_;
void snap_scout_destroy(struct snap_scout *scout);
/*
 * Memory is read by this function from now on, as in struct snap_plan_source, in place of a process
 * that runs; with its context it must outlive the scout.
 */
void snap_scout_set_memory(struct snap_scout *scout,
			   size_t (*read)(void *context, uint8_t *bytes, const struct iovec *ranges,
					  size_t count),
			   void *context);

static inline void snap_scout_destroyp(struct snap_scout **scout)
{
	snap_scout_destroy(*scout);
}

/*
 * Fits struct snap_stop_hook: `context` is a struct snap_scout. The process, an index in the
 * capture, runs, and its mappings are known. *found_ret: there is a plan. No plan is no error: the
 * process has no runtime, was too slow to answer, its files ended a parser, or its memory cannot be
 * read, which becomes a warning of the capture. CANCELLED.
 */
struct stacksnap_error *snap_scout_plan(void *context, const struct snap_options *options,
					struct snap_capture *capture, size_t process,
					struct snap_memory_plan *plan,
					bool *found_ret) _must_check_;

/*
 * The same for who has something else to do meanwhile. Begins to ask about a process, an index in
 * the capture, whose mappings are known; until that is over neither moves, and no other is asked
 * about. `is_of_thread`: the plan is to be for single threads. True: the answer comes by
 * snap_scout_go_on().
 */
bool snap_scout_begin(struct snap_scout *scout, const struct snap_capture *capture, size_t process,
		      bool is_of_thread);
/*
 * Gives the parser what it wants until it has answered, or until a time; *done_ret: it has, or
 * there will be no answer. *found_ret: there is a plan. CANCELLED.
 */
struct stacksnap_error *snap_scout_go_on(struct snap_scout *scout, int64_t until_ns,
					 struct snap_memory_plan *plan, bool *found_ret,
					 bool *done_ret) _must_check_;
/* Nobody wants the answer any more, or nobody will ask for some time: its parser ends. */
void snap_scout_leave(struct snap_scout *scout);

#endif
