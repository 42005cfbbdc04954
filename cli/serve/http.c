/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Responses: see http.h. */
#include "serve/http.h"

#include "serve/library.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char plain[] = "text/plain; charset=utf-8";

/* ---- requests ---- */

/* Those that the guard judges by. */
static const char *const judged[] = { MHD_HTTP_HEADER_HOST, "Origin", "Sec-Fetch-Site",
				      MHD_HTTP_HEADER_AUTHORIZATION };
enum { JUDGED = sizeof(judged) / sizeof(judged[0]) };

struct header_check {
	bool seen[JUDGED];
	bool is_malformed;
};

/* One that stands there twice would be judged by its first value alone. */
static enum MHD_Result check_header(void *context, enum MHD_ValueKind kind, const char *key,
				    const char *value)
{
	struct header_check *check = context;

	(void)kind;
	(void)value;
	for (size_t i = 0; i < JUDGED; i++) {
		if (strcasecmp(key, judged[i]) != 0)
			continue;
		check->is_malformed |= check->seen[i];
		check->seen[i] = true;
	}
	return MHD_YES;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static bool has_body(struct MHD_Connection *connection)
{
	const char *length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);

	return header(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING) ||
	       (length && strspn(length, "0") != strlen(length));
}

int snap_serve_http_descriptor(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

unsigned snap_serve_http_look(struct MHD_Connection *connection, const char *method,
			      const char *version, struct snap_serve_headers *ret,
			      const char **accept_ret, const char **why_ret)
{
	struct header_check check = { .is_malformed = false };
	socklen_t size = sizeof(ret->own);

	/* libmicrohttpd leaves out the body of an answer to HEAD. */
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
		*why_ret = "only GET and HEAD are answered";
		return MHD_HTTP_METHOD_NOT_ALLOWED;
	}
	MHD_get_connection_values(connection, MHD_HEADER_KIND, check_header, &check);
	if (check.is_malformed || has_body(connection) ||
	    (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)) {
		*why_ret = "malformed request";
		return MHD_HTTP_BAD_REQUEST;
	}
	*ret = (struct snap_serve_headers){
		.host = header(connection, MHD_HTTP_HEADER_HOST),
		.origin = header(connection, "Origin"),
		.fetch_site = header(connection, "Sec-Fetch-Site"),
		.authorization = header(connection, MHD_HTTP_HEADER_AUTHORIZATION),
	};
	if (getsockname(snap_serve_http_descriptor(connection), (struct sockaddr *)&ret->own,
			&size) < 0)
		ret->own.ss_family = AF_UNSPEC;
	*accept_ret = header(connection, MHD_HTTP_HEADER_ACCEPT);
	return 0;
}

/* ---- answers ---- */

/* "404 …\n" for a human reader; NULL without memory. */
static struct MHD_Response *make_message(const char *message)
{
	struct MHD_Response *made;
	char *text = NULL;
	int length = asprintf(&text, "%s\n", message ? message : "");

	if (length < 0)
		return NULL;
	made = MHD_create_response_from_buffer((size_t)length, text, MHD_RESPMEM_MUST_FREE);
	if (!made)
		free(text);
	return made;
}

static struct MHD_Response *make_response(const struct snap_serve_response *response)
{
	struct MHD_Response *made;

	if (response->text) {
		made = MHD_create_response_from_buffer(response->size, response->text,
						       MHD_RESPMEM_MUST_FREE);
		if (!made)
			free(response->text);
	} else if (response->fd >= 0) {
		made = MHD_create_response_from_fd64(response->size, response->fd);
		if (!made)
			close(response->fd);
	} else {
		made = make_message(response->message);
	}
	return made;
}

/* A report may be a page with a script of its own, which says itself what it may load. */
static const char *policy_of(const struct snap_serve_response *response)
{
	bool is_html = response->type && strncmp(response->type, "text/html", 9) == 0;

	if (is_html && response->outcome)
		return "frame-ancestors 'none'";
	return "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
	       "form-action 'none'; frame-ancestors 'none'";
}

static bool add_headers(struct MHD_Response *made, const struct snap_serve_response *response)
{
	char seconds[16];
	const struct {
		const char *name, *value;
	} headers[] = {
		{ MHD_HTTP_HEADER_CONTENT_TYPE, response->type ? response->type : plain },
		{ MHD_HTTP_HEADER_CACHE_CONTROL, "no-store" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
		{ "Referrer-Policy", "no-referrer" },
		{ "Content-Security-Policy", policy_of(response) },
		{ "Stacksnap-Outcome", response->outcome },
		{ MHD_HTTP_HEADER_RETRY_AFTER, response->retry_after_s ? seconds : NULL },
		{ MHD_HTTP_HEADER_ALLOW,
		  response->status == MHD_HTTP_METHOD_NOT_ALLOWED ? "GET, HEAD" : NULL },
		{ MHD_HTTP_HEADER_WWW_AUTHENTICATE,
		  response->status == MHD_HTTP_UNAUTHORIZED ? "Bearer" : NULL },
		{ MHD_HTTP_HEADER_LOCATION,
		  response->status == MHD_HTTP_MOVED_PERMANENTLY ? "/debug/pprof/" : NULL },
		/* So that no client holds a place between two requests, whatever the version of
		 * libmicrohttpd, and what else the client sends is not read. */
		{ MHD_HTTP_HEADER_CONNECTION, "close" },
	};

	snprintf(seconds, sizeof(seconds), "%u", response->retry_after_s);
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		if (headers[i].value &&
		    MHD_add_response_header(made, headers[i].name, headers[i].value) != MHD_YES)
			return false;
	return true;
}

bool snap_serve_http_respond(struct MHD_Connection *connection,
			     const struct snap_serve_response *response)
{
	struct MHD_Response *made = make_response(response);
	bool fine;

	if (!made)
		return false;
	fine = add_headers(made, response) &&
	       MHD_queue_response(connection, response->status, made) == MHD_YES;
	MHD_destroy_response(made);
	return fine;
}

void snap_serve_http_give_up(int fd, unsigned status)
{
	char text[96];
	int length =
		snprintf(text, sizeof(text), "HTTP/1.1 %u %s\r\nConnection: close\r\n\r\n", status,
			 status == MHD_HTTP_BAD_REQUEST ? "Bad Request" : "Request Timeout");

	/* Where there is no room it goes without. */
	if (send(fd, text, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}
