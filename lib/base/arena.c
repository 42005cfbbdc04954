/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Arena and interner: see arena.h. Chunks double up to 1 MiB; a larger request gets a chunk of its
 * own.
 */
#include "base/arena.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 16, FIRST_CHUNK = 4096, LARGEST_CHUNK = 1 << 20, FIRST_SLOTS = 256 };

struct snap_arena_chunk {
	struct snap_arena_chunk *next;
	size_t size;
	_Alignas(ALIGNMENT) unsigned char bytes[];
};

struct snap_interned {
	uint64_t hash;
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
	size = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
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

	if (__builtin_mul_overflow(count, size, &bytes))
		return NULL;
	return snap_arena_alloc(arena, bytes);
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

int snap_grow(void **array, size_t *capacity, size_t count, size_t element_size)
{
	size_t wanted = *capacity ? *capacity * 2 : 16, bytes;
	void *grown;

	assert(count <= *capacity);
	if (count < *capacity)
		return 1;
	if (__builtin_mul_overflow(wanted, element_size, &bytes))
		return 0;
	grown = realloc(*array, bytes);
	if (!grown)
		return 0;
	*array = grown;
	*capacity = wanted;
	return 1;
}

uint64_t snap_hash(const void *bytes, size_t size, uint64_t seed)
{
	const unsigned char *p = bytes;
	uint64_t hash = seed ^ (size * 0x9e3779b97f4a7c15ull), word;

	for (; size >= 8; p += 8, size -= 8) {
		memcpy(&word, p, 8);
		hash = (hash ^ word) * 0xff51afd7ed558ccdull;
		hash ^= hash >> 32;
	}
	word = 0;
	if (size)
		memcpy(&word, p, size);
	hash = (hash ^ word) * 0xff51afd7ed558ccdull;
	hash ^= hash >> 33;
	hash *= 0xc4ceb9fe1a85ec53ull;
	return hash ^ (hash >> 33);
}

void snap_interner_init(struct snap_interner *interner, struct snap_arena *arena)
{
	*interner = (struct snap_interner){ .arena = arena };
}

void snap_interner_deinit(struct snap_interner *interner)
{
	free(interner->slots);
	snap_interner_init(interner, interner->arena);
}

static bool rehash(struct snap_interner *interner)
{
	size_t slot_count = interner->slot_count ? interner->slot_count * 2 : FIRST_SLOTS;
	struct snap_interned **slots = calloc(slot_count, sizeof(struct snap_interned *));

	if (!slots)
		return false;
	for (size_t i = 0; i < interner->slot_count; i++) {
		struct snap_interned *old = interner->slots[i];
		size_t k;

		if (!old)
			continue;
		for (k = old->hash & (slot_count - 1); slots[k]; k = (k + 1) & (slot_count - 1))
			;
		slots[k] = old;
	}
	free(interner->slots);
	interner->slots = slots;
	interner->slot_count = slot_count;
	return true;
}

const char *snap_intern(struct snap_interner *interner, const char *text, size_t length)
{
	uint64_t hash = snap_hash(text, length, 0);
	struct snap_interned *new;
	size_t k;

	if (interner->count * 2 >= interner->slot_count && !rehash(interner))
		return NULL;
	for (k = hash & (interner->slot_count - 1); interner->slots[k];
	     k = (k + 1) & (interner->slot_count - 1)) {
		struct snap_interned *old = interner->slots[k];

		if (old->hash == hash && old->length == length &&
		    memcmp(old->text, text, length) == 0)
			return old->text;
	}
	new = snap_arena_alloc(interner->arena, sizeof(*new) + length + 1);
	if (!new)
		return NULL;
	new->hash = hash;
	new->length = length;
	memcpy(new->text, text, length);
	interner->slots[k] = new;
	interner->count++;
	return new->text;
}
