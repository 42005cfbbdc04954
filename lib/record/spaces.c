/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Spaces: see spaces.h. */
#include "record/spaces.h"

#include "files/files.h"

#include <string.h>

enum { MAX_LEFT = 32 << 20 }; /* bytes that spaces which were left may hold */

struct space {
	struct snap_unwinder *unwinder; /* NULL: not made yet */
	size_t bytes;                   /* of its modules */
};

struct snap_spaces {
	const struct snap_options *options;
	const struct snap_log *log;
	struct snap_files *files;
	struct snap_file_finder finder;
	struct snap_arena arena;     /* of the set and of all modules */
	struct snap_module_set *set; /* NULL: not made yet */
	struct space *spaces;        /* by the log's numbers */
	size_t count;
	size_t left; /* bytes in the arena that nobody needs */
};

struct snap_error *snap_spaces_create(const struct snap_options *options,
				      const struct snap_log *log, struct snap_spaces **ret)
{
	struct snap_spaces *spaces = calloc(1, sizeof(*spaces));
	struct snap_error *err;

	if (!spaces)
		return snap_error_no_memory();
	spaces->options = options;
	spaces->log = log;
	snap_arena_init(&spaces->arena);
	err = snap_files_create(options, log->capture, &spaces->files);
	if (err) {
		snap_spaces_destroy(spaces);
		return err;
	}
	spaces->finder = snap_files_finder(spaces->files);
	*ret = spaces;
	return NULL;
}

void snap_spaces_destroy(struct snap_spaces *spaces)
{
	if (!spaces)
		return;
	snap_spaces_reset(spaces);
	snap_files_destroy(spaces->files);
	free(spaces->spaces);
	free(spaces);
}

const struct snap_file_finder *snap_spaces_finder(const struct snap_spaces *spaces)
{
	return &spaces->finder;
}

void snap_spaces_reset(struct snap_spaces *spaces)
{
	for (size_t i = 0; i < spaces->count; i++) {
		snap_unwinder_destroy(spaces->spaces[i].unwinder);
		spaces->spaces[i] = (struct space){ 0 };
	}
	snap_module_set_destroy(spaces->set);
	spaces->set = NULL;
	snap_arena_deinit(&spaces->arena);
	spaces->left = 0;
}

void snap_spaces_leave(struct snap_spaces *spaces, uint32_t number)
{
	struct space *space;

	if (number >= spaces->count)
		return;
	space = &spaces->spaces[number];
	snap_unwinder_destroy(space->unwinder);
	spaces->left += space->bytes;
	*space = (struct space){ 0 };
}

void snap_spaces_tidy(struct snap_spaces *spaces)
{
	if (spaces->left > MAX_LEFT)
		snap_spaces_reset(spaces);
}

static struct snap_error *reserve(struct snap_spaces *spaces, size_t count)
{
	size_t room = spaces->count ? spaces->count : 16;
	struct space *grown;

	if (count <= spaces->count)
		return NULL;
	while (room < count)
		room *= 2;
	grown = realloc(spaces->spaces, room * sizeof(*grown));
	if (!grown)
		return snap_error_no_memory();
	memset(grown + spaces->count, 0, (room - spaces->count) * sizeof(*grown));
	spaces->spaces = grown;
	spaces->count = room;
	return NULL;
}

/* Modules and unwinder of a space; what is there when it fails is not believed. */
static struct snap_error *enter(struct snap_spaces *spaces, struct space *space,
				const struct snap_process *process)
{
	struct snap_unwinder *unwinder = NULL;
	struct snap_modules *modules;
	struct snap_error *err = NULL;
	size_t before = spaces->arena.total;

	if (!spaces->set)
		err = snap_module_set_create(&spaces->finder, &spaces->arena, &spaces->set);
	if (!err)
		err = snap_modules_create(spaces->set, process, &modules);
	if (!err)
		err = snap_unwinder_create(spaces->set, spaces->options, &unwinder);
	if (!err)
		err = snap_unwinder_enter(unwinder, process, modules);
	if (err) {
		snap_unwinder_destroy(unwinder);
		return err;
	}
	space->unwinder = unwinder;
	space->bytes = spaces->arena.total - before;
	return NULL;
}

struct snap_error *snap_spaces_unwind(struct snap_spaces *spaces, uint32_t number,
				      const struct snap_thread *thread, struct snap_pcs *ret)
{
	struct snap_error *err = reserve(spaces, (size_t)number + 1);
	struct space *space;

	if (err)
		return err;
	space = &spaces->spaces[number];
	if (!space->unwinder)
		err = enter(spaces, space, &spaces->log->capture->processes[number]);
	if (err)
		return err;
	snap_unwind(space->unwinder, thread, ret);
	return ret->no_memory ? snap_error_no_memory() : NULL;
}

/* Whether a mapping is one by which stacks are unwound and named. */
static bool matters(const struct snap_map *map)
{
	return map->execute || (map->path && map->inode);
}

static bool is_same_map(const struct snap_map *a, const struct snap_map *b)
{
	const char *path = a->path ? a->path : "", *other = b->path ? b->path : "";

	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && a->execute == b->execute && a->read == b->read &&
	       strcmp(path, other) == 0;
}

bool snap_space_knows(const struct snap_process *space, const struct snap_process *facts)
{
	size_t at = 0;

	for (size_t i = 0; i < facts->map_count; i++) {
		const struct snap_map *map = &facts->maps[i];

		if (!matters(map))
			continue;
		while (at < space->map_count && space->maps[at].start < map->start)
			at++;
		if (at == space->map_count || !is_same_map(&space->maps[at], map))
			return false;
	}
	return true;
}
