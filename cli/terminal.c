/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Width, colour and the progress line: see terminal.h. */
#include "terminal.h"

#include "message.h"
#include "stacksnap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { PROGRESS_AFTER_MS = 500, DEFAULT_WIDTH = 80, MAX_PROGRESS = 256 };

/* The one line of progress of this process. */
static struct {
	int64_t start_ms;
	bool shown;
} line;

unsigned snap_cli_terminal_width(int fd)
{
	struct winsize size;

	if (!isatty(fd))
		return 0;
	if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return DEFAULT_WIDTH;
	return size.ws_col;
}

unsigned snap_cli_terminal_height(int fd)
{
	struct winsize size;

	return isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

bool snap_cli_terminal_has_color(int fd)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	if (no_color && *no_color)
		return false;
	return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void snap_cli_progress_start(void)
{
	line.start_ms = now_ms();
}

void snap_cli_progress_erase(void)
{
	if (line.shown)
		fputs("\r\033[K", stderr);
	line.shown = false;
}

void snap_cli_progress(void *context, const char *text)
{
	char escaped[MAX_PROGRESS];
	size_t room;
	int width;

	(void)context;
	if (!text) {
		snap_cli_progress_erase();
		return;
	}
	width = (int)snap_cli_terminal_width(STDERR_FILENO);
	if (width == 0 || now_ms() - line.start_ms < PROGRESS_AFTER_MS)
		return;
	/* ASCII alone, so that bytes are columns and the line never wraps. */
	room = (size_t)width < sizeof(escaped) ? (size_t)width : sizeof(escaped);
	stacksnap_escape(text, strlen(text), true, escaped, room);
	fprintf(stderr, "\r%s\033[K", escaped);
	fflush(stderr);
	line.shown = true;
}
