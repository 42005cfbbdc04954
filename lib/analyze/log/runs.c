/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Changes of a log -> runs of equal samples, within a slice and as filters allow. See internal.h.
 * It makes one pass over the changes, however many ticks and threads there are.
 */
#include "analyze/label.h"
#include "analyze/log/internal.h"
#include "analyze/task/task.h"
#include "analyze/unwind/arch.h"

#include <string.h>

enum { CHECK_CANCEL = 1 << 12 };

/* The last change of a thread while the slice is walked. */
struct current {
	struct snap_log_change change;
	uint32_t since; /* tick of the slice */
};

struct walk {
	struct snap_log_analysis *of;
	struct current *current; /* of each thread */
};

SNAP_FREES(run_walk_deinit, struct walk, current);

/* ---- system calls ---- */

/* Which wait a restarted one goes on with is known by its stack only. */
static bool depends_on_stack(enum snap_arch of, int number)
{
	const struct snap_arch_ops *arch = snap_arch_ops(of);
	const char *name = arch ? snap_arch_syscall_name(arch, number) : NULL;

	return name && strcmp(name, "restart_syscall") == 0;
}

/* False without memory. */
static bool find_call(struct snap_log_analysis *of, const struct snap_log_change *change,
		      struct snap_run *run)
{
	const char **ret = &run->syscall;
	uint32_t space = of->log->stacks[change->stack].space;
	enum snap_arch arch = of->log->capture->processes[space].arch;
	struct snap_log_call_name *call = NULL;
	struct snap_raw_stack stack;

	if (change->syscall < 0)
		return true;
	if (change->syscall >= SNAP_LOG_FIRST_CALL) {
		const struct snap_log_call *reported =
			&of->log->calls[change->syscall - SNAP_LOG_FIRST_CALL];

		run->syscall = snap_analysis_text(&of->analysis, reported->syscall);
		run->wchan = snap_analysis_text(&of->analysis, reported->wchan);
		return true;
	}
	if (change->syscall < SNAP_LOG_CALLS)
		call = &of->calls[change->syscall];
	if (call && call->name && call->arch == arch) {
		*ret = call->name;
		return true;
	}
	if (!snap_log_raw_stack(of, change->stack, &stack))
		return false;
	*ret = snap_label_syscall(&of->analysis.strings, arch, change->syscall, &stack);
	if (call && !depends_on_stack(arch, change->syscall))
		*call = (struct snap_log_call_name){ *ret, arch };
	return *ret;
}

/* ---- runs ---- */

static bool same_run(const struct snap_run *a, const struct snap_run *b)
{
	return a->last + 1 == b->first && a->stack == b->stack && a->state == b->state &&
	       a->task_state == b->task_state && a->wait == b->wait && a->syscall == b->syscall &&
	       a->wchan == b->wchan;
}

/* Whether filters show a thread as it stands, and as what. False without memory. */
static bool judge_thread(struct snap_log_analysis *of, const struct snap_log_change *change,
			 const struct snap_log_named_stack *named, struct snap_log_line *line,
			 bool *shows_ret)
{
	const struct snap_log_thread *thread = &of->log->threads[change->thread];
	struct snap_member member = { .name = thread->name,
				      .kernel = thread->kernel,
				      .state = change->state };
	struct snap_idle hidden = { .tasks = 0 };
	struct snap_task task;

	if (!thread->task) {
		line->readable = line->readable ||
				 !snap_thread_is_missing(named->end, member.state, member.kernel);
		member.idle = snap_filter_is_idle(NULL, 0, &member, &named->filter);
		*shows_ret = snap_filter_check_thread(of->options, &member, &named->filter) ==
			     SNAP_FILTER_SHOWS;
		return true;
	}
	if (!snap_log_standing_task(of, change, &task))
		return false;
	line->readable = true;
	task.idle = snap_task_is_idle(&task, &named->filter, false);
	*shows_ret = snap_task_is_shown(of->options, &task, &named->filter, NULL, &hidden);
	return true;
}

/* Its stack and what it waits for; and of a task, what it does. False without memory. */
static bool show_run(struct snap_log_analysis *of, const struct snap_log_change *change,
		     struct snap_run *run)
{
	const struct snap_task *task;

	if (!of->log->threads[change->thread].task)
		return snap_log_show_stack(of, change->stack, &run->stack) &&
		       snap_log_show_wait(of, change, &run->wait);
	run->task_state = (enum snap_task_state)change->state;
	run->state = snap_recording_state_of_task(run->task_state);
	task = snap_log_task(of, change->thread);
	return task && snap_log_show_task(of, change->stack, task, &run->stack);
}

/* The samples of a thread from `since` to before tick `end` become a run, if they are shown. */
static bool close_run(struct walk *walk, uint32_t thread, uint32_t end)
{
	struct snap_log_analysis *of = walk->of;
	const struct current *current = &walk->current[thread];
	const struct snap_log_change *change = &current->change;
	struct snap_log_line *line = &of->lines[thread];
	struct snap_run run = { .first = current->since,
				.last = end - 1,
				.state = change->state,
				.taken = change->taken };
	struct snap_log_named_stack *named;
	bool shows;

	if (change->stack == SNAP_LOG_GONE || current->since >= end)
		return true;
	named = snap_log_name_stack(of, change->stack);
	if (!named)
		return false;
	line->sampled = true;
	line->stays = end == of->end - of->first;
	if (!judge_thread(of, change, named, line, &shows))
		return false;
	if (!shows)
		return true;
	if (!show_run(of, change, &run) || !find_call(of, change, &run))
		return false;
	if (line->run_count && same_run(&line->runs[line->run_count - 1], &run))
		line->runs[line->run_count - 1].last = run.last;
	else
		line->runs[line->run_count++] = run;
	return true;
}

/* ---- the walk ---- */

static size_t changes_before(const struct snap_log *log, size_t tick)
{
	return tick == 0 ? 0 : (size_t)(log->ticks[tick - 1].change_end - log->first_change);
}

/* The last change of each thread before the slice. */
static bool begin_walk(struct walk *walk)
{
	const struct snap_log *log = walk->of->log;
	size_t count = changes_before(log, walk->of->first);

	walk->current = calloc(log->thread_count + 1, sizeof(*walk->current));
	if (!walk->current)
		return false;
	for (size_t i = 0; i < log->thread_count; i++) {
		walk->current[i].change.stack = SNAP_LOG_GONE;
		if (i < log->before_count)
			walk->current[i].change = log->before[i];
	}
	for (size_t i = 0; i < count; i++)
		walk->current[log->changes[i].thread].change = log->changes[i];
	return true;
}

/* A thread has one run more than it has changes, at most. */
static bool allocate_runs(struct walk *walk)
{
	struct snap_log_analysis *of = walk->of;
	const struct snap_log *log = of->log;
	size_t from = changes_before(log, of->first), to = changes_before(log, of->end);
	size_t total = log->thread_count + (to - from);
	struct snap_run *runs = snap_arena_new_array(snap_analysis_arena(&of->analysis), total + 1,
						     struct snap_run);

	of->lines = snap_arena_new_array(&of->analysis.scratch, log->thread_count + 1,
					 struct snap_log_line);
	if (!runs || !of->lines)
		return false;
	for (size_t i = from; i < to; i++)
		of->lines[log->changes[i].thread].change_count++;
	for (size_t i = 0; i < log->thread_count; i++) {
		of->lines[i].runs = runs;
		runs += of->lines[i].change_count + 1;
	}
	return true;
}

static struct stacksnap_error *walk_run_ticks(struct walk *walk)
{
	struct snap_log_analysis *of = walk->of;
	const struct snap_log *log = of->log;
	size_t change = changes_before(log, of->first);
	uint32_t ticks = (uint32_t)(of->end - of->first);

	for (uint32_t tick = 0; tick < ticks; tick++) {
		uint64_t end = log->ticks[of->first + tick].change_end - log->first_change;

		if (tick % CHECK_CANCEL == 0 && snap_options_cancelled(of->options))
			return snap_error_cancelled();
		for (; change < end; change++) {
			const struct snap_log_change *to = &log->changes[change];

			SNAP_TRY(snap_no_memory_unless(close_run(walk, to->thread, tick)));
			walk->current[to->thread] = (struct current){ *to, tick };
		}
	}
	return snap_no_memory_unless(
		snap_all(log->thread_count, i, close_run(walk, (uint32_t)i, ticks)));
}

struct stacksnap_error *snap_log_make_runs(struct snap_log_analysis *of)
{
	_cleanup_(run_walk_deinit) struct walk walk = { .of = of };

	SNAP_TRY(snap_no_memory_unless(begin_walk(&walk) && allocate_runs(&walk)));
	return walk_run_ticks(&walk);
}
