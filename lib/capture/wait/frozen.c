/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Whether the control group of a process is frozen (version 2): nothing else tells, its threads
 * look as if they slept in their calls.
 *
 * The kernel keeps the answer in its own memory, so it is read without a worker: no target can make
 * that sleep. Only of processes all of whose threads sleep, once a group; and only where the
 * hierarchy is what it should be.
 */
#include "base/text.h"
#include "capture/wait/resolve.h"
#include "capture/wait/resolver.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

enum {
	MOST_GROUPS = 256,
	EVENTS_TEXT = 256,
};

static bool is_hierarchy(int fd)
{
	struct statfs filesystem;

	return fstatfs(fd, &filesystem) == 0 && filesystem.f_type == CGROUP2_SUPER_MAGIC;
}

/* The root of version 2; beside version 1 it lies below (cgroups(7)). -1: there is none. */
static int open_hierarchy(void)
{
	static const char *const places[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(places); i++) {
		_cleanup_fd_ int fd = open(places[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (fd >= 0 && is_hierarchy(fd))
			return snap_take_fd(&fd);
	}
	return -1;
}

static bool is_frozen(int hierarchy_fd, const char *group)
{
	static const char frozen[] = "frozen 1\n";
	char name[SNAP_MAX_PATH + 32], text[EVENTS_TEXT];
	_cleanup_fd_ int fd = -1;
	ssize_t length;

	/* The root cannot be frozen, and above it nothing can be asked. */
	if (group[0] != '/' || !group[1] || strstr(group, "/../") ||
	    (size_t)snprintf(name, sizeof(name), "%s/cgroup.events", group + 1) >= sizeof(name))
		return false;
	fd = openat(hierarchy_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || !is_hierarchy(fd))
		return false;
	length = snap_procfs_reread(fd, text, sizeof(text));
	return length > 0 && strstr(text, frozen) != NULL;
}

bool snap_capture_is_frozen(const char *group)
{
	_cleanup_fd_ int hierarchy_fd = group && group[0] && group[1] ? open_hierarchy() : -1;

	return hierarchy_fd >= 0 && is_frozen(hierarchy_fd, group);
}

static bool sleeps(const struct snap_process *process)
{
	bool sleeps = false;

	for (size_t i = 0; i < process->thread_count; i++) {
		if (!snap_wait_is_alive(process, &process->threads[i]))
			continue;
		if (process->threads[i].state != 'S')
			return false;
		sleeps = true;
	}
	return sleeps;
}

void snap_wait_find_frozen(struct snap_capture *capture)
{
	struct {
		const char *group;
		bool is_frozen;
	} seen[MOST_GROUPS];
	size_t count = 0, at;
	_cleanup_fd_ int hierarchy_fd = -1;

	for (size_t i = 0; i < capture->process_count; i++) {
		struct snap_process *process = &capture->processes[i];

		if (!process->cgroup || !sleeps(process))
			continue;
		for (at = 0; at < count && !snap_same_text(seen[at].group, process->cgroup); at++)
			;
		if (at == count && count < MOST_GROUPS) {
			if (!count)
				hierarchy_fd = open_hierarchy();
			seen[count].group = process->cgroup;
			seen[count++].is_frozen =
				hierarchy_fd >= 0 && is_frozen(hierarchy_fd, process->cgroup);
		}
		process->frozen = at < count && seen[at].is_frozen;
	}
}
