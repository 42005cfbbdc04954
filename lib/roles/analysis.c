/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The work of parsers that make snapshots: see analysis.h. */
#include "roles/analysis.h"

#include "analyze/analyze.h"
#include "analyze/filter.h"
#include "base/clock.h"
#include "roles/core/core.h"
#include "roles/fallback.h"
#include "store/capture/file.h"
#include "store/json/read.h"
#include "store/snapshot/file.h"

#include <sys/mman.h>

/* ---- in the parser ---- */

struct analysis {
	const struct snap_options *options;
	struct snap_snapshot *snapshot; /* the result, in this process */
};

/* Without any byte that the targets made: copies of their memory are ELF files, too. */
static void forget_memory(struct snap_capture *capture)
{
	for (size_t i = 0; i < capture->process_count; i++)
		capture->processes[i].piece_count = 0;
}

/* The runtimes of these processes are not read again: without memory there are none. */
static void forget_runtimes(struct snap_capture *capture, const struct snap_refusals *refusals)
{
	for (size_t i = 0; refusals && i < refusals->runtime_count; i++)
		if (refusals->runtimes[i] <= capture->process_count)
			capture->processes[refusals->runtimes[i] - 1].memory = NULL;
}

static void warn_of_runtimes(struct snap_snapshot *snapshot, const struct snap_capture *capture,
			     const struct snap_refusals *refusals)
{
	for (size_t i = 0; refusals && i < refusals->runtime_count; i++) {
		pid_t pid;

		if (refusals->runtimes[i] > capture->process_count)
			continue;
		pid = capture->processes[refusals->runtimes[i] - 1].pid;
		snapshot->missing.modules++;
		snap_snapshot_warn(snapshot, "runtime_lost", pid, 0,
				   "process %d: functions and tasks of its runtimes lost: %s", pid,
				   snap_error_message(refusals->reason));
	}
}

static struct stacksnap_error *analyze_capture(void *context, enum snap_effort effort,
					       struct snap_parser_job *job)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	struct snap_remote_finder remote = { .channel = job->channel,
					     .file_id = job->file_id,
					     .runtimes_of = job->runtimes_of };
	struct snap_file_finder finder = snap_remote_finder(&remote);
	const struct analysis *analysis = context;
	struct snap_options options = *analysis->options;

	SNAP_TRY(snap_capture_take_over(job->inputs[0], job->inputs[1], &capture));
	remote.capture = capture;
	forget_runtimes(capture, job->refusals);
	options.enough = job->enough;
	options.symbols = options.symbols && effort == SNAP_EFFORT_ALL;
	/* The memory of a target may have ended a parser, as well as its files. */
	if (effort != SNAP_EFFORT_ALL)
		options.runtimes = 0;
	options.no_files = effort == SNAP_EFFORT_NO_FILES;
	if (options.no_files) {
		finder = snap_no_files();
		forget_memory(capture);
	}
	SNAP_TRY(snap_analyze(capture, &options, &finder, &snapshot));
	if (effort == SNAP_EFFORT_ALL)
		warn_of_runtimes(snapshot, capture, job->refusals);
	return snap_leave_snapshot(snapshot, job);
}

static struct stacksnap_error *read_json(void *context, struct snap_parser_job *job)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	const struct snap_options *options = context;

	SNAP_TRY(snap_snapshot_read_json(job->inputs[0], &snapshot));
	SNAP_TRY(snap_filter_snapshot(snapshot, options, options->group_by != SNAP_GROUP_USUAL));
	return snap_leave_snapshot(snapshot, job);
}

/* ---- in its maker ---- */

/* The mapping is the snapshot's, unless it fails. */
static struct stacksnap_error *take_snapshot(const uint8_t *bytes, uint64_t size,
					     struct snap_snapshot **ret)
{
	struct stacksnap_error *err = snap_snapshot_read(bytes, size, ret);

	if (err) {
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

static struct stacksnap_error *take_analysis(void *context, const uint8_t *bytes, uint64_t size)
{
	struct analysis *analysis = context;

	return take_snapshot(bytes, size, &analysis->snapshot);
}

/* ---- without a parser ---- */

/* A copy that needs nothing of the capture, made as a parser makes it. */
static struct stacksnap_error *keep_snapshot(const struct snap_snapshot *snapshot,
					     struct snap_snapshot **ret)
{
	uint64_t size = snap_snapshot_size(snapshot);
	struct stacksnap_error *err;
	uint8_t *bytes =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	SNAP_TRY(snap_no_memory_unless(bytes != MAP_FAILED));
	err = snap_snapshot_write(snapshot, bytes, size, &size) ?: take_snapshot(bytes, size, ret);
	if (err)
		munmap(bytes, size);
	return err;
}

/*
 * Used when every parser was ended, perhaps by an adversary: an address needs no parser. This reads
 * only the collector's records: numbers, names, lines of maps, registers as plain bytes. The
 * collector wrote the counts, and every one is checked as it is read. The values come from the
 * targets; they are looked up and copied, never followed. No stack, no ELF file and no DWARF is
 * read.
 */
static struct stacksnap_error *list_addresses(const struct snap_fallback *fallback,
					      struct snap_snapshot **ret)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	const struct snap_file_finder finder = snap_no_files();
	struct snap_options options = *fallback->options;

	SNAP_TRY(snap_capture_take_over(fallback->inputs[0], fallback->inputs[1], &capture));
	forget_memory(capture);
	for (size_t i = 0; i < capture->process_count; i++)
		for (size_t k = 0; k < capture->processes[i].thread_count; k++) {
			struct snap_thread *thread = &capture->processes[i].threads[k];

			thread->stack_size = thread->stack2_size = 0;
		}
	options.symbols = false;
	options.no_files = options.pcs_only = true;
	options.engine = SNAP_ENGINE_AUTO;
	return snap_analyze(capture, &options, &finder, &snapshot) ?: keep_snapshot(snapshot, ret);
}

static bool addresses_may_do(const struct stacksnap_error *err)
{
	switch (snap_error_code(err)) {
	case SNAP_ERROR_CRASHED:
	case SNAP_ERROR_TIMEOUT:
	case SNAP_ERROR_FORMAT:
	case SNAP_ERROR_NO_MEMORY:
	case SNAP_ERROR_OTHER:
		return true;
	case SNAP_ERROR_NOT_FOUND:
	case SNAP_ERROR_CANCELLED:
	case SNAP_ERROR_OS: /* there is no sandbox, for which there is a remedy */
	case SNAP_ERROR_INVALID:
	case SNAP_ERROR_PERMISSION:
		return false;
	}
	return false;
}

/* `alone`: without a parser. */
static void warn_of_analysis_losses(struct snap_snapshot *snapshot,
				    const struct snap_fallback *fallback, bool alone)
{
	static const char *const lost[SNAP_EFFORT_COUNT] = {
		[SNAP_EFFORT_ALL] = "symbols of single files",
		[SNAP_EFFORT_NO_SYMBOLS] = "symbols",
		[SNAP_EFFORT_NO_FILES] = "symbols and most of the stacks",
	};

	/* The parser has warned of single files, and of runtimes, itself. */
	if (!fallback->reason || (fallback->effort == SNAP_EFFORT_ALL && snapshot->missing.modules))
		return;
	snapshot->missing.modules++;
	snap_snapshot_warn(snapshot, "parser_failed", 0, 0, "%s lost: %s",
			   alone ? "symbols and all but the first frame of each stack"
				 : lost[fallback->effort],
			   snap_error_message(fallback->reason));
}

static void warn_of_lost_files(struct snap_snapshot *snapshot,
			       const struct snap_collector *collector)
{
	unsigned blocked = snap_collector_lost_openers(collector);

	if (blocked == 0)
		return;
	snapshot->missing.modules++;
	snap_snapshot_warn(snapshot, "files_held", 0, 0,
			   "symbols lost: files of %u %s could not be opened in time", blocked,
			   blocked == 1 ? "process" : "processes");
}

static struct snap_fallback plan_analysis(struct analysis *analysis, int64_t deadline_ns)
{
	return (struct snap_fallback){
		.work = analyze_capture,
		.take = take_analysis,
		.context = analysis,
		.options = analysis->options,
		.deadline_ns = deadline_ns,
	};
}

struct stacksnap_error *snap_analysis_prepare(const struct snap_options *options,
					      int64_t deadline_ns, struct snap_parser **ret)
{
	struct analysis analysis = { .options = options };
	struct snap_fallback fallback = plan_analysis(&analysis, deadline_ns);

	return snap_fallback_prepare(&fallback, ret);
}

struct stacksnap_error *snap_analyze_in_sandbox(struct snap_collector *collector,
						struct snap_parser *prepared,
						const struct snap_options *options,
						int64_t deadline_ns, struct snap_snapshot **ret)
{
	struct analysis analysis = { .options = options };
	struct snap_fallback fallback = plan_analysis(&analysis, deadline_ns);
	bool alone = false;
	struct stacksnap_error *err;

	fallback.broker = snap_collector_broker(collector, options, deadline_ns);
	fallback.inputs[0] = snap_collector_bytes(collector);
	fallback.inputs[1] = snap_collector_shared(collector);
	err = snap_fallback_run(&fallback, prepared);
	if (err && addresses_may_do(err)) {
		alone = true;
		snap_error_destroy(err);
		err = list_addresses(&fallback, &analysis.snapshot);
	}
	if (!err) {
		warn_of_analysis_losses(analysis.snapshot, &fallback, alone);
		warn_of_lost_files(analysis.snapshot, collector);
		*ret = analysis.snapshot;
	}
	snap_error_destroy(fallback.reason);
	return err;
}

struct stacksnap_error *snap_read_json_in_sandbox(int fd, const struct snap_options *options,
						  struct snap_snapshot **ret)
{
	const struct snap_parser_start start = {
		.options = options,
		.work = read_json,
		.context = (void *)(uintptr_t)options,
		/* No target waits for it, and it ends: what it makes has a limit. */
		.deadline_ns = options->timeout_given
				       ? snap_clock_ns(CLOCK_MONOTONIC) + options->timeout_ns
				       : 0,
	};
	_cleanup_fd_ int unpacked = -1;
	const uint8_t *bytes;
	const char *cut; /* then it is no document, which is what will be said */
	uint64_t size;
	struct stacksnap_error *err;

	SNAP_TRY(snap_core_unpack_in_sandbox(fd, options, start.deadline_ns, &unpacked, &cut));
	SNAP_TRY(snap_parser_run_once(&start, unpacked < 0 ? fd : unpacked, &bytes, &size));
	err = take_snapshot(bytes, size, ret);
	if (err)
		munmap((void *)(uintptr_t)bytes, size);
	return err;
}
