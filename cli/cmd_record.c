/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stacksnap record: samples for a while and writes what was seen, at the end or when it is asked
 * for, or as it goes.
 */
#include "commands.h"
#include "message.h"
#include "output_pattern.h"
#include "record_progress.h"
#include "report.h"
#include "signals.h"
#include "terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run {
	struct snap_cli_request *request;
	struct snap_cli_report report, stats; /* the recording; --stats */
	struct snap_cli_pattern pattern;
	struct snap_cli_record_progress progress;
	struct stacksnap_recorder *recorder;
	bool begun;                    /* there was a tick */
	bool grows;                    /* the recording file is written as it goes */
	bool failed;                   /* the latest writing did, with a message */
	volatile sig_atomic_t stopped; /* by a signal */
};

static bool is_stdout(const char *path)
{
	return path && strcmp(path, "-") == 0;
}

/* Everything that can be known to be wrong before a process is looked at. */
static int prepare_run(struct run *run)
{
	struct snap_cli_request *request = run->request;

	if (!snap_cli_pattern_init(&run->pattern, request->output))
		return SNAP_CLI_USAGE;
	if (is_stdout(request->stats) && snap_cli_pattern_is_stdout(&run->pattern)) {
		snap_cli_message("--stats: standard output already receives the recording");
		return SNAP_CLI_USAGE;
	}
	/* A condition or a ring says when the run ends. */
	if ((snap_cli_request_has(request, "ring") || snap_cli_request_has(request, "until")) &&
	    !snap_cli_request_has(request, "duration"))
		snap_cli_set_option(request->options, "duration", "0");
	snap_cli_report_prepare(&run->report, request);
	run->stats = run->report;
	run->grows = !snap_cli_request_has(request, "ring") &&
		     strcmp(run->report.format, "snaprec") == 0;
	if (!snap_cli_pattern_name(&run->pattern) ||
	    !snap_cli_output_probe(&run->report.output, run->pattern.path) ||
	    snap_cli_report_refuses_terminal(&run->report))
		return SNAP_CLI_TROUBLE;
	if (request->stats && !snap_cli_output_probe(&run->stats.output, request->stats))
		return SNAP_CLI_TROUBLE;
	return SNAP_CLI_WHOLE;
}

static bool print_error(struct stacksnap_error *err)
{
	snap_cli_message("%s", stacksnap_error_message(err));
	stacksnap_error_destroy(err);
	return false;
}

/* Writes it where the pattern says; false after a message. */
static bool write_recording(struct run *run, const struct stacksnap_recording *recording)
{
	struct snap_cli_output *output = &run->report.output;
	bool fine = true;

	if (output->fd < 0)
		fine = snap_cli_pattern_name(&run->pattern) &&
		       snap_cli_output_init(output, run->pattern.path, false);
	if (fine) {
		snap_cli_report_describe(&run->report, output->fd);
		fine = snap_cli_report_print(&run->report,
					     (struct snap_cli_document){ .recording = recording });
	}
	if (!output->keeps_open)
		snap_cli_output_deinit(output);
	if (!fine || run->report.broken_pipe)
		return fine;
	run->pattern.written++;
	if (run->pattern.path)
		snap_cli_message("recording written to %s", run->pattern.path);
	return true;
}

/* What there is so far, while it goes on; trouble is reported, and no reason to end. */
static void write_meanwhile(struct run *run)
{
	struct stacksnap_recording *recording = NULL;
	struct stacksnap_error *err;

	if (run->grows)
		return;
	err = stacksnap_recorder_slice(run->recorder, run->request->options, &recording);
	run->failed = err ? !print_error(err) : !write_recording(run, recording);
	stacksnap_recording_destroy(recording);
}

static int on_tick(void *context, const struct stacksnap_recorder_status *status)
{
	struct run *run = context;
	bool asked = snap_cli_signals_take_request();

	if (!run->begun && snap_cli_request_has(run->request, "verbose"))
		snap_cli_message("recording %llu thread%s", status->threads,
				 status->threads == 1 ? "" : "s");
	run->begun = true;
	if (asked || (snap_cli_request_has(run->request, "ring") && status->condition))
		write_meanwhile(run);
	snap_cli_record_progress_show(&run->progress, status);
	return !run->report.broken_pipe;
}

/* In a signal handler. */
static void stop_recorder(void *context)
{
	struct run *run = context;

	run->stopped = 1;
	stacksnap_recorder_stop(run->recorder);
}

/* The old file is replaced only now, when there is a process to record. */
static bool begin_growing(struct run *run)
{
	struct snap_cli_output *output = &run->report.output;
	struct stacksnap_error *err;

	if (output->fd < 0 && !snap_cli_output_init_growing(output, run->pattern.path))
		return false;
	err = stacksnap_recorder_write_to(run->recorder, output->fd);
	return !err || print_error(err);
}

/* False after a message; a reader who has gone away is no failure. */
static bool growing_failed(struct run *run, struct stacksnap_error *err)
{
	if (stacksnap_error_errno(err) != EPIPE)
		return print_error(err);
	run->report.broken_pipe = true;
	stacksnap_error_destroy(err);
	return true;
}

static bool end_growing(struct run *run)
{
	struct stacksnap_error *err;

	err = stacksnap_recorder_finish(run->recorder);
	if (err)
		return growing_failed(run, err);
	run->report.output.keeps_open = false;
	if (!snap_cli_output_commit(&run->report.output))
		return false;
	if (run->pattern.path)
		snap_cli_message("recording written to %s", run->pattern.path);
	return true;
}

/* What was taken is written, whatever ended it; false after a message if it could not be. */
static bool end_run(struct run *run, struct stacksnap_error *err)
{
	/* Of a run whose file grows an error of the system is one of writing. */
	if (err && run->grows && stacksnap_error_code(err) == STACKSNAP_ERROR_OS)
		return growing_failed(run, err);
	if (err)
		print_error(err);
	return !run->grows || end_growing(run);
}

/* A line of figures, which goes on below where the terminal ends; 0: it has no width. */
static void print_figures(char *line, unsigned width)
{
	enum { PREFIX = 11 }; /* "stacksnap: " */
	size_t room = width > 2 * PREFIX ? width - PREFIX : SIZE_MAX;

	while (strlen(line) > room) {
		char *end = line + room;

		while (end > line && (*end != ' ' || end[1] == '%'))
			end--;
		if (end == line)
			break;
		*end = '\0';
		snap_cli_message_escaped(line);
		line = end + 1;
	}
	snap_cli_message_escaped(line);
}

/* On stderr, where each line shows whose it is; below an empty line stands a table. */
static void print_lines(char *text, unsigned width)
{
	bool in_table = false;
	char *line;

	while ((line = strsep(&text, "\n")))
		if (in_table && *line)
			fprintf(stderr, " %s\n", line);
		else if (*line)
			print_figures(line, width);
		else
			in_table = true;
}

static void print_summary(struct run *run, const struct stacksnap_recording *recording)
{
	unsigned columns = snap_cli_terminal_width(STDERR_FILENO);
	char width[16], *text = NULL;
	struct stacksnap_error *err;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return;
	/* --color and --width are about the recording; here a terminal alone decides. */
	snap_cli_report_describe(&run->report, STDERR_FILENO);
	snap_cli_set_option(run->request->options, "color",
			    snap_cli_terminal_has_color(STDERR_FILENO) ? "always" : "never");
	/* Lines of tables begin with a blank. */
	snprintf(width, sizeof(width), "%u", columns > 1 ? columns - 1 : 0);
	snap_cli_set_option(run->request->options, "width", width);
	err = stacksnap_recording_summary(recording, run->request->options, out);
	if (fclose(out) != 0 || err)
		stacksnap_error_destroy(err);
	else
		print_lines(text, columns);
	free(text);
}

static bool write_stats(struct run *run, const struct stacksnap_recording *recording)
{
	struct snap_cli_output *output = &run->stats.output;

	if (output->fd < 0 && !snap_cli_output_init(output, run->request->stats, false))
		return false;
	return snap_cli_report_print(
		&run->stats,
		(struct snap_cli_document){ .recording = recording, .only_stats = true });
}

/* What stands in no document that goes to standard output. */
static void print_remarks(const struct stacksnap_recording *recording)
{
	const struct stacksnap_recording_stats *stats = stacksnap_recording_get_stats(recording);

	snap_cli_report_end(recording);
	if (stats->ticks_missed)
		snap_cli_message("%llu of %llu ticks were missed, %llu as no processor was free: "
				 "%.1f a second instead of %.1f",
				 stats->ticks_missed, stats->ticks + stats->ticks_missed,
				 stats->ticks_late, stats->hz_reached, stats->hz_asked);
}

static int conclude_run(struct run *run, const struct stacksnap_recording *recording)
{
	int status = snap_cli_report_recording_status(recording);

	if (!snap_cli_pattern_is_stdout(&run->pattern))
		print_summary(run, recording);
	else if (!run->report.broken_pipe)
		print_remarks(recording);
	if (run->request->stats && !write_stats(run, recording))
		run->failed = true;
	/* It ended with its reader: no failure of ours. */
	if (run->grows && run->report.broken_pipe && !run->failed)
		return SNAP_CLI_WHOLE;
	return run->failed ? SNAP_CLI_TROUBLE : status;
}

static int finish_run(struct run *run, struct stacksnap_error *err)
{
	struct stacksnap_recording *recording = NULL;
	bool fine = end_run(run, err);
	int status;

	if (run->grows)
		run->failed = !fine;
	err = stacksnap_recorder_slice(run->recorder, run->request->options, &recording);
	if (err)
		return snap_cli_report_error(&run->report, err);
	run->report.is_last = true;
	if (!run->grows && !run->report.broken_pipe)
		run->failed = !write_recording(run, recording);
	status = conclude_run(run, recording);
	stacksnap_recording_destroy(recording);
	return status;
}

/* Of a recording that did not begin: no file is touched, standard output has a document. */
static int report_failure(struct run *run, const char *code, const char *message)
{
	struct snap_cli_output *output = &run->report.output;

	if (snap_cli_pattern_is_stdout(&run->pattern)) {
		if (output->fd < 0 && !snap_cli_output_init(output, NULL, false))
			return SNAP_CLI_TROUBLE;
		return snap_cli_report_failure(&run->report, code, message);
	}
	if (snap_cli_signals_timed_out())
		snap_cli_message("gave up after %u ms (--timeout)",
				 stacksnap_options_timeout_ms(run->request->options));
	else
		snap_cli_message("%s", message);
	return SNAP_CLI_TROUBLE;
}

/* The time was up, or a signal came, before any process was stopped. */
static int end_early(struct run *run)
{
	return report_failure(run, "cancelled",
			      "a signal came before the recording began: nothing was recorded");
}

static int fail_to_begin(struct run *run, struct stacksnap_error *err)
{
	int status;

	if (stacksnap_error_code(err) == STACKSNAP_ERROR_INVALID)
		return snap_cli_report_error(&run->report, err);
	status = *snap_cli_signals_flag() ? end_early(run)
					  : report_failure(run, stacksnap_error_word(err),
							   stacksnap_error_message(err));
	stacksnap_error_destroy(err);
	return status;
}

/*
 * The recorder found no process that it may record. A list says it of each target, as it does
 * elsewhere; it is made only then, as it costs as much as the recorder's own first look.
 */
static int explain_targets(struct run *run, struct stacksnap_error *why)
{
	struct stacksnap_snapshot *snapshot = NULL;
	struct stacksnap_error *err;
	int status = SNAP_CLI_WHOLE;

	if (*snap_cli_signals_flag())
		return fail_to_begin(run, why);
	err = stacksnap_list(run->request->options, &snapshot);
	if (err) {
		stacksnap_error_destroy(why);
		return fail_to_begin(run, err);
	}
	if (stacksnap_snapshot_outcome(snapshot) == STACKSNAP_OUTCOME_NOTHING)
		status = snap_cli_report_snapshot_status(run->request, snapshot, false);
	stacksnap_snapshot_destroy(snapshot);
	if (status == SNAP_CLI_WHOLE)
		return fail_to_begin(run, why);
	stacksnap_error_destroy(why);
	return status;
}

static int record_targets(struct run *run)
{
	struct stacksnap_error *err =
		stacksnap_recorder_create(run->request->options, &run->recorder);

	if (err)
		return explain_targets(run, err);
	/* Only the search for targets is bounded by --timeout. */
	snap_cli_signals_set_timer(0);
	snap_cli_signals_end_in_order(stop_recorder, run);
	if (*snap_cli_signals_flag())
		return end_early(run);
	if (run->grows && !begin_growing(run))
		return SNAP_CLI_TROUBLE;
	snap_cli_record_progress_init(&run->progress, snap_cli_request_has(run->request, "ring"));
	err = stacksnap_recorder_run(run->recorder, on_tick, run);
	snap_cli_progress_erase();
	/* After a signal the names get one second. */
	if (run->stopped)
		stacksnap_recorder_stop(run->recorder);
	return finish_run(run, err);
}

int snap_cli_cmd_record(struct snap_cli_request *request)
{
	struct run run = {
		.request = request,
		.report = { .output = { .fd = -1 } },
		.stats = { .output = { .fd = -1 } },
	};
	int status;

	snap_cli_signals_catch_requests();
	snap_cli_signals_outlive();
	status = prepare_run(&run);
	if (status == SNAP_CLI_WHOLE)
		status = record_targets(&run);
	stacksnap_recorder_destroy(run.recorder);
	snap_cli_pattern_deinit(&run.pattern);
	snap_cli_report_deinit(&run.stats);
	snap_cli_report_deinit(&run.report);
	return status;
}
