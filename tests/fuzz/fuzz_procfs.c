/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The texts of /proc about a process, and about what its threads wait with; messages of sock_diag:
 * the first byte says which one the others are.
 */
#include "fuzz.h"
#include "proc/parse.h"
#include "proc/wait/diag.h"
#include "proc/wait/fdinfo.h"
#include "proc/wait/locks.h"
#include "proc/wait/net.h"
#include "proc/wait/queues.h"

#include "base/cleanup.h"

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

/* ---- what is waited for ---- */

static void check_link(const char *text, size_t length)
{
	uint64_t inode = 1;
	enum snap_descriptor_kind kind = snap_parse_descriptor_link(text, length, &inode);

	fuzz_check(kind < SNAP_DESCRIPTOR_KINDS, "a kind");
	fuzz_check(inode == 0 || kind == SNAP_DESCRIPTOR_PIPE || kind == SNAP_DESCRIPTOR_SOCKET,
		   "pipes and sockets alone have an inode");
	fuzz_check(length == 0 || text[0] != '/' || kind == SNAP_DESCRIPTOR_FILE,
		   "a path is a file");
	(void)snap_parse_namespace(text, length, &inode);
}

static void check_mount(const char *line, size_t length)
{
	uint64_t mount;
	uint32_t major, minor;

	(void)snap_parse_mount(line, length, &mount, &major, &minor);
}

static void check_fdinfo(const char *text, size_t length)
{
	enum { ROOM = 3 };
	struct snap_epoll_watch watched[ROOM];
	const char *end = text + length;
	struct snap_fdinfo info;

	snap_fdinfo_init(&info, watched, ROOM);
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t line = (size_t)((newline ? newline : end) - text);

		snap_parse_fdinfo_line(text, line, &info);
		check_mount(text, line);
		text += line + 1;
	}
	fuzz_check(info.watches <= SNAP_MAX_WATCHED, "the cap of what is counted");
	fuzz_check(info.watched_count <= ROOM && info.watched_count <= info.watches, "the room");
	fuzz_check(info.remaining_ns >= -1 && info.pid >= -1, "no other number is negative");
	for (size_t i = 0; i < info.watched_count; i++)
		fuzz_check(watched[i].number >= 0, "a descriptor");
}

static void check_lock(const char *line, size_t length)
{
	struct snap_file_lock lock;

	if (snap_parse_file_lock(line, length, &lock))
		fuzz_check(!lock.is_holder && lock.pid >= -1 && lock.start <= lock.end,
			   "a line of locks");
	if (snap_parse_held_lock(line, length, &lock))
		fuzz_check(lock.is_holder && !lock.waits && lock.start <= lock.end,
			   "a lock that is held");
}

static void check_socket(const char *line, size_t length)
{
	struct snap_socket socket;

	for (int family = 0; family < SNAP_SOCKET_FAMILIES; family++)
		if (snap_parse_inet_socket(line, length, family, &socket))
			fuzz_check((int)socket.family == family && !socket.name, "what was asked");
	if (snap_parse_unix_socket(line, length, &socket))
		fuzz_check(socket.family == SNAP_SOCKET_UNIX && !socket.name && !socket.peer,
			   "no more than stands there");
}

static void check_queue(const char *line, size_t length)
{
	struct snap_ipc_queue queue;

	if (snap_parse_message_queue(line, length, &queue))
		fuzz_check(!queue.is_semaphore && queue.id >= 0 && queue.last_sender >= 0 &&
				   queue.last_receiver >= 0,
			   "a message queue");
	if (snap_parse_semaphore_set(line, length, &queue))
		fuzz_check(queue.is_semaphore && queue.id >= 0, "a set of semaphores");
}

static void check_tables(const char *text, size_t length)
{
	const char *end = text + length;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t line = (size_t)((newline ? newline : end) - text);

		check_lock(text, line);
		check_socket(text, line);
		check_queue(text, line);
		text += line + 1;
	}
}

static bool lies_in(const void *part, size_t part_size, const void *whole, size_t size)
{
	const char *at = part, *begin = whole;

	return part_size == 0 ||
	       (at >= begin && part_size <= size && (size_t)(at - begin) <= size - part_size);
}

/* The first byte says which family was asked for. */
static void check_diag(const char *bytes, size_t length)
{
	enum snap_diag_result result = SNAP_DIAG_SOCKET;
	struct snap_diag_answer answer;
	enum snap_socket_family family;
	size_t at = 0, size;
	int error = 0;

	if (length < 1)
		return;
	family = (uint8_t)bytes[0] % SNAP_SOCKET_FAMILIES;
	size = length - 1;
	while (result == SNAP_DIAG_SOCKET) {
		size_t before = at;

		result = snap_diag_next((const uint8_t *)bytes + 1, size, &at, family, &answer,
					&error);
		if (result == SNAP_DIAG_ERROR)
			fuzz_check(error > 0, "a positive errno");
		if (result != SNAP_DIAG_SOCKET)
			return;
		fuzz_check(at > before, "it goes on");
		fuzz_check(answer.socket.family == family && !answer.socket.name, "the family");
		fuzz_check(lies_in(answer.name, answer.name_length, bytes + 1, size),
			   "the name lies in the message");
		fuzz_check(lies_in(answer.pending, answer.pending_count * sizeof(uint32_t),
				   bytes + 1, size),
			   "who waits to be accepted lies in the message");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const checks[])(const char *text, size_t length) = {
		check_stat,   check_maps,   check_status, check_others,
		check_fdinfo, check_tables, check_diag,   check_link,
	};
	/* A copy of its own without a NUL behind: reading on is seen. */
	char *text = malloc(size ? size : 1);

	if (size < 1 || !text) {
		free(text);
		return 0;
	}
	memcpy(text, data + 1, size - 1);
	checks[data[0] % SNAP_ARRAY_SIZE(checks)](text, size - 1);
	free(text);
	return 0;
}
