/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Remote unwinder: unwinds copies of threads one by one in a parser that stays.
 *
 * For whoever needs the answer at once: a recording, tick after tick, and a snapshot without a
 * stop, which asks whether a copy suffices. Copies and answers go through shared memory. A parser
 * that dies, or thinks longer than it may, is replaced by a new one; the stack at hand is then its
 * pc alone. Knows nothing of threads' names or of ticks.
 */
#ifndef SNAP_ROLES_UNWINDER_UNWINDER_H
#define SNAP_ROLES_UNWINDER_UNWINDER_H

#include "analyze/unwind/unwind.h"
#include "roles/broker.h"
#include "store/log/log.h"

struct snap_remote_unwinder;

/*
 * Makes nothing yet: the first stack does. The broker answers about the capture whose processes
 * are entered, and must outlive it, as must the options.
 */
struct stacksnap_error *snap_remote_unwinder_create(const struct snap_options *options,
						    const struct snap_broker *broker,
						    struct snap_remote_unwinder **ret) _must_check_;
void snap_remote_unwinder_destroy(struct snap_remote_unwinder *unwinder);

/*
 * From a third of a second after the time at `asked_ns` (CLOCK_MONOTONIC; 0: nobody has asked) on
 * every stack is CANCELLED: whoever asked for the end has waited for the others.
 */
void snap_remote_unwinder_heed(struct snap_remote_unwinder *unwinder, _Atomic int64_t *asked_ns);

/*
 * Unwinds a thread of the process with this number, which is sent the first time; `process` is
 * number `number` of the broker's capture. The pcs are valid until the next call. Never fails for
 * what the parser does: then the pc alone, SNAP_UNWIND_FAILED. NO_MEMORY, OS.
 */
struct stacksnap_error *snap_remote_unwind(struct snap_remote_unwinder *unwinder, uint32_t number,
					   const struct snap_process *process,
					   const struct snap_thread *thread,
					   struct snap_pcs *ret) _must_check_;

/* What a stack has beside its pcs. */
struct snap_remote_managed {
	const struct snap_log_managed *frames; /* in place of pcs */
	size_t frame_count;
	bool shows_all; /* see struct snap_log_stack */
	const struct snap_label *labels;
	size_t label_count;
};

/* Of the last stack, valid as long as it is; its texts are as hostile as a target's. */
const struct snap_remote_managed *
snap_remote_unwinder_managed(const struct snap_remote_unwinder *unwinder);

/* A task of a process. Texts are as hostile as a target's. */
struct snap_remote_task {
	const char *id, *name, *runtime, *parent, *wait; /* as in struct snap_task; runtime: ours */
	struct snap_entry created_by;    /* function (NULL: nobody knows), file and line alone */
	const struct snap_label *labels; /* sorted by key, each once */
	size_t label_count;
	bool labels_cut;
	enum snap_task_state state;
	const struct snap_log_pcs *stack; /* NULL: a thread runs it, which shows it */
};

struct snap_remote_tasks {
	const struct snap_remote_task *tasks;
	size_t count;
	bool has_tasks; /* there is a runtime that may have some */
	bool cut;       /* not all that there are */
};

/*
 * The tasks of a process, which is that of snap_remote_unwind(): `whole` has its threads (whose
 * stacks are not looked at) and its memory as they were in one stop. *ret is valid until
 * the next call; NULL: the parser was of no use. NO_MEMORY, OS, CANCELLED.
 */
struct stacksnap_error *snap_remote_list_tasks(struct snap_remote_unwinder *unwinder,
					       uint32_t number, const struct snap_process *process,
					       const struct snap_process *whole,
					       const struct snap_remote_tasks **ret) _must_check_;

/* It is another one from now on, or nobody needs it: sent anew when it is named again. */
void snap_remote_unwinder_leave(struct snap_remote_unwinder *unwinder, uint32_t number);
/* All of them; the broker's capture may be another. */
void snap_remote_unwinder_reset(struct snap_remote_unwinder *unwinder);
/* Between ticks: starts anew where much is kept of processes that were left. */
void snap_remote_unwinder_tidy(struct snap_remote_unwinder *unwinder);

/*
 * Whoever has something better to do than to wait: an answer that takes longer is given up. By the
 * clock, files not counted.
 */
void snap_remote_unwinder_hurry(struct snap_remote_unwinder *unwinder, int64_t most_wait_ns);

/* How many parsers were lost, and the sentence about the last one, NULL: none. */
unsigned snap_remote_unwinder_losses(const struct snap_remote_unwinder *unwinder,
				     const char **why_ret);

#endif
