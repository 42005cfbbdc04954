/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The flow, from options to bytes. A reader of this file has read the architecture.
 *
 *     take        collector: capture ── bytes ──▶ parser: analyze ── bytes ──▶ snapshot
 *     list        collector: list the processes ─▶ parser: analyze ──────────▶ snapshot
 *     load        collector: read a capture ─────▶ parser: analyze ──────────▶ snapshot
 *     core        parser: read a core ─▶ collector: its memory ─▶ parser: analyze ─▶ snapshot
 *                 parser: read JSON ─────────────────────────────────────────▶ snapshot
 *     record      recorder: sample ─▶ log ─┬─▶ parser: name ─▶ analyze the log ─▶ recording
 *     load        read a log ──────────────┘
 *     render      a snapshot or a recording, and a format ───────────────────▶ bytes
 *     merge       documents of many hosts ─▶ merged ─────────────────────────▶ bytes
 *     diff        two of them ─▶ what changed ───────────────────────────────▶ bytes
 */
#include "pipeline.h"

#include "analyze/filter.h"
#include "analyze/log/log.h"
#include "analyze/runtime/runtimes.h"
#include "analyze/unwind/engine.h"
#include "base/clock.h"
#include "base/priority.h"
#include "capture/capture.h"
#include "diff/diff.h"
#include "files/rights.h"
#include "render/diff/diff.h"
#include "render/merged/merged.h"
#include "render/render.h"
#include "roles/analysis.h"
#include "roles/core/core.h"
#include "roles/file_opener/file_opener.h"
#include "roles/naming.h"
#include "roles/runtime_probe/probe.h"
#include "roles/unwinder/copy_check.h"
#include "store/capture/file.h"
#include "store/recording/file.h"

#include <string.h>
#include <sys/stat.h>

static int64_t deadline_of_run(const struct snap_options *options)
{
	return snap_clock_ns(CLOCK_MONOTONIC) + options->timeout_ns;
}

/* ---- in the collector ---- */

/* The roles that are asked meanwhile. */
struct asked {
	struct snap_copy_check *check;
	struct snap_runtime_probe *probe;
};

static void asked_deinit(struct asked *asked)
{
	snap_copy_check_destroy(asked->check);
	snap_runtime_probe_destroy(asked->probe);
}

static bool check_copy(void *context, const struct snap_capture *capture, size_t process,
		       const struct snap_thread *copy)
{
	const struct asked *asked = context;

	return snap_copy_check_suffices(asked->check, capture, process, copy);
}

static struct stacksnap_error *ask_probe(void *context, const struct snap_options *options,
					 struct snap_capture *capture, size_t process,
					 struct snap_memory_plan *plan, bool *found_ret)
{
	const struct asked *asked = context;

	return snap_runtime_probe_plan(asked->probe, options, capture, process, plan, found_ret);
}

static void follow_copy(void *context, const struct snap_capture *capture, size_t process,
			struct snap_thread *thread, struct snap_shared_memory *memory,
			int64_t until_ns)
{
	const struct asked *asked = context;

	snap_copy_check_follow(asked->check, capture, process, thread, memory, until_ns);
}

static struct stacksnap_error *capture_by_asking(const struct snap_options *options,
						 struct snap_capture **ret)
{
	_cleanup_(asked_deinit) struct asked asked = { .check = NULL };
	struct snap_stop_hook hook = { .suffices = check_copy,
				       .follow = follow_copy,
				       .context = &asked };
	struct stacksnap_error *err;

	err = snap_copy_check_create(options, &asked.check);
	if (!err && options->runtimes) {
		err = snap_runtime_probe_create(options, snap_runtimes, options->no_stop,
						&asked.probe);
		hook.probe = ask_probe;
	}
	if (!err)
		err = snap_capture_take(options, &hook, ret);
	return err || !asked.probe ? err : snap_runtime_probe_complete(asked.probe, *ret);
}

static struct stacksnap_error *capture(void *context, const struct snap_options *options,
				       struct snap_capture **ret)
{
	_cleanup_(snap_ptrace_engine_destroyp) struct snap_ptrace_engine *engine = NULL;
	struct snap_stop_hook hook = { .unwind = snap_ptrace_engine_unwind };

	(void)context;
	if (options->no_stop || options->engine != SNAP_ENGINE_PTRACE)
		return capture_by_asking(options, ret);
	hook.context = engine = snap_ptrace_engine_create();
	SNAP_TRY(snap_no_memory_unless(engine));
	return snap_capture_take(options, &hook, ret);
}

static struct stacksnap_error *list(void *context, const struct snap_options *options,
				    struct snap_capture **ret)
{
	(void)context;
	return snap_capture_list(options, ret);
}

/* What a saved file names is opened as its owner, and in one of root's as the process that named it. */
static void set_owner(struct snap_capture *capture, struct snap_credentials owner)
{
	for (size_t i = 0; i < capture->process_count; i++) {
		struct snap_credentials *who = &capture->processes[i].credentials;
		uid_t uid = who->uid;

		*who = owner;
		if (owner.uid)
			continue;
		who->uid = uid;
		who->known = owner.known && who->uid != (uid_t)-1;
		who->is_confined = true;
	}
}

static struct stacksnap_error *load_capture(void *context, const struct snap_options *options,
					    struct snap_capture **ret)
{
	const int *fd = context;
	struct stacksnap_error *err = snap_capture_read(*fd, ret);

	(void)options;
	if (!err)
		set_owner(*ret, snap_rights_of_owner(*fd));
	return err;
}

/* A core that can be read at any place. */
struct core_file {
	int fd;
	int64_t time_ns; /* when it was written; 0: it came through a pipe */
	const char *cut; /* why it is not whole; NULL: it is */
	struct snap_credentials owner;
};

static struct stacksnap_error *load_core(void *context, const struct snap_options *options,
					 struct snap_capture **ret)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	_cleanup_(asked_deinit) struct asked asked = { .check = NULL };
	struct snap_stop_hook hook = { .probe = ask_probe,
				       .follow = follow_copy,
				       .context = &asked };
	struct snap_core_memory memory;
	const struct core_file *file = context;
	struct stacksnap_error *err;

	err = snap_core_read_in_sandbox(file->fd, options, deadline_of_run(options), &core);
	if (!err)
		err = snap_runtime_probe_create(options, snap_runtimes, false, &asked.probe);
	SNAP_TRY(err ?: snap_copy_check_create(options, &asked.check));
	set_owner(core.capture, file->owner);
	if (options->exe)
		err = snap_core_set_program(&core, options->exe);
	if (err)
		return err;
	memory = snap_core_memory_of(&core, file->fd);
	snap_runtime_probe_set_memory(asked.probe, snap_core_memory_read, &memory);
	snap_copy_check_set_memory(asked.check, snap_core_memory_read, &memory);
	err = snap_core_fill(&core, &memory, options, &hook);
	if (!err)
		err = snap_runtime_probe_complete(asked.probe, core.capture);
	core.capture->time_ns = file->time_ns;
	if (!err && file->cut)
		snap_capture_warn(core.capture, "core_truncated", 0, 0,
				  "not all of the core could be unpacked: %s", file->cut);
	if (!err)
		*ret = snap_take_ptr(core.capture);
	return err;
}

/* ---- in the caller's process ---- */

static struct stacksnap_error *check_engine(const struct snap_options *options)
{
	if (options->engine != SNAP_ENGINE_PTRACE)
		return NULL;
	if (options->no_stop)
		return snap_error_format(
			SNAP_ERROR_INVALID,
			"--engine=ptrace unwinds threads while they are stopped: it "
			"cannot be used with --no-stop");
	if (!options->no_sandbox)
		return snap_error_format(
			SNAP_ERROR_INVALID,
			"--engine=ptrace reads the target's files with the right to trace it: it "
			"needs --no-sandbox");
	return NULL;
}

static struct stacksnap_error *start_capture(const struct snap_options *options,
					     struct snap_collector **ret)
{
	const struct snap_collector_start start = { .make = capture,
						    .input = -1,
						    .deadline_ns = deadline_of_run(options) };
	struct stacksnap_error *err = check_engine(options);

	return err ? err : snap_collector_start(options, &start, ret);
}

struct stacksnap_error *snap_pipeline_capture(const struct snap_options *options,
					      struct snap_collector **ret)
{
	_cleanup_(snap_priority_restore) struct snap_priority before = { .raised = false };
	_cleanup_(snap_collector_destroyp) struct snap_collector *collector = NULL;
	struct stacksnap_error *err = start_capture(options, &collector);

	snap_priority_raise(&before);
	SNAP_TRY(err ?: snap_collector_await(collector));
	*ret = snap_take_ptr(collector);
	return NULL;
}

struct stacksnap_error *snap_pipeline_load_capture(int fd, struct snap_collector **ret)
{
	_cleanup_(snap_collector_destroyp) struct snap_collector *collector = NULL;
	const struct snap_collector_start start = { .make = load_capture,
						    .context = &fd,
						    .input = fd };
	struct stacksnap_error *err = snap_collector_start(NULL, &start, &collector);

	SNAP_TRY(err ?: snap_collector_await(collector));
	*ret = snap_take_ptr(collector);
	return NULL;
}

/* A file without a name was made just now, of what came through a pipe. */
static int64_t time_of_file(int fd)
{
	struct stat info;

	if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) || info.st_nlink == 0)
		return 0;
	return (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
}

/* 0: as long as it takes, as the caller has set no limit. */
static int64_t deadline_if_given(const struct snap_options *options)
{
	return options->timeout_given ? deadline_of_run(options) : 0;
}

struct stacksnap_error *snap_pipeline_load_core(int fd, const struct snap_options *options,
						struct snap_collector **ret)
{
	_cleanup_(snap_collector_destroyp) struct snap_collector *collector = NULL;
	_cleanup_fd_ int unpacked = -1;
	struct core_file file = { .fd = fd,
				  .time_ns = time_of_file(fd),
				  .owner = snap_rights_of_owner(fd) };
	struct snap_collector_start start = { .make = load_core, .context = &file };
	struct stacksnap_error *err;

	SNAP_TRY(snap_core_unpack_in_sandbox(fd, options, deadline_if_given(options), &unpacked,
					     &file.cut));
	file.fd = unpacked >= 0 ? unpacked : fd;
	start.input = file.fd;
	start.deadline_ns = deadline_of_run(options);
	err = snap_collector_start(options, &start, &collector);
	SNAP_TRY(err ?: snap_collector_await(collector));
	*ret = snap_take_ptr(collector);
	return NULL;
}

struct stacksnap_error *snap_pipeline_analyze(struct snap_collector *collector,
					      const struct snap_options *options,
					      struct snap_snapshot **ret)
{
	_cleanup_(snap_priority_restore) struct snap_priority before = { .raised = false };
	int64_t deadline_ns = snap_collector_deadline_ns(collector);

	snap_priority_raise(&before);
	/* A capture from a file was not urgent until now. */
	if (!deadline_ns)
		deadline_ns = deadline_of_run(options);
	return snap_analyze_in_sandbox(collector, NULL, options, deadline_ns, ret);
}

/* The parser is made, and enters its sandbox, while the targets are looked at. */
static struct stacksnap_error *finish_capture(struct snap_collector *collector,
					      const struct snap_options *options,
					      struct snap_snapshot **ret)
{
	_cleanup_(snap_parser_destroyp) struct snap_parser *parser = NULL;
	int64_t deadline_ns = snap_collector_deadline_ns(collector);
	struct snap_options analyzed = *options;
	struct stacksnap_error *err;

	/* What is stuck is counted before filters: snap_pipeline_mark_stuck() applies them. */
	if (options->again_ns)
		snap_filter_clear(&analyzed);
	err = snap_analysis_prepare(&analyzed, deadline_ns, &parser);
	SNAP_TRY(err ?: snap_collector_await(collector));
	return snap_analyze_in_sandbox(collector, snap_take_ptr(parser), &analyzed, deadline_ns,
				       ret);
}

struct stacksnap_error *snap_pipeline_take(const struct snap_options *options,
					   struct snap_snapshot **ret,
					   struct snap_collector **collector_ret)
{
	_cleanup_(snap_priority_restore) struct snap_priority before = { .raised = false };
	_cleanup_(snap_collector_destroyp) struct snap_collector *collector = NULL;
	struct stacksnap_error *err = start_capture(options, &collector);

	snap_priority_raise(&before);
	SNAP_TRY(err ?: finish_capture(collector, options, ret));
	snap_collector_dismiss(collector);
	*collector_ret = snap_take_ptr(collector);
	return NULL;
}

struct stacksnap_error *snap_pipeline_list(const struct snap_options *options,
					   struct snap_snapshot **ret)
{
	_cleanup_(snap_priority_restore) struct snap_priority before = { .raised = false };
	_cleanup_(snap_collector_destroyp) struct snap_collector *collector = NULL;
	const struct snap_collector_start start = { .make = list,
						    .input = -1,
						    .deadline_ns = deadline_of_run(options) };
	struct stacksnap_error *err = snap_collector_start(options, &start, &collector);

	snap_priority_raise(&before);
	return err ? err : finish_capture(collector, options, ret);
}

struct stacksnap_error *snap_pipeline_load_snapshot(int fd, const struct snap_options *options,
						    struct snap_snapshot **ret)
{
	return snap_read_json_in_sandbox(fd, options, ret);
}

/* ---- recordings: the recorder names and analyzes its own log in the same order ---- */

struct stacksnap_error *snap_pipeline_slice(struct snap_recorder *recorder,
					    const struct snap_options *options,
					    struct snap_recording **ret)
{
	_cleanup_(snap_priority_restore) struct snap_priority before = { .raised = false };

	snap_priority_raise(&before);
	return snap_recorder_recording(recorder, options, ret);
}

struct stacksnap_error *snap_pipeline_load_recording(int fd, const struct snap_options *options,
						     struct snap_recording **ret)
{
	_cleanup_(snap_log_destroyp) struct snap_log *log = NULL;
	_cleanup_(snap_file_opener_destroyp) struct snap_file_opener *opener = NULL;
	const struct snap_naming_limits limits = { .patience_ns = options->timeout_ns };
	struct snap_broker broker;
	struct stacksnap_error *err;

	/* It may be hours long, and no target is stopped for it: not with priority. */
	SNAP_TRY(snap_log_read(fd, &log));
	set_owner(log->capture, snap_rights_of_owner(fd));
	SNAP_TRY(snap_file_opener_create(NULL, &opener));
	snap_file_opener_set_options(opener, options, 0);
	snap_file_opener_set_capture(opener, log->capture);
	broker = snap_file_opener_broker(opener);
	err = snap_naming_run(log, options, &broker, &limits);
	return err ?: snap_analyze_log(log, options, ret);
}

/* ---- bytes ---- */

static struct stacksnap_error *find_format(const char *name, const struct snap_format **ret)
{
	*ret = snap_format_by_name(name);
	return *ret ? NULL : snap_error_format(SNAP_ERROR_INVALID, "unknown format '%s'", name);
}

struct stacksnap_error *snap_pipeline_render_snapshot(const struct snap_snapshot *snapshot,
						      bool is_list,
						      const struct snap_options *options,
						      const char *format, FILE *out)
{
	_cleanup_(snap_priority_restore) struct snap_priority before = { .raised = false };
	const struct snap_format *found;
	struct stacksnap_error *err = find_format(format, &found);

	snap_priority_raise(&before);
	if (err)
		return err;
	if (is_list && found->snapshot == snap_render_text)
		return snap_render_list(snapshot, options, out);
	return snap_render_snapshot(found, snapshot, options, out);
}

struct stacksnap_error *snap_pipeline_render_recording(const struct snap_recording *recording,
						       const struct snap_options *options,
						       const char *format, FILE *out,
						       char **warning_ret)
{
	const struct snap_format *found;
	struct stacksnap_error *err = find_format(format, &found);

	*warning_ret = NULL;
	return err ? err
		   : snap_render_recording_telling(found, recording, options, out, warning_ret);
}

struct stacksnap_error *snap_pipeline_merge(struct snap_merge_input *input, int fd,
					    const char *name)
{
	const struct snap_options *options = input->options;
	_cleanup_fd_ int unpacked = -1;
	const char *cut; /* then the last document is not whole, and is reported as such */
	struct stacksnap_error *err = snap_core_unpack_in_sandbox(
		fd, options, deadline_if_given(options), &unpacked, &cut);

	/* What cannot be unpacked is no document. */
	if (err && snap_error_code(err) != SNAP_ERROR_FORMAT)
		return err;
	snap_error_destroy(err);
	return snap_merge_input(input, unpacked < 0 ? fd : unpacked, name);
}

struct stacksnap_error *snap_pipeline_render_merged(const struct snap_merger *merger,
						    const struct snap_options *options,
						    const char *format, FILE *out)
{
	_cleanup_(snap_merged_destroyp) struct snap_merged *merged = NULL;
	struct stacksnap_error *err = snap_merger_finish(merger, &merged);

	return err ? err : snap_render_merged(merged, options, format, out);
}

/* ---- two of them ---- */

static struct stacksnap_error *look_at_target(const struct snap_pipeline_look *from,
					      const struct snap_options *options,
					      struct snap_recorded_groups *groups,
					      struct snap_diff_look *ret)
{
	struct stacksnap_error *err;

	*ret = (struct snap_diff_look){ from->snapshot, from->recording };
	if (!from->recording)
		return NULL;
	err = snap_recorded_groups_init(groups, from->recording, options);
	ret->snapshot = &groups->snapshot;
	return err;
}

struct stacksnap_error *snap_pipeline_diff(const struct snap_pipeline_look *before,
					   const struct snap_pipeline_look *after,
					   const struct snap_options *options,
					   struct snap_pipeline_diff *ret)
{
	struct snap_diff_look looks[2];
	struct stacksnap_error *err;

	*ret = (struct snap_pipeline_diff){ .diff = NULL };
	err = look_at_target(before, options, &ret->before, &looks[0]);
	if (!err)
		err = look_at_target(after, options, &ret->after, &looks[1]);
	return err ? err : snap_diff_make(&looks[0], &looks[1], &ret->diff);
}

struct stacksnap_error *snap_pipeline_mark_stuck(const struct snap_snapshot *before,
						 const struct snap_options *options,
						 struct snap_snapshot *after)
{
	struct stacksnap_error *err = snap_diff_mark_stuck(before, after);

	return err ? err : snap_filter_snapshot(after, options, false);
}

void snap_pipeline_diff_deinit(struct snap_pipeline_diff *diff)
{
	snap_diff_destroy(diff->diff);
	snap_recorded_groups_deinit(&diff->before);
	snap_recorded_groups_deinit(&diff->after);
}

struct stacksnap_error *snap_pipeline_render_diff(const struct snap_diff *diff,
						  const struct snap_options *options,
						  const char *format, FILE *out)
{
	if (strcmp(format, "text") == 0)
		return snap_render_diff_text(diff, options, out);
	if (strcmp(format, "json") == 0)
		return snap_render_diff_json(diff, options, out);
	if (strcmp(format, "html") == 0)
		return snap_render_diff_html(diff, options, out);
	return snap_error_format(SNAP_ERROR_INVALID,
				 "format '%s' cannot show a difference: text, json and html do",
				 format);
}
