/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* stacksnap core FILE: prints what the threads of a core file were doing. */
#include "commands.h"
#include "input.h"
#include "report.h"
#include "signals.h"

static int print(struct snap_cli_report *report, const struct snap_cli_input *input)
{
	struct stacksnap_snapshot *snapshot = NULL;
	struct stacksnap_error *err;
	int status;

	err = snap_cli_input_snapshot(input, report->request->options, &snapshot);
	if (err && stacksnap_error_code(err) == STACKSNAP_ERROR_FORMAT) {
		status = snap_cli_report_refusal(report, "format", "cannot read",
						 stacksnap_error_message(err));
		stacksnap_error_destroy(err);
		return status;
	}
	status = err ? snap_cli_report_error(report, err)
		     : snap_cli_report_snapshot(report, snapshot);
	stacksnap_snapshot_destroy(snapshot);
	return status;
}

int snap_cli_cmd_core(struct snap_cli_request *request)
{
	struct snap_cli_input input = { .fd = -1 };
	struct snap_cli_report report;
	int status = SNAP_CLI_TROUBLE;

	if (snap_cli_report_init(&report, request)) {
		/*
		 * What comes through a pipe takes its time: there is a limit only if one is asked
		 * for.
		 */
		if (!snap_cli_request_has(request, "timeout"))
			snap_cli_signals_set_timer(0);
		if (!snap_cli_input_init(&input, request->file))
			status = snap_cli_report_refusal(&report, "unreadable", "cannot read",
							 snap_cli_input_why());
		else if (input.kind != STACKSNAP_FILE_CORE)
			status = snap_cli_report_refusal(&report, "format", "cannot read",
							 "it is not a core");
		else
			status = print(&report, &input);
	}
	snap_cli_input_deinit(&input);
	snap_cli_report_deinit(&report);
	return status;
}
