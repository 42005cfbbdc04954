/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Leaving shared memory: see sandbox.h. The kernel's list says what is shared, so code that maps
 * shared memory later needs no entry here.
 */
#include "roles/sandbox/sandbox.h"

#include "base/bytes.h"
#include "proc/procfs.h"

#include <sys/mman.h>
#include <unistd.h>
#include <wchar.h>

enum {
	/* Only the numbers of a line are needed: paths may be cut. */
	LINE_BYTES = 4096,
	/* Each look unmaps what it finds; the last one, which finds nothing, is the proof. */
	MOST_LOOKS = 8,
};

struct range {
	uintptr_t start, end;
};

/*
 * Unmaps a mapping, except for the part that is kept, which may be inside or reach over either end.
 */
static struct stacksnap_error *unmap_range(struct range mapped, struct range kept, size_t *left_ret)
{
	const struct range parts[] = {
		{ mapped.start, kept.start < mapped.end ? kept.start : mapped.end },
		{ kept.end > mapped.start ? kept.end : mapped.start, mapped.end },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(parts); i++) {
		if (parts[i].start >= parts[i].end)
			continue;
		if (munmap((void *)parts[i].start, parts[i].end - parts[i].start) < 0)
			return snap_error_os(errno, "cannot leave shared memory");
		(*left_ret)++;
	}
	return NULL;
}

/*
 * Shared means the kernel's letter `s`, also for a mapping that is not writable now: mprotect()
 * could change that. The kernel finds the next line by its address, so unmapping on the way does no
 * harm; and the next look would find what this one missed.
 */
static struct stacksnap_error *leave_those_listed(int maps_fd, struct range kept, size_t *left_ret)
{
	struct stacksnap_error *err = NULL;
	struct snap_lines lines;
	char buffer[LINE_BYTES], *line;
	size_t length;
	int more;

	snap_lines_init(&lines, maps_fd, buffer, sizeof(buffer));
	while (!err && (more = snap_lines_next(&lines, &line, &length)) > 0) {
		const char *path;
		size_t path_length;
		struct snap_map map;

		if (!snap_parse_map(line, length, &map, &path, &path_length))
			return snap_error_format(SNAP_ERROR_FORMAT,
						 "cannot understand the list of mappings");
		if (map.shared)
			err = unmap_range((struct range){ map.start, map.end }, kept, left_ret);
	}
	if (!err && more < 0)
		err = snap_error_os(-more, "cannot read the list of mappings");
	return err;
}

static struct stacksnap_error *unmap_listed_ranges(int process_fd, struct range kept,
						   size_t *left_ret)
{
	_cleanup_fd_ int fd = snap_procfs_open_file(process_fd, "maps");

	if (fd < 0)
		return snap_error_os(-fd, "cannot read the list of mappings");
	return leave_those_listed(fd, kept, left_ret);
}

/*
 * glibc maps a table of character sets, and reads it when the first character is converted in a
 * locale, also for fnmatch(3) and regexec(3). This must happen before the table is unmapped.
 */
static void load_character_set(void)
{
	mbstate_t state = { 0 };
	wchar_t character;

	(void)mbrtowc(&character, "a", 1, &state);
}

/* The directory of this process. */
static struct stacksnap_error *open_own(int *ret)
{
	struct snap_procfs procfs;

	SNAP_TRY(snap_procfs_open(NULL, &procfs));
	*ret = snap_procfs_open_process(&procfs, snap_procfs_self(&procfs));
	snap_procfs_close(&procfs);
	return *ret < 0 ? snap_error_os(-*ret, "cannot read the list of mappings") : NULL;
}

struct stacksnap_error *snap_sandbox_leave_memory(const void *kept, uint64_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const struct range range = { (uintptr_t)kept & ~(page - 1),
				     snap_round_up((uintptr_t)kept + size, page) };
	_cleanup_fd_ int process_fd = -1;
	struct stacksnap_error *err = open_own(&process_fd);

	load_character_set();
	for (int i = 0; !err && i < MOST_LOOKS; i++) {
		size_t left = 0;

		err = unmap_listed_ranges(process_fd, range, &left);
		if (!err && left == 0)
			return NULL;
	}
	return err ? err : snap_error_format(SNAP_ERROR_OTHER, "cannot unmap shared memory");
}
