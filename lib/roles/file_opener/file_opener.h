/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Opener: an expendable process that opens the files which targets named.
 *
 * A file system in user space decides how long an open, a stat or a close of a file takes, and no
 * signal ends it. So only an opener does these, and sends the opened file straight to the parser
 * that asked. An opener that does not answer in time is given up, and the file that it was at is
 * left out. Knows nothing of what is in the files.
 */
#pragma once

#include "model/options.h"
#include "roles/broker.h"

/* ---- in the opener ---- */

/*
 * Serves until the other end of the channel has gone. `options` are those it starts with. Requests
 * point into `capture`; NULL: each process is described by messages. It may change its thread's
 * rights.
 */
void snap_file_opener_serve(const struct snap_options *options, struct snap_capture *capture,
			    int channel);

/* ---- in the process that has something else to do ---- */

struct snap_file_opener;

/* Provides openers that are not children of this process. */
struct snap_file_opener_source {
	/*
	 * The channel to another opener, the caller's to close; -1: there is none, or none until
	 * `until_ns`.
	 */
	int (*make)(void *context, int64_t until_ns, pid_t *pid_ret);
	/* The last opener is given up. */
	void (*lose)(void *context);
	void *context;
};

/*
 * `source` NULL: openers are children of this process, made when needed, and receive descriptions
 * of the processes in the capture of snap_file_opener_set_capture(). NO_MEMORY.
 */
struct stacksnap_error *snap_file_opener_create(const struct snap_file_opener_source *source,
						struct snap_file_opener **ret) _must_check_;
void snap_file_opener_destroy(struct snap_file_opener *opener);

SNAP_POINTER_GUARD(struct snap_file_opener, snap_file_opener_destroy);

/* The capture that requests point into. It may grow between two requests. */
void snap_file_opener_set_capture(struct snap_file_opener *opener,
				  const struct snap_capture *capture);

/* The rules for opening files, for downloads and for giving up; they must outlive their use. */
void snap_file_opener_set_options(struct snap_file_opener *opener,
				  const struct snap_options *options, int64_t deadline_ns);

/*
 * A broker that answers by openers, one request at a time; with debuginfod it downloads.
 * A file that has blocked an opener is not found any more, nor is any file of a process that has
 * blocked several.
 */
struct snap_broker snap_file_opener_broker(struct snap_file_opener *opener);

/* Has the opener write its capture to `fd`, a file in memory, until the deadline. */
struct stacksnap_error *snap_file_opener_save(struct snap_file_opener *opener, int fd) _must_check_;

/* How many openers were given up. */
unsigned snap_file_opener_losses(const struct snap_file_opener *opener);
