/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The unwinder of a log: see log_unwinder.h. */
#include "record/log_unwinder.h"

#include "roles/file_opener/file_opener.h"

#include <string.h>

struct snap_log_unwinder {
	const struct snap_log *log;
	struct snap_file_opener *opener;
	struct snap_broker broker;
	struct snap_remote_unwinder *remote;
};

struct stacksnap_error *snap_log_unwinder_create(const struct snap_options *options,
						 const struct snap_log *log,
						 struct snap_log_unwinder **ret)
{
	_cleanup_(snap_log_unwinder_destroyp) struct snap_log_unwinder *unwinder =
		calloc(1, sizeof(*unwinder));
	struct stacksnap_error *err;

	if (!unwinder)
		return snap_error_no_memory();
	unwinder->log = log;
	err = snap_file_opener_create(NULL, &unwinder->opener);
	if (err)
		return err;
	snap_file_opener_set_options(unwinder->opener, options, 0);
	snap_file_opener_set_capture(unwinder->opener, log->capture);
	unwinder->broker = snap_file_opener_broker(unwinder->opener);
	err = snap_remote_unwinder_create(options, &unwinder->broker, &unwinder->remote);
	if (err)
		return err;
	*ret = snap_take_ptr(unwinder);
	return NULL;
}

void snap_log_unwinder_destroy(struct snap_log_unwinder *unwinder)
{
	if (!unwinder)
		return;
	snap_remote_unwinder_destroy(unwinder->remote);
	snap_file_opener_destroy(unwinder->opener);
	free(unwinder);
}

const struct snap_broker *snap_log_unwinder_broker(const struct snap_log_unwinder *unwinder)
{
	return &unwinder->broker;
}

void snap_log_unwinder_heed(struct snap_log_unwinder *unwinder, _Atomic int64_t *asked_ns)
{
	snap_remote_unwinder_heed(unwinder->remote, asked_ns);
}

void snap_log_unwinder_reset(struct snap_log_unwinder *unwinder)
{
	snap_remote_unwinder_reset(unwinder->remote);
}

void snap_log_unwinder_leave(struct snap_log_unwinder *unwinder, uint32_t number)
{
	snap_remote_unwinder_leave(unwinder->remote, number);
}

void snap_log_unwinder_tidy(struct snap_log_unwinder *unwinder)
{
	snap_remote_unwinder_tidy(unwinder->remote);
}

struct stacksnap_error *snap_log_unwind(struct snap_log_unwinder *unwinder, uint32_t number,
					const struct snap_thread *thread, struct snap_pcs *ret)
{
	return snap_remote_unwind(unwinder->remote, number,
				  &unwinder->log->capture->processes[number], thread, ret);
}

const struct snap_remote_managed *
snap_log_unwinder_managed(const struct snap_log_unwinder *unwinder)
{
	return snap_remote_unwinder_managed(unwinder->remote);
}

struct stacksnap_error *snap_log_list_tasks(struct snap_log_unwinder *unwinder, uint32_t number,
					    const struct snap_process *whole,
					    const struct snap_remote_tasks **ret)
{
	return snap_remote_list_tasks(unwinder->remote, number,
				      &unwinder->log->capture->processes[number], whole, ret);
}

unsigned snap_log_unwinder_losses(const struct snap_log_unwinder *unwinder, const char **why_ret)
{
	return snap_remote_unwinder_losses(unwinder->remote, why_ret);
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
