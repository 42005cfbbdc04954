/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The server: connections, their limits and their jobs; the one door to libmicrohttpd.
 *
 * One thread does all of HTTP and sleeps while nothing happens; each snapshot and recording has a
 * thread of its own. Knows nothing of how pages are made.
 */
#pragma once

#include "options.h"
#include "serve/guard.h"

struct snap_serve_server;

/*
 * Serves on a listening socket, which stays the caller's. All three outlive the server.
 * NULL after a message.
 */
struct snap_serve_server *snap_serve_server_create(const struct snap_cli_request *request,
						   const struct snap_serve_guard *guard, int fd);
/*
 * Until snap_serve_server_stop(), then until what was asked for is answered, for some seconds at
 * most. False after a message.
 */
bool snap_serve_server_run(struct snap_serve_server *server);
/* From a signal handler or another thread. */
void snap_serve_server_stop(struct snap_serve_server *server);
/* Takes NULL. */
void snap_serve_server_destroy(struct snap_serve_server *server);
