/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See fuse_maps.h. Only the kernel is asked: statfs() would be answered by the file system. */
#include "proc/fuse_maps.h"

#include "proc/procfs.h"

#include <stdio.h>
#include <string.h>

static bool has_no_device(const struct snap_map *map)
{
	return map->inode != 0 && map->dev_major == 0;
}

bool snap_fuse_maps_possible(const struct snap_space *space)
{
	for (size_t i = 0; i < space->map_count; i++)
		if (has_no_device(&space->maps[i]))
			return true;
	return false;
}

/* "ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS [FIELD]… - TYPE SOURCE OPTIONS" (proc(5)). */
static bool parse_mount(const char *line, unsigned *minor_ret)
{
	const char *type = strstr(line, " - fuse");
	unsigned major;

	/* "fuse" and "fuse.sshfs"; "fusectl" is the kernel's own. */
	if (!type || (type[7] != ' ' && type[7] != '.'))
		return false;
	return sscanf(line, "%*u %*u %u:%u", &major, minor_ret) == 2 && major == 0;
}

static void hide(struct snap_space *space, unsigned minor)
{
	for (size_t i = 0; i < space->map_count; i++)
		if (has_no_device(&space->maps[i]) && space->maps[i].dev_minor == minor)
			space->maps[i].read = false;
}

void snap_fuse_maps_hide(const struct snap_space_reader *reader, int mounts_fd,
			 struct snap_space *space)
{
	struct snap_lines lines;
	size_t length;
	char *line;

	if (mounts_fd < 0)
		return;
	snap_lines_init(&lines, mounts_fd, reader->buffer, reader->buffer_size);
	while (snap_lines_next(&lines, &line, &length) > 0) {
		unsigned minor;

		if (parse_mount(line, &minor))
			hide(space, minor);
	}
}
