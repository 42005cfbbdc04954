/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Looks at the tasks of a recording's processes that wait (goroutines, tasks of asyncio): now and
 * then a process is stopped as a whole for the memory that its runtime keeps them in, between two
 * ticks, one process at a tick. A task stands in the log as its last look says until the next one;
 * while a thread runs it, that thread's samples show it.
 *
 * The share of time for which a process is stopped is bounded: the longer a look has taken, the
 * later the next one. Knows nothing of runtimes.
 */
#pragma once

#include "roles/unwinder/unwinder.h"
#include "sample/sampler.h"
#include "store/log/log.h"

/* A task that the log has: by what it is, as the next look will find it again. */
struct snap_known_task {
	uint64_t identity; /* a hash of its runtime and id */
	uint64_t content;  /* of all else that does not change */
	uint32_t number;   /* in the log's threads */
	uint32_t look;     /* the last one that found it */
};

/* What is known of the tasks of a process, a part of the sink's entry. */
struct snap_task_list {
	struct snap_known_task *tasks;
	size_t count, capacity;
	uint32_t looks;
	int64_t last_ns; /* CLOCK_MONOTONIC: when the last one began; 0: there was none */
	int64_t due_ns;  /* the next one does not come before */
	int64_t cost_ns; /* how long it was stopped for the last one */
	int64_t idle_ns; /* until the next one, of a process without tasks; 0: it had some */
};

/* What looks have to do with. */
struct snap_task_looks {
	const struct snap_options *options;
	struct snap_log *log;
	struct snap_remote_unwinder *unwinder;
	int64_t walk_ns; /* no process is due before */
	uint64_t cut;    /* looks that could not see all tasks */
};

/* Whose turn it may be. */
struct snap_task_owner {
	struct snap_task_list *list;
	struct snap_sampled_process *process;
	const struct snap_memory_plan *plan; /* of the process as a whole */
	uint32_t number, space;              /* in the log */
};

/* Between looks: the period, with all that a look has cost. Numbers alone. */
int64_t snap_tasks_next(const struct snap_options *options, int64_t begin_ns, int64_t end_ns,
			int64_t stopped_ns);

/*
 * Within a tick: looks at the tasks of a process that is due, and changes the log. *stopped_ret:
 * how long it stood still. CANCELLED, NO_MEMORY, and errors of the log.
 */
struct stacksnap_error *snap_tasks_look(struct snap_task_looks *looks, struct snap_sampler *sampler,
					const struct snap_task_owner *owner,
					int64_t *stopped_ret) _must_check_;

/* Within a tick: the process has ended, or is another program. */
struct stacksnap_error *snap_tasks_end(struct snap_log *log,
				       struct snap_task_list *list) _must_check_;
/* The log has been renumbered. */
void snap_tasks_renumber(const struct snap_log *log, struct snap_task_list *list);
void snap_task_list_deinit(struct snap_task_list *list);
