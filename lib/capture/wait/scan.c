/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A scan of a table of descriptors: see scan.h. */
#include "capture/wait/scan.h"

#include "base/text.h"
#include "proc/wait/fdinfo.h"
#include "proc/wait/locks.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
	INFO_TEXT = 4096,
	MOST_INFO = 1 << 20,
	NUMBER_TEXT = 16,
	OWN_LINKS = 256,     /* of a process, which no other one can take from it … */
	OWN_FOUND = 128,     /* … and as many ends and locks */
	MOST_SOCKETS = 1024, /* of a process that are asked what they hold, 5 us each */
	MOST_LOCKS = SNAP_MAX_FILE_LOCKS / 16, /* of a process */
};

/* The table of one process. */
struct table {
	struct snap_scans *scans;
	struct snap_scan *scan;
	int fd; /* its directory of links */
	int root_fd;
	uint8_t *seen; /* by wanted end: READABLE, WRITABLE */
};

enum { READABLE = 1, WRITABLE = 2 };

int snap_scan_compare(const void *left, const void *right)
{
	const struct snap_wanted_peer *a = left, *b = right;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return (a->inode > b->inode) - (a->inode < b->inode);
}

/* The first of those with this kind and inode; wanted_count: there is none. */
static size_t find_wanted(const struct snap_scans *scans, enum snap_descriptor_kind kind,
			  uint64_t inode)
{
	const struct snap_wanted_peer key = { .kind = kind, .inode = inode };
	const struct snap_wanted_peer *found =
		bsearch(&key, scans->wanted, scans->wanted_count, sizeof(key), snap_scan_compare);

	return found ? (size_t)(found - scans->wanted) : scans->wanted_count;
}

static bool has_room(struct snap_scans *scans, uint64_t *of_one, uint64_t own, uint64_t *of_all,
		     uint64_t most)
{
	if ((*of_one)++ < own || __atomic_add_fetch(of_all, 1, __ATOMIC_RELAXED) <= most)
		return true;
	scans->is_cut = true;
	return false;
}

/* For an end or a lock; NULL: there is no room. */
static void *add_found_thing(const struct table *table, size_t size)
{
	struct snap_scans *scans = table->scans;

	return has_room(scans, &table->scan->found, OWN_FOUND, &scans->found, scans->most_found)
		       ? snap_region_alloc(&scans->memory->region, size)
		       : NULL;
}

/* A process may have a thousand numbers for one end: it is listed once, or twice if it is both. */
static void add_scanned_end(const struct table *table, size_t wanted, bool readable, bool writable)
{
	struct snap_scans *scans = table->scans;
	uint8_t what = (uint8_t)((readable ? READABLE : 0) | (writable ? WRITABLE : 0));
	struct snap_scan_end *end;

	if ((table->seen[wanted] & what) == what)
		return;
	table->seen[wanted] |= what;
	end = add_found_thing(table, sizeof(*end));
	if (!end) {
		scans->is_cut = true;
		return;
	}
	*end = (struct snap_scan_end){ .next = table->scan->ends,
				       .wanted = (uint32_t)wanted,
				       .readable = readable,
				       .writable = writable };
	table->scan->ends = end;
}

static void add_link(const struct table *table, size_t wanted, const char *number)
{
	struct stat status;

	/* The permissions of the link say which end it is. */
	if (fstatat(table->fd, number, &status, AT_SYMLINK_NOFOLLOW) == 0)
		add_scanned_end(table, wanted, status.st_mode & S_IRUSR, status.st_mode & S_IWUSR);
}

static int open_info(const struct table *table, const char *number)
{
	char name[SNAP_WAIT_NAME];

	snprintf(name, sizeof(name), "%d/fdinfo/%s", (int)table->scan->pid, number);
	return snap_procfs_open_file(table->root_fd, name);
}

static void scan_eventfd(const struct table *table, const char *number)
{
	_cleanup_fd_ int fd = open_info(table, number);
	char text[INFO_TEXT], *line;
	struct snap_fdinfo info;
	struct snap_lines lines;
	size_t length, wanted;

	if (fd < 0)
		return;
	snap_fdinfo_init(&info, NULL, 0);
	snap_lines_init(&lines, fd, text, sizeof(text));
	lines.most = MOST_INFO;
	while (snap_lines_next(&lines, &line, &length) > 0)
		snap_parse_fdinfo_line(line, length, &info);
	wanted = find_wanted(table->scans, SNAP_DESCRIPTOR_EVENTFD, info.id);
	if (wanted < table->scans->wanted_count)
		add_scanned_end(table, wanted, true, true);
}

/*
 * Descriptors that were sent and not yet received belong to no process (SCM_RIGHTS, unix(7)), and the
 * receiver may act with them. fdinfo counts them since Linux 5.11.
 */
static void scan_socket(const struct table *table, const char *number)
{
	static const char NAME[] = "scm_fds:";
	_cleanup_fd_ int fd = -1;
	char text[INFO_TEXT], *line;
	struct snap_lines lines;
	size_t length;

	if (table->scan->sockets++ >= MOST_SOCKETS)
		return;
	fd = open_info(table, number);
	if (fd < 0)
		return;
	snap_lines_init(&lines, fd, text, sizeof(text));
	lines.most = MOST_INFO;
	while (snap_lines_next(&lines, &line, &length) > 0)
		if (length > sizeof(NAME) && memcmp(line, NAME, sizeof(NAME) - 1) == 0)
			table->scans->in_flight |= strpbrk(line, "123456789") != NULL;
}

static bool is_on(const struct snap_file_lock *lock, const struct snap_wanted_peer *wanted)
{
	return lock->inode == wanted->inode &&
	       ((!wanted->dev_major && !wanted->dev_minor) ||
		(lock->dev_major == wanted->dev_major && lock->dev_minor == wanted->dev_minor));
}

/* The locks of a process on a file: its own, and those that came with the open file. */
static void scan_locks(const struct table *table, size_t wanted, const char *number)
{
	_cleanup_fd_ int fd = open_info(table, number);
	char text[INFO_TEXT], *line;
	struct snap_file_lock lock;
	struct snap_lines lines;
	size_t length;

	if (fd < 0)
		return;
	snap_lines_init(&lines, fd, text, sizeof(text));
	lines.most = MOST_INFO;
	while (snap_lines_next(&lines, &line, &length) > 0) {
		struct snap_scan_lock *kept;

		if (!snap_parse_held_lock(line, length, &lock) ||
		    !is_on(&lock, &table->scans->wanted[wanted]))
			continue;
		kept = table->scan->lock_count++ < MOST_LOCKS
			       ? add_found_thing(table, sizeof(*kept))
			       : NULL;
		if (!kept) {
			table->scans->is_cut = true;
			return;
		}
		lock.pid = table->scan->pid;
		*kept = (struct snap_scan_lock){ .next = table->scan->locks, .lock = lock };
		table->scan->locks = kept;
		add_link(table, wanted, number);
	}
	/* A table of a hundred thousand is not read to the end. */
	if (lines.limited)
		table->scans->is_cut = true;
}

/* Another name for the same FIFO is not seen: for that all files would have to be asked. */
static bool is_fifo(const struct table *table, const struct snap_wanted_peer *wanted,
		    const char *number)
{
	struct statx status;

	return statx(table->fd, number, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
		     STATX_TYPE | STATX_INO, &status) == 0 &&
	       S_ISFIFO(status.stx_mode) && status.stx_ino == wanted->inode &&
	       status.stx_dev_major == wanted->dev_major &&
	       status.stx_dev_minor == wanted->dev_minor;
}

static void scan_path(const struct table *table, char *path, size_t length, const char *number)
{
	const struct snap_scans *scans = table->scans;
	const char *name;

	if (snap_cut_deleted(path, &length))
		path[length] = '\0';
	name = snap_base_name(path);
	for (size_t i = 0; i < scans->wanted_count; i++) {
		const struct snap_wanted_peer *wanted = &scans->wanted[i];

		/* These two kinds stand first. */
		if (wanted->kind > SNAP_DESCRIPTOR_FIFO)
			break;
		if (!wanted->name || strcmp(wanted->name, name) != 0)
			continue;
		if (wanted->kind == SNAP_DESCRIPTOR_FILE)
			scan_locks(table, i, number);
		else if (is_fifo(table, wanted, number))
			add_link(table, i, number);
	}
}

static void scan_link(const struct table *table, const char *number)
{
	struct snap_scans *scans = table->scans;
	char text[SNAP_MAX_LINK + 1];
	ssize_t length = snap_procfs_link(table->fd, number, text, sizeof(text));
	enum snap_descriptor_kind kind;
	uint64_t inode;
	size_t wanted;

	if (length <= 0)
		return;
	kind = snap_parse_descriptor_link(text, (size_t)length, &inode);
	if (kind == SNAP_DESCRIPTOR_FILE) {
		if (scans->kinds[SNAP_DESCRIPTOR_FILE] || scans->kinds[SNAP_DESCRIPTOR_FIFO])
			scan_path(table, text, (size_t)length, number);
		return;
	}
	if (scans->is_tree && kind == SNAP_DESCRIPTOR_SOCKET)
		scan_socket(table, number);
	else if (scans->is_tree && kind == SNAP_DESCRIPTOR_IO_URING)
		scans->in_flight = true;
	if (!scans->kinds[kind])
		return;
	if (kind == SNAP_DESCRIPTOR_EVENTFD) {
		scan_eventfd(table, number);
		return;
	}
	wanted = find_wanted(scans, kind, inode);
	if (wanted < scans->wanted_count && kind == SNAP_DESCRIPTOR_SOCKET)
		add_scanned_end(table, wanted, true, true);
	else if (wanted < scans->wanted_count)
		add_link(table, wanted, number);
}

static void identify(struct table *table)
{
	struct snap_scan *scan = table->scan;
	struct snap_stat stat;

	if (snap_procfs_task_stat(table->root_fd, scan->pid, &stat))
		return;
	scan->start_ticks = stat.start_ticks;
	scan->state = stat.state;
	memcpy(scan->name, stat.name, sizeof(scan->name));
}

void snap_scan_run(void *context, uint32_t item)
{
	struct snap_scans *scans = context;
	struct snap_scan *scan = &scans->list[item];
	uint8_t seen[SNAP_MAX_FILE_PEERS];
	char name[SNAP_WAIT_NAME];
	_cleanup_fd_ int fd = -1;
	struct table table = {
		.scans = scans, .scan = scan, .root_fd = scans->memory->root_fd, .seen = seen
	};
	struct snap_numbers numbers;
	pid_t number;
	int more;

	snprintf(name, sizeof(name), "%d/fd", (int)scan->pid);
	fd = table.fd = snap_procfs_open_list(table.root_fd, name);
	if (fd < 0) {
		scan->status = fd;
		return;
	}
	memset(seen, 0, scans->wanted_count);
	snap_numbers_init(&numbers, fd);
	while ((more = snap_numbers_next(&numbers, &number)) > 0 &&
	       has_room(scans, &scan->links, OWN_LINKS, &scans->links, scans->most_links)) {
		char text[NUMBER_TEXT];

		snprintf(text, sizeof(text), "%d", (int)number);
		scan_link(&table, text);
	}
	scan->status = more < 0 ? more : 0;
	if (scan->ends || scan->locks)
		identify(&table);
}
