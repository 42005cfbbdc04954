/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Log sink: what the sampler tells, written into a log.
 *
 * It is the sampler's sink: it unwinds each copy at once, and remembers which numbers processes and
 * threads have in the log. Knows nothing of time.
 */
#pragma once

#include "model/options.h"
#include "record/plans.h"
#include "record/tasks.h"
#include "record/wait/holders.h"
#include "record/wait/object.h"
#include "record/wait/peers.h"
#include "record/wait/sockets.h"
#include "roles/unwinder/unwinder.h"
#include "sample/sampler.h"

enum { SNAP_LOG_SINK_WARNINGS = 64 }; /* about single processes, at most */

/* A process of the sampler's. */
struct snap_log_sink_process {
	struct snap_log_sink_process *next, *previous;
	/* in the log; UINT32_MAX: there was no room for it, or for its space */
	uint32_t number, space;
	bool warned;
	bool unmapped; /* there was no room for what it maps now: its stacks cannot be unwound */
	struct snap_planned planned;
	struct snap_task_list tasks;
	struct snap_owner_source held; /* what its threads wait for */
	struct snap_socket_owner sockets;
	uint64_t stood_tick;   /* the last one in which all of it was stopped */
	bool frozen;           /* its control group was, when it was asked for … */
	int64_t frozen_due_ns; /* … which is done again then */
};

/* A thread of the sampler's; its `user` is the index of this. */
struct snap_log_sink_thread {
	uint32_t number; /* in the log; UINT32_MAX: there was no room for it */
	uint32_t next_free;
	bool live, sampled; /* sampled: it stands in the log with a stack */
	enum snap_state state;
	uint64_t asked_tick; /* in which its copy was refused, and … */
	unsigned asked;      /* … the bits 1 << enum snap_verdict of why */
	/* CLOCK_MONOTONIC of the last run that the log knows of, and when we stopped it last. */
	int64_t ran_ns;
	uint64_t stopped_tick;
};

struct snap_log_sink {
	const struct snap_options *options;
	struct snap_log *log;
	struct snap_remote_unwinder *unwinder;
	struct snap_plans plans;
	struct snap_task_looks looks;
	struct snap_owner_watch holders;
	struct snap_socket_queries sockets;
	struct snap_peer_queries ends;
	struct snap_taken_object taken; /* of the current sample */
	struct snap_log_sink_process *processes;
	struct snap_log_sink_thread *threads;
	size_t thread_count, thread_capacity;
	uint32_t first_free; /* of threads: index + 1; 0: none */
	unsigned warnings;
	bool reported_of_spaces;         /* that there are too many */
	uint64_t tick;                   /* its number, for asked_tick */
	struct stacksnap_error *failure; /* of the end of a process, where none can be returned */
	/* what there is now */
	uint64_t born, sampled;            /* threads ever; those that stand with a stack */
	uint64_t states[SNAP_STATE_COUNT]; /* threads by their last state */
};

void snap_log_sink_init(struct snap_log_sink *sink, const struct snap_options *options,
			struct snap_log *log, struct snap_remote_unwinder *unwinder);
void snap_log_sink_deinit(struct snap_log_sink *sink);

/* What the sampler calls; valid as long as `sink`. */
struct snap_sampler_sink snap_log_sink_callbacks(struct snap_log_sink *sink);

/*
 * Within a tick, behind the sampler's: looks at the tasks of one process that is due. *stopped_ret:
 * how long it stood still; 0: no process did. Errors as of snap_tasks_look().
 */
struct stacksnap_error *snap_log_sink_look_at_tasks(struct snap_log_sink *sink,
						    struct snap_sampler *sampler,
						    int64_t *stopped_ret) _must_check_;

/* Within a tick, behind the sampler's: which threads hold what others wait for, without having run. */
struct stacksnap_error *snap_log_sink_read_owners(struct snap_log_sink *sink,
						  struct snap_sampler *sampler) _must_check_;

/* Within a tick, behind the sampler's: whose control groups are frozen. */
struct stacksnap_error *snap_log_sink_look_at_frozen(struct snap_log_sink *sink) _must_check_;

/* Outside of ticks: what is known of sockets; `is_last`: a moment is waited for it. */
struct stacksnap_error *snap_log_sink_look_at_sockets(struct snap_log_sink *sink,
						      bool is_last) _must_check_;

/* The log has been renumbered. */
void snap_log_sink_renumber(struct snap_log_sink *sink);
