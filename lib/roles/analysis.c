/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The work of parsers that make snapshots: see analysis.h. */
#include "roles/analysis.h"

#include "base/clock.h"

#include "analyze/analyze.h"
#include "analyze/filter.h"
#include "roles/parser.h"
#include "roles/sandbox/sandbox.h"
#include "store/capture/file.h"
#include "store/json/read.h"
#include "store/snapshot/file.h"

#include <sys/mman.h>

/* How much of a capture is made out; each reads less of the target's files than the one before. */
enum effort { EVERYTHING, NO_SYMBOLS, NO_FILES, EFFORTS };

enum { MOST_REFUSED = 6 }; /* files that a snapshot does without before it asks for less */

static const int64_t LAST_NS = 330000000; /* for the last effort, behind the deadline */

struct analysis {
	struct snap_options options;
	enum effort effort;
};

/* ---- in the parser ---- */

static struct snap_error *leave(const struct snap_snapshot *snapshot, struct snap_parser_job *job)
{
	uint64_t size = snap_snapshot_size(snapshot);
	struct snap_error *err;

	if (size > job->room)
		return snap_error_format(SNAP_ERROR_OTHER, "the report is too large");
	err = snap_snapshot_write(snapshot, job->out);
	if (!err)
		job->size = size;
	return err;
}

static struct snap_error *analyze(void *context, struct snap_parser_job *job)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	struct snap_remote_finder remote = { .channel = job->channel, .place = job->place };
	struct snap_file_finder finder = snap_remote_finder(&remote);
	const struct analysis *analysis = context;
	struct snap_error *err;

	err = snap_capture_take_over(job->input, job->input2, &capture);
	if (err)
		return err;
	remote.capture = capture;
	if (analysis->effort == NO_FILES) {
		finder = snap_no_files();
		/* Copies of the target's memory are ELF files, too. */
		for (size_t i = 0; i < capture->process_count; i++)
			capture->processes[i].piece_count = 0;
	}
	err = snap_analyze(capture, &analysis->options, &finder, &snapshot);
	return err ? err : leave(snapshot, job);
}

static struct snap_error *read_json(void *context, struct snap_parser_job *job)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	const struct snap_options *options = context;
	struct snap_error *err;

	err = snap_snapshot_read_json(job->input, &snapshot);
	if (!err)
		err = snap_filter_snapshot(snapshot, options);
	return err ? err : leave(snapshot, job);
}

/* ---- in its supervisor ---- */

static struct snap_error *receive(const uint8_t *bytes, uint64_t size, struct snap_snapshot **ret)
{
	struct snap_error *err = snap_snapshot_read(bytes, size, ret);

	if (err) {
		munmap((void *)(uintptr_t)bytes, size);
		if (snap_error_code(err) == SNAP_ERROR_NO_MEMORY)
			return err;
		snap_error_destroy(err);
		return snap_error_format(SNAP_ERROR_CRASHED,
					 "the process that reads files left an invalid result");
	}
	(*ret)->backing = (void *)(uintptr_t)bytes;
	(*ret)->backing_size = size;
	return NULL;
}

/*
 * The collector's broker, but for files that have ended a parser before: for a snapshot of many
 * processes, only who made such a file is to lose by it.
 */
struct guard {
	struct snap_broker inner;
	uint64_t refused[MOST_REFUSED]; /* snap_broker_place() */
	size_t count;
	const struct snap_error *reason; /* what happened the first time */
};

/* The reason goes to the report as why this file's symbols are missing; then there is no other. */
static struct snap_error *refuse(const struct guard *guard,
				 const struct snap_broker_request *request)
{
	if (request->attempt > 0 || request->kind != SNAP_FILE_MODULE || !guard->reason)
		return snap_error_not_found();
	return snap_error_format(SNAP_ERROR_CRASHED, "%s", snap_error_message(guard->reason));
}

static struct snap_error *answer(void *context, const struct snap_broker_request *request,
				 int *fd_ret)
{
	const struct guard *guard = context;

	for (size_t i = 0; i < guard->count; i++)
		if (guard->refused[i] == snap_broker_place(request))
			return refuse(guard, request);
	return guard->inner.answer(guard->inner.context, request, fd_ret);
}

/* When an attempt has to be over: it leaves time for those behind it. */
static int64_t share(enum effort effort, int64_t deadline_ns)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC), left = deadline_ns - now;

	if (deadline_ns == 0)
		return 0;
	if (effort == NO_FILES)
		return (left > 0 ? deadline_ns : now) + LAST_NS;
	return left > 0 ? now + left / 8 * 5 : now;
}

static struct snap_error *attempt(struct snap_collector *collector, const struct analysis *analysis,
				  struct guard *guard, int64_t deadline_ns, uint64_t *place_ret,
				  struct snap_snapshot **ret)
{
	struct snap_parser_setting setting = {
		.options = &analysis->options,
		.broker = { .answer = answer, .context = guard },
		.uid = snap_collector_parser_uid(collector),
		.deadline_ns = share(analysis->effort, deadline_ns),
		.input = snap_collector_bytes(collector),
		.input2 = snap_collector_shared(collector),
		.place_ret = place_ret,
	};
	struct analysis job = *analysis;
	const uint8_t *bytes;
	struct snap_error *err;
	uint64_t size;

	err = snap_collector_broker(collector, &analysis->options, setting.deadline_ns,
				    &guard->inner);
	if (!err)
		err = snap_parser_run(&setting, analyze, &job, &bytes, &size);
	return err ? err : receive(bytes, size, ret);
}

static bool may_be_tried_again(const struct snap_error *err)
{
	enum snap_error_code code = snap_error_code(err);

	return code == SNAP_ERROR_CRASHED || code == SNAP_ERROR_TIMEOUT ||
	       code == SNAP_ERROR_NO_MEMORY;
}

static void say_what_is_missing(struct snap_snapshot *snapshot, const struct analysis *analysis,
				const struct snap_error *reason)
{
	static const char *const lost[EFFORTS] = {
		[EVERYTHING] = "symbols of single files",
		[NO_SYMBOLS] = "symbols",
		[NO_FILES] = "symbols and most of the stacks",
	};

	/* Of single files the parser has said it already. */
	if (!reason || (analysis->effort == EVERYTHING && snapshot->missing.modules))
		return;
	snapshot->missing.modules++;
	snap_snapshot_warn(snapshot, "parser_failed", 0, 0, "%s lost: %s", lost[analysis->effort],
			   snap_error_message(reason));
}

static void say_who_was_held(struct snap_snapshot *snapshot, const struct snap_collector *collector)
{
	unsigned held = snap_collector_held(collector);

	if (held == 0)
		return;
	snapshot->missing.modules++;
	snap_snapshot_warn(snapshot, "files_held", 0, 0,
			   "symbols lost: files of %u %s could not be opened in time", held,
			   held == 1 ? "process" : "processes");
}

/* What is tried next: without the file at which it ended, or else with less effort. */
static void lower(struct analysis *analysis, struct guard *guard, uint64_t place)
{
	bool known = place == 0 || guard->count == MOST_REFUSED;

	for (size_t i = 0; i < guard->count; i++)
		known |= guard->refused[i] == place;
	if (!known) {
		guard->refused[guard->count++] = place;
		return;
	}
	analysis->effort++;
	analysis->options.symbols = false;
	analysis->options.no_files = analysis->effort == NO_FILES;
}

struct snap_error *snap_analyze_in_sandbox(struct snap_collector *collector,
					   const struct snap_options *options, int64_t deadline_ns,
					   struct snap_snapshot **ret)
{
	_cleanup_(snap_error_destroyp) struct snap_error *reason = NULL;
	struct analysis analysis = { .options = *options };
	struct guard guard = { .count = 0 };

	for (;;) {
		uint64_t place = 0;
		struct snap_error *err =
			attempt(collector, &analysis, &guard, deadline_ns, &place, ret);

		if (!err) {
			say_what_is_missing(*ret, &analysis, reason);
			say_who_was_held(*ret, collector);
			return NULL;
		}
		if (!may_be_tried_again(err) || analysis.effort == NO_FILES)
			return err;
		/* The first reason is the one that matters: the others follow from it. */
		if (!reason)
			guard.reason = reason = err;
		else
			snap_error_destroy(err);
		lower(&analysis, &guard, place);
	}
}

struct snap_error *snap_read_json_in_sandbox(int fd, const struct snap_options *options,
					     struct snap_snapshot **ret)
{
	struct snap_parser_setting setting = {
		.options = options,
		.broker = snap_no_broker(),
		.uid = snap_sandbox_pick_uid(NULL, 0),
		.deadline_ns = snap_clock_ns(CLOCK_MONOTONIC) + options->timeout_ns,
		.input = fd,
		.input2 = -1,
	};
	struct snap_options own = *options;
	const uint8_t *bytes;
	struct snap_error *err;
	uint64_t size;

	err = snap_parser_run(&setting, read_json, &own, &bytes, &size);
	return err ? err : receive(bytes, size, ret);
}
