/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The file cgroup of a process, and the units and containers that its paths name. */
#include "fuzz.h"
#include "proc/cgroup.h"

#include <string.h>

static void check_path(const char *path)
{
	char container[SNAP_MAX_CONTAINER], name[SNAP_MAX_PATH];
	size_t length = 0, at;
	const char *unit = snap_cgroup_unit(path, &length);

	fuzz_check(length == 0 || (unit >= path && unit + length <= path + strlen(path)),
		   "the unit is a part of the path");
	if (length && length < sizeof(name)) {
		memcpy(name, unit, length);
		name[length] = '\0';
		fuzz_check(snap_cgroup_in_unit(path, name), "a process is in its unit");
	}
	(void)snap_cgroup_is_below(path, path);
	snap_cgroup_container(path, container, &at);
	fuzz_check(at <= strlen(path), "its group is in the path");
	fuzz_check(strnlen(container, sizeof(container)) < sizeof(container), "it is ended");
	if (*container)
		fuzz_check(snap_cgroup_container_is(container, container), "it is itself");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct snap_cgroup cgroup;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	snap_cgroup_init(&cgroup);
	for (size_t at = 0; at < size;) {
		const char *newline = memchr(text + at, '\n', size - at);
		size_t line = newline ? (size_t)(newline - text) - at : size - at;

		snap_cgroup_line(&cgroup, text + at, line);
		at += line + 1;
	}
	fuzz_check(strnlen(cgroup.path, sizeof(cgroup.path)) < sizeof(cgroup.path), "ended");
	check_path(cgroup.path);
	fuzz_check(strnlen(cgroup.place, sizeof(cgroup.place)) < sizeof(cgroup.place), "ended");
	if (cgroup.container[0])
		snap_cgroup_name_owner(&cgroup);
	check_path(text);
	free(text);
	return 0;
}
