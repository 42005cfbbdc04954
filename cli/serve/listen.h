/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The socket that clients come to: an address and port, a path, or what a service manager opened.
 *
 * Knows nothing of HTTP.
 */
#pragma once

#include "signals.h"

#include <stdbool.h>
#include <sys/stat.h>

struct snap_serve_listener {
	int fd;           /* listening, does not block; -1: none */
	bool is_loopback; /* no other host can connect; a unix socket is so, too */
	char url[160];    /* "http://127.0.0.1:6099/", "unix:/run/stacksnap.sock" */
	/* of a path that was made here: it goes away with the listener, if it is still the same */
	int folder; /* O_PATH; -1: none */
	char name[108];
	struct stat made;
	struct snap_cli_leftover leftover;
};

/*
 * Opens it: "ADDRESS:PORT" (numeric, or localhost; port 0 is any free one), "unix:PATH" (mode 0600,
 * and what a dead server left there is replaced), or NULL for what a service manager handed over
 * ($LISTEN_FDS), else 127.0.0.1:6099. Returns the exit status that it makes, 0 for success, after a
 * message. The listener stays where it is.
 */
int snap_serve_listen(struct snap_serve_listener *listener, const char *where);
void snap_serve_listener_close(struct snap_serve_listener *listener);
