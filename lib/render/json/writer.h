/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * JSON as a stream: for formats whose documents are too large to be built in memory first.
 *
 * Commas, blanks and line breaks are set here: whatever follows something else in the same object
 * or array takes a comma. Brackets are the caller's to balance, as no stack is kept: trees in
 * documents are as deep as the target likes. Strings are escaped as everything from a target is
 * (base/escape.h) and then for JSON. Knows nothing of any document.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SNAP_JSON_BUFFER = 1 << 16 };

enum snap_json_style {
	SNAP_JSON_COMPACT,  /* "key":value,"key":value */
	SNAP_JSON_SPACED,   /* "key": value, "key": value */
	SNAP_JSON_ONE_LINE, /* the same; a document is one line, whatever snap_json_line() says */
};

struct snap_json_writer {
	void (*write)(void *context, const char *bytes, size_t size);
	void *context;
	enum snap_json_style style;
	bool begun;   /* the object or array has something: what follows takes a comma */
	bool newline; /* what follows begins a line */
	bool failed;  /* no memory for a text */
	size_t used;
	char buffer[SNAP_JSON_BUFFER];
};

/* Malloc'ed, NULL without memory; released by snap_json_writer_destroy(), which writes nothing. */
struct snap_json_writer *snap_json_writer_create(FILE *out, enum snap_json_style style);
/* The same, to a function: a compressor. */
struct snap_json_writer *snap_json_writer_create_to(void (*write)(void *, const char *, size_t),
						    void *context, enum snap_json_style style);
/* The same, behind what is in a buffer, which must outlive the writer. */
struct snap_json_writer *snap_json_writer_create_in(struct snap_buffer *buffer,
						    enum snap_json_style style);
void snap_json_writer_destroy(struct snap_json_writer *json);

SNAP_POINTER_GUARD(struct snap_json_writer, snap_json_writer_destroy);

/* What is buffered goes out, and the next value is the first of a document. */
void snap_json_flush(struct snap_json_writer *json);

/*
 * The functions below write a value: with a key (one of our own words, at most 64 bytes) in an
 * object, with NULL as an element of an array.
 */

/* Begins or ends an object or an array: '{' and '}', '[' and ']'. */
void snap_json_begin(struct snap_json_writer *json, const char *key, char bracket);
void snap_json_end(struct snap_json_writer *json, char bracket);
/* What follows, a value or a closing bracket, begins a line. */
void snap_json_line(struct snap_json_writer *json);
/* The same as snap_json_line() and snap_json_begin(). */
void snap_json_begin_line(struct snap_json_writer *json, const char *key, char bracket);
/*
 * An array of `count` elements. `put` is an expression that writes one, with the NULL key; it uses
 * `i`, a size_t that exists in it alone:
 *
 *	snap_json_list(json, "pids", pid_count, i, snap_json_number(json, NULL, pids[i]));
 */
#define snap_json_list(json, key, count, i, put)     \
	do {                                         \
		snap_json_begin((json), (key), '['); \
		for (size_t i = 0; i < (count); i++) \
			put;                         \
		snap_json_end((json), ']');          \
	} while (0)
/* The end of a document: a newline; another document may follow. */
void snap_json_end_document(struct snap_json_writer *json);

/* A string of the target's; NULL: "". */
void snap_json_text(struct snap_json_writer *json, const char *key, const char *text);
/* A string that has gone through snap_escape() already, or is our own. */
void snap_json_clean(struct snap_json_writer *json, const char *key, const char *text);
void snap_json_number(struct snap_json_writer *json, const char *key, int64_t number);
/* "0x…", with quotes. */
void snap_json_hex(struct snap_json_writer *json, const char *key, uint64_t number);
/*
 * number / 10^decimals (0 to 9), without zeros at the end: nanoseconds as micro- (3) or
 * milliseconds (6).
 */
void snap_json_decimal(struct snap_json_writer *json, const char *key, int64_t number,
		       int decimals);
void snap_json_bool(struct snap_json_writer *json, const char *key, bool value);
void snap_json_null(struct snap_json_writer *json, const char *key);
/* What is JSON already; without a key it may be several values, with their commas. */
void snap_json_raw(struct snap_json_writer *json, const char *key, const char *text);
void snap_json_bytes(struct snap_json_writer *json, const char *key, const char *bytes,
		     size_t size);

/* A text with a key, both of the target's; the value may be "". */
void snap_json_label(struct snap_json_writer *json, const char *key, const char *value);

/* Nothing at all where there is no value: NULL, "", 0, false. */
void snap_json_text_if(struct snap_json_writer *json, const char *key, const char *text);
void snap_json_number_if(struct snap_json_writer *json, const char *key, int64_t number);
void snap_json_true_if(struct snap_json_writer *json, const char *key, bool value);
/* Nanoseconds since the epoch, as RFC 3339 with nine decimals in UTC. */
void snap_json_time(struct snap_json_writer *json, const char *key, int64_t ns);
void snap_json_time_if(struct snap_json_writer *json, const char *key, int64_t ns);
