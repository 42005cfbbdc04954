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

/* Heaps hold more than stacks do: a user that gives the file away should know. */
static void tell_of_memory(const struct run *run, const struct snap_cli_request *request)
{
	unsigned long long bytes = stacksnap_capture_memory_bytes(run->capture);

	if (bytes)
		snap_cli_message("%s holds %llu bytes of the targets' heap memory beside their "
				 "stacks (see --runtimes)",
				 request->save_capture, bytes);
}

/* False after a message: the report is printed all the same, the target stood still for it. */
static bool save_capture(struct run *run, const struct snap_cli_request *request)
{
	struct stacksnap_error *err;

	err = stacksnap_capture_save(run->capture, request->options, run->saved.fd);
	/* After a signal there is neither a report nor half a capture. */
	if (snap_cli_signals_caught()) {
		stacksnap_error_destroy(err);
		return false;
	}
	if (!err) {
		tell_of_memory(run, request);
		return snap_cli_output_commit(&run->saved);
	}
	snap_cli_message("%s", stacksnap_error_message(err));
	stacksnap_error_destroy(err);
	return false;
}

/* A capture that is saved is there before its snapshot; else the library makes both at once. */
static struct stacksnap_error *take(struct run *run, const struct snap_cli_request *request,
				    bool *saved_ret)
{
	struct stacksnap_error *err;

	if (!request->save_capture)
		return stacksnap_take(request->options, &run->snapshot);
	err = stacksnap_capture_take(request->options, &run->capture);
	if (err)
		return err;
	*saved_ret = save_capture(run, request);
	if (!*saved_ret)
		snap_cli_output_deinit(&run->saved);
	return stacksnap_capture_analyze(run->capture, request->options, &run->snapshot);
}

static void print_times(const struct run *run, int64_t taken_ns)
{
	const double ms = 1e-6;

	snap_cli_message("stopped %.2f ms, taken in %.2f ms",
			 (double)stacksnap_snapshot_stop_duration_ns(run->snapshot) * ms,
			 (double)taken_ns * ms);
}

static int finish_run(struct run *run, const struct snap_cli_request *request)
{
	int64_t start_ns = now_ns(), taken_ns;
	bool saved = true;
	struct stacksnap_error *err = take(run, request, &saved);
	int status;

	taken_ns = now_ns() - start_ns;
	if (err) {
		/* Before the report, which may end by a signal. */
		snap_cli_output_deinit(&run->saved);
		return snap_cli_report_error(&run->report, err);
	}
	status = snap_cli_report_snapshot(&run->report, run->snapshot);
	if (snap_cli_request_has(request, "verbose"))
		print_times(run, taken_ns);
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
	if (request->save_capture && snap_cli_request_has(request, "again")) {
		snap_cli_message("--again: takes two snapshots, and --save-capture keeps one");
		return SNAP_CLI_USAGE;
	}
	/* A stop counts as a run, so what is stuck would not be known. */
	if (snap_cli_request_has(request, "again") && !snap_cli_request_has(request, "engine"))
		snap_cli_set_option(request->options, "no-stop", NULL);
	if (open_places(&run, request))
		status = finish_run(&run, request);
	stacksnap_snapshot_destroy(run.snapshot);
	stacksnap_capture_destroy(run.capture);
	snap_cli_output_deinit(&run.saved);
	snap_cli_report_deinit(&run.report);
	return status;
}
