/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The body of an answer: bytes in memory that has no name, so that a large one leaves no hole in the
 * heap, and no more of them than a limit, in one body and in all together. Knows nothing of what
 * they are.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct snap_serve_body {
	FILE *out; /* NULL: none is being written */
	int fd;    /* -1: none */
	size_t size;
	atomic_size_t *all; /* of all bodies that are there */
	/* Writing failed with ENOSPC: this one would be too large; all together would be. */
	bool is_full, is_crowded;
};

enum {
	SNAP_SERVE_MOST_BODY = 64 << 20, /* bytes */
	SNAP_SERVE_MOST_BODIES = 96 << 20,
};

/* False with errno. `all` begins with 0, and outlives the body. */
bool snap_serve_body_open(struct snap_serve_body *body, atomic_size_t *all);
/* Ends the writing; false with errno if not everything was written. */
bool snap_serve_body_finish(struct snap_serve_body *body);
/* The descriptor, which is the caller's from now on, as is its size among those of all. */
int snap_serve_body_take(struct snap_serve_body *body);
/* Takes one that was never opened, if it is all zero but for fd -1. */
void snap_serve_body_deinit(struct snap_serve_body *body);
