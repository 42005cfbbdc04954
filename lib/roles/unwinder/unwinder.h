/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Remote unwinder: unwinds copies of threads one by one in a parser that stays.
 *
 * For callers that need the answer at once: a recording, tick after tick, and a snapshot without a
 * stop, which asks whether a copy suffices. Copies and answers go through shared memory. A parser
 * that dies, or takes too long, is replaced by a new one; the current stack is then the pc alone.
 * Knows nothing of the names of threads, or of ticks.
 */
#pragma once

#include "analyze/unwind/unwind.h"
#include "roles/broker.h"
#include "store/log/log.h"

struct snap_remote_unwinder;

/*
 * Makes no parser yet: the first stack does. The broker answers about the capture whose processes
 * are entered. The broker and the options must outlive the unwinder.
 */
struct stacksnap_error *snap_remote_unwinder_create(const struct snap_options *options,
						    const struct snap_broker *broker,
						    struct snap_remote_unwinder **ret) _must_check_;
void snap_remote_unwinder_destroy(struct snap_remote_unwinder *unwinder);

/*
 * From a third of a second after the time at `asked_ns` (CLOCK_MONOTONIC; 0: no request) every
 * stack is CANCELLED: the caller that asked for the end has waited for the others.
 */
void snap_remote_unwinder_heed(struct snap_remote_unwinder *unwinder, _Atomic int64_t *asked_ns);

/*
 * Unwinds a thread of the process with this number, which is sent the first time; `process` is
 * number `number` of the broker's capture. The pcs are valid until the next call. A failure of the
 * parser is no error: then the pc alone is returned, with SNAP_UNWIND_FAILED. NO_MEMORY, OS.
 */
struct stacksnap_error *snap_remote_unwind(struct snap_remote_unwinder *unwinder, uint32_t number,
					   const struct snap_process *process,
					   const struct snap_thread *thread,
					   struct snap_pcs *ret) _must_check_;

/* What a stack has in addition to its pcs. */
struct snap_remote_managed {
	const struct snap_log_managed *frames; /* in place of pcs */
	size_t frame_count;
	bool shows_all; /* see struct snap_log_stack */
	const struct snap_label *labels;
	size_t label_count;
};

/* Of the last stack, valid as long as that is; its texts are as hostile as a target's. */
const struct snap_remote_managed *
snap_remote_unwinder_managed(const struct snap_remote_unwinder *unwinder);

/* A task of a process. Texts are as hostile as a target's. */
struct snap_remote_task {
	const char *id, *name, *runtime, *parent,
		*wait;                   /* as in struct snap_task; runtime: our own text */
	struct snap_entry created_by;    /* function (NULL: unknown), file and line alone */
	const struct snap_label *labels; /* sorted by key, each once */
	size_t label_count;
	bool labels_cut;
	enum snap_task_state state;
	const struct snap_log_pcs *stack; /* NULL: the thread that runs it shows it */
};

struct snap_remote_tasks {
	const struct snap_remote_task *tasks;
	size_t count;
	bool has_tasks; /* the process has a runtime with tasks */
	bool cut;       /* some are missing */
};

/*
 * Lists the tasks of a process, numbered as in snap_remote_unwind(). `whole` has its threads (whose
 * stacks are not read) and its memory as they were in one stop. *ret is valid until the next call;
 * NULL: the parser gave no answer. NO_MEMORY, OS, CANCELLED.
 */
struct stacksnap_error *snap_remote_list_tasks(struct snap_remote_unwinder *unwinder,
					       uint32_t number, const struct snap_process *process,
					       const struct snap_process *whole,
					       const struct snap_remote_tasks **ret) _must_check_;

/* The process has changed, or is not needed any more: it is sent again if it is named again. */
void snap_remote_unwinder_leave(struct snap_remote_unwinder *unwinder, uint32_t number);
/* The same for all processes; the broker may have another capture from here on. */
void snap_remote_unwinder_reset(struct snap_remote_unwinder *unwinder);
/* Call this between ticks: it begins anew if much is kept of processes that were left. */
void snap_remote_unwinder_tidy(struct snap_remote_unwinder *unwinder);

/*
 * Limits the wait for an answer: one that takes longer is given up. By the clock, files not
 * counted.
 */
void snap_remote_unwinder_hurry(struct snap_remote_unwinder *unwinder, int64_t most_wait_ns);

/* The number of lost parsers, and the sentence about the last one, NULL: none. */
unsigned snap_remote_unwinder_losses(const struct snap_remote_unwinder *unwinder,
				     const char **why_ret);
