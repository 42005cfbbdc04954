/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Search: where a requested file (a module, its debug file) is looked for, and in which order.
 *
 * Turns a request into a list of (directory, name) pairs and opens one as a mere name. Decides
 * nothing about contents. Paths of a target are resolved inside the target's root, so that its
 * symbolic links cannot lead out of it.
 */
#pragma once

#include "files/files.h"
#include "files/rights.h"

#include <limits.h>

enum snap_file_candidate_kind {
	SNAP_CANDIDATE_HOST,  /* a path on this host */
	SNAP_CANDIDATE_ROOT,  /* a path below root_fd: symbolic links stay inside */
	SNAP_CANDIDATE_NEAR,  /* the same, in a directory that belongs to the target */
	SNAP_CANDIDATE_ENTRY, /* an entry of the process's procfs directory */
	SNAP_CANDIDATE_FD,    /* the file behind the descriptor `fd` */
	SNAP_CANDIDATE_BYTES, /* an embedded copy */
};

struct snap_file_candidate {
	enum snap_file_candidate_kind kind;
	int fd; /* directory for ROOT, NEAR, ENTRY; borrowed */
	const struct snap_embedded *embedded;
	char path[PATH_MAX];
};

enum {
	SNAP_MAX_CANDIDATES = 64,
	SNAP_ENTRY_SIZE = 64,
};

struct snap_files {
	const struct snap_options *options;
	const struct snap_capture *capture;
	struct snap_rights rights;
	struct snap_files_watch watch; /* all NULL: no calls */
	int host_root;                 /* O_PATH on "/", -1 unknown */
	struct snap_live host; /* of a process of which nothing is open: this host's root is its */
};

/* Candidate number `index` of the request; false: there is none. */
bool snap_file_candidate_get(const struct snap_files *files,
			     const struct snap_file_request *request, size_t index,
			     struct snap_file_candidate *ret);

/*
 * Opens the candidate as a mere name (O_PATH), with the rights that this thread has; not for BYTES.
 * NOT_FOUND: nothing there.
 */
struct stacksnap_error *snap_file_candidate_open(const struct snap_file_candidate *candidate,
						 bool follow, int *ret) _must_check_;

/* The same without a question to a file system: with what the kernel has cached. False: it has not. */
bool snap_file_candidate_open_known(const struct snap_file_candidate *candidate, bool follow,
				    int *ret);

/* The process's own entry for the file of a mapping, below files_fd or proc_fd. */
void snap_mapping_entry(const struct snap_map *map, char out[SNAP_ENTRY_SIZE]);

/* What is open for the process of a request, NULL: nothing (the capture came from a file). */
const struct snap_live *snap_files_live(const struct snap_files *files,
					const struct snap_process *process);

/* name.c: whether a name out of a file is a plain file name; whether a path holds "..". */
bool snap_name_is_plain(const char *name);
bool snap_path_goes_up(const char *path);
/* The other path that a text of maps can mean; false: there is none. */
bool snap_path_with_newlines(const char *path, char out[PATH_MAX]);

/*
 * Whether a process is of a user whose rights are not ours: neither ours nor root's. What he put
 * somewhere is no reason to read it with rights that he has not.
 */
bool snap_files_is_foreign(const struct snap_process *process);

/*
 * Opens a place of a process as a mere name (O_PATH), and then the file, unless the watcher
 * objects. NOT_FOUND: no file, or the watcher objects, which the error says.
 */
struct stacksnap_error *snap_files_open_name(const struct snap_files *files,
					     const struct snap_file_candidate *place,
					     const struct snap_process *process, bool follow,
					     int *ret) _must_check_;
struct stacksnap_error *snap_files_open_contents(const struct snap_files *files, int path_fd,
						 int *ret) _must_check_;

/* perf_map.c: opens the process's perf map if it can be trusted. */
struct stacksnap_error *snap_perf_map_open(const struct snap_files *files,
					   const struct snap_process *process,
					   int *fd_ret) _must_check_;

/* A descriptor that holds a copy of the bytes. */
struct stacksnap_error *snap_files_memory(const void *bytes, size_t size, int *fd_ret) _must_check_;
