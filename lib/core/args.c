/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Arguments of a program as the kernel laid them out on its first stack: a count, pointers to the
 * arguments, 0, pointers to the environment, 0, and then the vector of which NT_AUXV is a copy. So
 * the vector is looked for, and from there it goes back. What a program has written over it since is
 * what it wants to be called.
 */
#include "core/notes.h"

#include "base/bytes.h"

#include <string.h>

enum {
	LOOK_BYTES = 1 << 20, /* of the stack, below what AT_RANDOM points to */
	MOST_POINTERS = 1 << 14,
	WORD = 8,
};

/* The number of words before `end` up to a 0 that is not among them; SIZE_MAX: there is none. */
static size_t words_before(const uint64_t *words, size_t end)
{
	size_t count = 0;

	while (count < end && count <= MOST_POINTERS) {
		if (words[end - count - 1] == 0)
			return count;
		count++;
	}
	return SIZE_MAX;
}

/*
 * Where the pointers to the arguments begin, before the vector at `end`; SIZE_MAX: nowhere. Behind
 * the environment's 0 stand its pointers, before them another 0, and then the arguments, of which
 * the word before says how many they are.
 */
static size_t find_pointers(const uint64_t *words, size_t end, size_t *count_ret)
{
	size_t count;

	if (end == 0 || words[end - 1] != 0)
		return SIZE_MAX;
	end--;
	count = words_before(words, end);
	if (count == SIZE_MAX)
		return SIZE_MAX;
	end -= count + 1;
	for (count = 0; count < end && count <= MOST_POINTERS; count++) {
		if (words[end - count - 1] == count) {
			*count_ret = count;
			return end - count;
		}
		if (words[end - count - 1] == 0)
			break;
	}
	return SIZE_MAX;
}

/* Appends one argument with its NUL; how many bytes it took, 0: it is not there, or too long. */
static size_t read_arg(struct snap_core_memory *memory, uint64_t address, char *to, size_t room)
{
	size_t got = 0;

	while (got < room) {
		size_t part = room - got < 256 ? room - got : 256;
		size_t done = snap_core_memory_bytes(memory, address + got, to + got, part);
		const char *end = memchr(to + got, 0, done);

		if (end)
			return (size_t)(end - to) + 1;
		if (done < part)
			return 0;
		got += done;
	}
	return 0;
}

static bool read_args(struct snap_core_memory *memory, const uint64_t *pointers, size_t count,
		      struct snap_capture *capture)
{
	_cleanup_free_ char *args = malloc(SNAP_MAX_ARGS);
	struct snap_process *process = &capture->processes[0];
	size_t size = 0;

	for (size_t i = 0; args && i < count; i++) {
		size_t got = read_arg(memory, pointers[i], args + size, SNAP_MAX_ARGS - size);

		if (!got && i == 0)
			return false;
		if (!got)
			break;
		size += got;
	}
	if (!size)
		return false;
	process->args = snap_arena_memdup(&capture->arena, args, size);
	process->args_size = process->args ? size : 0;
	return true;
}

bool snap_core_find_args(const struct snap_core_notes *notes, struct snap_core_memory *memory,
			 struct snap_capture *capture)
{
	const struct snap_map *map = snap_process_map(&capture->processes[0], notes->aux.random);
	_cleanup_free_ uint8_t *bytes = malloc(LOOK_BYTES);
	uint64_t end = notes->aux.random & ~(uint64_t)(WORD - 1), start;
	size_t size, last;

	if (!map || !bytes || notes->aux_size < 2 * WORD)
		return false;
	start = end - map->start > LOOK_BYTES ? end - LOOK_BYTES : snap_round_up(map->start, WORD);
	if (start >= end)
		return false;
	size = snap_core_memory_bytes(memory, start, bytes, (size_t)(end - start));
	/* It lies right below the strings: the last place is the first one to be looked at. */
	if (size < notes->aux_size)
		return false;
	last = (size - notes->aux_size) / WORD;
	for (size_t at = last + 1; at-- > 0;) {
		const uint64_t *words = (const uint64_t *)(const void *)bytes;
		size_t count = 0, first;

		if (memcmp(bytes + at * WORD, notes->aux_bytes, notes->aux_size) != 0)
			continue;
		first = find_pointers(words, at, &count);
		if (first != SIZE_MAX && read_args(memory, words + first, count, capture))
			return true;
	}
	return false;
}
