/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Opener: a process that opens files which targets named, and may be lost over it.
 *
 * An open, a stat or a close of a file can last as long as a file system in user space likes, and
 * no signal ends it. So nobody does that who has something else to do: an opener does, and sends
 * what it has opened straight to the parser that asked. One that does not answer in time is given
 * up, with the file that it was at. Knows nothing of what is in the files.
 */
#ifndef SNAP_ROLES_OPENER_OPENER_H
#define SNAP_ROLES_OPENER_OPENER_H

#include "model/options.h"
#include "roles/broker.h"

/* ---- in the opener ---- */

/*
 * Serves until nobody is at the channel any more. The options are those it starts with; `capture`
 * is what requests point into, NULL: each process is described. It may change its thread's rights.
 */
void snap_opener_serve(const struct snap_options *options, struct snap_capture *capture,
		       int channel);

/* ---- in the process that has something else to do ---- */

struct snap_opener;

/* Where openers come from that are no children of this process. */
struct snap_opener_source {
	/* The channel to another one, the caller's; -1: there is none, or none until `until_ns`. */
	int (*make)(void *context, int64_t until_ns, pid_t *pid_ret);
	/* The last one is given up. */
	void (*lose)(void *context);
	void *context;
};

/*
 * `source` NULL: they are children of this process, made when they are needed, and told about the
 * processes of the capture of snap_opener_set_capture(). NO_MEMORY.
 */
struct stacksnap_error *snap_opener_create(const struct snap_opener_source *source,
					   struct snap_opener **ret) _must_check_;
void snap_opener_destroy(struct snap_opener *opener);

static inline void snap_opener_destroyp(struct snap_opener **opener)
{
	snap_opener_destroy(*opener);
}

/* The capture that requests point into. It may grow between two requests. */
void snap_opener_set_capture(struct snap_opener *opener, const struct snap_capture *capture);

/* The rules for opening files, for downloads and for giving up; they must outlive their use. */
void snap_opener_set_options(struct snap_opener *opener, const struct snap_options *options,
			     int64_t deadline_ns);

/*
 * Who answers by it, about one request at a time; with debuginfod this process downloads. A file
 * that has held an opener is not found any more, nor is any of a process that has held several.
 */
struct snap_broker snap_opener_broker(struct snap_opener *opener);

/* Has the opener write its capture to `fd`, a file in memory, until the deadline. */
struct stacksnap_error *snap_opener_save(struct snap_opener *opener, int fd) _must_check_;

/* How many openers were given up. */
unsigned snap_opener_losses(const struct snap_opener *opener);

#endif
