/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that dies in one call.
 *
 * Everything in a result (a capture, a snapshot) lives in that result's arena; pointers inside it
 * are borrowed and never freed one by one. Also an interner: equal text, equal pointer. Not thread
 * safe; knows nothing of what is stored.
 */
#pragma once

#include "base/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct snap_arena {
	struct snap_arena_chunk *chunks; /* newest first */
	size_t used;                     /* bytes handed out by the newest chunk */
	size_t total;                    /* bytes of all chunks */
};

void snap_arena_init(struct snap_arena *arena);
/* Releases all; the arena is then empty and may be used again. */
void snap_arena_deinit(struct snap_arena *arena);

/* `size` zeroed bytes aligned for any type, NULL without memory. */
void *snap_arena_alloc(struct snap_arena *arena, size_t size);
/* Room for `count` things of `size` bytes; NULL also when the product overflows. */
void *snap_arena_array(struct snap_arena *arena, size_t count, size_t size);
/* A copy with a terminating NUL; `length` bytes are read. NULL without memory. */
char *snap_arena_strndup(struct snap_arena *arena, const char *text, size_t length);
char *snap_arena_strdup(struct snap_arena *arena, const char *text);
char *snap_arena_printf(struct snap_arena *arena, const char *format, ...) _printf_(2, 3);
void *snap_arena_memdup(struct snap_arena *arena, const void *bytes, size_t size);

#define snap_arena_new(arena, type) ((type *)snap_arena_alloc((arena), sizeof(type)))
#define snap_arena_new_array(arena, count, type) \
	((type *)snap_arena_array((arena), (count), sizeof(type)))

/* The interner keeps its strings in an arena of the caller's, which must outlive it. */
struct snap_interner {
	struct snap_arena *arena;
	struct snap_hash_table table; /* of the texts */
	struct snap_interned **texts;
	size_t count, capacity;
	bool incomplete; /* there was no memory for a text */
};

void snap_interner_init(struct snap_interner *interner, struct snap_arena *arena);
void snap_interner_deinit(struct snap_interner *interner);
/* The one copy of this text (NUL-terminated), NULL without memory. */
const char *snap_intern(struct snap_interner *interner, const char *text, size_t length);
/* Puts the one copy of a text, cut to `most` bytes, in its place; NULL stays. 0 without memory. */
int snap_intern_text(struct snap_interner *interner, const char **text, size_t most);
