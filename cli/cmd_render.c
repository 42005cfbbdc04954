/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stacksnap render FILE: prints a capture, a recording, a snapshot or a core that was saved, in any
 * format, as if it had been taken now.
 */
#include "commands.h"
#include "input.h"
#include "message.h"
#include "report.h"
#include "signals.h"

#include <stdlib.h>

static int render_snapshot(struct snap_cli_report *report, const struct snap_cli_input *input)
{
	struct stacksnap_options *options = report->request->options;
	struct stacksnap_snapshot *snapshot = NULL;
	struct stacksnap_error *err;
	int status;

	if (snap_cli_request_has(report->request, "from") ||
	    snap_cli_request_has(report->request, "to")) {
		snap_cli_message("--from and --to need a recording, and %s is not one",
				 report->request->file);
		return SNAP_CLI_USAGE;
	}
	err = snap_cli_input_snapshot(input, options, &snapshot);
	status = err ? snap_cli_report_error(report, err)
		     : snap_cli_report_snapshot(report, snapshot);
	stacksnap_snapshot_destroy(snapshot);
	return status;
}

static int render_recording(struct snap_cli_report *report, int fd)
{
	struct stacksnap_recording *recording = NULL;
	struct stacksnap_error *err;
	int status;

	err = stacksnap_recording_load(fd, report->request->options, &recording);
	status = err ? snap_cli_report_error(report, err)
		     : snap_cli_report_recording(report, recording);
	stacksnap_recording_destroy(recording);
	return status;
}

int snap_cli_cmd_render(struct snap_cli_request *request)
{
	struct snap_cli_input input = { .fd = -1 };
	struct snap_cli_report report;
	int status = SNAP_CLI_TROUBLE;

	if (snap_cli_report_init(&report, request)) {
		const char *why =
			snap_cli_input_init(&input, request->file) ? NULL : snap_cli_input_why();

		/*
		 * Hours of samples, and large cores, take their time: a limit is asked for. Until
		 * then there is one, as a FIFO may have no writer.
		 */
		if (!snap_cli_request_has(request, "timeout"))
			snap_cli_signals_set_timer(0);
		if (why)
			status = snap_cli_report_refusal(&report, "unreadable", "cannot read", why);
		else if (input.kind == STACKSNAP_FILE_UNKNOWN)
			status = snap_cli_report_refusal(&report, "format", "cannot render",
							 "it is not a capture, a recording, a JSON "
							 "snapshot or a core");
		else if (input.kind == STACKSNAP_FILE_RECORDING)
			status = render_recording(&report, input.fd);
		else
			status = render_snapshot(&report, &input);
	}
	snap_cli_input_deinit(&input);
	snap_cli_report_deinit(&report);
	return status;
}
