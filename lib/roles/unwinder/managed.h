/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Managed: puts the frames of an interpreter among a thread's native frames, in the parser of a
 * remote unwinder. Frames that a process has had before have numbers.
 *
 * Knows nothing of calls; the client checks everything (answer.c).
 */
#pragma once

#include "analyze/elf/module.h"
#include "roles/unwinder/exchange.h"

/* Of one process: NULL at first. */
struct snap_managed;

void snap_managed_destroy(struct snap_managed *managed);

/* The thread and its process. */
struct snap_managed_thread {
	struct snap_module_set *set;
	struct snap_modules *modules;
	const struct snap_process *process; /* without threads and memory */
	const struct snap_options *options;
	const struct snap_thread *thread; /* with memory */
};

/*
 * Answers for a thread whose whole native stack is there, with its stack pointers: merges the
 * frames, and cuts them to the room. *ret false: the thread has no managed frames, and the answer
 * has labels at most. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_managed_answer(struct snap_managed **managed,
					    const struct snap_managed_thread *thread,
					    const struct snap_pcs *pcs,
					    struct snap_exchange *exchange, bool *ret) _must_check_;

/*
 * Answers with the tasks of a process, whose threads and memory are those of one stop; `whose` has
 * no thread. Tasks without room are left out, and the answer says so. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_managed_tasks(struct snap_managed **managed,
					   const struct snap_managed_thread *whose,
					   struct snap_process *process,
					   struct snap_exchange *exchange) _must_check_;
