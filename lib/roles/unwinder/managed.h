/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Managed: the frames of an interpreter that a thread runs, put among those of the machine, in the
 * parser of a remote unwinder. What each process has had before is known by numbers.
 *
 * Knows nothing of calls; the client believes none of it unchecked (answer.c).
 */
#ifndef SNAP_ROLES_UNWINDER_MANAGED_H
#define SNAP_ROLES_UNWINDER_MANAGED_H

#include "analyze/elf/module.h"
#include "roles/unwinder/exchange.h"

/* Of one process: NULL at first. */
struct snap_managed;

void snap_managed_destroy(struct snap_managed *managed);

/* Whose thread it is. */
struct snap_managed_thread {
	struct snap_module_set *set;
	struct snap_modules *modules;
	const struct snap_process *process; /* without threads and memory */
	const struct snap_options *options;
	const struct snap_thread *thread; /* with memory */
};

/*
 * Answers for a thread whose native stack is there as a whole, with its stack pointers: merged, cut
 * to what there is room for. False in *ret: it has no managed frames, and no answer was made, but
 * for labels. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_managed_answer(struct snap_managed **managed,
					    const struct snap_managed_thread *thread,
					    const struct snap_pcs *pcs,
					    struct snap_exchange *exchange, bool *ret) _must_check_;

/*
 * Answers with the tasks of a process, whose threads and memory are those of one stop; `whose` has
 * no thread. What there is no room for is left out, which the answer says. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_managed_tasks(struct snap_managed **managed,
					   const struct snap_managed_thread *whose,
					   struct snap_process *process,
					   struct snap_exchange *exchange) _must_check_;

#endif
