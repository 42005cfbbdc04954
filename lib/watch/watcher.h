/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Watcher: looks at the targets again and again, and tells what is wrong with them.
 *
 * A sweep stops no thread and costs one read per thread (sweep.h). Only where that shows something
 * new is a snapshot taken, without a stop, by the caller's function, and not before a hundred times
 * what the last one cost have passed; so a watch can be left on. Knows nothing of how a snapshot is
 * made nor of how an alert is printed.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"
#include "model/wait/alert.h"

struct snap_watcher;

struct snap_watcher_calls {
	/* Takes a snapshot of the targets; its options are valid during the call. */
	struct stacksnap_error *(*take)(void *context, const struct snap_options *options,
					struct snap_snapshot **ret);
	/* Called with each alert; false: the watcher ends. */
	bool (*tell)(void *context, const struct snap_alert *alert);
	void *context;
};

/* The options must outlive it. Errors of discovery: no target exists, or none may be read. */
struct stacksnap_error *snap_watcher_create(const struct snap_options *options,
					    const struct snap_watcher_calls *calls,
					    struct snap_watcher **ret) _must_check_;
void snap_watcher_destroy(struct snap_watcher *watcher);

/*
 * Watches until it is asked to end, `tell` returns false, or the targets are gone; with
 * options->watch_once for the two looks that a deadlock takes to be sure. `raised_ret`: alerts that
 * were raised in all. NO_MEMORY; PERMISSION: none of the targets may be read any more.
 */
struct stacksnap_error *snap_watcher_run(struct snap_watcher *watcher,
					 size_t *raised_ret) _must_check_;

/* What its last snapshot does not know of waits (snap_wait_lack); 0 where no rule is about locks. */
unsigned snap_watcher_lacks(const struct snap_watcher *watcher);

/* Ends a run soon; from a signal handler or another thread as well. */
void snap_watcher_stop(struct snap_watcher *watcher);
