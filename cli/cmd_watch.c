/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stacksnap --watch: a line for each alert on standard output, as it comes; with -o a snapshot of
 * each, in a file of its own if its name has a %N, and not more often than each half minute.
 */
#include "commands.h"
#include "message.h"
#include "output_pattern.h"
#include "report.h"
#include "signals.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SAVE_APART_S = 30 };

struct run {
	struct snap_cli_request *request;
	struct snap_cli_report saved; /* -o */
	struct snap_cli_pattern pattern;
	struct stacksnap_watcher *watcher;
	int64_t saved_s; /* CLOCK_MONOTONIC of the latest file */
	bool json, failed, broken_pipe;
};

static bool print_error(struct stacksnap_error *err)
{
	snap_cli_message("%s", stacksnap_error_message(err));
	stacksnap_error_destroy(err);
	return false;
}

/* A line is flushed at once: its reader may be waiting. False: the reader has gone. */
static bool print_alert(struct run *run, const struct stacksnap_alert *alert)
{
	struct stacksnap_error *err =
		stacksnap_alert_render(alert, run->request->options, run->json, stdout);
	int os_errno = err ? stacksnap_error_errno(err) : 0;

	if (!err && fflush(stdout) == 0)
		return true;
	if (!err)
		os_errno = errno;
	run->broken_pipe = os_errno == EPIPE;
	run->failed = !run->broken_pipe;
	if (run->failed && !err)
		snap_cli_message("cannot write standard output: %s", strerror(os_errno));
	else if (run->failed)
		print_error(err);
	else
		stacksnap_error_destroy(err);
	return false;
}

/* Trouble with a file is reported, and no reason to end the watch. */
static void save_snapshot(struct run *run, const struct stacksnap_alert *alert)
{
	struct snap_cli_output *output = &run->saved.output;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!run->pattern.text || stacksnap_alert_is_over(alert) ||
	    !stacksnap_alert_has_snapshot(alert) ||
	    (run->saved_s && now.tv_sec - run->saved_s < SAVE_APART_S))
		return;
	run->saved_s = now.tv_sec;
	run->failed =
		!snap_cli_pattern_name(&run->pattern) ||
		!snap_cli_output_init(output, run->pattern.path, false) ||
		!snap_cli_report_print(&run->saved, (struct snap_cli_document){ .alert = alert });
	snap_cli_output_deinit(output);
	if (run->failed)
		return;
	run->pattern.written++;
	snap_cli_message("snapshot written to %s", run->pattern.path);
}

static int on_alert(void *context, const struct stacksnap_alert *alert)
{
	struct run *run = context;

	if (!print_alert(run, alert))
		return 0;
	save_snapshot(run, alert);
	return 1;
}

/* In a signal handler. */
static void stop_watcher(void *context)
{
	struct run *run = context;

	stacksnap_watcher_stop(run->watcher);
}

/* -o is for snapshots; alerts go to standard output, as text or as JSON Lines. */
static bool prepare_run(struct run *run)
{
	struct snap_cli_request *request = run->request;
	const char *format = request->format;

	if (format && strcmp(format, "text") != 0 && strcmp(format, "json") != 0 &&
	    strcmp(format, "jsonl") != 0)
		return snap_cli_message("--watch: alerts are text or JSON, not '%s'", format);
	if (request->output && strcmp(request->output, "-") == 0)
		return snap_cli_message("--watch: standard output has the alerts; -o names a file "
					"for snapshots");
	run->json = format && strcmp(format, "text") != 0;
	if (!snap_cli_pattern_init(&run->pattern, request->output))
		return false;
	snap_cli_report_prepare(&run->saved, request);
	/* A watch has no end of its own. */
	snap_cli_signals_set_timer(0);
	snap_cli_report_describe(&run->saved, STDOUT_FILENO);
	return true;
}

/* Of a watch that has looked once: what it says of locks may not be all. */
static int status_without_alert(const struct run *run)
{
	const char *lack;
	size_t count = 0;

	while ((lack = stacksnap_watcher_lack(run->watcher, count)) != NULL) {
		count++;
		snap_cli_report_lack(lack);
	}
	return count ? SNAP_CLI_UNKNOWN : SNAP_CLI_WHOLE;
}

static int watch_targets(struct run *run)
{
	size_t raised = 0;
	struct stacksnap_error *err =
		stacksnap_watcher_create(run->request->options, &run->watcher);
	int status;

	if (err) {
		status = stacksnap_error_code(err) == STACKSNAP_ERROR_INVALID ? SNAP_CLI_USAGE
									      : SNAP_CLI_TROUBLE;
		print_error(err);
		return status;
	}
	snap_cli_signals_end_in_order(stop_watcher, run);
	err = stacksnap_watcher_run(run->watcher, on_alert, run, &raised);
	if (err) {
		print_error(err);
		return SNAP_CLI_TROUBLE;
	}
	if (run->failed)
		return SNAP_CLI_TROUBLE;
	if (!snap_cli_request_has(run->request, "once"))
		return SNAP_CLI_WHOLE;
	return raised ? SNAP_CLI_PARTIAL : status_without_alert(run);
}

int snap_cli_cmd_watch(struct snap_cli_request *request)
{
	struct run run = { .request = request };
	int status = SNAP_CLI_USAGE;

	if (prepare_run(&run))
		status = watch_targets(&run);
	stacksnap_watcher_destroy(run.watcher);
	snap_cli_pattern_deinit(&run.pattern);
	return status;
}
