/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Parses the kernel's texts about a process: bytes in, plain values out.
 *
 * Pure functions that open and allocate nothing, so fuzzers and the tracing child can call them. The
 * target chooses names in these texts: the name of a process may be "a) R 1 (", and that of a file may
 * look like a line of maps. Text that cannot be the kernel's is refused, never guessed.
 */
#pragma once

#include "model/capture.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* PF_* of linux/sched.h, stat field 9. */
enum {
	SNAP_PF_EXITING = 0x4,
	SNAP_PF_IO_WORKER = 0x10,
	SNAP_PF_USER_WORKER = 0x4000,
	SNAP_PF_KTHREAD = 0x200000,
};

/* The needed fields of /proc/PID/stat (proc(5)). */
struct snap_stat {
	pid_t pid;
	char name[SNAP_MAX_COMM]; /* comm as in the text, see snap_stat_is_ambiguous() */
	char state;
	pid_t ppid;
	pid_t pgrp; /* its process group; 0: none in our pid namespace */
	uint32_t flags;
	unsigned threads;
	uint64_t start_ticks;
	uint64_t caught; /* signals below 32 that have a handler, bit 0 is number 1 */
	int exit_signal; /* -1 unknown */
	int cpu;         /* -1 unknown */
	/*
	 * Where its program's code and stack begin, as one number: another program has others, if
	 * addresses are random. 0: it has no memory any more, or is in the middle of an exec.
	 */
	uint64_t program;
	/* Of the thread, of a process all of them: processor time in ticks, pages that were not there. */
	uint64_t run_ticks, faults;
	uint64_t rss_pages; /* in memory */
	uint64_t args,
		args_end; /* of its arguments, in its memory; 0: unknown, or we may not know */
};

/* A leader that has exited before its threads is a zombie too, but its process lives. */
static inline bool snap_stat_has_left(const struct snap_stat *stat)
{
	return (stat->state == 'Z' || stat->state == 'X') && stat->threads > 1;
}

/* Whether the process has executed another program than `program`: one that has ended has none. */
static inline bool snap_stat_is_other(const struct snap_stat *stat, uint64_t program)
{
	return stat->program != program &&
	       (stat->program ||
		(stat->state != 'Z' && stat->state != 'X' && !(stat->flags & SNAP_PF_EXITING)));
}

bool snap_parse_stat(const char *text, size_t length, struct snap_stat *ret);

/*
 * Some kernels write a newline in this name as \n and a backslash as \\, others write both as they are
 * (fs/proc/array.c). So the meaning of a backslash is only known from the file "comm", which is the name
 * and a newline on all of them.
 */
bool snap_stat_is_ambiguous(const struct snap_stat *stat);
/* Takes the name from the text of "comm". */
void snap_stat_take_comm(struct snap_stat *stat, const char *comm, size_t length);

/* The needed lines of /proc/PID/status. A missing number is 0, a missing uid -1. */
struct snap_status {
	pid_t pid, tgid, ppid, tracer_pid; /* pid: of a thread, its own */
	char state;                        /* a letter, as in stat */
	uid_t uid, euid, suid;             /* real, effective, saved */
	gid_t gid, egid, sgid;
	uint64_t permitted, effective; /* capabilities, bits of linux/capability.h */
	gid_t groups[SNAP_MAX_GROUPS]; /* supplementary, the first ones */
	size_t group_count;
	unsigned seccomp;  /* 0: none; 1: strict; see SNAP_SECCOMP_FILTER */
	uint64_t pending;  /* signals of the thread, bit 0 is number 1 */
	unsigned threads;  /* living ones; a zombie leader counts until it is reaped */
	pid_t ns_pid;      /* in the innermost pid namespace */
	unsigned ns_depth; /* 1: in the pid namespace that procfs shows */
	uint64_t voluntary_switches, other_switches; /* away from a processor, of one thread */
};

enum { SNAP_SECCOMP_FILTER = 2 };

void snap_status_init(struct snap_status *status);
/* Takes one line, without its newline; other lines are ignored. */
void snap_parse_status_line(const char *line, size_t length, struct snap_status *status);

/* The three numbers of schedstat: time run and time waited for a processor in ns, runs. */
bool snap_parse_schedstat(const char *text, size_t length, uint64_t ret[3]);

/* se.exec_start of the text of sched (kernel/sched/debug.c), in nanoseconds. */
bool snap_parse_exec_start(const char *text, size_t length, uint64_t *ret);

/* The call and position of a thread, by its "syscall". */
struct snap_syscall_line {
	bool running;   /* it runs or waits for a processor: nothing else is known */
	int64_t number; /* of the system call, -1: in none */
	uint64_t arguments[6];
	uint64_t sp, pc;
};

bool snap_parse_syscall(const char *text, size_t length, struct snap_syscall_line *ret);

/*
 * One line of /proc/PID/maps, without its newline. ret->path is left NULL; the path, which the
 * line owns, comes as pointer and length, 0 for none: everything from the 6th field to the end, as
 * the kernel wrote it (a newline is \012 and stays so), without " (deleted)", which is ret->deleted.
 * A file with the real name "x (deleted)" looks the same: inode and device show the difference.
 */
bool snap_parse_map(const char *line, size_t length, struct snap_map *ret, const char **path_ret,
		    size_t *path_length_ret);

/* Cuts " (deleted)" off a path of a link of procfs or of maps; true if it was there. */
bool snap_cut_deleted(const char *path, size_t *length);

/* A number in decimal that fills the text, at most INT_MAX: a pid, a tid. 0 if it is none. */
pid_t snap_parse_pid(const char *text, size_t length);
