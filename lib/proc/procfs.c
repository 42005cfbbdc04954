/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reading procfs: see procfs.h. Between open and close of the root nothing allocates, takes a lock
 * or formats by stdio: the tracing child of a threaded program calls these functions.
 */
#include "proc/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

enum {
	NUMBER_SIZE = 12,
	TASK_PATH_SIZE = NUMBER_SIZE + 32,
	STAT_SIZE = 2048,
	COMM_SIZE = 128,
	STATUS_SIZE = 4096,
	TASK_LINE = 256, /* of schedstat, syscall */
	MAX_SURVIVORS = 256
};

static const char kernel_root[] = "/proc";

struct stacksnap_error *snap_procfs_open(const char *root, struct snap_procfs *ret)
{
	const char *path = root ? root : kernel_root;
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs filesystem;

	if (fd < 0)
		return snap_error_os(errno, "cannot read %s", path);
	if (!root && fstatfs(fd, &filesystem))
		return snap_error_os(errno, "cannot stat %s", path);
	if (!root && filesystem.f_type != PROC_SUPER_MAGIC)
		return snap_error_format(SNAP_ERROR_OTHER,
					 "cannot read processes: %s is not mounted", path);
	*ret = (struct snap_procfs){ .root_fd = snap_take_fd(&fd), .live = !root };
	return NULL;
}

void snap_procfs_close(struct snap_procfs *procfs)
{
	snap_close(&procfs->root_fd);
}

/* Decimal digits of a number that is not negative, with a NUL; returns their end. */
static char *put_number(char *out, pid_t number)
{
	char digits[NUMBER_SIZE];
	size_t count = 0;
	unsigned rest = number < 0 ? 0 : (unsigned)number;

	do {
		digits[count++] = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	while (count)
		*out++ = digits[--count];
	*out = '\0';
	return out;
}

static int open_at(int directory_fd, const char *name, int flags)
{
	int fd = openat(directory_fd, name, flags | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? -errno : fd;
}

int snap_procfs_open_process(const struct snap_procfs *procfs, pid_t pid)
{
	char name[NUMBER_SIZE];

	put_number(name, pid);
	return open_at(procfs->root_fd, name, O_PATH | O_DIRECTORY);
}

int snap_procfs_open_tasks(int process_fd)
{
	return open_at(process_fd, "task", O_RDONLY | O_DIRECTORY);
}

int snap_procfs_open_file(int directory_fd, const char *name)
{
	return open_at(directory_fd, name, O_RDONLY);
}

int snap_procfs_open_list(int directory_fd, const char *name)
{
	return open_at(directory_fd, name, O_RDONLY | O_DIRECTORY);
}

void snap_numbers_init(struct snap_numbers *numbers, int directory_fd)
{
	numbers->directory_fd = directory_fd;
	numbers->at = numbers->size = 0;
}

/* "." and ".." are no numbers. */
static bool take_proc_entry(struct snap_numbers *numbers, pid_t *ret)
{
	const struct dirent64 *entry = (const void *)(numbers->buffer + numbers->at);

	numbers->at += entry->d_reclen;
	*ret = snap_parse_pid(entry->d_name, strlen(entry->d_name));
	return *ret > 0 || strcmp(entry->d_name, "0") == 0;
}

int snap_numbers_next(struct snap_numbers *numbers, pid_t *ret)
{
	for (;;) {
		while (numbers->at < numbers->size)
			if (take_proc_entry(numbers, ret))
				return 1;
		numbers->at = 0;
		numbers->size =
			getdents64(numbers->directory_fd, numbers->buffer, sizeof(numbers->buffer));
		if (numbers->size <= 0)
			return numbers->size < 0 ? -errno : 0;
	}
}

ssize_t snap_procfs_list(int directory_fd, pid_t *ret, size_t max)
{
	struct snap_numbers numbers;
	ssize_t count = 0;
	pid_t number;
	int more;

	if (lseek(directory_fd, 0, SEEK_SET) < 0)
		return -errno;
	snap_numbers_init(&numbers, directory_fd);
	while ((more = snap_numbers_next(&numbers, &number)) > 0) {
		if (number <= 0)
			continue;
		if ((size_t)count < max)
			ret[count] = number;
		count++;
	}
	return more < 0 ? more : count;
}

/* One read from a file of procfs is at most a page of text: read until the end or a full buffer. */
static ssize_t read_open(int fd, char *buffer, size_t size)
{
	size_t length = 0;

	while (length < size - 1) {
		ssize_t got = read(fd, buffer + length, size - 1 - length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		length += (size_t)got;
	}
	buffer[length] = '\0';
	return (ssize_t)length;
}

ssize_t snap_procfs_read(int directory_fd, const char *name, char *buffer, size_t size)
{
	_cleanup_fd_ int fd = open_at(directory_fd, name, O_RDONLY);

	return fd < 0 ? fd : read_open(fd, buffer, size);
}

ssize_t snap_procfs_system_read(const struct snap_procfs *procfs, const char *name, char *buffer,
				size_t size)
{
	return snap_procfs_read(procfs->root_fd, name, buffer, size);
}

/* "TID/name"; false if it does not fit. */
static bool task_path(char path[TASK_PATH_SIZE], pid_t tid, const char *name)
{
	size_t length = strlen(name);
	char *end = put_number(path, tid);

	if (length > (size_t)(path + TASK_PATH_SIZE - end) - 2)
		return false;
	*end++ = '/';
	memcpy(end, name, length + 1);
	return true;
}

bool snap_procfs_is_own(int root_fd)
{
	char text[TASK_PATH_SIZE];
	ssize_t length = snap_procfs_link(root_fd, "self", text, sizeof(text));

	return length > 0 && snap_parse_pid(text, (size_t)length) == getpid();
}

bool snap_procfs_has_task(int tasks_fd, pid_t tid)
{
	char path[TASK_PATH_SIZE];
	struct stat status;

	*put_number(path, tid) = '\0';
	return fstatat(tasks_fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0 ||
	       !snap_procfs_is_gone(-errno);
}

int snap_procfs_task_open_file(int tasks_fd, pid_t tid, const char *name)
{
	char path[TASK_PATH_SIZE];

	return task_path(path, tid, name) ? snap_procfs_open_file(tasks_fd, path) : -ENAMETOOLONG;
}

ssize_t snap_procfs_task_read(int tasks_fd, pid_t tid, const char *name, char *buffer, size_t size)
{
	char path[TASK_PATH_SIZE];
	ssize_t length;

	if (!task_path(path, tid, name))
		return -ENAMETOOLONG;
	length = snap_procfs_read(tasks_fd, path, buffer, size);
	if (length > 0 && buffer[length - 1] == '\n')
		buffer[--length] = '\0';
	return length;
}

ssize_t snap_procfs_reread(int fd, char *buffer, size_t size)
{
	ssize_t length;

	do {
		length = pread(fd, buffer, size - 1, 0);
	} while (length < 0 && errno == EINTR);
	if (length < 0)
		return -errno;
	buffer[length] = '\0';
	return length;
}

/* The directory's links are its threads and two of its own. */
int snap_procfs_thread_count(int tasks_fd, size_t *ret)
{
	struct stat status;

	if (fstat(tasks_fd, &status))
		return -errno;
	*ret = status.st_nlink > 2 ? status.st_nlink - 2 : 0;
	return 0;
}

/* "0.20 0.18 0.12 1/80 11206" */
pid_t snap_procfs_last_pid(int loadavg_fd)
{
	char text[128];
	ssize_t length = snap_procfs_reread(loadavg_fd, text, sizeof(text));
	const char *last;

	if (length <= 0)
		return 0;
	length -= text[length - 1] == '\n';
	last = memrchr(text, ' ', (size_t)length);
	return last ? snap_parse_pid(last + 1, (size_t)(text + length - last - 1)) : 0;
}

ssize_t snap_procfs_link(int directory_fd, const char *name, char *buffer, size_t size)
{
	ssize_t length = readlinkat(directory_fd, name, buffer, size);

	if (length < 0)
		return -errno;
	if ((size_t)length == size)
		return -ENAMETOOLONG;
	buffer[length] = '\0';
	return length;
}

int snap_procfs_owner(int directory_fd, const char *name, uid_t *ret)
{
	struct stat status;

	if (fstatat(directory_fd, name, &status, AT_SYMLINK_NOFOLLOW))
		return -errno;
	*ret = status.st_uid;
	return 0;
}

pid_t snap_procfs_self(const struct snap_procfs *procfs)
{
	char number[NUMBER_SIZE + 1];
	ssize_t length = snap_procfs_link(procfs->root_fd, "self", number, sizeof(number));

	return length > 0 ? snap_parse_pid(number, (size_t)length) : (pid_t)length;
}

/*
 * The fastest way to a number of stat: one open, one read, one close. One read returns the whole text;
 * a second one would only see the end of the file.
 */
static int read_proc_stat(int directory_fd, const char *path, struct snap_stat *ret)
{
	_cleanup_fd_ int fd = open_at(directory_fd, path, O_RDONLY);
	char text[STAT_SIZE];
	ssize_t length;

	if (fd < 0)
		return fd;
	do {
		length = read(fd, text, sizeof(text));
	} while (length < 0 && errno == EINTR);
	if (length < 0)
		return -errno;
	return snap_parse_stat(text, (size_t)length, ret) ? 0 : -EBADMSG;
}

/* A thread that cannot be asked any more keeps the name that it had. */
static void settle_name(int directory_fd, const char *path, struct snap_stat *stat)
{
	char comm[COMM_SIZE];
	ssize_t length = snap_procfs_read(directory_fd, path, comm, sizeof(comm));

	if (length > 0)
		snap_stat_take_comm(stat, comm, (size_t)length);
}

int snap_procfs_stat(int process_fd, struct snap_stat *ret)
{
	int status = read_proc_stat(process_fd, "stat", ret);

	if (status == 0 && snap_stat_is_ambiguous(ret))
		settle_name(process_fd, "comm", ret);
	return status;
}

int snap_procfs_task_stat(int tasks_fd, pid_t tid, struct snap_stat *ret)
{
	char path[TASK_PATH_SIZE];
	int status =
		task_path(path, tid, "stat") ? read_proc_stat(tasks_fd, path, ret) : -ENAMETOOLONG;

	if (status == 0)
		snap_procfs_settle_name(tasks_fd, tid, ret);
	return status;
}

void snap_procfs_settle_name(int tasks_fd, pid_t tid, struct snap_stat *stat)
{
	char path[TASK_PATH_SIZE];

	if (snap_stat_is_ambiguous(stat) && task_path(path, tid, "comm"))
		settle_name(tasks_fd, path, stat);
}

/* By lines: "Groups:" may be longer than any buffer, and needed lines come after it. */
static int read_status(int directory_fd, const char *path, struct snap_status *ret)
{
	_cleanup_fd_ int fd = open_at(directory_fd, path, O_RDONLY);
	struct snap_status status;
	struct snap_lines lines;
	char buffer[STATUS_SIZE], *line;
	size_t length;
	int more;

	if (fd < 0)
		return fd;
	snap_status_init(&status);
	snap_lines_init(&lines, fd, buffer, sizeof(buffer));
	while ((more = snap_lines_next(&lines, &line, &length)) > 0)
		snap_parse_status_line(line, length, &status);
	if (more < 0)
		return more;
	*ret = status;
	return 0;
}

int snap_procfs_status(int process_fd, struct snap_status *ret)
{
	return read_status(process_fd, "status", ret);
}

int snap_procfs_task_status(int tasks_fd, pid_t tid, struct snap_status *ret)
{
	char path[TASK_PATH_SIZE];

	return task_path(path, tid, "status") ? read_status(tasks_fd, path, ret) : -ENAMETOOLONG;
}

bool snap_procfs_task_runs(int tasks_fd, pid_t tid, uint64_t *ret)
{
	char text[TASK_LINE];
	uint64_t numbers[3];
	ssize_t length = snap_procfs_task_read(tasks_fd, tid, "schedstat", text, sizeof(text));

	if (length <= 0 || !snap_parse_schedstat(text, (size_t)length, numbers))
		return false;
	*ret = numbers[2];
	return true;
}

bool snap_procfs_task_call(int tasks_fd, pid_t tid, struct snap_syscall_line *ret)
{
	char text[TASK_LINE];
	ssize_t length = snap_procfs_task_read(tasks_fd, tid, "syscall", text, sizeof(text));

	return length > 0 && snap_parse_syscall(text, (size_t)length, ret);
}

bool snap_procfs_is_blocked(pid_t child)
{
	struct snap_procfs procfs = { .root_fd = -1 };
	struct snap_stat stat;
	int status;

	if (snap_error_ignore(snap_procfs_open(NULL, &procfs)))
		return false;
	status = snap_procfs_task_stat(procfs.root_fd, child, &stat);
	snap_procfs_close(&procfs);
	return status == 0 && stat.state == 'D';
}

/* Looked up by its number like any process, so it may be of another one: status says which. */
int snap_procfs_open_survivor(const struct snap_procfs *procfs, int process_fd, char *state_ret)
{
	_cleanup_fd_ int tasks_fd = snap_procfs_open_tasks(process_fd);
	struct snap_status process, thread;
	pid_t tids[MAX_SURVIVORS];
	ssize_t count;

	if (tasks_fd < 0 || snap_procfs_status(process_fd, &process) != 0)
		return -ESRCH;
	count = snap_procfs_list(tasks_fd, tids, MAX_SURVIVORS);
	for (ssize_t i = 0; i < count && i < MAX_SURVIVORS; i++) {
		_cleanup_fd_ int fd = -1;

		/* Not its stat, which may wait for an exec (see discover/ask.c). */
		fd = tids[i] == process.tgid ? -1 : snap_procfs_open_process(procfs, tids[i]);
		if (fd < 0 || snap_procfs_status(fd, &thread) != 0 || thread.tgid != process.tgid ||
		    thread.state == 'Z' || thread.state == 'X')
			continue;
		*state_ret = thread.state;
		return snap_take_fd(&fd);
	}
	return -ESRCH;
}

void snap_lines_init(struct snap_lines *lines, int fd, char *buffer, size_t size)
{
	*lines = (struct snap_lines){ .fd = fd, .buffer = buffer, .size = size };
}

/* Reads more behind what is there; 0 when there is no more, a negative errno. */
static int fill_lines(struct snap_lines *lines)
{
	ssize_t got;

	lines->limited = lines->most && lines->total >= lines->most;
	if (lines->limited) {
		lines->at_end = true;
		return 0;
	}
	if (lines->start) {
		memmove(lines->buffer, lines->buffer + lines->start, lines->end - lines->start);
		lines->end -= lines->start;
		lines->start = 0;
	}
	do {
		got = read(lines->fd, lines->buffer + lines->end, lines->size - 1 - lines->end);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	lines->end += (size_t)got;
	lines->total += (size_t)got;
	lines->at_end = got == 0;
	return got > 0;
}

/* Drops the rest of a line that was cut: 1, 0 at the end, a negative errno. */
static int skip_rest(struct snap_lines *lines)
{
	int more = 1;

	while (more > 0) {
		size_t length = lines->end - lines->start;
		const char *newline = memchr(lines->buffer + lines->start, '\n', length);

		if (newline) {
			lines->start = (size_t)(newline - lines->buffer) + 1;
			return 1;
		}
		lines->start = lines->end = 0;
		more = fill_lines(lines);
	}
	return more;
}

static int take_line(struct snap_lines *lines, size_t length, char **line_ret, size_t *length_ret)
{
	*line_ret = lines->buffer + lines->start;
	*length_ret = length;
	lines->start += length;
	if (lines->start < lines->end)
		lines->start++;
	(*line_ret)[length] = '\0';
	return 1;
}

int snap_lines_next(struct snap_lines *lines, char **line_ret, size_t *length_ret)
{
	int more = 1;

	if (lines->cut)
		more = skip_rest(lines);
	lines->cut = false;
	while (more > 0) {
		size_t length = lines->end - lines->start;
		const char *line = lines->buffer + lines->start;
		const char *newline = memchr(line, '\n', length);

		if (newline)
			return take_line(lines, (size_t)(newline - line), line_ret, length_ret);
		lines->cut = length == lines->size - 1;
		if (lines->cut || (lines->at_end && length))
			return take_line(lines, length, line_ret, length_ret);
		more = lines->at_end ? 0 : fill_lines(lines);
		/* At the end of the file a last line without a newline may be there. */
		if (more == 0 && lines->start < lines->end)
			more = 1;
	}
	return more;
}
