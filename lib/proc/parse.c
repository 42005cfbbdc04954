/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parsers of the texts of procfs: see parse.h. */
#include "proc/parse.h"

#include "base/cleanup.h"
#include "proc/text_cursor.h"

#include <limits.h>
#include <string.h>

pid_t snap_parse_pid(const char *text, size_t length)
{
	struct snap_text_cursor cursor = { text, text + length };
	uint64_t value;

	if (!snap_take_limited(&cursor, INT_MAX, &value) || cursor.at != cursor.end)
		return 0;
	return (pid_t)value;
}

static void copy_stat_name(const char *from, size_t length, char name[SNAP_MAX_COMM])
{
	if (length > SNAP_MAX_COMM - 1)
		length = SNAP_MAX_COMM - 1;
	memcpy(name, from, length);
	memset(name + length, 0, SNAP_MAX_COMM - length);
}

bool snap_stat_is_ambiguous(const struct snap_stat *stat)
{
	return strchr(stat->name, '\\') != NULL;
}

void snap_stat_take_comm(struct snap_stat *stat, const char *comm, size_t length)
{
	if (length && comm[length - 1] == '\n')
		length--;
	copy_stat_name(comm, strnlen(comm, length), stat->name);
}

/* Stores a field of stat, as proc(5) counts them. False: the kernel has no such number. */
static bool set_stat_field(struct snap_stat *stat, unsigned field, uint64_t value)
{
	if ((field == 4 || field == 5 || field == 20 || field == 38 || field == 39) &&
	    value > INT_MAX)
		return false;
	if (field == 4)
		stat->ppid = (pid_t)value;
	else if (field == 5)
		stat->pgrp = (pid_t)value;
	else if (field == 9)
		stat->flags = (uint32_t)value;
	else if (field == 10 || field == 12)
		stat->faults += value;
	else if (field == 14 || field == 15)
		stat->run_ticks += value;
	else if (field == 20)
		stat->threads = (unsigned)value;
	else if (field == 26)
		stat->program = value;
	else if (field == 28 && stat->program) /* code comes last when a program is loaded */
		stat->program = stat->program * 0x9e3779b97f4a7c15 + value;
	else if (field == 22)
		stat->start_ticks = value;
	else if (field == 24)
		stat->rss_pages = value;
	else if (field == 34)
		stat->caught = value;
	else if (field == 38)
		stat->exit_signal = (int)value;
	else if (field == 39)
		stat->cpu = (int)value;
	else if (field == 48)
		stat->args = value;
	else if (field == 49)
		stat->args_end = value;
	return true;
}

bool snap_parse_stat(const char *text, size_t length, struct snap_stat *ret)
{
	enum { FIRST_NUMBER = 4, LAST_NEEDED = 22, LAST_WANTED = 49 };
	const char *last = memrchr(text, ')', length);
	struct snap_text_cursor cursor = { text, text + length };
	struct snap_stat stat = { .exit_signal = -1, .cpu = -1 };
	uint64_t value;
	unsigned field;
	bool negative;

	if (!last || !snap_take_limited(&cursor, INT_MAX, &value) ||
	    !snap_take_char(&cursor, ' ') || !snap_take_char(&cursor, '(') || cursor.at > last)
		return false;
	stat.pid = (pid_t)value;
	copy_stat_name(cursor.at, (size_t)(last - cursor.at), stat.name);
	cursor.at = last + 1;
	if (!snap_take_char(&cursor, ' ') || cursor.at == cursor.end)
		return false;
	stat.state = *cursor.at++;
	for (field = FIRST_NUMBER; field <= LAST_WANTED; field++) {
		if (!snap_take_char(&cursor, ' '))
			break;
		/* tpgid, priority, nice … and the exit signal of a thread are not needed. */
		negative = snap_take_char(&cursor, '-');
		if (!snap_take_number(&cursor, 10, &value))
			break;
		if (!negative && !set_stat_field(&stat, field, value))
			return false;
	}
	if (field <= LAST_NEEDED)
		return false;
	*ret = stat;
	return true;
}

void snap_status_init(struct snap_status *status)
{
	const unsigned unknown = UINT_MAX;

	*status = (struct snap_status){ .uid = unknown,
					.euid = unknown,
					.suid = unknown,
					.gid = unknown,
					.egid = unknown,
					.sgid = unknown };
}

static unsigned one_number(struct snap_text_cursor *cursor, unsigned limit, unsigned otherwise)
{
	uint64_t value;
	bool good = snap_take_limited(cursor, limit, &value);

	snap_skip_blanks(cursor);
	return good ? (unsigned)value : otherwise;
}

static void three_ids(struct snap_text_cursor *cursor, unsigned *real, unsigned *effective,
		      unsigned *saved)
{
	*real = one_number(cursor, UINT_MAX, UINT_MAX);
	*effective = one_number(cursor, UINT_MAX, UINT_MAX);
	*saved = one_number(cursor, UINT_MAX, UINT_MAX);
}

static void all_groups(struct snap_text_cursor *cursor, struct snap_status *status)
{
	while (cursor->at < cursor->end && status->group_count < SNAP_MAX_GROUPS) {
		unsigned group = one_number(cursor, UINT_MAX, UINT_MAX);

		if (group == UINT_MAX)
			break;
		status->groups[status->group_count++] = group;
	}
}

static void all_pids(struct snap_text_cursor *cursor, struct snap_status *status)
{
	while (cursor->at < cursor->end) {
		unsigned pid = one_number(cursor, INT_MAX, 0);

		if (!pid)
			break;
		status->ns_pid = (pid_t)pid;
		status->ns_depth++;
	}
}

static void take_state(struct snap_text_cursor *cursor, struct snap_status *status)
{
	snap_skip_blanks(cursor);
	if (cursor->at < cursor->end)
		status->state = *cursor->at;
}

void snap_parse_status_line(const char *line, size_t length, struct snap_status *status)
{
	struct snap_text_cursor cursor = { line, line + length };

	if (snap_take_key(&cursor, "Pid:"))
		status->pid = (pid_t)one_number(&cursor, INT_MAX, 0);
	else if (snap_take_key(&cursor, "Tgid:"))
		status->tgid = (pid_t)one_number(&cursor, INT_MAX, 0);
	else if (snap_take_key(&cursor, "PPid:"))
		status->ppid = (pid_t)one_number(&cursor, INT_MAX, 0);
	else if (snap_take_key(&cursor, "State:"))
		take_state(&cursor, status);
	else if (snap_take_key(&cursor, "TracerPid:"))
		status->tracer_pid = (pid_t)one_number(&cursor, INT_MAX, 0);
	else if (snap_take_key(&cursor, "Threads:"))
		status->threads = one_number(&cursor, UINT_MAX, 0);
	else if (snap_take_key(&cursor, "Seccomp:"))
		status->seccomp = one_number(&cursor, UINT_MAX, 0);
	else if (snap_take_key(&cursor, "Uid:"))
		three_ids(&cursor, &status->uid, &status->euid, &status->suid);
	else if (snap_take_key(&cursor, "Gid:"))
		three_ids(&cursor, &status->gid, &status->egid, &status->sgid);
	else if (snap_take_key(&cursor, "Groups:"))
		all_groups(&cursor, status);
	else if (snap_take_key(&cursor, "SigPnd:"))
		snap_take_number(&cursor, 16, &status->pending);
	else if (snap_take_key(&cursor, "CapPrm:"))
		snap_take_number(&cursor, 16, &status->permitted);
	else if (snap_take_key(&cursor, "CapEff:"))
		snap_take_number(&cursor, 16, &status->effective);
	else if (snap_take_key(&cursor, "NSpid:"))
		all_pids(&cursor, status);
	else if (snap_take_key(&cursor, "voluntary_ctxt_switches:"))
		snap_take_number(&cursor, 10, &status->voluntary_switches);
	else if (snap_take_key(&cursor, "nonvoluntary_ctxt_switches:"))
		snap_take_number(&cursor, 10, &status->other_switches);
}

bool snap_parse_schedstat(const char *text, size_t length, uint64_t ret[3])
{
	struct snap_text_cursor cursor = { text, text + length };

	for (size_t i = 0; i < 3; i++) {
		snap_skip_blanks(&cursor);
		if (!snap_take_number(&cursor, 10, &ret[i]))
			return false;
	}
	return true;
}

static bool take_exec_start(struct snap_text_cursor *cursor, uint64_t *ret)
{
	uint64_t milliseconds, rest;
	const char *dot;

	snap_skip_blanks(cursor);
	if (!snap_take_char(cursor, ':'))
		return false;
	snap_skip_blanks(cursor);
	if (!snap_take_number(cursor, 10, &milliseconds) || !snap_take_char(cursor, '.'))
		return false;
	dot = cursor->at;
	if (!snap_take_number(cursor, 10, &rest) || cursor->at - dot != 6 ||
	    milliseconds > INT64_MAX / 1000000 - 1)
		return false;
	*ret = milliseconds * 1000000 + rest;
	return true;
}

/* The first line has a name that may be anything, with newlines: a field is the whole line. */
bool snap_parse_exec_start(const char *text, size_t length, uint64_t *ret)
{
	static const char name[] = "se.exec_start";
	const char *end = text + length;

	for (const char *line = text; line < end;) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		struct snap_text_cursor cursor = { line, stop ? stop : end };

		if ((size_t)(cursor.end - line) > sizeof(name) &&
		    memcmp(line, name, sizeof(name) - 1) == 0) {
			cursor.at += sizeof(name) - 1;
			if (take_exec_start(&cursor, ret) && cursor.at == cursor.end)
				return true;
		}
		line = cursor.end + 1;
	}
	return false;
}

static bool take_hex(struct snap_text_cursor *cursor, uint64_t *ret)
{
	snap_skip_blanks(cursor);
	return snap_take_char(cursor, '0') && snap_take_char(cursor, 'x') &&
	       snap_take_number(cursor, 16, ret);
}

/* "running", "-1 0xSP 0xPC", "NUMBER 0xARGUMENT (six of them) 0xSP 0xPC" */
bool snap_parse_syscall(const char *text, size_t length, struct snap_syscall_line *ret)
{
	static const char running[] = "running";
	struct snap_text_cursor cursor = { text, text + length };
	struct snap_syscall_line place = { .number = -1 };
	uint64_t number;

	if (length >= sizeof(running) - 1 && memcmp(text, running, sizeof(running) - 1) == 0) {
		*ret = (struct snap_syscall_line){ .running = true, .number = -1 };
		return true;
	}
	if (snap_take_char(&cursor, '-')) {
		if (!snap_take_number(&cursor, 10, &number))
			return false;
	} else {
		if (!snap_take_limited(&cursor, INT_MAX, &number))
			return false;
		place.number = (int64_t)number;
		for (size_t i = 0; i < SNAP_ARRAY_SIZE(place.arguments); i++)
			if (!take_hex(&cursor, &place.arguments[i]))
				return false;
	}
	if (!take_hex(&cursor, &place.sp) || !take_hex(&cursor, &place.pc))
		return false;
	*ret = place;
	return true;
}

bool snap_cut_deleted(const char *path, size_t *length)
{
	static const char suffix[] = " (deleted)";
	const size_t suffix_length = sizeof(suffix) - 1;

	if (*length <= suffix_length || path[0] != '/' ||
	    memcmp(path + *length - suffix_length, suffix, suffix_length) != 0)
		return false;
	*length -= suffix_length;
	return true;
}

static bool take_permission(struct snap_text_cursor *cursor, char letter, char otherwise, bool *ret)
{
	*ret = snap_take_char(cursor, letter);
	return *ret || snap_take_char(cursor, otherwise);
}

bool snap_parse_map(const char *line, size_t length, struct snap_map *ret, const char **path_ret,
		    size_t *path_length_ret)
{
	struct snap_text_cursor cursor = { line, line + length };
	struct snap_map map = { 0 };
	size_t path_length;

	if (!snap_take_number(&cursor, 16, &map.start) || !snap_take_char(&cursor, '-') ||
	    !snap_take_number(&cursor, 16, &map.end) || map.end <= map.start ||
	    !snap_take_char(&cursor, ' ') || !take_permission(&cursor, 'r', '-', &map.read) ||
	    !take_permission(&cursor, 'w', '-', &map.write) ||
	    !take_permission(&cursor, 'x', '-', &map.execute) ||
	    !take_permission(&cursor, 's', 'p', &map.shared) || !snap_take_char(&cursor, ' ') ||
	    !snap_take_number(&cursor, 16, &map.offset) || !snap_take_char(&cursor, ' ') ||
	    !snap_take_device(&cursor, &map.dev_major, &map.dev_minor) ||
	    !snap_take_char(&cursor, ' ') || !snap_take_number(&cursor, 10, &map.inode))
		return false;
	if (cursor.at < cursor.end && !snap_take_char(&cursor, ' '))
		return false;
	snap_skip_blanks(&cursor);
	path_length = (size_t)(cursor.end - cursor.at);
	map.deleted = snap_cut_deleted(cursor.at, &path_length);
	*ret = map;
	*path_ret = cursor.at;
	*path_length_ret = path_length;
	return true;
}
