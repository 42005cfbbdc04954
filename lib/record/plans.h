/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Plans of a recording: which memory of managed runtimes is copied with each sample of a thread,
 * and which with a look at the tasks of a process that wait.
 *
 * A probe (roles/runtime_probe/probe.h) is asked about processes that look as if they had a runtime, one
 * after the other, between the ticks and for little of the time: a process that has just started
 * and may end soon is not asked about, and a child with its parent's mappings has its parent's
 * plan. Until there is an answer a process has no plan. Knows nothing of what plans say.
 */
#pragma once

#include "model/options.h"
#include "sample/sampler.h"
#include "store/log/log.h"

struct snap_runtime_probe;

/* What is known of a process of the sampler's, a part of the sink's entry. */
struct snap_planned {
	struct snap_planned *next, *previous; /* of those that wait for their turn */
	struct snap_sampled_process *process;
	uint32_t space;                     /* in the log */
	bool waits;                         /* for its turn, or an answer */
	bool is_known;                      /* `plan` is the answer for that space */
	int64_t after_ns;                   /* CLOCK_MONOTONIC: its turn does not come before */
	int64_t wait_ns;                    /* how long it waited the last time */
	struct snap_memory_plan *plan;      /* NULL: there is none */
	struct snap_memory_plan *task_plan; /* the same of a process as a whole */
};

struct snap_plans {
	const struct snap_options *options;
	struct snap_log *log;
	struct snap_remote_unwinder *unwinder; /* NULL: none */
	struct snap_runtime_probe
		*probe; /* made when it is first needed; NULL: it is not, or cannot be */
	bool failed;
	struct snap_planned *first, *last; /* those that wait */
	struct snap_planned *asked;        /* the probe is asked about it; NULL: none */
	bool asked_for_tasks;              /* for the second of its plans */
	int64_t begin_ns;                  /* when the first process came */
	int64_t spent_ns, idle_ns;
	bool has_begun; /* the first look is over */
};

void snap_plans_init(struct snap_plans *plans, const struct snap_options *options,
		     struct snap_log *log, struct snap_remote_unwinder *unwinder);
/* Not those of processes: they end by themselves. */
void snap_plans_deinit(struct snap_plans *plans);

/*
 * A process is another program, or has mapped something else: `space` in the log. `parent`: what is
 * known of the process that it comes from, NULL: none. In the first look it is asked about at once.
 * CANCELLED.
 */
struct stacksnap_error *snap_plans_mapped(struct snap_plans *plans, struct snap_planned *planned,
					  struct snap_sampled_process *process, uint32_t space,
					  const struct snap_planned *parent,
					  bool exec) _must_check_;
/* It has ended, or is not sampled any more. */
void snap_plans_ended(struct snap_plans *plans, struct snap_planned *planned);
/* The log is about to be renumbered; the entries' spaces are the caller's to change. */
void snap_plans_pause(struct snap_plans *plans);

/* Between two ticks: what can be done for it until a time. CANCELLED. */
struct stacksnap_error *snap_plans_work(struct snap_plans *plans, int64_t until_ns) _must_check_;

/*
 * Whether a space knows all mappings by which stacks are unwound and named; heaps come and go,
 * which is no news.
 */
bool snap_space_knows(const struct snap_process *space, const struct snap_process *facts);
