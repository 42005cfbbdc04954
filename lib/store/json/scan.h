/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * JSON as a stream of tokens: for readers of gigabytes of documents that keep little of them.
 *
 * As strict as the tree reader (pick.h): tests check that both accept the same documents, also for
 * repeated keys, depth and numbers that are too large. Nothing is copied:
 * texts are spans of the document. Memory grows with the depth and with the open objects' keys, and
 * both are bounded. Knows nothing of any document.
 */
#pragma once

#include "base/arena.h"
#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

enum { SNAP_JSON_DEEPEST = 2048 }; /* values in each other, as the tree reader has it */

enum snap_json_token {
	SNAP_JSON_OBJECT,
	SNAP_JSON_OBJECT_END,
	SNAP_JSON_ARRAY,
	SNAP_JSON_ARRAY_END,
	SNAP_JSON_STRING,
	SNAP_JSON_INTEGER,
	SNAP_JSON_REAL,
	SNAP_JSON_TRUE,
	SNAP_JSON_FALSE,
	SNAP_JSON_NULL,
	SNAP_JSON_DONE,   /* the value is whole; `at` is behind it */
	SNAP_JSON_BROKEN, /* see `why` */
};

/* A string as it stands in the document, without its quotes. */
struct snap_json_span {
	const char *bytes;
	size_t length;
	bool plain;   /* printable ASCII without a backslash: its text is itself */
	bool escaped; /* has a backslash */
};

struct snap_json_key {
	uint64_t hash;
	const char *bytes;
	size_t length;
};

struct snap_json_scan {
	const char *at;
	size_t depth;              /* of the containers around `at` */
	struct snap_json_span key; /* of the latest value in an object, or the latest container */
	struct snap_json_span text;
	int64_t integer;
	const char *why; /* static */
	/* inside */
	bool started, first;
	bool in_object[SNAP_JSON_DEEPEST + 1];
	size_t bases[SNAP_JSON_DEEPEST + 1];  /* where the keys of each open object begin */
	uint64_t seen[SNAP_JSON_DEEPEST + 1]; /* bits of their hashes */
	struct snap_json_key *keys;
	size_t key_count, key_capacity;
	struct snap_arena decoded; /* keys that are written with escapes */
};

/* All zero: empty. */
void snap_json_scan_deinit(struct snap_json_scan *scan);
/* Begins a value; the byte at the end of all bytes must be a NUL. Blanks before it are passed. */
void snap_json_scan_begin(struct snap_json_scan *scan, const char *bytes);
/* The next token; DONE and BROKEN come again and again. */
enum snap_json_token snap_json_scan_next(struct snap_json_scan *scan);

/* What the string says; `out` has room for its length. Returns the bytes. */
size_t snap_json_span_decode(const struct snap_json_span *span, char *out);

static inline bool snap_json_span_is(const struct snap_json_span *span, const char *word,
				     size_t length)
{
	return span->length == length && memcmp(span->bytes, word, length) == 0;
}
