/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files of what was recorded: see save.h. */
#include "top/save.h"

#include "message.h"
#include "report.h"

#include <string.h>
#include <time.h>

void snap_top_save_name(pid_t pid, bool ring, char *out, size_t size)
{
	time_t now = time(NULL);
	struct tm date = { 0 };
	char when[32] = "", who[16] = "";

	if (localtime_r(&now, &date))
		strftime(when, sizeof(when), "-%Y%m%d-%H%M%S", &date);
	if (pid)
		snprintf(who, sizeof(who), "-%d", pid);
	snprintf(out, size, "stacksnap%s%s%s", who, when, ring ? ".snaprec" : ".txt");
}

/* A name without a suffix of a format is a text, as elsewhere. */
static const char *format_of(const char *path)
{
	const char *format = stacksnap_format_of_path(path);

	return format ? format : "text";
}

static bool write_file(struct snap_cli_request *request, const char *path,
		       const struct snap_top_answer *answer)
{
	/* Its options are the recorder's; those of what is written are another object. */
	struct snap_cli_request written = *request;
	struct snap_cli_report report = { .request = &written, .format = format_of(path) };
	bool fine;

	written.options = request->others[SNAP_CLI_OF_SCREEN];
	written.color = SNAP_CLI_COLOR_NEVER;
	report.output.fd = -1;
	fine = snap_cli_output_init(&report.output, path, false);
	if (fine) {
		snap_cli_report_describe(&report, report.output.fd);
		fine = snap_cli_report_print(
			&report, (struct snap_cli_document){ .recording = answer->ring,
							     .snapshot = answer->snapshot });
	}
	snap_cli_report_deinit(&report);
	return fine;
}

void snap_top_save(struct snap_cli_request *request, const char *path,
		   struct snap_top_answer *answer)
{
	if (answer->error)
		snap_cli_message("%s", stacksnap_error_message(answer->error));
	else if (write_file(request, path, answer))
		snap_cli_message("%s written to %s", answer->ring ? "recording" : "snapshot", path);
	stacksnap_snapshot_destroy(answer->snapshot);
	stacksnap_recording_destroy(answer->ring);
	stacksnap_error_destroy(answer->error);
	*answer = (struct snap_top_answer){ .snapshot = NULL };
}
