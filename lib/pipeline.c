/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The flow: see pipeline.h. Whoever has read this file has read the architecture. */
#include "pipeline.h"

#include "analyze/analyze.h"
#include "analyze/analyze_log.h"
#include "analyze/tree.h"
#include "analyze/unwind/engine.h"
#include "capture/capture.h"
#include "files/files.h"
#include "judge.h"
#include "render/json_read.h"
#include "store/capture_file.h"
#include "store/log_file.h"

static struct snap_error *capture_without_stop(const struct snap_options *options,
					       struct snap_capture **ret)
{
	_cleanup_(snap_judge_destroyp) struct snap_judge *judge = NULL;
	struct snap_stop_hook hook = { .suffices = snap_judge_suffices };
	struct snap_error *err;

	if (options->engine == SNAP_ENGINE_PTRACE)
		return snap_error_format(
			SNAP_ERROR_INVALID,
			"--engine=ptrace unwinds threads while they are stopped: it "
			"cannot be used with --no-stop");
	err = snap_judge_create(options, &judge);
	if (err)
		return err;
	hook.context = judge;
	return snap_capture_take(options, &hook, ret);
}

struct snap_error *snap_pipeline_capture(const struct snap_options *options,
					 struct snap_capture **ret)
{
	_cleanup_(snap_ptrace_engine_destroyp) struct snap_ptrace_engine *engine = NULL;
	struct snap_stop_hook hook = { .unwind = snap_ptrace_engine_unwind };

	if (options->no_stop)
		return capture_without_stop(options, ret);
	if (options->engine != SNAP_ENGINE_PTRACE)
		return snap_capture_take(options, NULL, ret);
	hook.context = engine = snap_ptrace_engine_create();
	if (!engine)
		return snap_error_no_memory();
	return snap_capture_take(options, &hook, ret);
}

struct snap_error *snap_pipeline_save(struct snap_capture *capture,
				      const struct snap_options *options, int fd)
{
	_cleanup_(snap_files_destroyp) struct snap_files *files = NULL;
	struct snap_error *err;

	err = snap_files_create(options, capture, &files);
	if (err)
		return err;
	err = snap_files_embed(files, capture);
	if (err)
		return err;
	return snap_capture_write(capture, fd);
}

struct snap_error *snap_pipeline_analyze(const struct snap_capture *capture,
					 const struct snap_options *options,
					 struct snap_snapshot **ret)
{
	_cleanup_(snap_files_destroyp) struct snap_files *files = NULL;
	struct snap_file_finder finder;
	struct snap_error *err;

	err = snap_files_create(options, capture, &files);
	if (err)
		return err;
	finder = snap_files_finder(files);
	return snap_analyze(capture, options, &finder, ret);
}

struct snap_error *snap_pipeline_list(const struct snap_options *options,
				      struct snap_snapshot **ret)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	struct snap_error *err;

	err = snap_capture_list(options, &capture);
	if (err)
		return err;
	return snap_pipeline_analyze(capture, options, ret);
}

struct snap_error *snap_pipeline_load_recording(int fd, const struct snap_options *options,
						struct snap_recording **ret)
{
	_cleanup_(snap_log_destroyp) struct snap_log *log = NULL;
	_cleanup_(snap_files_destroyp) struct snap_files *files = NULL;
	struct snap_file_finder finder;
	struct snap_error *err;

	err = snap_log_read(fd, &log);
	if (err)
		return err;
	err = snap_files_create(options, log->capture, &files);
	if (err)
		return err;
	finder = snap_files_finder(files);
	err = snap_analyze_log_names(log, options, &finder);
	if (err)
		return err;
	return snap_analyze_log(log, options, ret);
}

struct snap_error *snap_pipeline_load_snapshot(int fd, const struct snap_options *options,
					       struct snap_snapshot **ret)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	struct snap_error *err;

	err = snap_snapshot_read_json(fd, &snapshot);
	if (err)
		return err;
	err = snap_filter_snapshot(snapshot, options);
	if (err)
		return err;
	*ret = snap_take_ptr(snapshot);
	return NULL;
}
