/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Responses: bytes, a status and the headers that each answer has. With server.c the door to
 * libmicrohttpd; knows nothing of connections' limits.
 */
#pragma once

#include "serve/guard.h"
#include "serve/job.h"

#include <stdio.h>

struct MHD_Connection;

/* What is answered. */
struct snap_serve_response {
	unsigned status;
	const char *type; /* NULL: plain text */
	/* one of: a malloc'ed text, which is taken over; a descriptor, which is, too; a message */
	char *text;
	int fd;
	size_t size; /* of text or descriptor */
	const char *message;
	const char *outcome;    /* "whole", "partial"; NULL: not known */
	unsigned retry_after_s; /* 0: not said */
};

/* Hands it to the connection. False without memory: the connection is then of no use. */
bool snap_serve_http_respond(struct MHD_Connection *connection,
			     const struct snap_serve_response *response);

/* An answer without libmicrohttpd, to a request of which it makes none. */
void snap_serve_http_give_up(int fd, unsigned status);

/* -1: it is not known. */
int snap_serve_http_descriptor(struct MHD_Connection *connection);

/*
 * 0, or the status of a refusal (400, 405) of what is no plain GET or HEAD, and a word about it, static.
 * What counts of the headers else goes to *ret, borrowed from the connection.
 */
unsigned snap_serve_http_look(struct MHD_Connection *connection, const char *method,
			      const char *version, struct snap_serve_headers *ret,
			      const char **accept_ret, const char **why_ret);
