/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From a snapshot to bytes, lines on stderr and a status: see report.h. */
#include "report.h"

#include "commands.h"
#include "message.h"
#include "pager.h"
#include "repeats.h"
#include "signals.h"
#include "terminal.h"
#include "wrong_use.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void snap_cli_set_option(struct stacksnap_options *options, const char *name, const char *value)
{
	stacksnap_error_destroy(stacksnap_options_set(options, name, value));
}

void snap_cli_report_describe(struct snap_cli_report *report, int fd)
{
	struct snap_cli_request *request = report->request;
	bool color = request->color == SNAP_CLI_COLOR_ALWAYS;
	enum { MOST_SCREENS = 3 };
	char width[16], lines[16];

	if (request->color == SNAP_CLI_COLOR_AUTO)
		color = snap_cli_terminal_has_color(fd);
	snap_cli_set_option(request->options, "color", color ? "always" : "never");
	snap_cli_set_option(request->options, "charset", snap_cli_is_utf8() ? "utf-8" : "ascii");
	snprintf(lines, sizeof(lines), "%u",
		 request->all_groups ? 0 : MOST_SCREENS * snap_cli_terminal_height(fd));
	snap_cli_set_option(request->options, "group-lines", lines);
	if (snap_cli_request_has(request, "width"))
		return;
	snprintf(width, sizeof(width), "%u", snap_cli_terminal_width(fd));
	snap_cli_set_option(request->options, "width", width);
}

/*
 * The library ends in time by itself, or late by the moment that a list of addresses takes; this is
 * for what it does not know of, a FIFO without a reader.
 */
enum { LATE_MS = 450 };

void snap_cli_report_prepare(struct snap_cli_report *report, struct snap_cli_request *request)
{
	*report = (struct snap_cli_report){ .request = request, .output = { .fd = -1 } };
	report->format = snap_cli_request_format(request);
	snap_cli_signals_set_timer(stacksnap_options_timeout_ms(request->options) + LATE_MS);
	stacksnap_options_set_cancel(request->options, snap_cli_signals_flag());
	request->packages.folder = "/var/lib/apt/lists";
	stacksnap_options_set_symbol_packages(request->options, snap_cli_find_symbol_package,
					      &request->packages);
	if (snap_cli_request_has(request, "debuginfod")) {
		snap_cli_progress_start();
		stacksnap_options_set_progress(request->options, snap_cli_progress, NULL);
	}
}

bool snap_cli_report_refuses_terminal(const struct snap_cli_report *report)
{
	if (!stacksnap_format_is_binary(report->format) || !isatty(report->output.fd))
		return false;
	snap_cli_message(
		"format '%s' is binary and is not written to a terminal: name a file with -o",
		report->format);
	return true;
}

bool snap_cli_report_init(struct snap_cli_report *report, struct snap_cli_request *request)
{
	snap_cli_report_prepare(report, request);
	if (!snap_cli_output_init(&report->output, request->output, false) ||
	    snap_cli_report_refuses_terminal(report))
		return false;
	report->is_last = true;
	snap_cli_report_describe(report, report->output.fd);
	return true;
}

void snap_cli_report_deinit(struct snap_cli_report *report)
{
	snap_cli_output_deinit(&report->output);
}

/* Ends by the signal that came, if one did: the target runs, half a file goes away. */
static void end_if_signalled(struct snap_cli_report *report)
{
	if (!snap_cli_signals_caught())
		return;
	snap_cli_progress_erase();
	snap_cli_output_deinit(&report->output);
	snap_cli_signals_die();
}

/* False after a message; a reader who has gone away is no failure. */
static bool end_write(struct snap_cli_report *report, int os_errno)
{
	if (os_errno == 0)
		return true;
	end_if_signalled(report);
	if (os_errno == EPIPE) {
		report->broken_pipe = true;
		return true;
	}
	return snap_cli_message("cannot write %s: %s", snap_cli_output_name(&report->output),
				strerror(os_errno));
}

static bool print_error(struct stacksnap_error *error)
{
	snap_cli_message("%s", stacksnap_error_message(error));
	stacksnap_error_destroy(error);
	return false;
}

static struct stacksnap_error *render_document(const struct snap_cli_report *report,
					       struct snap_cli_document document, FILE *file)
{
	struct stacksnap_options *options = report->request->options;

	if (document.only_stats)
		return stacksnap_recording_render_stats(document.recording, file);
	if (document.alert)
		return stacksnap_alert_render_snapshot(document.alert, options, report->format,
						       file);
	if (document.merger)
		return stacksnap_merger_render(document.merger, report->format, file);
	if (document.diff)
		return stacksnap_diff_render(document.diff, options, report->format, file);
	if (document.recording)
		return stacksnap_recording_render(document.recording, options, report->format,
						  file);
	return stacksnap_snapshot_render(document.snapshot, options, report->format, file);
}

/*
 * Writes for stdio, which tries each later write again after one that failed: a signal would be
 * heard, and the next kilobytes wait for the reader all the same. So the first failure is the last.
 */
struct sink {
	int fd, os_errno;
};

static ssize_t write_to_sink(void *context, const char *bytes, size_t size)
{
	struct sink *sink = context;
	size_t done = 0;

	while (!sink->os_errno && done < size) {
		ssize_t n = -1;

		errno = EINTR;
		if (!snap_cli_signals_caught())
			n = write(sink->fd, bytes + done, size - done);
		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR || snap_cli_signals_caught())
			sink->os_errno = n == 0 ? EIO : errno;
	}
	return (ssize_t)done;
}

/* A report that may be more than a screen is kept until its length is known; -1: it is not kept. */
static int open_kept(const struct snap_cli_report *report)
{
	if (!report->is_last || report->output.path ||
	    snap_cli_terminal_height(report->output.fd) == 0)
		return -1;
	return memfd_create("stacksnap-report", MFD_CLOEXEC);
}

/* Whether the bytes have as many lines as the terminal. */
static bool is_long_text(const char *bytes, size_t size, unsigned height)
{
	unsigned lines = 0;

	for (size_t i = 0; i < size && lines < height; i++)
		lines += bytes[i] == '\n';
	return lines >= height;
}

/* What was kept is shown, by a pager or as it is. */
static void show_kept(struct snap_cli_report *report, struct sink *sink)
{
	int kept = sink->fd;
	off_t size = lseek(kept, 0, SEEK_CUR);
	char *bytes;

	if (size <= 0)
		return;
	bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, kept, 0);
	if (bytes == MAP_FAILED) {
		sink->os_errno = errno;
		return;
	}
	sink->fd = report->output.fd;
	report->is_long =
		is_long_text(bytes, (size_t)size, snap_cli_terminal_height(report->output.fd));
	/* From here on only the reader waits for us, and may take any time. */
	snap_cli_signals_set_timer(0);
	if (!report->is_long || report->request->no_pager ||
	    !snap_cli_pager_show(kept, report->output.fd))
		write_to_sink(sink, bytes, (size_t)size);
	munmap(bytes, (size_t)size);
}

bool snap_cli_report_print(struct snap_cli_report *report, struct snap_cli_document document)
{
	int kept = open_kept(report);
	struct sink sink = { .fd = kept >= 0 ? kept : report->output.fd };
	/* Where stdout was closed, what fills its place is not for writing. */
	int access = fcntl(sink.fd, F_GETFL) & O_ACCMODE;
	FILE *file = fopencookie(&sink, "w", (cookie_io_functions_t){ .write = write_to_sink });
	struct stacksnap_error *err;
	bool failed;

	if (!file) {
		if (kept >= 0)
			close(kept);
		return end_write(report, ENOMEM);
	}
	if (access == O_RDONLY)
		sink.os_errno = EBADF;
	err = render_document(report, document, file);
	failed = fflush(file) != 0 || ferror(file);
	failed = fclose(file) != 0 || failed;
	if (kept >= 0 && !failed && !sink.os_errno)
		show_kept(report, &sink);
	if (kept >= 0)
		close(kept);
	if (failed || sink.os_errno) {
		stacksnap_error_destroy(err);
		return end_write(report, sink.os_errno ? sink.os_errno : EIO);
	}
	if (err)
		return print_error(err);
	end_if_signalled(report);
	return report->broken_pipe || snap_cli_output_commit(&report->output);
}

/* Where the report and messages are read in one place, a reason in both would be there twice. */
static bool is_on_terminal_of_messages(const struct snap_cli_report *report)
{
	struct stat out, err;

	return isatty(report->output.fd) && isatty(STDERR_FILENO) &&
	       fstat(report->output.fd, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
	       out.st_rdev == err.st_rdev;
}

/* --all as an ordinary user: one line for hundreds. `shown`: the reasons are to be seen already. */
static void print_troubles(const struct snap_cli_request *request,
			   const struct stacksnap_snapshot *snapshot, bool shown)
{
	struct snap_cli_repeats troubles = { .used = 0 };
	bool has_all = snap_cli_request_has(request, "all");
	const char *code, *message;
	size_t count = 0;

	while (stacksnap_snapshot_trouble(snapshot, count, &code, &message, NULL)) {
		snap_cli_repeats_add(&troubles, code, message);
		count++;
	}
	if (!shown || (has_all && count > 1))
		snap_cli_repeats_print(&troubles, has_all ? 1 : SNAP_CLI_MAX_REPEATS,
				       "processes could not be read");
}

static void print_warnings(const struct stacksnap_snapshot *snapshot)
{
	struct snap_cli_repeats warnings = { .used = 0 };
	const char *code, *message;

	for (size_t i = 0; stacksnap_snapshot_warning(snapshot, i, &code, &message, NULL, NULL);
	     i++)
		/* --no-stop asked for it, and the report says it in its first line. */
		if (strcmp(code, "not_one_instant") != 0)
			snap_cli_repeats_add(&warnings, code, message);
	snap_cli_repeats_print(&warnings, SNAP_CLI_MAX_REPEATS, "warnings");
}

/* A report in text that would say no more than "no such process" is left to stderr. */
static bool is_worth_printing(const struct snap_cli_report *report,
			      const struct stacksnap_snapshot *snapshot)
{
	const char *code;
	size_t absent = 0;

	if (strcmp(report->format, "text") != 0)
		return true;
	while (stacksnap_snapshot_trouble(snapshot, absent, &code, NULL, NULL) &&
	       strcmp(code, "no_such_process") == 0)
		absent++;
	return absent == 0 || absent < stacksnap_snapshot_process_count(snapshot);
}

/* The status of what was shown. */
static int status_of(enum stacksnap_outcome outcome)
{
	switch (outcome) {
	case STACKSNAP_OUTCOME_WHOLE:
		return SNAP_CLI_WHOLE;
	case STACKSNAP_OUTCOME_PARTIAL:
		return SNAP_CLI_PARTIAL;
	case STACKSNAP_OUTCOME_UNKNOWN:
		return SNAP_CLI_UNKNOWN;
	case STACKSNAP_OUTCOME_NOTHING:
		return SNAP_CLI_TROUBLE;
	}
	return SNAP_CLI_TROUBLE;
}

int snap_cli_report_snapshot_status(const struct snap_cli_request *request,
				    const struct stacksnap_snapshot *snapshot, bool shown)
{
	print_warnings(snapshot);
	print_troubles(request, snapshot, shown);
	return status_of(stacksnap_snapshot_outcome(snapshot));
}

void snap_cli_report_lack(const char *lack)
{
	snap_cli_message("a deadlock may have been missed; not known: %s", lack);
}

/* The text report has a line of its own for it. */
static void print_lacks(const struct snap_cli_report *report,
			const struct stacksnap_snapshot *snapshot)
{
	const char *lack;

	if (stacksnap_snapshot_outcome(snapshot) != STACKSNAP_OUTCOME_UNKNOWN ||
	    strcmp(report->format, "text") == 0)
		return;
	for (size_t i = 0; (lack = stacksnap_snapshot_lack(snapshot, i)); i++)
		snap_cli_report_lack(lack);
}

int snap_cli_report_snapshot(struct snap_cli_report *report,
			     const struct stacksnap_snapshot *snapshot)
{
	bool on_terminal = is_on_terminal_of_messages(report);
	bool fine = true, shown = is_worth_printing(report, snapshot);
	int status;

	/* From here on only the reader waits for us, and may take any time. */
	snap_cli_signals_set_timer(0);
	end_if_signalled(report);
	snap_cli_progress_erase();
	if (shown)
		fine = snap_cli_report_print(report,
					     (struct snap_cli_document){ .snapshot = snapshot });
	/* Beside deadlocks there are no reasons. */
	shown = shown && fine && on_terminal && !report->is_long &&
		!snap_cli_request_has(report->request, "deadlocks");
	status = snap_cli_report_snapshot_status(report->request, snapshot, shown);
	print_lacks(report, snapshot);
	return fine ? status : SNAP_CLI_TROUBLE;
}

/* Then there is no word about its end. */
static bool ended_well(enum stacksnap_recording_end end)
{
	return end == STACKSNAP_END_TIME || end == STACKSNAP_END_ASKED ||
	       end == STACKSNAP_END_CONDITION;
}

int snap_cli_report_recording_status(const struct stacksnap_recording *recording)
{
	struct snap_cli_repeats warnings = { .used = 0 };
	enum stacksnap_outcome outcome = stacksnap_recording_outcome(recording);
	const char *code, *message;
	bool reported = !ended_well(stacksnap_recording_get_end(recording));

	for (size_t i = 0; stacksnap_recording_warning(recording, i, &code, &message, NULL, NULL);
	     i++) {
		/* --no-stop asked for it, and the report says it in its first line. */
		if (strcmp(code, "not_one_instant") == 0)
			continue;
		snap_cli_repeats_add(&warnings, code, message);
		reported = true;
	}
	snap_cli_repeats_print(&warnings, SNAP_CLI_MAX_REPEATS, "warnings");
	/* A status needs a word, and there is none about each thread. */
	if (outcome == STACKSNAP_OUTCOME_PARTIAL && !reported)
		snap_cli_message("some threads or processes could not be read at every tick: see "
				 "the report");
	return status_of(outcome);
}

void snap_cli_report_end(const struct stacksnap_recording *recording)
{
	switch (stacksnap_recording_get_end(recording)) {
	case STACKSNAP_END_TIME:
	case STACKSNAP_END_ASKED:
	case STACKSNAP_END_CONDITION:
		break;
	case STACKSNAP_END_TARGETS:
		snap_cli_message("the recording ended early: all targets have exited");
		break;
	case STACKSNAP_END_PERMISSION:
		snap_cli_message(
			"the recording ended early: reading the targets is no longer permitted");
		break;
	case STACKSNAP_END_UNFINISHED:
		snap_cli_message(
			"the recording is unfinished: stacksnap is still writing it or was killed");
		break;
	case STACKSNAP_END_FAILED:
		snap_cli_message("the recording ended early: it failed");
		break;
	}
}

int snap_cli_report_recording(struct snap_cli_report *report,
			      const struct stacksnap_recording *recording)
{
	bool fine;
	int status;

	end_if_signalled(report);
	snap_cli_progress_erase();
	fine = snap_cli_report_print(report, (struct snap_cli_document){ .recording = recording });
	if (!report->broken_pipe)
		snap_cli_report_end(recording);
	status = snap_cli_report_recording_status(recording);
	return fine ? status : SNAP_CLI_TROUBLE;
}

int snap_cli_report_merged(struct snap_cli_report *report, const struct stacksnap_merger *merger)
{
	int status = status_of(stacksnap_merger_outcome(merger));
	bool fine = true;

	end_if_signalled(report);
	if (status == SNAP_CLI_TROUBLE)
		snap_cli_message("no document was left to merge");
	/* A text that says nothing is of no use; JSON is a document even then. */
	if (status != SNAP_CLI_TROUBLE || strcmp(report->format, "text") != 0)
		fine = snap_cli_report_print(report,
					     (struct snap_cli_document){ .merger = merger });
	return fine ? status : SNAP_CLI_TROUBLE;
}

int snap_cli_report_diff(struct snap_cli_report *report, const struct stacksnap_diff *diff)
{
	snap_cli_signals_set_timer(0);
	end_if_signalled(report);
	snap_cli_progress_erase();
	if (!snap_cli_report_print(report, (struct snap_cli_document){ .diff = diff }))
		return SNAP_CLI_TROUBLE;
	return stacksnap_diff_differs(diff) ? SNAP_CLI_PARTIAL : SNAP_CLI_WHOLE;
}

/* A difference of nothing, as a document that says why; and a line that says so, too. */
static struct stacksnap_error *report_no_diff(struct snap_cli_report *report, const char *code,
					      const char *message)
{
	struct stacksnap_diff *diff = NULL;
	struct stacksnap_error *err = stacksnap_diff_create_empty(code, message, &diff);

	snap_cli_message("%s", message);
	if (!err)
		snap_cli_report_print(report, (struct snap_cli_document){ .diff = diff });
	stacksnap_diff_destroy(diff);
	return err;
}

/* Nothing of any host, and a line that says why. */
static struct stacksnap_error *report_no_merged(struct snap_cli_report *report, const char *message)
{
	struct stacksnap_merger *merger = NULL;
	struct stacksnap_error *err = stacksnap_merger_create(report->request->options, &merger);

	snap_cli_message("%s", message);
	if (!err)
		snap_cli_report_print(report, (struct snap_cli_document){ .merger = merger });
	stacksnap_merger_destroy(merger);
	return err;
}

/* With JSON the output is a document even now; an empty profile would be of no use. */
static int report_empty(struct snap_cli_report *report, const char *code, const char *message)
{
	struct stacksnap_snapshot *snapshot = NULL;
	struct stacksnap_error *err;

	if (strcmp(report->format, "json") != 0 && strcmp(report->format, "json-gz") != 0) {
		snap_cli_message("%s", message);
		return SNAP_CLI_TROUBLE;
	}
	if (report->request->command == SNAP_CLI_DIFF)
		err = report_no_diff(report, code, message);
	else if (report->request->command == SNAP_CLI_MERGE)
		err = report_no_merged(report, message);
	else
		err = stacksnap_snapshot_create_empty(report->request->options, code, message,
						      &snapshot);
	if (err)
		print_error(err);
	else if (snapshot)
		snap_cli_report_snapshot(report, snapshot);
	stacksnap_snapshot_destroy(snapshot);
	return SNAP_CLI_TROUBLE;
}

int snap_cli_report_failure(struct snap_cli_report *report, const char *code, const char *message)
{
	char text[96];

	snap_cli_signals_set_timer(0);
	end_if_signalled(report);
	if (!snap_cli_signals_timed_out())
		return report_empty(report, code, message);
	snprintf(text, sizeof(text), "gave up after %u ms (--timeout)",
		 stacksnap_options_timeout_ms(report->request->options));
	return report_empty(report, "timeout", text);
}

int snap_cli_report_refusal(struct snap_cli_report *report, const char *code, const char *what,
			    const char *why)
{
	char *text = NULL;
	int status;

	if (asprintf(&text, "%s %s: %s", what, report->request->file, why) < 0)
		text = NULL;
	status = snap_cli_report_failure(report, code, text ? text : "out of memory");
	free(text);
	return status;
}

int snap_cli_report_error(struct snap_cli_report *report, struct stacksnap_error *error)
{
	int status;

	if (stacksnap_error_code(error) == STACKSNAP_ERROR_INVALID) {
		print_error(error);
		snap_cli_see_help(report->request);
		return SNAP_CLI_USAGE;
	}
	status = snap_cli_report_failure(report, stacksnap_error_word(error),
					 stacksnap_error_message(error));
	stacksnap_error_destroy(error);
	return status;
}
