/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Procfs: the only file that knows where the kernel describes processes.
 *
 * All reading starts at the descriptor of a directory, the kernel's or a recorded tree of a test. Apart
 * from open and close of this directory the functions allocate nothing and are async-signal-safe, so
 * the tracing child may use them: buffers are the caller's, failures are negative errno values. ESRCH
 * and ENOENT mean that the process or thread has gone. parse.h parses the texts. Knows nothing of trees
 * of processes.
 */
#pragma once

#include "base/error.h"
#include "proc/parse.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether a failure means that the process or thread has gone; other failures do not. */
static inline bool snap_procfs_is_gone(ssize_t status)
{
	return status == -ESRCH || status == -ENOENT;
}

struct snap_procfs {
	int root_fd;
	bool live; /* the kernel's own: its pids are pids of this host */
};

/* A recorded tree, or with NULL the kernel's. OS when it is not there or is no procfs. */
struct stacksnap_error *snap_procfs_open(const char *root, struct snap_procfs *ret) _must_check_;
void snap_procfs_close(struct snap_procfs *procfs);

/* The caller's own pid as procfs numbers it; a negative errno if it is not shown. */
pid_t snap_procfs_self(const struct snap_procfs *procfs);

/* The directory of a process, O_PATH: for the calls below that take a directory. */
int snap_procfs_open_process(const struct snap_procfs *procfs, pid_t pid);

/* The directory of a process's threads, for snap_procfs_list() and snap_procfs_task_*(). */
int snap_procfs_open_tasks(int process_fd);

/*
 * The directory, O_PATH, of a thread that lives on in a process whose leader has exited. It is like
 * that of a process: root, exe, cmdline and map_files are there, which with the leader have gone
 * from the process's own. The thread's state goes to `state_ret`. ESRCH: there is none.
 */
int snap_procfs_open_survivor(const struct snap_procfs *procfs, int process_fd, char *state_ret);

/*
 * The numbers among a directory's names, in its order: the threads of snap_procfs_open_tasks(),
 * or, with procfs->root_fd, all processes. Starts anew with each call. Returns how many there are,
 * which may be more than `max`; only `max` are stored.
 */
ssize_t snap_procfs_list(int directory_fd, pid_t *ret, size_t max);

/* The same one by one, for a directory of any length: descriptors of a process, and their number 0. */
struct snap_numbers {
	int directory_fd; /* the caller's to close */
	ssize_t at, size;
	_Alignas(8) char buffer[8192];
};

/* Opens a directory below another one ("4711/fd"); a descriptor or a negative errno. */
int snap_procfs_open_list(int directory_fd, const char *name);
void snap_numbers_init(struct snap_numbers *numbers, int directory_fd);
/* Returns 1, 0 at the end, a negative errno. */
int snap_numbers_next(struct snap_numbers *numbers, pid_t *ret);

/*
 * Reads a file below a directory, at most size - 1 bytes, and ends it with a NUL. Returns the
 * length; size - 1 means that there may be more. `name`: "cmdline", "cgroup" …
 */
ssize_t snap_procfs_read(int directory_fd, const char *name, char *buffer, size_t size);
/* The same for a thread: "wchan", "syscall", "stack", "schedstat" …, without its last newline. */
ssize_t snap_procfs_task_read(int tasks_fd, pid_t tid, const char *name, char *buffer, size_t size);
/* The same for a file that has no process: "sys/kernel/yama/ptrace_scope". */
ssize_t snap_procfs_system_read(const struct snap_procfs *procfs, const char *name, char *buffer,
				size_t size);

/*
 * Reads a file that is kept open from its beginning, by one call; a page of text is whole. Returns
 * the length, ESRCH as a negative errno when the thread that it belongs to has gone.
 */
ssize_t snap_procfs_reread(int fd, char *buffer, size_t size);

/* How many threads a process has, a zombie leader among them; 0 or a negative errno. */
int snap_procfs_thread_count(int tasks_fd, size_t *ret);

/* The newest pid, by a "loadavg" that is kept open; 0: unknown. */
pid_t snap_procfs_last_pid(int loadavg_fd);

/* The text of a link ("exe", "ns/pid"), with a NUL. ENAMETOOLONG when it does not fit. */
ssize_t snap_procfs_link(int directory_fd, const char *name, char *buffer, size_t size);

/* The owner of a file below a directory; 0 or a negative errno. */
int snap_procfs_owner(int directory_fd, const char *name, uid_t *ret);

/* Read and parsed; 0 or a negative errno. EBADMSG: not what the kernel writes. */
int snap_procfs_stat(int process_fd, struct snap_stat *ret);
int snap_procfs_task_stat(int tasks_fd, pid_t tid, struct snap_stat *ret);
/* For callers that have read stat themselves: asks what a backslash in the name means. */
void snap_procfs_settle_name(int tasks_fd, pid_t tid, struct snap_stat *stat);
int snap_procfs_status(int process_fd, struct snap_status *ret);
int snap_procfs_task_status(int tasks_fd, pid_t tid, struct snap_status *ret);
/* How often a thread was given a processor; false: that is not known. */
bool snap_procfs_task_runs(int tasks_fd, pid_t tid, uint64_t *ret);
/* The system call that it is in. An exec of its process can block this read. */
bool snap_procfs_task_call(int tasks_fd, pid_t tid, struct snap_syscall_line *ret);

/*
 * Whether a child of the caller's is in a sleep that only SIGKILL ends, or no signal: state D. Its stat
 * says this at once, unless it is in an exec.
 */
bool snap_procfs_is_blocked(pid_t child);

/* Whether its numbers are those of our own pid namespace. */
bool snap_procfs_is_own(int root_fd);
/* Whether the process has a thread with this number, as far as can be said. */
bool snap_procfs_has_task(int tasks_fd, pid_t tid);

/* Opens a file below a directory for reading, to be read by lines (maps). */
int snap_procfs_open_file(int directory_fd, const char *name);
int snap_procfs_task_open_file(int tasks_fd, pid_t tid, const char *name);

/* Lines of a file of any length, through a buffer of the caller's. */
struct snap_lines {
	int fd; /* the caller's to close */
	char *buffer;
	size_t size, start, end;
	uint64_t total; /* bytes that were read */
	uint64_t most;  /* of these; 0: any number */
	bool at_end, cut;
	bool limited; /* there is more than that; the last line need not be whole */
};

void snap_lines_init(struct snap_lines *lines, int fd, char *buffer, size_t size);
/*
 * The next line, without its newline, NUL-terminated, valid until the next call. A line that does
 * not fit is cut, its rest is skipped. Returns 1, 0 at the end, a negative errno.
 */
int snap_lines_next(struct snap_lines *lines, char **line_ret, size_t *length_ret);
