/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The body of an answer: bytes in memory that has no name, so that a large one leaves no hole in the
 * heap, and no more of them than a limit. Knows nothing of what they are.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct snap_serve_body {
	FILE *out; /* NULL: none is being written */
	int fd;    /* -1: none */
	size_t size, most;
	bool is_full; /* there would be more than `most` bytes; writing fails with ENOSPC */
};

/* False with errno. */
bool snap_serve_body_open(struct snap_serve_body *body, size_t most);
/* Ends the writing; false with errno if not everything was written. */
bool snap_serve_body_finish(struct snap_serve_body *body);
/* The descriptor, which is the caller's from now on. */
int snap_serve_body_take(struct snap_serve_body *body);
/* Takes one that was never opened, if it is all zero but for fd -1. */
void snap_serve_body_deinit(struct snap_serve_body *body);
