/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Files: answers analysis' requests for files (model/files.h) from this host.
 *
 * Modules through the process's own root, exe or map_files; separate debug files by build id and
 * debuglink in --debug-dir, the process's root and this host; perf maps under their trust rules.
 * Opens only regular files, O_PATH first, none of procfs and the like, and what a target named only
 * as the target's user could: it is for threads that may change their rights for that. An open may
 * sleep for as long as a file system likes. Knows nothing of ELF or DWARF: the caller checks what
 * is inside.
 */
#pragma once

#include "base/error.h"
#include "model/files.h"
#include "model/options.h"

struct snap_files;

/* Keeps pointers to both; they must outlive it. */
struct stacksnap_error *snap_files_create(const struct snap_options *options,
					  const struct snap_capture *capture,
					  struct snap_files **ret) _must_check_;
void snap_files_destroy(struct snap_files *files);

/*
 * The first two are asked before something of a target is touched that may not come back, and may
 * forbid it: then there is no such file, and an error says why.
 */
struct snap_files_watch {
	bool (*begin_process)(void *context, pid_t pid);   /* a path in its root */
	bool (*begin_device)(void *context, dev_t device); /* a file of this device */
	/* Whether a process still has its credentials and program, by its directory; NULL: it has. */
	bool (*is_unchanged)(const struct snap_process *process, int process_fd);
	void *context;
};
/* Keeps a copy. */
void snap_files_watch(struct snap_files *files, const struct snap_files_watch *watch);

/* The callback to hand to analysis; valid as long as `files`. */
struct snap_file_finder snap_files_finder(struct snap_files *files);

/*
 * For a capture that is going to be saved: copies into it the perf maps and every module that has
 * no path on this host (deleted, in another mount namespace), at most 64 MiB each, 256 MiB in all.
 * `begin` is called for each file before it is touched, and may leave it out; NULL: no call.
 */
struct snap_embed_watch {
	bool (*begin)(void *context, const struct snap_file_request *request);
	void *context;
};
struct stacksnap_error *snap_files_embed(struct snap_files *files, struct snap_capture *capture,
					 const struct snap_embed_watch *watch) _must_check_;
