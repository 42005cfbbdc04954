/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is not in a recording: see losses.h. */
#include "record/losses.h"

#include <inttypes.h>
#include <string.h>

/* Says so, in place of what was said before with this code. */
static void renew_warning(struct snap_capture *capture, const char *code, const char *text)
{
	for (size_t i = 0; text && i < capture->warning_count; i++) {
		if (strcmp(capture->warnings[i].code, code) != 0)
			continue;
		capture->warnings[i].message = text;
		return;
	}
	if (text)
		snap_capture_warn(capture, code, 0, 0, "%s", text);
}

static void warn_of_parsers(struct snap_losses *losses, struct snap_capture *capture,
			    const struct snap_remote_unwinder *unwinder)
{
	const char *why, *text;
	unsigned lost = snap_remote_unwinder_losses(unwinder, &why);

	if (lost == losses->reported_parsers)
		return;
	losses->reported_parsers = lost;
	text = lost == 1 ? snap_arena_printf(&capture->arena, "stacks lost: %s", why)
			 : snap_arena_printf(&capture->arena,
					     "stacks lost %u times, most recently: %s", lost, why);
	renew_warning(capture, "parser_lost", text);
}

static void warn_of_budget(struct snap_losses *losses, const struct snap_options *options,
			   struct snap_capture *capture, uint64_t left_out)
{
	if (left_out == losses->reported_left_out)
		return;
	losses->reported_left_out = left_out;
	renew_warning(capture, "samples_left_out",
		      snap_arena_printf(&capture->arena,
					"%" PRIu64 " sample%s left out, as no process may stand "
					"still for more than %g %% of the time (--max-stopped)",
					left_out, left_out == 1 ? " was" : "s were",
					options->max_stopped / 1e4));
}

/* Processes for which there was no time until the end; a late one only comes later. */
static void warn_of_waiting(struct snap_losses *losses, struct snap_capture *capture)
{
	if (losses->waiting == losses->reported_waiting || !losses->waiting)
		return;
	losses->reported_waiting = losses->waiting;
	renew_warning(capture, "processes_late",
		      snap_arena_printf(&capture->arena,
					"there was no time to look at %" PRIu32
					" processes or threads: they have no samples",
					losses->waiting));
}

/* Of processes that execute one program after the other, and of those that did so at a bad moment. */
static void warn_of_execs(struct snap_losses *losses, struct snap_capture *capture,
			  const struct snap_recording_stats *stats)
{
	if (losses->in_exec == losses->reported_in_exec)
		return;
	losses->reported_in_exec = losses->in_exec;
	renew_warning(capture, "samples_in_exec",
		      snap_arena_printf(&capture->arena,
					"%" PRIu64 " time%s in %" PRIu64
					" ticks a process has no samples, as it executed "
					"other programs just then",
					losses->in_exec, losses->in_exec == 1 ? "" : "s",
					stats->ticks));
}

static void warn_of_tasks(struct snap_losses *losses, struct snap_capture *capture,
			  const struct snap_recording_stats *stats)
{
	uint64_t left_out = stats->task_looks_left_out, cut = losses->cut_looks;

	if (left_out != losses->reported_task_looks)
		renew_warning(capture, "task_looks_left_out",
			      snap_arena_printf(&capture->arena,
						"%" PRIu64
						" look%s at tasks that wait %s left out, "
						"as no process may stand still for long: tasks are "
						"shown as at the look before (--task-hz)",
						left_out, left_out == 1 ? "" : "s",
						left_out == 1 ? "was" : "were"));
	if (cut != losses->reported_cut_looks)
		renew_warning(capture, "tasks_cut",
			      snap_arena_printf(&capture->arena,
						"%" PRIu64 " of %" PRIu64
						" looks at tasks that wait "
						"could not see all of them",
						cut, stats->task_looks));
	losses->reported_task_looks = left_out;
	losses->reported_cut_looks = cut;
}

void snap_losses_warn(struct snap_losses *losses, const struct snap_options *options,
		      struct snap_log *log, const struct snap_remote_unwinder *unwinder)
{
	warn_of_parsers(losses, log->capture, unwinder);
	warn_of_budget(losses, options, log->capture, log->stats.left_out);
	warn_of_waiting(losses, log->capture);
	warn_of_execs(losses, log->capture, &log->stats);
	warn_of_tasks(losses, log->capture, &log->stats);
}
