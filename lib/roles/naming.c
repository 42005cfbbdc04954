/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Naming: see naming.h. */
#include "roles/naming.h"

#include "analyze/log/log.h"
#include "base/clock.h"
#include "roles/fallback.h"
#include "store/log/log.h"

#include <sys/mman.h>

enum {
	LEAST_CAPACITY = 256 << 20, /* bytes of names … */
	BYTES_OF_FRAME = 1 << 10,   /* … and for each frame, and what is waited for */
};

/* For so long parsers may stand still at the end of a recording, and the last one a quarter more. */
static const int64_t STILL_NS = 6 * SNAP_NS_PER_S;

struct naming {
	struct snap_log *log; /* in the parser: its own copy */
	const struct snap_options *options;
};

/* ---- in the parser ---- */

static struct stacksnap_error *keep_wait(void *context, uint32_t stack, uint32_t object,
					 const struct snap_wait *wait)
{
	return snap_log_explain(context, stack, object, wait);
}

/* A lack of memory here does not cost the names. */
static struct stacksnap_error *explain_waits(struct snap_log *log,
					     const struct snap_options *options,
					     const struct snap_file_finder *finder)
{
	_cleanup_free_ struct snap_log_explained *pairs = NULL;
	struct stacksnap_error *err;
	size_t count = 0;

	if (options->explain == SNAP_EXPLAIN_NO)
		return NULL;
	err = snap_log_waits_left(log, &pairs, &count);
	err = err ?: snap_analyze_log_waits(log, options, finder, pairs, count, keep_wait, log);
	if (!err || snap_error_code(err) == SNAP_ERROR_CANCELLED)
		return err;
	snap_error_destroy(err);
	return NULL;
}

enum part { WAITS, FUNCTIONS, MODULES, PARTS };

static void forget_name(struct snap_frame *name, enum part part)
{
	static const struct snap_entry unknown;

	if (part == MODULES)
		name->module = name->build_id = NULL;
	if (part == FUNCTIONS) {
		name->entries = (struct snap_entry *)(uintptr_t)&unknown;
		name->entry_count = 1;
	}
}

/* Of each space whose names and waits are so large, or more. */
static void leave_names_out(struct snap_log *log, const struct snap_log_named *before,
			    const uint64_t *sizes, uint64_t least, enum part part,
			    const char *reason)
{
	static const char *const parts[PARTS] = { "waits", "functions", "modules" };

	for (size_t i = before->explained; part == WAITS && i < log->explained_count; i++)
		if (sizes[log->stacks[log->explained[i].stack].space] >= least)
			log->explained[i].wait = NULL;
	for (size_t i = 0; i < log->frame_count; i++)
		if (log->frames[i].name > before->names && sizes[log->frames[i].space] >= least)
			forget_name(&log->names[log->frames[i].name - 1], part);
	for (size_t i = 0; i < log->capture->process_count; i++) {
		pid_t pid = log->capture->processes[i].pid;

		if (sizes[i] >= least)
			snap_capture_warn(log->capture, "parser_failed", pid, 0,
					  "process %d: its %s are left out: %s", pid, parts[part],
					  reason);
	}
}

struct stacksnap_error *snap_leave_names(struct snap_log *log, const struct snap_log_named *before,
					 struct snap_parser_job *job)
{
	size_t count = log->capture->process_count;
	_cleanup_free_ uint64_t *sizes = malloc((count + 1) * sizeof(*sizes));
	struct stacksnap_error *err;

	SNAP_TRY(snap_no_memory_unless(sizes));
	for (unsigned round = 0;
	     (err = snap_log_names_write(log, before, job->out, job->capacity, &job->size)) &&
	     round < 4 * PARTS;
	     round++) {
		uint64_t most = snap_log_names_measure(log, before, job->out, job->capacity, sizes);

		leave_names_out(log, before, sizes, most / 2, round % PARTS,
				snap_error_message(err));
		snap_error_destroy(err);
	}
	return err;
}

static struct stacksnap_error *find_names(void *context, enum snap_effort effort,
					  struct snap_parser_job *job)
{
	struct naming *naming = context;
	struct snap_log *log = naming->log;
	const struct snap_log_named before = snap_log_named(log);
	struct snap_remote_finder remote = { .channel = job->channel,
					     .capture = log->capture,
					     .file_id = job->file_id };
	struct snap_file_finder finder =
		effort == SNAP_EFFORT_ALL ? snap_remote_finder(&remote) : snap_no_files();
	struct snap_options options = *naming->options;

	/* No files are looked for then, so a file that was not found is no news about it. */
	options.symbols = options.symbols && effort == SNAP_EFFORT_ALL;
	/* Without the first pages of modules, only the kernel's facts about them are left. */
	for (size_t i = 0; i < log->capture->process_count && effort == SNAP_EFFORT_NO_FILES; i++)
		log->capture->processes[i].piece_count = 0;
	/* The last effort takes no time. */
	if (effort != SNAP_EFFORT_NO_FILES)
		options.enough = job->enough;
	SNAP_TRY(snap_analyze_log_names(log, &options, &finder));
	SNAP_TRY(explain_waits(log, &options, &finder));
	return snap_leave_names(log, &before, job);
}

/* ---- in its maker ---- */

static struct stacksnap_error *take_names(void *context, const uint8_t *bytes, uint64_t size)
{
	const struct naming *naming = context;

	SNAP_TRY(snap_log_names_read(naming->log, bytes, size));
	munmap((void *)(uintptr_t)bytes, size);
	return NULL;
}

/* Its frames have names, and what its threads wait for is known. */
static bool is_naming_done(const struct snap_log *log, const struct snap_options *options)
{
	return snap_all(log->frame_count, i, log->frames[i].name != 0) &&
	       (options->explain == SNAP_EXPLAIN_NO || !snap_log_has_waits_left(log));
}

/* Warns of what names are left, and of the first error as the reason. */
static void warn_of_naming_losses(struct snap_log *log, const struct stacksnap_error *reason,
				  const char *rest)
{
	snap_capture_warn(log->capture, "parser_failed", 0, 0, "%s: %s", snap_error_message(reason),
			  rest);
}

static void warn_of_time(struct snap_log *log)
{
	snap_capture_warn(log->capture, "names_late", 0, 0,
			  "names are missing: the recording had to end before all were found "
			  "(a file of --format snaprec has all when it is rendered later)");
}

/* *late_ret is set if the run was late because a caller waits for its end. */
static struct stacksnap_error *run_ladder(struct snap_log *log, struct snap_fallback *fallback,
					  bool *late_ret)
{
	static const char *const rest[SNAP_EFFORT_COUNT] = {
		[SNAP_EFFORT_ALL] = "functions of a file or more are unknown",
		[SNAP_EFFORT_NO_SYMBOLS] = "functions are unknown, frames have modules and offsets",
		[SNAP_EFFORT_NO_FILES] = "functions are unknown, frames have modules",
	};
	struct stacksnap_error *err = snap_fallback_run(fallback, NULL);
	const struct stacksnap_error *reason = fallback->reason ? fallback->reason : err;
	bool late = reason && snap_error_code(reason) == SNAP_ERROR_TIMEOUT &&
		    snap_parser_has_enough(fallback->asked_ns);

	if (err && snap_error_code(err) != SNAP_ERROR_CANCELLED && !late)
		warn_of_naming_losses(log, reason, "frames have only addresses");
	else if (!err && reason && !late)
		warn_of_naming_losses(log, reason, rest[fallback->effort]);
	*late_ret |= late;
	snap_error_destroy(fallback->reason);
	if (err && snap_error_code(err) == SNAP_ERROR_CANCELLED)
		return err;
	snap_error_destroy(err);
	return NULL;
}

struct stacksnap_error *snap_naming_run(struct snap_log *log, const struct snap_options *options,
					const struct snap_broker *broker,
					const struct snap_naming_limits *limits)
{
	struct naming naming = { .log = log, .options = options };
	struct snap_fallback fallback = {
		.work = find_names,
		.take = take_names,
		.context = &naming,
		.options = options,
		.broker = *broker,
		.inputs = { -1, -1 },
		.deadline_ns = snap_clock_ns(CLOCK_MONOTONIC) + limits->patience_ns,
		.capacity =
			LEAST_CAPACITY + (log->frame_count + log->object_count) * BYTES_OF_FRAME,
		.asked_ns = limits->asked_ns,
		.no_less = limits->for_file,
		.idle_ns = STILL_NS,
	};
	bool late = false;
	struct stacksnap_error *err = NULL;

	if (is_naming_done(log, options))
		return NULL;
	/*
	 * A user without symbols now may want them on the host that has the debug files: they are
	 * found there.
	 */
	if (limits->for_file && !options->symbols)
		return NULL;
	if (!snap_parser_has_enough(limits->asked_ns))
		err = run_ladder(log, &fallback, &late);
	if (err || limits->for_file)
		return err;
	if (!is_naming_done(log, options) && snap_parser_has_enough(limits->asked_ns)) {
		/* Modules and offsets are found in a moment. */
		late = true;
		fallback.first = SNAP_EFFORT_NO_FILES;
		err = run_ladder(log, &fallback, &late);
	}
	if (!err && late)
		warn_of_time(log);
	return err;
}
