/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * stacksnap serve: snapshots and recordings of its targets over HTTP, for what collects profiles
 * and metrics. serve/ checks what is asked, by which client, and how much of it at once.
 */
#include "commands.h"
#include "message.h"
#include "serve/guard.h"
#include "serve/listen.h"
#include "serve/server.h"
#include "signals.h"

/* In a signal handler. */
static void stop_server(void *context)
{
	snap_serve_server_stop(context);
}

/* Clients from elsewhere need a token. */
static bool check_reach(const struct snap_serve_listener *listener,
			const struct snap_serve_guard *guard)
{
	if (listener->is_loopback || guard->has_token)
		return true;
	return snap_cli_message("%s can be reached from other hosts: that needs --token-file",
				listener->url);
}

static int serve_on(const struct snap_cli_request *request,
		    const struct snap_serve_listener *listener,
		    const struct snap_serve_guard *guard)
{
	struct snap_serve_server *server = snap_serve_server_create(request, guard, listener->fd);
	bool fine;

	if (!server)
		return SNAP_CLI_TROUBLE;
	snap_cli_signals_end_in_order(stop_server, server);
	snap_cli_message("serving on %s", listener->url);
	fine = snap_serve_server_run(server);
	/* A second signal kills; the first has been seen to. */
	snap_cli_signals_end_in_order(NULL, NULL);
	snap_serve_server_destroy(server);
	return fine ? SNAP_CLI_WHOLE : SNAP_CLI_TROUBLE;
}

int snap_cli_cmd_serve(struct snap_cli_request *request)
{
	struct snap_serve_guard guard = { .has_token = false };
	struct snap_serve_listener listener;
	int status;

	if (request->token_file && !snap_serve_guard_read_token(&guard, request->token_file))
		return SNAP_CLI_TROUBLE;
	for (size_t i = 0; i < request->host_count; i++)
		if (!snap_serve_guard_add_host(&guard, request->hosts[i]))
			return SNAP_CLI_USAGE;
	/* It has no end of its own. */
	snap_cli_signals_set_timer(0);
	status = snap_serve_listen(&listener, request->listen);
	if (status == SNAP_CLI_WHOLE && !check_reach(&listener, &guard))
		status = SNAP_CLI_USAGE;
	if (status == SNAP_CLI_WHOLE)
		status = serve_on(request, &listener, &guard);
	snap_serve_listener_close(&listener);
	return status;
}
