/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Naming: see naming.h. */
#include "roles/naming.h"

#include "analyze/log/log.h"
#include "base/clock.h"
#include "roles/fallback.h"
#include "store/recording/names.h"

#include <sys/mman.h>

enum {
	LEAST_CAPACITY = 256 << 20, /* bytes of names … */
	BYTES_OF_FRAME = 1 << 10,   /* … and for each frame */
};

static const int64_t PATIENCE_WITH_DOWNLOADS_NS = 600000000000;

struct naming {
	struct snap_log *log; /* in the parser: its own copy */
	const struct snap_options *options;
};

/* ---- in the parser ---- */

static struct stacksnap_error *write_names(void *context, enum snap_effort effort,
					   struct snap_parser_job *job)
{
	struct naming *naming = context;
	struct snap_log *log = naming->log;
	size_t from = log->name_count, warnings_from = log->capture->warning_count;
	struct snap_remote_finder remote = { .channel = job->channel,
					     .capture = log->capture,
					     .file_id = job->file_id };
	struct snap_file_finder finder =
		effort == SNAP_EFFORT_ALL ? snap_remote_finder(&remote) : snap_no_files();
	struct stacksnap_error *err;

	/* Without the beginnings of modules there is nothing but what the kernel says of them. */
	for (size_t i = 0; i < log->capture->process_count && effort == SNAP_EFFORT_NO_FILES; i++)
		log->capture->processes[i].piece_count = 0;
	err = snap_analyze_log_names(log, naming->options, &finder);
	if (err)
		return err;
	job->size = snap_log_names_size(log, from, warnings_from);
	if (job->size > job->capacity)
		return snap_error_format(SNAP_ERROR_OTHER,
					 "the names do not fit into their memory");
	return snap_log_names_write(log, from, warnings_from, job->out);
}

/* ---- in its maker ---- */

static struct stacksnap_error *take_names(void *context, const uint8_t *bytes, uint64_t size)
{
	const struct naming *naming = context;
	struct stacksnap_error *err = snap_log_names_read(naming->log, bytes, size);

	if (!err)
		munmap((void *)(uintptr_t)bytes, size);
	return err;
}

static bool is_named(const struct snap_log *log)
{
	for (size_t i = 0; i < log->frame_count; i++)
		if (log->frames[i].name == 0)
			return false;
	return true;
}

/* What is left of the names, and why: what happened first. */
static void warn_of_losses(struct snap_log *log, const struct stacksnap_error *reason,
			   const char *rest)
{
	snap_capture_warn(log->capture, "parser_failed", 0, 0, "%s: %s", snap_error_message(reason),
			  rest);
}

static int64_t deadline_of(const struct snap_options *options, int64_t patience_ns)
{
	/* Who downloads has deadlines of his own. */
	if (options->debuginfod && patience_ns < PATIENCE_WITH_DOWNLOADS_NS)
		patience_ns = PATIENCE_WITH_DOWNLOADS_NS;
	return snap_clock_ns(CLOCK_MONOTONIC) + patience_ns;
}

struct stacksnap_error *snap_naming_run(struct snap_log *log, const struct snap_options *options,
					const struct snap_broker *broker, int64_t patience_ns)
{
	static const char *const rest[SNAP_EFFORT_COUNT] = {
		[SNAP_EFFORT_ALL] = "functions of a file or more are unknown",
		[SNAP_EFFORT_NO_SYMBOLS] = "functions are unknown, frames have modules and offsets",
		[SNAP_EFFORT_NO_FILES] = "functions are unknown, frames have modules",
	};
	struct naming naming = { .log = log, .options = options };
	struct snap_fallback fallback = {
		.work = write_names,
		.take = take_names,
		.context = &naming,
		.options = options,
		.broker = *broker,
		.inputs = { -1, -1 },
		.deadline_ns = deadline_of(options, patience_ns),
		.capacity = LEAST_CAPACITY + log->frame_count * BYTES_OF_FRAME,
	};
	struct stacksnap_error *err;

	if (is_named(log))
		return NULL;
	err = snap_parser_pick_uid(log->capture, &fallback.uid);
	if (err)
		return err;
	err = snap_fallback_run(&fallback, NULL);
	if (err && snap_error_code(err) != SNAP_ERROR_CANCELLED)
		warn_of_losses(log, fallback.reason ? fallback.reason : err,
			       "frames have only addresses");
	else if (!err && fallback.reason)
		warn_of_losses(log, fallback.reason, rest[fallback.effort]);
	snap_error_destroy(fallback.reason);
	if (err && snap_error_code(err) == SNAP_ERROR_CANCELLED)
		return err;
	snap_error_destroy(err);
	return NULL;
}
