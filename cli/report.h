/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The report: from a snapshot, or from the error in its place, to bytes in their place, lines on
 * stderr and the exit status. Everything here happens when the target runs again. Knows nothing of
 * how a snapshot is taken, nor of what a format looks like: the library does both.
 */
#pragma once

#include "options.h"
#include "output.h"

struct snap_cli_report {
	struct snap_cli_request *request;
	struct snap_cli_output output;
	const char *format;
	bool broken_pipe; /* the reader has gone: no error of ours */
	bool is_last;     /* nothing goes on beside it: it may go through a pager */
	bool is_long;     /* it was more than a screen */
};

/* What is printed: a snapshot, or a recording, or the figures of its run alone. */
struct snap_cli_document {
	const struct stacksnap_snapshot *snapshot;
	const struct stacksnap_recording *recording;
	const struct stacksnap_merger *merger;
	const struct stacksnap_alert *alert; /* the snapshot that shows it */
	const struct stacksnap_diff *diff;
	bool only_stats;
};

/*
 * Opens the place of the output, decides on the format, and tells the library about the terminal
 * and the cancel flag; before anything is stopped. False after a message.
 */
bool snap_cli_report_init(struct snap_cli_report *report, struct snap_cli_request *request);
void snap_cli_report_deinit(struct snap_cli_report *report);

/*
 * The same in steps, for callers that open report->output later: all but this and what follows from
 * it.
 */
void snap_cli_report_prepare(struct snap_cli_report *report, struct snap_cli_request *request);
/* Sets an option of the library to a value that is valid. */
void snap_cli_set_option(struct stacksnap_options *options, const char *name, const char *value);
/* Tells the library what the place of some output is like: colour and width. */
void snap_cli_report_describe(struct snap_cli_report *report, int fd);
/* True after a message: the format is binary and the output a terminal. */
bool snap_cli_report_refuses_terminal(const struct snap_cli_report *report);

/* Writes the document and puts it in its place. False after a message. */
bool snap_cli_report_print(struct snap_cli_report *report, struct snap_cli_document document);

/* Prints what was merged; documents that were passed over have had their messages. */
int snap_cli_report_merged(struct snap_cli_report *report, const struct stacksnap_merger *merger);

/* All return the exit status; or do not return, when a signal asked to end. */
int snap_cli_report_snapshot(struct snap_cli_report *report,
			     const struct stacksnap_snapshot *snapshot);
int snap_cli_report_recording(struct snap_cli_report *report,
			      const struct stacksnap_recording *recording);
int snap_cli_report_diff(struct snap_cli_report *report, const struct stacksnap_diff *diff);
/* Destroys the error. */
int snap_cli_report_error(struct snap_cli_report *report, struct stacksnap_error *error);
/* For an error that is not the library's: the code is a word for a warning of the document. */
int snap_cli_report_failure(struct snap_cli_report *report, const char *code, const char *message);

/* The same for the file that was asked for: "WHAT FILE: WHY". */
int snap_cli_report_refusal(struct snap_cli_report *report, const char *code, const char *what,
			    const char *why);

/* Says that a search for deadlocks did not know all that it needed. */
void snap_cli_report_lack(const char *lack);

/* Says so if a recording ended otherwise than it was to. */
void snap_cli_report_end(const struct stacksnap_recording *recording);

/*
 * Prints the warnings, and troubles of processes unless they are `shown`, and returns the status that
 * it makes.
 */
int snap_cli_report_snapshot_status(const struct snap_cli_request *request,
				    const struct stacksnap_snapshot *snapshot, bool shown);
int snap_cli_report_recording_status(const struct stacksnap_recording *recording);
