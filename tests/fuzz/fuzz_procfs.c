/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The texts of /proc about a process: the first byte says which one the others are. */
#include "fuzz.h"
#include "proc/parse.h"

#include <string.h>

static void check_stat(const char *text, size_t length)
{
	struct snap_stat stat;

	if (!snap_parse_stat(text, length, &stat))
		return;
	fuzz_check(strnlen(stat.name, sizeof(stat.name)) < sizeof(stat.name), "comm is ended");
	fuzz_check(stat.pid > 0 && stat.ppid >= 0, "a process has a pid");
}

static void check_maps(const char *text, size_t length)
{
	const char *end = text + length;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text)), *path = NULL;
		size_t line = (size_t)((newline ? newline : end) - text), path_length = 0;
		struct snap_map map;

		if (snap_parse_map(text, line, &map, &path, &path_length)) {
			fuzz_check(map.start < map.end, "a mapping has a size");
			fuzz_check(map.path == NULL, "the path is the line's");
			fuzz_check(path_length == 0 ||
					   (path >= text && path + path_length <= text + line),
				   "the path lies in the line");
		}
		text += line + 1;
	}
}

static void check_status(const char *text, size_t length)
{
	const char *end = text + length;
	struct snap_status status;

	snap_status_init(&status);
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t line = (size_t)((newline ? newline : end) - text);

		snap_parse_status_line(text, line, &status);
		text += line + 1;
	}
	fuzz_check(status.tgid >= 0 && status.tracer_pid >= 0 && status.ns_pid >= 0, "pids");
}

static void check_others(const char *text, size_t length)
{
	struct snap_syscall_line place;
	uint64_t numbers[3], ran_ns;
	size_t cut = length;

	(void)snap_parse_schedstat(text, length, numbers);
	if (snap_parse_exec_start(text, length, &ran_ns))
		fuzz_check(ran_ns <= INT64_MAX, "a time fits");
	if (snap_parse_syscall(text, length, &place) && !place.running)
		fuzz_check(place.number >= -1, "a call has a number");
	fuzz_check(snap_parse_pid(text, length) >= 0, "a pid is no negative number");
	if (snap_cut_deleted(text, &cut))
		fuzz_check(cut < length, "a part of it was cut off");
	else
		fuzz_check(cut == length, "nothing was cut off");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of its own without a NUL behind: reading on is seen. */
	char *text = malloc(size ? size : 1);

	if (size < 1 || !text) {
		free(text);
		return 0;
	}
	memcpy(text, data + 1, size - 1);
	switch (data[0] % 4) {
	case 0:
		check_stat(text, size - 1);
		break;
	case 1:
		check_maps(text, size - 1);
		break;
	case 2:
		check_status(text, size - 1);
		break;
	default:
		check_others(text, size - 1);
	}
	free(text);
	return 0;
}
