/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * JSON as a stream: for formats whose documents are too large to be built in memory first.
 *
 * Brackets, commas and keys are the caller's, as text that is copied; strings and numbers are
 * written here, strings escaped as everything from a target is (base/escape.h) and then for JSON.
 * Members of objects: render/json/members.h.
 */
#ifndef SNAP_RENDER_JSON_WRITER_H
#define SNAP_RENDER_JSON_WRITER_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SNAP_JSON_OUT_BUFFER = 1 << 16 };

struct snap_json_out {
	void (*write)(void *context, const char *bytes, size_t size);
	void *context;
	size_t used;
	bool failed; /* no memory for a text */
	char buffer[SNAP_JSON_OUT_BUFFER];
};

/* Malloc'ed; released by snap_json_out_destroy(), which writes nothing. */
struct snap_json_out *snap_json_out_create(FILE *out);
/* The same, to any place: a compressor. */
struct snap_json_out *snap_json_out_create_to(void (*write)(void *, const char *, size_t),
					      void *context);
void snap_json_out_destroy(struct snap_json_out *json);

static inline void snap_json_out_destroyp(struct snap_json_out **json)
{
	snap_json_out_destroy(*json);
}

/* What is buffered goes out. */
void snap_json_out_flush(struct snap_json_out *json);

void snap_json_out_bytes(struct snap_json_out *json, const char *bytes, size_t size);
/* Text that is JSON already. */
void snap_json_out_raw(struct snap_json_out *json, const char *text);
/* A string of the target's, with its quotes; NULL: "". */
void snap_json_out_text(struct snap_json_out *json, const char *text);
/* A string that has gone through snap_escape() already, or is our own. */
void snap_json_out_clean(struct snap_json_out *json, const char *text);
void snap_json_out_number(struct snap_json_out *json, int64_t number);
/* "0x…", with quotes. */
void snap_json_out_hex(struct snap_json_out *json, uint64_t number);
/*
 * number / 10^decimals (1 to 9), without zeros at the end: nanoseconds as micro- (3) or
 * milliseconds (6).
 */
void snap_json_out_decimal(struct snap_json_out *json, int64_t number, int decimals);

#endif
