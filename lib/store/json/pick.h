/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads values of a JSON document that another program may have written, one by one, and checks their
 * type and range.
 *
 * The first wrong value is remembered as an error. From then on everything is absent, so a reader
 * needs to check for the error only where it would use a value. Texts are unescaped (base/escape.h)
 * and interned: equal text, equal pointer. Other keys are ignored. Knows nothing of snapshots.
 */
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "model/task.h"

#include <stdbool.h>
#include <stdint.h>

struct snap_json; /* a value of a document */

struct snap_json_pick {
	struct snap_interner strings; /* in the arena of the result */
	struct stacksnap_error *error;
	struct snap_buffer raw; /* where texts are unescaped */
};

void snap_json_pick_init(struct snap_json_pick *pick, struct snap_arena *arena);
void snap_json_pick_deinit(struct snap_json_pick *pick);

/* The document's root, an object; released by snap_json_pick_close(). FORMAT, OS. */
struct stacksnap_error *snap_json_pick_open(int fd, uint64_t max_bytes,
					    struct snap_json **ret) _must_check_;
/* The same of a root that is an array, for snap_json_pick_rows(). */
struct stacksnap_error *snap_json_pick_open_array(int fd, uint64_t max_bytes,
						  struct snap_json **ret) _must_check_;
void snap_json_pick_close(struct snap_json *root);

SNAP_POINTER_GUARD(struct snap_json, snap_json_pick_close);

static inline bool snap_json_pick_failed(const struct snap_json_pick *pick)
{
	return pick->error != NULL;
}

/*
 * Remembers an error of ours about a key: `expected` is what should be there, "an object"; and one
 * of memory.
 */
void snap_json_pick_refuse(struct snap_json_pick *pick, const char *key, const char *expected);
void snap_json_pick_no_memory(struct snap_json_pick *pick);

bool snap_json_pick_has(const struct snap_json *object, const char *key);
/* NULL: absent. */
const struct snap_json *snap_json_pick_object(struct snap_json_pick *pick,
					      const struct snap_json *object, const char *key);

/* The elements of an array, one after the other. */
struct snap_json_list {
	struct snap_json_pick *pick;
	const struct snap_json *array;
	const char *key;
	size_t count, next; /* count 0: absent, or empty */
};

struct snap_json_list snap_json_pick_list(struct snap_json_pick *pick,
					  const struct snap_json *object, const char *key);
/* The elements of a root that is one. */
struct snap_json_list snap_json_pick_rows(struct snap_json_pick *pick,
					  const struct snap_json *root);
/* The next element, which must be an object; NULL: there is none, or an error. */
const struct snap_json *snap_json_list_object(struct snap_json_list *list);
/* The next element, which must be a text, which may be empty; NULL likewise. */
const char *snap_json_list_text(struct snap_json_list *list, size_t max);

/* The next element, a whole number of [least, most]; 0: another one, which is remembered. */
int64_t snap_json_list_number(struct snap_json_list *list, int64_t least, int64_t most);
/* The next element, one of `count` words as in snap_json_pick_word(). */
unsigned snap_json_list_word(struct snap_json_list *list, const char *(*word_of)(unsigned),
			     unsigned count);

/* Zeroed memory of the result's arena; NULL: there is none, which is remembered. */
void *snap_json_pick_memory(struct snap_json_pick *pick, size_t count, size_t size);

/* At most `max` bytes; NULL: absent, or empty. */
const char *snap_json_pick_text(struct snap_json_pick *pick, const struct snap_json *object,
				const char *key, size_t max);
/* All members of an object, texts with any key, which may be empty; NULL: absent, or empty. */
struct snap_label *snap_json_pick_labels(struct snap_json_pick *pick,
					 const struct snap_json *object, const char *key,
					 size_t max, size_t *count_ret);
/* A whole number of [least, most]; `absent` without one. */
int64_t snap_json_pick_number(struct snap_json_pick *pick, const struct snap_json *object,
			      const char *key, int64_t least, int64_t most, int64_t absent);
/* The same, which must be there. */
int64_t snap_json_pick_required(struct snap_json_pick *pick, const struct snap_json *object,
				const char *key, int64_t least, int64_t most);
/* One of `count` words, those that `word_of` gives for 0 ... count - 1; its number. */
unsigned snap_json_pick_word(struct snap_json_pick *pick, const struct snap_json *object,
			     const char *key, const char *(*word_of)(unsigned), unsigned count);
bool snap_json_pick_flag(struct snap_json_pick *pick, const struct snap_json *object,
			 const char *key);
/* "0x…"; false: absent. */
bool snap_json_pick_hex(struct snap_json_pick *pick, const struct snap_json *object,
			const char *key, uint64_t *ret);
/* RFC 3339 with nine decimals, as nanoseconds since the epoch; 0: absent. */
int64_t snap_json_pick_time(struct snap_json_pick *pick, const struct snap_json *object,
			    const char *key);
/* False: not of the form "2026-11-20T07:52:18.106000000Z", or no such day. */
bool snap_json_parse_time(const char *text, size_t length, int64_t *ret);
/* A text all of whose characters are of `set`; NULL: absent. */
const char *snap_json_pick_of(struct snap_json_pick *pick, const struct snap_json *object,
			      const char *key, const char *set, size_t max);
