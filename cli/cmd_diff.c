/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stacksnap diff A B: what changed between two files, each a JSON snapshot, a capture, a recording,
 * or a slice of a recording: FILE@FROM..TO.
 */
#include "commands.h"
#include "input.h"
#include "message.h"
#include "report.h"
#include "signals.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One of the two. */
struct side {
	const char *operand;
	char *path;            /* without the slice */
	const char *from, *to; /* in `path`, behind its end; NULL: there is none */
	struct stacksnap_look look;
	struct stacksnap_snapshot *snapshot;
	struct stacksnap_recording *recording;
};

static void side_deinit(struct side *side)
{
	stacksnap_snapshot_destroy(side->snapshot);
	stacksnap_recording_destroy(side->recording);
	free(side->path);
}

/* "WHAT FILE: WHY" */
static int refuse_side(struct snap_cli_report *report, const struct side *side, const char *code,
		       const char *what, const char *why)
{
	char *text = NULL;
	int status;

	if (asprintf(&text, "%s %s: %s", what, side->path, why) < 0)
		text = NULL;
	status = snap_cli_report_failure(report, code, text ? text : "out of memory");
	free(text);
	return status;
}

/* "FILE@-10s..-5s", either time may be left out; a file that is called so comes first. */
static bool side_init(struct side *side, const char *operand)
{
	char *at, *dots;

	*side = (struct side){ .operand = operand, .path = strdup(operand) };
	if (!side->path)
		return snap_cli_message("out of memory");
	at = strrchr(side->path, '@');
	dots = at ? strstr(at, "..") : NULL;
	if (!dots || at == side->path || access(operand, F_OK) == 0)
		return true;
	*at = *dots = '\0';
	side->from = at + 1;
	side->to = dots + 2;
	return true;
}

/* If one of the two has no slice its own ends are set, as the options are the same. */
static struct stacksnap_error *set_slice(struct stacksnap_options *options, const struct side *side)
{
	const char *from = side->from && *side->from ? side->from : "0",
		   *to = side->to && *side->to ? side->to : "-0";
	struct stacksnap_error *err = stacksnap_options_set(options, "from", from);

	return err ? err : stacksnap_options_set(options, "to", to);
}

static struct stacksnap_error *load(struct snap_cli_request *request, struct side *side,
				    const struct snap_cli_input *input)
{
	struct stacksnap_error *err;

	if (input->kind != STACKSNAP_FILE_RECORDING) {
		err = snap_cli_input_snapshot(input, request->options, &side->snapshot);
		side->look.snapshot = side->snapshot;
		return err;
	}
	/* Hours of samples take their time: there is a limit only if one is asked for. */
	if (!snap_cli_request_has(request, "timeout"))
		snap_cli_signals_set_timer(0);
	err = set_slice(request->options, side);
	if (!err)
		err = stacksnap_recording_load(input->fd, request->options, &side->recording);
	side->look.recording = side->recording;
	return err;
}

/* True; else the status, after a message. */
static bool open_side(struct snap_cli_report *report, struct side *side, int *status_ret)
{
	struct snap_cli_input input = { .fd = -1 };
	struct stacksnap_error *err = NULL;
	bool fine = false;

	if (!snap_cli_input_init(&input, side->path)) {
		*status_ret = refuse_side(report, side, "unreadable", "cannot read",
					  snap_cli_input_why());
	} else if (input.kind == STACKSNAP_FILE_UNKNOWN) {
		*status_ret = refuse_side(report, side, "format", "cannot compare",
					  "it is not a capture, a recording or a JSON snapshot");
	} else if (side->from && input.kind != STACKSNAP_FILE_RECORDING) {
		snap_cli_message("a slice (@%s..%s) needs a recording, and %s is not one",
				 side->from, side->to, side->path);
		*status_ret = SNAP_CLI_USAGE;
	} else {
		err = load(report->request, side, &input);
		fine = !err;
	}
	if (err && stacksnap_error_code(err) == STACKSNAP_ERROR_INVALID)
		*status_ret = snap_cli_report_error(report, err);
	else if (err) {
		*status_ret = refuse_side(report, side, stacksnap_error_word(err), "cannot compare",
					  stacksnap_error_message(err));
		stacksnap_error_destroy(err);
	}
	snap_cli_input_deinit(&input);
	return fine;
}

static int compare(struct snap_cli_report *report, struct side sides[2])
{
	struct stacksnap_diff *diff = NULL;
	struct stacksnap_error *err;
	int status;

	for (int i = 0; i < 2; i++)
		if (!open_side(report, &sides[i], &status))
			return status;
	err = stacksnap_diff_create(&sides[0].look, &sides[1].look, report->request->options,
				    &diff);
	if (err)
		return snap_cli_report_error(report, err);
	status = snap_cli_report_diff(report, diff);
	stacksnap_diff_destroy(diff);
	return status;
}

static bool is_allowed(const struct snap_cli_report *report)
{
	const struct snap_cli_request *request = report->request;

	if (strcmp(report->format, "text") != 0 && strcmp(report->format, "json") != 0 &&
	    strcmp(report->format, "html") != 0)
		return snap_cli_message(
			"format '%s' cannot show a difference: text, json and html do",
			report->format);
	if (strcmp(request->file, "-") == 0 && strcmp(request->second_file, "-") == 0)
		return snap_cli_message("only one of the two files can be standard input");
	return true;
}

int snap_cli_cmd_diff(struct snap_cli_request *request)
{
	struct side sides[2] = { { .operand = NULL }, { .operand = NULL } };
	struct snap_cli_report report;
	int status = SNAP_CLI_TROUBLE;

	if (!snap_cli_report_init(&report, request))
		status = SNAP_CLI_TROUBLE;
	else if (!is_allowed(&report))
		status = SNAP_CLI_USAGE;
	else if (side_init(&sides[0], request->file) && side_init(&sides[1], request->second_file))
		status = compare(&report, sides);
	for (int i = 0; i < 2; i++)
		side_deinit(&sides[i]);
	snap_cli_report_deinit(&report);
	return status;
}
