/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Spaces: see spaces.h. */
#include "record/spaces.h"

#include "files/files.h"
#include "roles/unwinder/unwinder.h"

#include <string.h>

struct snap_spaces {
	const struct snap_log *log;
	struct snap_files *files;
	struct snap_local_broker local;
	struct snap_broker broker;
	struct snap_remote_unwinder *unwinder;
};

struct snap_error *snap_spaces_create(const struct snap_options *options,
				      const struct snap_log *log, struct snap_spaces **ret)
{
	_cleanup_(snap_spaces_destroyp) struct snap_spaces *spaces = calloc(1, sizeof(*spaces));
	struct snap_error *err;

	if (!spaces)
		return snap_error_no_memory();
	spaces->log = log;
	err = snap_files_create(options, log->capture, &spaces->files);
	if (err)
		return err;
	spaces->local.finder = snap_files_finder(spaces->files);
	spaces->local.capture = log->capture;
	spaces->broker = snap_local_broker(&spaces->local);
	err = snap_remote_unwinder_create(options, &spaces->broker, &spaces->unwinder);
	if (err)
		return err;
	*ret = snap_take_ptr(spaces);
	return NULL;
}

void snap_spaces_destroy(struct snap_spaces *spaces)
{
	if (!spaces)
		return;
	snap_remote_unwinder_destroy(spaces->unwinder);
	snap_files_destroy(spaces->files);
	free(spaces);
}

const struct snap_broker *snap_spaces_broker(const struct snap_spaces *spaces)
{
	return &spaces->broker;
}

void snap_spaces_reset(struct snap_spaces *spaces)
{
	snap_remote_unwinder_reset(spaces->unwinder);
}

void snap_spaces_leave(struct snap_spaces *spaces, uint32_t number)
{
	snap_remote_unwinder_leave(spaces->unwinder, number);
}

void snap_spaces_tidy(struct snap_spaces *spaces)
{
	snap_remote_unwinder_tidy(spaces->unwinder);
}

struct snap_error *snap_spaces_unwind(struct snap_spaces *spaces, uint32_t number,
				      const struct snap_thread *thread, struct snap_pcs *ret)
{
	return snap_remote_unwind(spaces->unwinder, number,
				  &spaces->log->capture->processes[number], thread, ret);
}

unsigned snap_spaces_losses(const struct snap_spaces *spaces, const char **why_ret)
{
	return snap_remote_unwinder_losses(spaces->unwinder, why_ret);
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
