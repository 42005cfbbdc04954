/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* stacksnap render FILE: prints a capture that was saved, as if it had been taken now. */
#include "commands.h"
#include "message.h"
#include "report.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The capture in a file; -1 after a message. "-" is stdin. */
static int open_capture(const char *path)
{
	int fd;

	if (strcmp(path, "-") == 0)
		return dup(STDIN_FILENO);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 && !snap_cli_signals_caught())
		snap_cli_message("cannot read %s: %s", path, strerror(errno));
	return fd;
}

static int render(struct snap_cli_report *report, int fd)
{
	struct stacksnap_options *options = report->request->options;
	struct stacksnap_snapshot *snapshot = NULL;
	struct stacksnap_capture *capture = NULL;
	struct stacksnap_error *err;
	int status;

	err = stacksnap_capture_load(fd, &capture);
	if (!err)
		err = stacksnap_capture_analyze(capture, options, &snapshot);
	status = err ? snap_cli_report_error(report, err)
		     : snap_cli_report_snapshot(report, snapshot);
	stacksnap_snapshot_destroy(snapshot);
	stacksnap_capture_destroy(capture);
	return status;
}

int snap_cli_cmd_render(struct snap_cli_request *request)
{
	struct snap_cli_report report;
	int status = SNAP_CLI_TROUBLE;
	int fd = -1;

	if (snap_cli_report_init(&report, request))
		fd = open_capture(request->file);
	if (fd >= 0) {
		status = render(&report, fd);
		close(fd);
	}
	snap_cli_report_deinit(&report);
	if (fd < 0)
		snap_cli_signals_die();
	return status;
}
