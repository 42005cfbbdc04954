/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A log -> the recording that the options request: the slice of time, and the order of the steps.
 * See log.h; internal.h names the files of the steps. Needs no file.
 */
#include "analyze/log/log.h"

#include "analyze/log/internal.h"
#include "base/bsearch.h"

#include <string.h>

static void log_analysis_deinit(struct snap_log_analysis *of)
{
	free(of->records);
	free(of->modules);
	free(of->named_stacks);
	free(of->tasks);
	free(of->shown);
	free(of->frames);
	snap_hash_table_deinit(&of->shown_table);
	free(of->waits);
	free(of->of_explained);
	snap_hash_table_deinit(&of->wait_table);
	snap_hash_table_deinit(&of->explained_table);
	snap_analysis_deinit(&of->analysis);
	snap_recording_destroy(of->recording);
}

/* Names are there already, so no file is asked for. */
static struct stacksnap_error *find_no_file(void *context _unused_,
					    const struct snap_file_request *request _unused_,
					    int *fd_ret _unused_)
{
	return snap_error_not_found();
}

static struct stacksnap_error *log_analysis_init(struct snap_log_analysis *of)
{
	static const struct snap_file_finder finder = { .find = find_no_file };
	const struct snap_log *log = of->log;

	of->recording = snap_recording_new();
	of->records = calloc(log->frame_count + 1, sizeof(struct snap_frame_record *));
	of->modules = calloc(log->capture->process_count + 1, sizeof(struct snap_modules *));
	of->named_stacks = calloc(log->stack_count + 1, sizeof(*of->named_stacks));
	of->tasks = calloc(log->task_count + 1, sizeof(struct snap_task *));
	if (!of->recording || !of->tasks || !of->records || !of->modules || !of->named_stacks)
		return snap_error_no_memory();
	return snap_analysis_init(&of->analysis, log->capture, of->options, &finder);
}

/* ---- the slice ---- */

/* When the last tick's sample stops being so, as snap_recording_tick_end() has it. */
static int64_t end_of_slice(const struct snap_log *log)
{
	return log->tick_count ? log->ticks[log->tick_count - 1].time_ns + log->period_ns : 0;
}

/* From where relative times count: a ring has forgotten what was sampled before. */
static int64_t first_sample(const struct snap_log *log)
{
	return log->tick_count ? log->ticks[0].time_ns : 0;
}

static int64_t subtract(int64_t from, int64_t ns)
{
	int64_t time;

	return __builtin_sub_overflow(from, ns, &time) ? (from < 0 ? INT64_MIN : INT64_MAX) : time;
}

static int64_t time_of_moment(const struct snap_log *log, const struct snap_moment *moment,
			      int64_t otherwise)
{
	switch (moment->kind) {
	case SNAP_MOMENT_NONE:
		break;
	case SNAP_MOMENT_SINCE_START:
		return subtract(first_sample(log), -moment->ns);
	case SNAP_MOMENT_BEFORE_END:
		return subtract(end_of_slice(log), moment->ns);
	case SNAP_MOMENT_EPOCH:
		return subtract(moment->ns, log->time_ns);
	}
	return otherwise;
}

static struct stacksnap_error *find_slice(struct snap_log_analysis *of)
{
	const struct snap_log *log = of->log;
	const struct snap_options *options = of->options;
	int64_t from = time_of_moment(log, &options->from, INT64_MIN);
	int64_t to = time_of_moment(log, &options->to, INT64_MAX);
	const char *refusal = NULL;

	of->first = snap_first_not(log->tick_count, i, log->ticks[i].time_ns < from);
	of->end = snap_first_not(log->tick_count, i, log->ticks[i].time_ns < to);
	if (!options->from.kind && !options->to.kind)
		return NULL;
	if (log->tick_count == 0)
		refusal = "the recording has no samples, so no part of it can be shown";
	else if (from >= to)
		refusal = "--from is not before --to";
	else if (from >= end_of_slice(log))
		refusal = "--from is after the end of the recording";
	else if (to <= first_sample(log))
		refusal = "--to is before the beginning of the recording";
	else if (of->first >= of->end)
		refusal = "there is no sample between --from and --to";
	return refusal ? snap_error_format(SNAP_ERROR_INVALID, "%s", refusal) : NULL;
}

/* ---- the head ---- */

static bool copy_ticks(struct snap_log_analysis *of)
{
	struct snap_recording *recording = of->recording;
	size_t count = of->end - of->first;

	recording->ticks = snap_arena_new_array(snap_analysis_arena(&of->analysis), count + 1,
						struct snap_tick);
	if (!recording->ticks)
		return false;
	recording->tick_count = count;
	for (size_t i = 0; i < count; i++) {
		const struct snap_log_tick *tick = &of->log->ticks[of->first + i];

		recording->ticks[i] = (struct snap_tick){ tick->time_ns, tick->stopped_ns };
	}
	/* A snapshot has no period, but took its time. */
	if (recording->period_ns == 0)
		recording->duration_ns = recording->stats.duration_ns;
	for (size_t i = 0; recording->period_ns && i < count; i++)
		recording->duration_ns +=
			snap_recording_tick_end(recording, i) - recording->ticks[i].time_ns;
	return true;
}

static bool copy_head(struct snap_log_analysis *of)
{
	const struct snap_log *log = of->log;
	struct snap_recording *recording = of->recording;

	if (!snap_analysis_host(&of->analysis, &recording->host))
		return false;
	recording->time_ns = log->time_ns;
	recording->period_ns = log->period_ns;
	recording->cpu_only = log->cpu_only;
	recording->end = log->end;
	recording->stats = log->stats;
	recording->is_slice = log->first_tick > 0 || of->options->from.kind || of->options->to.kind;
	return copy_ticks(of);
}

static void copy_warnings(struct snap_log_analysis *of)
{
	const struct snap_capture *capture = of->log->capture;
	struct snap_recording *recording = of->recording;

	for (size_t i = 0; i < capture->warning_count; i++) {
		const struct snap_warning *warning = &capture->warnings[i];
		const char *code = snap_analysis_text(&of->analysis, warning->code);

		if (!code)
			continue;
		snap_snapshot_warn(of->analysis.snapshot, code, warning->pid, warning->tid, "%s",
				   warning->message);
		recording->missing.modules += snap_warning_costs_names(code);
	}
	recording->warnings = of->analysis.snapshot->warnings;
	recording->warning_count = of->analysis.snapshot->warning_count;
	recording->warning_capacity = of->analysis.snapshot->warning_capacity;
}

struct stacksnap_error *snap_analyze_log(const struct snap_log *log,
					 const struct snap_options *options,
					 struct snap_recording **ret)
{
	_cleanup_(log_analysis_deinit) struct snap_log_analysis of = { .log = log,
								       .options = options };
	struct stacksnap_error *err = NULL;

	SNAP_TRY(log_analysis_init(&of));
	SNAP_TRY(find_slice(&of));
	SNAP_TRY(snap_no_memory_unless(copy_head(&of) && snap_log_index_waits(&of)));
	err = snap_log_make_runs(&of);
	if (!err && !snap_log_make_wakes(&of))
		return snap_error_no_memory();
	SNAP_TRY(err ?: snap_log_make_tree(&of));
	copy_warnings(&of);
	SNAP_TRY(snap_no_memory_unless(!of.analysis.strings.incomplete));
	/* All of it lies in there. */
	of.recording->arena = of.analysis.snapshot->arena;
	snap_arena_init(&of.analysis.snapshot->arena);
	*ret = snap_take_ptr(of.recording);
	return NULL;
}
