/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Control groups: a process's path, and the unit and container that the path names.
 *
 * Pure functions on text; the names in a path are those of service managers and container engines,
 * recognised by a table of patterns, without asking any of them. Nothing is opened here.
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
	int rank; /* of the line that `path` is from */
};

void snap_cgroup_init(struct snap_cgroup *cgroup);
/* Takes one line, without its newline: "0::/system.slice/cron.service". */
void snap_cgroup_line(struct snap_cgroup *cgroup, const char *line, size_t length);

/*
 * The innermost unit of a path ("cron.service", "session-3.scope"; slices only group units).
 * Points into the path, length 0: none.
 */
const char *snap_cgroup_unit(const char *path, size_t *length_ret);
/* Whether a process with this path runs in the unit, also in a group below it. */
bool snap_cgroup_in_unit(const char *path, const char *unit);
/* Whether the path is `group` or below it; mount points of the hierarchies are cut off `group`. */
bool snap_cgroup_is_below(const char *path, const char *group);
/* The innermost container of a path, its id or its name; "" if there is none. */
void snap_cgroup_container(const char *path, char ret[SNAP_MAX_CONTAINER]);
/* Whether `wanted` is the name of a container, or the start of its id. */
bool snap_cgroup_container_is(const char *container, const char *wanted);
