/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Guard: which requests are accepted at all. The names under which this server is known, pages of
 * other sites, and the token. Knows nothing of what is asked.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum {
	SNAP_SERVE_MIN_TOKEN = 16,
	SNAP_SERVE_MAX_TOKEN = 1024,
	SNAP_SERVE_MAX_HOST = 255, /* bytes of a name */
	SNAP_SERVE_MAX_HOSTS = 16,
};

struct snap_serve_guard {
	char hosts[SNAP_SERVE_MAX_HOSTS][SNAP_SERVE_MAX_HOST + 1]; /* --host */
	size_t host_count;
	bool has_token;
	char token[SNAP_SERVE_MAX_TOKEN + 1];
	size_t token_length;
};

/* What of a request's headers counts; NULL: not there. And the connection's end here. */
struct snap_serve_headers {
	const char *host, *origin, *fetch_site, *authorization;
	struct sockaddr_storage own;
};

/*
 * Reads the token: one line, the only one of the file, which belongs to root or to the caller, and
 * which no other user may read. So do symbolic links on the way to it. False after a message.
 */
bool snap_serve_guard_read_token(struct snap_serve_guard *guard, const char *path);

/* One more name under which requests may come; a port in it does not count. False after a message. */
bool snap_serve_guard_add_host(struct snap_serve_guard *guard, const char *text);

/*
 * 0, or the status of a refusal (400, 401, 403, 421) and a word about it, static. A page of another
 * site could have its visitor's browser ask under a name of its own that leads here (DNS
 * rebinding), or without reading the answer: both are refused.
 */
unsigned snap_serve_guard_check(const struct snap_serve_guard *guard,
				const struct snap_serve_headers *headers, const char **why_ret);
