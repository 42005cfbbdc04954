/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines about file locks: see locks.h; they are written by lock_get_status() of fs/locks.c. */
#include "proc/wait/locks.h"

#include "base/cleanup.h"
#include "proc/text_cursor.h"

static bool take_kind(struct snap_text_cursor *cursor, struct snap_file_lock *lock)
{
	static const struct {
		const char *word;
		int kind;
	} kinds[] = {
		{ "FLOCK ", SNAP_LOCK_FLOCK }, { "POSIX ", SNAP_LOCK_POSIX },
		{ "OFDLCK ", SNAP_LOCK_OFD },  { "LEASE ", SNAP_LOCK_LEASE },
		{ "DELEG ", SNAP_LOCK_LEASE }, { "ACCESS ", SNAP_LOCK_POSIX },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(kinds); i++) {
		if (!snap_take_key(cursor, kinds[i].word))
			continue;
		lock->kind = kinds[i].kind;
		return true;
	}
	return false;
}

/* ADVISORY, MANDATORY, ACTIVE, BREAKING: whatever it is. */
static void skip_word(struct snap_text_cursor *cursor)
{
	while (cursor->at < cursor->end && *cursor->at != ' ')
		cursor->at++;
	snap_skip_blanks(cursor);
}

static bool take_access(struct snap_text_cursor *cursor, struct snap_file_lock *lock)
{
	lock->write = snap_take_key(cursor, "WRITE ");
	return lock->write || snap_take_key(cursor, "READ ") || snap_take_key(cursor, "RW ") ||
	       snap_take_key(cursor, "NONE ") || snap_take_key(cursor, "UNLCK ");
}

/* "0 EOF" or "100 119": the last byte as well. */
static bool take_range(struct snap_text_cursor *cursor, struct snap_file_lock *lock)
{
	int64_t start, end;

	if (!snap_take_signed(cursor, &start) || start < 0)
		return false;
	snap_skip_blanks(cursor);
	lock->start = (uint64_t)start;
	lock->end = UINT64_MAX;
	if (snap_take_key(cursor, "EOF"))
		return cursor->at == cursor->end;
	if (!snap_take_signed(cursor, &end) || end < start || cursor->at != cursor->end)
		return false;
	lock->end = (uint64_t)end;
	return true;
}

/* "FLOCK  ADVISORY  WRITE 713 00:13:4711 0 EOF" */
static bool take_lock(struct snap_text_cursor *cursor, struct snap_file_lock *lock)
{
	int64_t pid;

	if (!take_kind(cursor, lock))
		return false;
	skip_word(cursor);
	if (!take_access(cursor, lock) || !snap_take_signed(cursor, &pid) || pid < -1 ||
	    pid > INT32_MAX || !snap_take_char(cursor, ' '))
		return false;
	lock->pid = (pid_t)pid;
	return snap_take_device(cursor, &lock->dev_major, &lock->dev_minor) &&
	       snap_take_char(cursor, ':') && snap_take_number(cursor, 10, &lock->inode) &&
	       snap_take_char(cursor, ' ') && take_range(cursor, lock);
}

bool snap_parse_file_lock(const char *line, size_t length, struct snap_file_lock *ret)
{
	struct snap_text_cursor cursor = { line, line + length };
	struct snap_file_lock lock = { .inode = 0 };
	uint64_t number;

	if (!snap_take_limited(&cursor, UINT32_MAX, &number) || !snap_take_char(&cursor, ':'))
		return false;
	lock.number = (uint32_t)number;
	snap_skip_blanks(&cursor);
	lock.waits = snap_take_key(&cursor, "->");
	if (!take_lock(&cursor, &lock))
		return false;
	*ret = lock;
	return true;
}

bool snap_parse_held_lock(const char *line, size_t length, struct snap_file_lock *ret)
{
	struct snap_text_cursor cursor = { line, line + length };
	struct snap_file_lock lock;

	if (!snap_take_key(&cursor, "lock:") ||
	    !snap_parse_file_lock(cursor.at, (size_t)(cursor.end - cursor.at), &lock) || lock.waits)
		return false;
	lock.is_holder = true;
	*ret = lock;
	return true;
}
