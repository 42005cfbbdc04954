/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Control groups: a process's path, and the unit and container that the path names.
 *
 * Pure functions on text; the names in a path are those of service managers and container engines,
 * recognised by a table of patterns, without asking any of them. Nothing is opened here.
 *
 * A unit has a group below the slices. Below that it may make others with any names, and so may a
 * container. So these are known by their place only: "user@1000.service/a.service".
 */
#pragma once

#include "base/cleanup.h"
#include "proc/parse.h"

#include <stdbool.h>

enum { SNAP_MAX_CONTAINER = 256 };

/* The contents of the file cgroup of a process. "" is unknown. */
struct snap_cgroup {
	char path[SNAP_MAX_PATH]; /* in the unified hierarchy, or of name=systemd */
	char container[SNAP_MAX_CONTAINER];
	char place[SNAP_MAX_PATH]; /* the hierarchy and group in which the container's group lies */
	int rank;                  /* of the line that `path` is from */
};

void snap_cgroup_init(struct snap_cgroup *cgroup);
/* Takes one line, without its newline: "0::/system.slice/cron.service". */
void snap_cgroup_line(struct snap_cgroup *cgroup, const char *line, size_t length);

/*
 * The unit of a path ("cron.service", "session-3.scope"; slices only group units). One that is below
 * another unit, or any other group, begins there. Points into the path, length 0: none.
 */
const char *snap_cgroup_unit(const char *path, size_t *length_ret);
/* Whether a process with this path runs in the unit or slice, also in a group below it. */
bool snap_cgroup_in_unit(const char *path, const char *unit);
/* Whether the path is `group` or below it; mount points of the hierarchies are cut off `group`. */
bool snap_cgroup_is_below(const char *path, const char *group);
/*
 * The container of a path, its id or its name, and behind a slash the one in it; "" if there is none.
 * And where the group of the first one begins.
 */
void snap_cgroup_container(const char *path, char ret[SNAP_MAX_CONTAINER], size_t *at_ret);
/* Puts the first group below the slices before the container: it has made that itself. */
void snap_cgroup_name_owner(struct snap_cgroup *cgroup);
/* Whether `wanted` is the name of a container or one around it; of an id, the start will do. */
bool snap_cgroup_container_is(const char *container, const char *wanted);
