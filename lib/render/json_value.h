/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Small JSON objects, written one after the other.
 *
 * An object with its keys in order is built, dumped and dropped: a tree of nodes of a whole
 * snapshot would cost a kilobyte a frame. Absent is what has no value: NULL, false. Texts are
 * escaped as everything from a target is (base/escape.h), so the document is valid UTF-8 whatever
 * the target did. Knows nothing of snapshots.
 */
#ifndef SNAP_RENDER_JSON_VALUE_H
#define SNAP_RENDER_JSON_VALUE_H

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct snap_json; /* an object under construction */

/* Where texts are escaped; zeroed at first. A failure (no memory) is remembered. */
struct snap_json_maker {
	char *escaped;
	size_t capacity;
	bool failed;
};
void snap_json_maker_deinit(struct snap_json_maker *maker);

/* Empty object, NULL without memory: then all that follows does nothing. */
struct snap_json *snap_json_object(struct snap_json_maker *maker);
void snap_json_text(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		    const char *text);
void snap_json_number(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		      int64_t number);
/* The same, absent when it is 0. */
void snap_json_count(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		     int64_t number);
void snap_json_flag(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		    bool flag);
/* "0x…" */
void snap_json_hex(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		   uint64_t number);
/* RFC 3339 with nine decimals, in UTC; absent when it is 0. */
void snap_json_time(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		    int64_t ns);
/* An array of texts. */
void snap_json_texts(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		     const char *const *texts, size_t count);
/* Puts an object inside another, at the end of an array that is made when it is first added to. */
void snap_json_nest(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		    struct snap_json *inner);
void snap_json_append(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		      struct snap_json *inner);

/*
 * The object as one line of text, malloc'ed; the object is gone. NULL without memory. `open`: the
 * closing brace is left out, for who goes on by hand.
 */
char *snap_json_finish(struct snap_json_maker *maker, struct snap_json *object, bool open);

#endif
