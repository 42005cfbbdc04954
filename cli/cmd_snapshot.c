/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* stacksnap PID: takes a snapshot, perhaps saves what was read, prints it. */
#include "commands.h"
#include "message.h"
#include "report.h"
#include "signals.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

struct run {
	struct snap_cli_report report;
	struct snap_cli_output saved; /* --save-capture */
	struct stacksnap_capture *capture;
	struct stacksnap_snapshot *snapshot;
	int64_t start_ns, captured_ns, saved_ns, analyzed_ns;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Opened before the stop, so that a place that cannot be written is known in time. */
static bool open_places(struct run *run, struct snap_cli_request *request)
{
	run->saved = (struct snap_cli_output){ .fd = -1 };
	if (!snap_cli_report_init(&run->report, request))
		return false;
	return !request->save_capture ||
	       snap_cli_output_init(&run->saved, request->save_capture, true);
}

/* False after a message: the report is printed all the same, the target stood still for it. */
static bool save(struct run *run, const struct snap_cli_request *request)
{
	struct stacksnap_error *err;

	if (!request->save_capture)
		return true;
	err = stacksnap_capture_save(run->capture, request->options, run->saved.fd);
	/* After a signal there is neither a report nor half a capture. */
	if (snap_cli_signals_caught()) {
		stacksnap_error_destroy(err);
		return false;
	}
	if (!err)
		return snap_cli_output_commit(&run->saved);
	snap_cli_message("%s", stacksnap_error_message(err));
	stacksnap_error_destroy(err);
	return false;
}

static void print_times(const struct run *run)
{
	const double ms = 1e-6;

	snap_cli_message("stopped %.2f ms, captured in %.2f ms, analyzed in %.2f ms",
			 (double)stacksnap_snapshot_stop_duration_ns(run->snapshot) * ms,
			 (double)(run->captured_ns - run->start_ns) * ms,
			 (double)(run->analyzed_ns - run->saved_ns) * ms);
}

static int finish(struct run *run, const struct snap_cli_request *request)
{
	struct stacksnap_error *err;
	bool saved;
	int status;

	run->start_ns = now_ns();
	err = stacksnap_capture_take(request->options, &run->capture);
	if (err) {
		/* Before the report, which may end by a signal. */
		snap_cli_output_deinit(&run->saved);
		return snap_cli_report_error(&run->report, err);
	}
	run->captured_ns = now_ns();
	saved = save(run, request);
	if (!saved)
		snap_cli_output_deinit(&run->saved);
	run->saved_ns = now_ns();
	err = stacksnap_capture_analyze(run->capture, request->options, &run->snapshot);
	if (err)
		return snap_cli_report_error(&run->report, err);
	run->analyzed_ns = now_ns();
	status = snap_cli_report_snapshot(&run->report, run->snapshot);
	if (request->verbose)
		print_times(run);
	return saved ? status : SNAP_CLI_TROUBLE;
}

int snap_cli_cmd_snapshot(struct snap_cli_request *request)
{
	struct run run = { .capture = NULL };
	int status = SNAP_CLI_TROUBLE;

	if (request->save_capture && strcmp(request->save_capture, "-") == 0) {
		snap_cli_message("--save-capture: needs a file name");
		return SNAP_CLI_USAGE;
	}
	if (open_places(&run, request))
		status = finish(&run, request);
	stacksnap_snapshot_destroy(run.snapshot);
	stacksnap_capture_destroy(run.capture);
	snap_cli_output_deinit(&run.saved);
	snap_cli_report_deinit(&run.report);
	return status;
}
