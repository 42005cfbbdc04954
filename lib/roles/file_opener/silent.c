/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What has blocked openers of earlier runs: see silent.h. */
#include "roles/file_opener/silent.h"

#include "proc/left_behind.h"
#include "proc/procfs.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>

void snap_silent_init(struct snap_silent *silent)
{
	silent->count = 0;
	silent->is_read = false;
	if (prctl(PR_GET_NAME, silent->own) != 0)
		strcpy(silent->own, SNAP_OWN_NAME "opener");
}

/* Only names of openers say what they wait for; hundreds of readers may be left behind as well. */
static bool says_what(const char *name)
{
	const char *what = name + strlen(SNAP_OWN_NAME) + 1;

	switch (what[-1]) {
	case 'p':
		return *what && !what[strspn(what, "0123456789")];
	case 'd':
		return *what && !what[strspn(what, "0123456789abcdef:")];
	default:
		return false;
	}
}

/*
 * Names come first: the kernel gives them without a delay, even during an exec, and few processes
 * have a name of ours.
 */
static void read_left_behind(struct snap_silent *silent)
{
	struct snap_procfs procfs = { .root_fd = -1 };
	struct snap_numbers numbers;
	pid_t pid;

	silent->is_read = true;
	if (snap_error_ignore(snap_procfs_open(NULL, &procfs)))
		return;
	snap_numbers_init(&numbers, procfs.root_fd);
	while (silent->count < SNAP_SILENT_MOST && snap_numbers_next(&numbers, &pid) == 1) {
		char path[32], *name = silent->names[silent->count];
		ssize_t length;

		snprintf(path, sizeof(path), "%d/comm", (int)pid);
		length = snap_procfs_read(procfs.root_fd, path, name, SNAP_SILENT_NAME);
		if (length <= 0 || !snap_has_own_name(name))
			continue;
		/* A name of full length leaves no room for the newline. */
		name[strcspn(name, "\n")] = '\0';
		if (says_what(name) && snap_is_left_behind(procfs.root_fd, pid))
			silent->count++;
	}
	snap_procfs_close(&procfs);
}

/* The list of processes is not read for what cannot block. */
static bool begin_silent_server(struct snap_silent *silent, const char *name, bool may_be_silent)
{
	size_t held = 0;

	if (may_be_silent && !silent->is_read)
		read_left_behind(silent);
	for (size_t i = 0; i < silent->count; i++)
		held += strcmp(silent->names[i], name) == 0;
	if (held >= SNAP_SILENT_ENOUGH)
		return false;
	prctl(PR_SET_NAME, name);
	return true;
}

bool snap_silent_begin_process(struct snap_silent *silent, pid_t pid)
{
	char name[SNAP_SILENT_NAME];

	snprintf(name, sizeof(name), SNAP_OWN_NAME "p%d", (int)pid);
	return begin_silent_server(silent, name, true);
}

bool snap_silent_begin_device(struct snap_silent *silent, dev_t device)
{
	char name[32];

	snprintf(name, sizeof(name), SNAP_OWN_NAME "d%x:%x", major(device), minor(device));
	/* The kernel serves a device that has a disk of its own. */
	return begin_silent_server(silent, name, major(device) == 0);
}

void snap_silent_end(const struct snap_silent *silent)
{
	prctl(PR_SET_NAME, silent->own);
}
