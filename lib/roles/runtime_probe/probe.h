/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Probe: finds out, before a stop, which memory of managed runtimes the stop has to copy.
 *
 *     collector --process (mappings)--> parser: runs the runtimes' probes in the sandbox
 *         ^        <--file, memory-----   |  asks for files (opener) and for memory (a worker)
 *         +------------plan---------------+
 *
 * A parser that stays is asked about one process after the other, and answers with a plan, which is
 * checked. A plan only reads, and only in the process it was made for. Addresses in a plan must be
 * in files that are mapped there, or right behind them. The parser can read memory of the current
 * process and of no other. This file knows no runtime.
 */
#pragma once

#include "analyze/runtime/runtime.h"
#include "model/capture.h"

#include <sys/uio.h>

struct snap_runtime_probe;

/*
 * The options and the list of runtimes, ended by NULL, must outlive the probe. `is_of_thread`:
 * plans of snap_runtime_probe_plan() are for single threads. NO_MEMORY.
 */
struct stacksnap_error *snap_runtime_probe_create(const struct snap_options *options,
						  const struct snap_runtime *const *runtimes,
						  bool is_of_thread,
						  struct snap_runtime_probe **ret) _must_check_;
void snap_runtime_probe_destroy(struct snap_runtime_probe *probe);
/*
 * From now on this function reads memory, as in struct snap_plan_source, in place of a running
 * process. The function's context must outlive the probe.
 */
void snap_runtime_probe_set_memory(struct snap_runtime_probe *probe,
				   size_t (*read)(void *context, uint8_t *bytes,
						  const struct iovec *ranges, size_t count),
				   void *context);

SNAP_POINTER_GUARD(struct snap_runtime_probe, snap_runtime_probe_destroy);

/*
 * Fits struct snap_stop_hook: `context` is a struct snap_runtime_probe. The process, an index in the
 * capture, runs, and its mappings are known. *found_ret: there is a plan. No plan is no error: the
 * process has no runtime, was too slow to answer, its files ended a parser, or its memory cannot be
 * read, which becomes a warning of the capture. CANCELLED.
 */
struct stacksnap_error *snap_runtime_probe_plan(void *context, const struct snap_options *options,
						struct snap_capture *capture, size_t process,
						struct snap_memory_plan *plan,
						bool *found_ret) _must_check_;
/*
 * Gives the threads of a capture the names that the runtimes of its processes had for them when
 * snap_runtime_probe_plan() asked, before the stop, and its processes the memory that was kept
 * then. NO_MEMORY.
 */
struct stacksnap_error *snap_runtime_probe_complete(struct snap_runtime_probe *probe,
						    struct snap_capture *capture) _must_check_;

/* Puts the images of the process that was asked about last among its pieces, in the arena. */
bool snap_runtime_probe_images(const struct snap_runtime_probe *probe, struct snap_arena *arena,
			       struct snap_process *process) _must_check_;

/*
 * The same for a caller that does other work meanwhile. Begins a question about a process, an index
 * in the capture, whose mappings are known. Until the end neither may move, and no other question
 * begins. `is_of_thread`: the plan is for single threads. True: the answer comes by
 * snap_runtime_probe_go_on().
 */
bool snap_runtime_probe_begin(struct snap_runtime_probe *probe, const struct snap_capture *capture,
			      size_t process, bool is_of_thread);
/*
 * Serves the parser until it has answered, or until a time; *done_ret: it has, or there will be no
 * answer. *found_ret: there is a plan. CANCELLED.
 */
struct stacksnap_error *snap_runtime_probe_go_on(struct snap_runtime_probe *probe, int64_t until_ns,
						 struct snap_memory_plan *plan, bool *found_ret,
						 bool *done_ret) _must_check_;
/* The answer is not wanted any more, or no question will follow for some time: ends the parser. */
void snap_runtime_probe_leave(struct snap_runtime_probe *probe);
