/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The target of a request, "/snapshot.json?target=7", taken apart.
 *
 * Strict, as it comes from any client: no absolute form, no controls, no broken escapes. Knows
 * nothing of which paths and parameters there are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
	SNAP_SERVE_MAX_TARGET = 2048, /* bytes of a request's target */
	SNAP_SERVE_MAX_PARAMETERS = 8,
};

struct snap_serve_parameter {
	const char *name, *value;
};

/* Texts point into `text`. */
struct snap_serve_query {
	char text[SNAP_SERVE_MAX_TARGET + 1];
	const char *path; /* as it came: no path of ours needs an escape */
	struct snap_serve_parameter parameters[SNAP_SERVE_MAX_PARAMETERS];
	size_t parameter_count;
};

/*
 * Takes the target of a request line apart. False: it is none, is too long, has a parameter twice,
 * or more of them than any page takes; then nothing of it may be used.
 */
bool snap_serve_query_parse(const char *target, struct snap_serve_query *ret);

/* The value of a parameter; NULL: it is not there. */
const char *snap_serve_query_value(const struct snap_serve_query *query, const char *name);
