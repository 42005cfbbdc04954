/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parsers of the texts of a descriptor: see fdinfo.h. */
#include "proc/wait/fdinfo.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/text_cursor.h"

/* "pipe:[" before a number and "]". */
static bool take_bracket(const char *text, size_t length, const char *prefix, uint64_t *inode_ret)
{
	struct snap_text_cursor cursor = { text, text + length };

	return snap_take_key(&cursor, prefix) && snap_take_number(&cursor, 10, inode_ret) &&
	       snap_take_char(&cursor, ']') && cursor.at == cursor.end;
}

enum snap_descriptor_kind snap_parse_descriptor_link(const char *text, size_t length,
						     uint64_t *inode_ret)
{
	/* fs/eventfd.c, fs/eventpoll.c …: the names that anon_inode_getfile() was given. */
	static const struct {
		const char *text;
		enum snap_descriptor_kind kind;
	} names[] = {
		{ "anon_inode:[eventfd]", SNAP_DESCRIPTOR_EVENTFD },
		{ "anon_inode:[eventpoll]", SNAP_DESCRIPTOR_EPOLL },
		{ "anon_inode:[timerfd]", SNAP_DESCRIPTOR_TIMERFD },
		{ "anon_inode:[signalfd]", SNAP_DESCRIPTOR_SIGNALFD },
		{ "anon_inode:inotify", SNAP_DESCRIPTOR_INOTIFY },
		{ "anon_inode:[fanotify]", SNAP_DESCRIPTOR_FANOTIFY },
		{ "anon_inode:[pidfd]", SNAP_DESCRIPTOR_PIDFD },
		{ "anon_inode:[userfaultfd]", SNAP_DESCRIPTOR_USERFAULTFD },
		{ "anon_inode:[io_uring]", SNAP_DESCRIPTOR_IO_URING },
	};
	uint64_t inode = 0;

	*inode_ret = 0;
	if (!length)
		return SNAP_DESCRIPTOR_OTHER;
	if (text[0] == '/')
		return SNAP_DESCRIPTOR_FILE;
	if (take_bracket(text, length, "pipe:[", &inode)) {
		*inode_ret = inode;
		return SNAP_DESCRIPTOR_PIPE;
	}
	if (take_bracket(text, length, "socket:[", &inode)) {
		*inode_ret = inode;
		return SNAP_DESCRIPTOR_SOCKET;
	}
	/* pidfs had its own text for a while (6.9 on). */
	if (take_bracket(text, length, "pidfd:[", &inode))
		return SNAP_DESCRIPTOR_PIDFD;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(names); i++)
		if (length == strlen(names[i].text) && memcmp(text, names[i].text, length) == 0)
			return names[i].kind;
	return SNAP_DESCRIPTOR_OTHER;
}

bool snap_parse_namespace(const char *text, size_t length, uint64_t *inode_ret)
{
	struct snap_text_cursor cursor = { text, text + length };

	while (cursor.at < cursor.end && *cursor.at >= 'a' && *cursor.at <= 'z')
		cursor.at++;
	return snap_take_char(&cursor, ':') && snap_take_char(&cursor, '[') &&
	       snap_take_number(&cursor, 10, inode_ret) && snap_take_char(&cursor, ']') &&
	       cursor.at == cursor.end;
}

void snap_fdinfo_init(struct snap_fdinfo *info, struct snap_epoll_watch *watched, size_t most)
{
	*info = (struct snap_fdinfo){ .remaining_ns = -1,
				      .watched = watched,
				      .watched_most = watched ? most : 0 };
}

static void count_watch(struct snap_fdinfo *info)
{
	if (info->watches < SNAP_MAX_WATCHED)
		info->watches++;
	else
		info->watches_cut = true;
}

/* "tfd:        7 events:       1f data:                7  pos:0 ino:40e sdev:10" */
static void take_watch(struct snap_text_cursor *cursor, struct snap_fdinfo *info)
{
	static const char ino[] = " ino:";
	struct snap_epoll_watch watch = { .inode = 0 };
	uint64_t number;
	const char *found;

	if (!snap_take_limited(cursor, INT32_MAX, &number))
		return;
	watch.number = (int32_t)number;
	/* Before Linux 3.17 there was none. */
	found = memmem(cursor->at, (size_t)(cursor->end - cursor->at), ino, sizeof(ino) - 1);
	if (found) {
		cursor->at = found + sizeof(ino) - 1;
		if (!snap_take_number(cursor, 16, &watch.inode))
			watch.inode = 0;
	}
	count_watch(info);
	if (info->watched_count < info->watched_most)
		info->watched[info->watched_count++] = watch;
}

/* "(3, 200000000)": seconds and nanoseconds; (0, 0) is a timer that is not armed. */
static void take_time(struct snap_text_cursor *cursor, struct snap_fdinfo *info)
{
	uint64_t seconds, nanoseconds;

	if (!snap_take_char(cursor, '(') ||
	    !snap_take_limited(cursor, INT64_MAX / SNAP_NS_PER_S, &seconds) ||
	    !snap_take_char(cursor, ','))
		return;
	snap_skip_blanks(cursor);
	if (!snap_take_limited(cursor, (uint64_t)SNAP_NS_PER_S - 1, &nanoseconds) ||
	    !(seconds | nanoseconds))
		return;
	info->remaining_ns = snap_wait_number(seconds * SNAP_NS_PER_S + nanoseconds);
}

static void take_pid(struct snap_text_cursor *cursor, struct snap_fdinfo *info)
{
	int64_t pid;

	if (snap_take_signed(cursor, &pid) && pid >= -1 && pid <= INT32_MAX)
		info->pid = (int32_t)pid;
}

/* Both run on for ever, as numbers of 32 bits. */
static void take_queue(struct snap_text_cursor *cursor, uint64_t *end, struct snap_fdinfo *info)
{
	if (snap_take_limited(cursor, UINT32_MAX, end))
		info->count = (uint32_t)(info->queue_tail - info->queue_head);
}

void snap_parse_fdinfo_line(const char *line, size_t length, struct snap_fdinfo *info)
{
	struct snap_text_cursor cursor = { line, line + length };
	uint64_t value;

	if (snap_take_key(&cursor, "tfd:"))
		take_watch(&cursor, info);
	else if (snap_take_key(&cursor, "inotify wd:") || snap_take_key(&cursor, "fanotify ino:") ||
		 snap_take_key(&cursor, "fanotify mnt_id:") ||
		 snap_take_key(&cursor, "fanotify sdev:"))
		count_watch(info);
	else if (snap_take_key(&cursor, "ino:"))
		info->has_inode = snap_take_number(&cursor, 10, &info->inode);
	else if (snap_take_key(&cursor, "mnt_id:") && snap_take_number(&cursor, 10, &value))
		info->mount = value;
	else if (snap_take_key(&cursor, "eventfd-count:") && snap_take_number(&cursor, 16, &value))
		info->count = value;
	else if (snap_take_key(&cursor, "eventfd-id:") && snap_take_number(&cursor, 10, &value))
		info->id = value + 1;
	else if (snap_take_key(&cursor, "pending:") && snap_take_number(&cursor, 10, &value))
		info->count = value;
	else if (snap_take_key(&cursor, "it_value:"))
		take_time(&cursor, info);
	else if (snap_take_key(&cursor, "sigmask:") && snap_take_number(&cursor, 16, &value))
		info->signals = value;
	else if (snap_take_key(&cursor, "Pid:"))
		take_pid(&cursor, info);
	else if (snap_take_key(&cursor, "SqHead:"))
		take_queue(&cursor, &info->queue_head, info);
	else if (snap_take_key(&cursor, "SqTail:"))
		take_queue(&cursor, &info->queue_tail, info);
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw": the first three fields. */
bool snap_parse_mount(const char *line, size_t length, uint64_t *mount_ret, uint32_t *major_ret,
		      uint32_t *minor_ret)
{
	struct snap_text_cursor cursor = { line, line + length };
	uint64_t mount, parent, major_number, minor_number;

	/* The device is decimal here, and hexadecimal elsewhere. */
	if (!snap_take_number(&cursor, 10, &mount) || !snap_take_char(&cursor, ' ') ||
	    !snap_take_number(&cursor, 10, &parent) || !snap_take_char(&cursor, ' ') ||
	    !snap_take_limited(&cursor, UINT32_MAX, &major_number) ||
	    !snap_take_char(&cursor, ':') ||
	    !snap_take_limited(&cursor, UINT32_MAX, &minor_number) || !snap_take_char(&cursor, ' '))
		return false;
	*mount_ret = mount;
	*major_ret = (uint32_t)major_number;
	*minor_ret = (uint32_t)minor_number;
	return true;
}
