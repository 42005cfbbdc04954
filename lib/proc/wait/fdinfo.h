/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The texts of procfs about a descriptor: its link, the lines of its fdinfo, and the device of a mount
 * (mountinfo).
 *
 * Pure functions, as those of proc/parse.h. A path is its owner's choice and may look like any other
 * text, but begins with a slash; the kernel's own names do not.
 */
#pragma once

#include "model/wait/facts.h"

/*
 * The kind by a link's text: FILE for all paths. *inode_ret: of "pipe:[4711]" and
 * "socket:[4711]", else 0. OTHER for anything else, a text that goes on behind its bracket as well.
 */
enum snap_descriptor_kind snap_parse_descriptor_link(const char *text, size_t length,
						     uint64_t *inode_ret);

/* A line "tfd:" of an epoll: what was added under this number then. */
struct snap_epoll_watch {
	int32_t number;
	uint64_t inode;
};

/* The inode of a link to a namespace: "net:[4026531833]". False: another text. */
bool snap_parse_namespace(const char *text, size_t length, uint64_t *inode_ret);

/* Sums of the lines of one fdinfo (proc_pid_fdinfo(5)); begin with snap_fdinfo_init(). */
struct snap_fdinfo {
	bool has_inode;
	uint64_t inode; /* ino */
	uint64_t mount; /* mnt_id */
	/* eventfd-count; of io_uring what is queued for the kernel; pending faults of userfaultfd */
	uint64_t count;
	uint64_t id;          /* eventfd-id, plus 1, as the first of a machine has 0; 0: unknown */
	int64_t remaining_ns; /* it_value; -1: not armed, or no timer */
	uint64_t signals;     /* sigmask */
	int32_t pid;          /* Pid of a pidfd */
	uint32_t watches;     /* lines of inotify and "tfd:", at most `most` are counted */
	bool watches_cut;
	/* The caller's room for watches of an epoll, or NULL. */
	struct snap_epoll_watch *watched;
	size_t watched_count, watched_most;
	/* inside */
	uint64_t queue_head, queue_tail;
};

void snap_fdinfo_init(struct snap_fdinfo *info, struct snap_epoll_watch *watched, size_t most);
/* Takes one line, without its newline; other lines are ignored. */
void snap_parse_fdinfo_line(const char *line, size_t length, struct snap_fdinfo *info);

/* Of a line of mountinfo: which mount, and the device of its file system. False: no such line. */
bool snap_parse_mount(const char *line, size_t length, uint64_t *mount_ret, uint32_t *major_ret,
		      uint32_t *minor_ret);
