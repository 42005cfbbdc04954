/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* stacksnap list: the tree of processes; no process is stopped. */
#include "commands.h"
#include "report.h"

int snap_cli_cmd_list(struct snap_cli_request *request)
{
	struct stacksnap_snapshot *snapshot = NULL;
	struct snap_cli_report report;
	struct stacksnap_error *err;
	int status = SNAP_CLI_TROUBLE;

	if (snap_cli_report_init(&report, request)) {
		err = stacksnap_list(request->options, &snapshot);
		status = err ? snap_cli_report_error(&report, err)
			     : snap_cli_report_snapshot(&report, snapshot);
	}
	stacksnap_snapshot_destroy(snapshot);
	snap_cli_report_deinit(&report);
	return status;
}
