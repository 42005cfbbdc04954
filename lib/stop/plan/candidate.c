/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A first look for managed runtimes: see candidate.h. */
#include "stop/plan/candidate.h"

#include "base/bytes.h"
#include "base/text.h"
#include "model/options.h"

#include <string.h>

enum {
	MOST_DATA = 4, /* files whose data is searched, and the bytes of it */
	MOST_DATA_BYTES = 64 << 10,
};

/* ---- names ---- */

static unsigned runtimes_of_name(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (snap_begins_with(name, "lib"))
		name += 3;
	if (snap_begins_with(name, "python"))
		return SNAP_RUNTIME_CPYTHON;
	if (snap_begins_with(name, "php"))
		return SNAP_RUNTIME_PHP;
	if (snap_begins_with(name, "jvm.so"))
		return SNAP_RUNTIME_JAVA;
	/* A module of an interpreter whose program has another name. */
	return strstr(name, ".cpython-") ? SNAP_RUNTIME_CPYTHON : 0;
}

/* Memory with code and no file of a name behind it: compilers may have registered what is in it. */
static bool is_made_code(const struct snap_map *map)
{
	return map->execute && (!map->path || snap_begins_with(map->path, "/memfd:") ||
				snap_begins_with(map->path, "/dev/") ||
				(!map->inode && !snap_begins_with(map->path, "[v")));
}

/* ---- marks of Go ---- */

/* Searches the first page of a program for the name of a note: that of Go's build id. */
static bool has_go_note(const uint8_t *bytes, size_t size)
{
	const uint32_t go = 'G' | 'o' << 8;
	uint32_t found = 0;

	for (size_t i = 0; i + 4 <= size; i += 4) {
		uint32_t word;

		memcpy(&word, bytes + i, sizeof(word));
		found |= word == go;
	}
	return found;
}

/*
 * Searches for a mark that programs without that id have as well: at or near the beginning of their
 * data.
 */
static bool has_build_info(const uint8_t *bytes, size_t size)
{
	static const char mark[] = "\xff Go buildinf:";

	for (size_t i = 0; i + sizeof(mark) - 1 <= size; i += 16)
		if (bytes[i] == 0xff && memcmp(bytes + i, mark, sizeof(mark) - 1) == 0)
			return true;
	return false;
}

/* Libraries of the system are not made by Go. */
static bool is_system_library(const char *path)
{
	return strstr(path, ".so") &&
	       (snap_begins_with(path, "/lib") || snap_begins_with(path, "/usr/lib"));
}

static bool has_go_mapping(const struct snap_runtime_candidate *candidate,
			   const struct snap_map *map)
{
	uint64_t size = map->end - map->start;

	if (size > MOST_DATA_BYTES)
		size = MOST_DATA_BYTES;
	for (uint64_t at = 0; at < size; at += SNAP_PAGE) {
		struct iovec range = { (void *)(uintptr_t)(map->start + at), SNAP_PAGE };
		size_t got = candidate->read(candidate->context, candidate->buffer, &range, 1);

		if (has_build_info(candidate->buffer, got))
			return true;
	}
	return false;
}

/*
 * Checks the first writable mapping of each program, and of each library outside the system's
 * folders.
 */
static bool has_go_data(const struct snap_runtime_candidate *candidate)
{
	const struct snap_space *space = candidate->space;
	const struct snap_map *last = NULL;
	unsigned looked = 0;

	for (size_t i = 0; i < space->map_count && looked < MOST_DATA; i++) {
		const struct snap_map *map = &space->maps[i];

		if (!map->inode || !map->write || map->shared || !map->path ||
		    (last && last->inode == map->inode && last->dev_major == map->dev_major &&
		     last->dev_minor == map->dev_minor) ||
		    is_system_library(map->path))
			continue;
		last = map;
		looked++;
		if (has_go_mapping(candidate, map))
			return true;
	}
	return false;
}

static bool may_be_go(const struct snap_runtime_candidate *candidate)
{
	const struct snap_space *space = candidate->space;

	for (size_t i = 0; i < space->piece_count; i++)
		if (has_go_note(space->pieces[i].data, space->pieces[i].size < SNAP_PAGE
							       ? space->pieces[i].size
							       : SNAP_PAGE))
			return true;
	return has_go_data(candidate);
}

unsigned snap_plan_candidates(const struct snap_runtime_candidate *candidate)
{
	const struct snap_space *space = candidate->space;
	const char *last = NULL;
	unsigned found = 0;

	for (size_t i = 0; i < space->map_count; i++) {
		const char *path = space->maps[i].path;

		if (is_made_code(&space->maps[i]))
			found |= SNAP_RUNTIME_JIT;
		if (!path || path == last)
			continue;
		last = path;
		found |= runtimes_of_name(path);
	}
	if ((candidate->wanted & SNAP_RUNTIME_GO) && may_be_go(candidate))
		found |= SNAP_RUNTIME_GO;
	return found & candidate->wanted;
}
