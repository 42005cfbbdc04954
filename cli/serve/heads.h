/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Heads: connections until the head of their request, its lines up to the empty one, is there.
 *
 * It has to come within a second, and without a NUL, which would hide from checks what follows it.
 * The bytes are looked at, and stay in the socket. Knows nothing of requests.
 */
#pragma once

#include "serve/metrics.h"

enum {
	SNAP_SERVE_MOST_HEADS = 256,
	SNAP_SERVE_HEAD_BYTES = 16 << 10, /* of a request */
};

struct snap_serve_heads {
	struct snap_serve_metrics *metrics;
	int news; /* readable when there is something to look at */
	unsigned count;
	struct snap_serve_head {
		int fd;
		int64_t deadline_ns;    /* CLOCK_MONOTONIC */
	} heads[SNAP_SERVE_MOST_HEADS]; /* the oldest first */
};

/* False with errno. */
bool snap_serve_heads_init(struct snap_serve_heads *heads, struct snap_serve_metrics *metrics);
/* Closes all. */
void snap_serve_heads_deinit(struct snap_serve_heads *heads);
/* When there is room for another one, CLOCK_MONOTONIC: the oldest gives way once it had a moment. */
int64_t snap_serve_heads_room_at(const struct snap_serve_heads *heads);
/* Takes a connection over. */
void snap_serve_heads_add(struct snap_serve_heads *heads, int fd);
/* One whose head is there, which is the caller's; -1: none now. Refuses those that will have none. */
int snap_serve_heads_take(struct snap_serve_heads *heads);
