/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Arena and interner: see arena.h. Chunks double up to 1 MiB; a larger request gets a chunk of its
 * own.
 */
#include "base/arena.h"

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 16, FIRST_CHUNK = 4096, LARGEST_CHUNK = 1 << 20 };

struct snap_arena_chunk {
	struct snap_arena_chunk *next;
	size_t size;
	_Alignas(ALIGNMENT) unsigned char bytes[];
};

struct snap_interned {
	size_t length;
	char text[];
};

void snap_arena_init(struct snap_arena *arena)
{
	*arena = (struct snap_arena){ 0 };
}

void snap_arena_deinit(struct snap_arena *arena)
{
	struct snap_arena_chunk *chunk = arena->chunks;

	while (chunk) {
		struct snap_arena_chunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
	snap_arena_init(arena);
}

/*
 * calloc gives zeroed pages of the kernel for large chunks without touching them. A chunk for one
 * large request goes behind the newest one, whose free room stays in use.
 */
static struct snap_arena_chunk *add_chunk(struct snap_arena *arena, size_t size, bool behind)
{
	struct snap_arena_chunk *chunk = calloc(1, sizeof(*chunk) + size);

	if (!chunk)
		return NULL;
	chunk->size = size;
	arena->total += size;
	if (behind && arena->chunks) {
		chunk->next = arena->chunks->next;
		arena->chunks->next = chunk;
	} else {
		chunk->next = arena->chunks;
		arena->chunks = chunk;
		arena->used = behind ? size : 0;
	}
	return chunk;
}

void *snap_arena_alloc(struct snap_arena *arena, size_t size)
{
	struct snap_arena_chunk *chunk = arena->chunks;
	size_t room;
	void *bytes;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = snap_round_up(size, ALIGNMENT);
	if (!chunk || chunk->size - arena->used < size) {
		if (size > LARGEST_CHUNK / 4) {
			chunk = add_chunk(arena, size, true);
			return chunk ? chunk->bytes : NULL;
		}
		room = chunk ? chunk->size * 2 : FIRST_CHUNK;
		while (room < size)
			room *= 2;
		chunk = add_chunk(arena, room < LARGEST_CHUNK ? room : LARGEST_CHUNK, false);
		if (!chunk)
			return NULL;
	}
	bytes = chunk->bytes + arena->used;
	arena->used += size;
	return bytes;
}

void *snap_arena_array(struct snap_arena *arena, size_t count, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(count, size, &bytes) ? NULL : snap_arena_alloc(arena, bytes);
}

char *snap_arena_strndup(struct snap_arena *arena, const char *text, size_t length)
{
	char *copy = snap_arena_alloc(arena, length + 1);

	if (copy)
		memcpy(copy, text, length);
	return copy;
}

char *snap_arena_strdup(struct snap_arena *arena, const char *text)
{
	return snap_arena_strndup(arena, text, strlen(text));
}

char *snap_arena_printf(struct snap_arena *arena, const char *format, ...)
{
	va_list arguments, again;
	char *text = NULL;
	int length;

	va_start(arguments, format);
	va_copy(again, arguments);
	length = vsnprintf(NULL, 0, format, arguments);
	if (length >= 0)
		text = snap_arena_alloc(arena, (size_t)length + 1);
	if (text)
		vsnprintf(text, (size_t)length + 1, format, again);
	va_end(again);
	va_end(arguments);
	return text;
}

void *snap_arena_memdup(struct snap_arena *arena, const void *bytes, size_t size)
{
	void *copy = snap_arena_alloc(arena, size ? size : 1);

	if (copy && size)
		memcpy(copy, bytes, size);
	return copy;
}

void snap_interner_init(struct snap_interner *interner, struct snap_arena *arena)
{
	*interner = (struct snap_interner){ .arena = arena };
}

void snap_interner_deinit(struct snap_interner *interner)
{
	snap_hash_table_deinit(&interner->table);
	free(interner->texts);
	snap_interner_init(interner, interner->arena);
}

const char *snap_intern(struct snap_interner *interner, const char *text, size_t length)
{
	uint64_t hash = snap_hash_bytes(text, length, 0);
	struct snap_probe probe = snap_hash_table_probe(&interner->table, hash);
	struct snap_interned *new;

	while (snap_probe_next(&probe)) {
		const struct snap_interned *known = interner->texts[probe.number];

		if (known->length == length && memcmp(known->text, text, length) == 0)
			return known->text;
	}
	new = snap_arena_alloc(interner->arena, sizeof(*new) + length + 1);
	if (!new || !snap_reserve_array(interner->texts, interner->capacity, interner->count + 1) ||
	    !snap_hash_table_add(&interner->table, hash, interner->count)) {
		interner->incomplete = true;
		return NULL;
	}
	new->length = length;
	memcpy(new->text, text, length);
	interner->texts[interner->count++] = new;
	return new->text;
}

int snap_intern_text(struct snap_interner *interner, const char **text, size_t most)
{
	if (!*text)
		return 1;
	*text = snap_intern(interner, *text, strnlen(*text, most));
	return *text != NULL;
}
