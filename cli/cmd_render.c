/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* stacksnap render FILE: prints a capture that was saved, as if it had been taken now. */
#include "commands.h"
#include "report.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "-" is stdin. A FIFO waits here for its writer. */
static int open_capture(const char *path)
{
	int fd;

	if (strcmp(path, "-") == 0)
		return dup(STDIN_FILENO);
	do
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	while (fd < 0 && errno == EINTR && !*snap_cli_signals_flag());
	return fd;
}

static int report_unreadable(struct snap_cli_report *report, const char *path)
{
	char *text = NULL;
	int status;

	if (asprintf(&text, "cannot read %s: %s", path, strerror(errno)) < 0)
		text = NULL;
	status = snap_cli_report_failure(report, "unreadable", text ? text : "out of memory");
	free(text);
	return status;
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
	int fd;

	if (snap_cli_report_init(&report, request)) {
		fd = open_capture(request->file);
		status = fd < 0 ? report_unreadable(&report, request->file) : render(&report, fd);
		if (fd >= 0)
			close(fd);
	}
	snap_cli_report_deinit(&report);
	return status;
}
