/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From a snapshot to bytes, lines on stderr and a status: see report.h. */
#include "report.h"

#include "commands.h"
#include "message.h"
#include "signals.h"
#include "terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	SAME_MESSAGES = 8, /* lines on stderr of one code before they are summed up */
	MAX_CODES = 32,
};

/* Options of the library that the terminal decides; these values are always valid. */
static void set(struct stacksnap_options *options, const char *name, const char *value)
{
	stacksnap_error_destroy(stacksnap_options_set(options, name, value));
}

static void describe_terminal(struct snap_cli_report *report)
{
	struct snap_cli_request *request = report->request;
	bool color = request->color == SNAP_CLI_COLOR_ALWAYS;
	char width[16];

	if (request->color == SNAP_CLI_COLOR_AUTO)
		color = snap_cli_terminal_has_color(report->output.fd);
	set(request->options, "color", color ? "always" : "never");
	set(request->options, "charset", snap_cli_is_utf8() ? "utf-8" : "ascii");
	if (request->width_given)
		return;
	snprintf(width, sizeof(width), "%u", snap_cli_terminal_width(report->output.fd));
	set(request->options, "width", width);
}

/* -f, else by the suffix of -o, else text. */
static const char *decide_format(const struct snap_cli_request *request)
{
	const char *format = request->format;

	if (!format && request->output)
		format = stacksnap_format_of_path(request->output);
	return format ? format : "text";
}

bool snap_cli_report_init(struct snap_cli_report *report, struct snap_cli_request *request)
{
	*report = (struct snap_cli_report){ .request = request };
	report->format = decide_format(request);
	snap_cli_signals_set_timer(stacksnap_options_timeout_ms(request->options));
	if (!snap_cli_output_init(&report->output, request->output, false))
		return false;
	describe_terminal(report);
	stacksnap_options_set_cancel(request->options, snap_cli_signals_flag());
	if (request->debuginfod) {
		snap_cli_progress_start();
		stacksnap_options_set_progress(request->options, snap_cli_progress, NULL);
	}
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
static bool written(struct snap_cli_report *report, int os_errno)
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

static bool fail(struct stacksnap_error *error)
{
	snap_cli_message("%s", stacksnap_error_message(error));
	stacksnap_error_destroy(error);
	return false;
}

static bool print_snapshot(struct snap_cli_report *report,
			   const struct stacksnap_snapshot *snapshot)
{
	int fd = dup(report->output.fd), os_errno = 0;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	struct stacksnap_error *err;

	if (!file) {
		/* EINVAL: stdout was closed, and what fills its place is not for writing. */
		os_errno = errno == EINVAL ? EBADF : errno;
		if (fd >= 0)
			close(fd);
		return written(report, os_errno);
	}
	errno = 0;
	err = stacksnap_snapshot_render(snapshot, report->request->options, report->format, file);
	if (fflush(file) != 0 || ferror(file))
		os_errno = errno ? errno : EIO;
	if (fclose(file) != 0 && !os_errno)
		os_errno = errno;
	if (os_errno) {
		stacksnap_error_destroy(err);
		return written(report, os_errno);
	}
	if (err)
		return fail(err);
	end_if_signalled(report);
	return report->broken_pipe || snap_cli_output_commit(&report->output);
}

/* One line each, but of a hundred alike only the first: --all as an ordinary user. */
struct tally {
	const char *codes[MAX_CODES];
	size_t counts[MAX_CODES];
	size_t used;
};

static bool count_one(struct tally *tally, const char *code)
{
	size_t i = 0;

	while (i < tally->used && strcmp(tally->codes[i], code) != 0)
		i++;
	if (i == MAX_CODES)
		return true;
	if (i == tally->used)
		tally->codes[tally->used++] = code;
	return ++tally->counts[i] <= SAME_MESSAGES;
}

static void print_rest(const struct tally *tally, const char *what)
{
	for (size_t i = 0; i < tally->used; i++)
		if (tally->counts[i] > SAME_MESSAGES)
			snap_cli_message("and %zu more %s: %s", tally->counts[i] - SAME_MESSAGES,
					 what, tally->codes[i]);
}

static void print_messages(const struct stacksnap_snapshot *snapshot)
{
	struct tally warnings = { .used = 0 }, troubles = { .used = 0 };
	const char *code, *message;

	for (size_t i = 0; stacksnap_snapshot_warning(snapshot, i, &code, &message, NULL, NULL);
	     i++)
		if (count_one(&warnings, code))
			snap_cli_message_escaped(message);
	print_rest(&warnings, "warnings");
	for (size_t i = 0; stacksnap_snapshot_trouble(snapshot, i, &code, &message, NULL); i++)
		if (count_one(&troubles, code))
			snap_cli_message_escaped(message);
	print_rest(&troubles, "processes");
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

int snap_cli_report_snapshot(struct snap_cli_report *report,
			     const struct stacksnap_snapshot *snapshot)
{
	int status = SNAP_CLI_TROUBLE;
	bool fine = true;

	/* From here on nobody waits for us but the reader, who may take his time. */
	snap_cli_signals_set_timer(0);
	end_if_signalled(report);
	snap_cli_progress_erase();
	if (is_worth_printing(report, snapshot))
		fine = print_snapshot(report, snapshot);
	print_messages(snapshot);
	switch (stacksnap_snapshot_outcome(snapshot)) {
	case STACKSNAP_OUTCOME_WHOLE:
		status = SNAP_CLI_WHOLE;
		break;
	case STACKSNAP_OUTCOME_PARTIAL:
		status = SNAP_CLI_PARTIAL;
		break;
	case STACKSNAP_OUTCOME_NOTHING:
		status = SNAP_CLI_TROUBLE;
		break;
	}
	return fine ? status : SNAP_CLI_TROUBLE;
}

/* With a format for machines the output is a document even now. */
static int report_empty(struct snap_cli_report *report, const char *code, const char *message)
{
	struct stacksnap_snapshot *snapshot = NULL;
	struct stacksnap_error *err;

	if (strcmp(report->format, "text") == 0) {
		snap_cli_message("%s", message);
		return SNAP_CLI_TROUBLE;
	}
	err = stacksnap_snapshot_create_empty(report->request->options, code, message, &snapshot);
	if (err) {
		fail(err);
		return SNAP_CLI_TROUBLE;
	}
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

int snap_cli_report_error(struct snap_cli_report *report, struct stacksnap_error *error)
{
	int status;

	if (stacksnap_error_code(error) == STACKSNAP_ERROR_INVALID) {
		fail(error);
		snap_cli_message("see 'stacksnap --help'");
		return SNAP_CLI_USAGE;
	}
	status = snap_cli_report_failure(report, stacksnap_error_word(error),
					 stacksnap_error_message(error));
	stacksnap_error_destroy(error);
	return status;
}
