/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The progress line of a recording: see record_progress.h. */
#include "record_progress.h"

#include "terminal.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { BETWEEN_MS = 250 };

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void snap_cli_record_progress_init(struct snap_cli_record_progress *progress, bool ring)
{
	*progress =
		(struct snap_cli_record_progress){ .on = isatty(STDERR_FILENO) == 1, .ring = ring };
	snap_cli_progress_start();
}

/* "0:07", "1:02:03" */
static void print_time(char *text, size_t size, long long ns)
{
	long long seconds = (ns + 500000000) / 1000000000;

	if (seconds < 3600)
		snprintf(text, size, "%lld:%02lld", seconds / 60, seconds % 60);
	else
		snprintf(text, size, "%lld:%02lld:%02lld", seconds / 3600, seconds / 60 % 60,
			 seconds % 60);
}

void snap_cli_record_progress_show(struct snap_cli_record_progress *progress,
				   const struct stacksnap_recorder_status *status)
{
	bool endless = status->remaining_ns < 0;
	char time[48], stopped[32] = "", line[256];
	int64_t now;

	if (!progress->on)
		return;
	now = now_ms();
	if (now - progress->shown_ms < BETWEEN_MS)
		return;
	progress->shown_ms = now;
	print_time(time, sizeof(time), endless ? status->elapsed_ns : status->remaining_ns);
	/* Within the first second the first stops are most of the time. */
	if (status->elapsed_ns >= 1000000000)
		snprintf(stopped, sizeof(stopped), ", stopped %.2f %%",
			 status->stats->stopped_percent);
	snprintf(line, sizeof(line), "%s %s, %llu samples, %llu threads, %.1f/s%s%s%s", time,
		 endless ? "recorded" : "left", status->stats->thread_samples, status->threads,
		 status->stats->hz_reached, stopped, endless ? "  (Ctrl-C ends it" : "",
		 endless ? progress->ring ? ", SIGUSR1 writes it)" : ")" : "");
	snap_cli_progress(NULL, line);
}
