/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recorder: ticks at a steady rate, from the sampler's copies to a log.
 *
 *     sampler --copies--> unwinder --stacks--> log --> a file as it grows, a ring, a recording
 *
 * Unwinds at once, so that no copy is kept; names are looked up when the recording is shown. Ticks
 * that cannot be kept are left out and counted. Knows nothing of terminals, signals or formats.
 */
#pragma once

#include "base/error.h"
#include "model/log.h"
#include "model/options.h"

struct snap_recorder;

/* Where a run stands, for a progress line; all since its start. */
struct snap_recorder_status {
	int64_t elapsed_ns, remaining_ns; /* remaining -1: without an end */
	uint64_t threads;                 /* there now */
	struct snap_recording_stats stats;
	bool condition; /* --until has just been met */
};

/*
 * Finds the targets; no target is touched. The options must outlive the recorder. Errors as of
 * snap_sampler_create(); NOT_FOUND, PERMISSION or OTHER when none of them can be recorded, with the
 * sentence that a snapshot would say.
 */
struct stacksnap_error *snap_recorder_create(const struct snap_options *options,
					     struct snap_recorder **ret) _must_check_;
void snap_recorder_destroy(struct snap_recorder *recorder);

SNAP_POINTER_GUARD(struct snap_recorder, snap_recorder_destroy);

/*
 * The log is written to this descriptor, too, each second, until the recorder is destroyed or
 * snap_recorder_finish() ends the file; -1: no more. It stays the caller's. An error of writing is
 * returned by snap_recorder_run() once, and the writing ends. INVALID: there is a ring, whose log
 * is renumbered, or the run has begun.
 */
struct stacksnap_error *snap_recorder_write_to(struct snap_recorder *recorder, int fd) _must_check_;

/*
 * Records until the options' duration or condition, until no target is left, until the cancel flag
 * is set, snap_recorder_stop() was called or `tick` says no. `tick` (may be NULL) is called after
 * each tick; it may call snap_recorder_recording(). log->end tells why it ended. May be called
 * again to go on: for the duration once more.
 */
struct stacksnap_error *snap_recorder_run(struct snap_recorder *recorder,
					  bool (*tick)(void *context,
						       const struct snap_recorder_status *status),
					  void *context) _must_check_;

/*
 * Ends the run after the current tick, or within a third of a second if it takes long;
 * async-signal-safe, from any thread. Without a run: naming of frames, now or next, ends within a
 * second, and a warning says what is missing.
 */
void snap_recorder_stop(struct snap_recorder *recorder);

/*
 * What is held now (with --ring: the last seconds), with names, within the options' slice. Names
 * are kept for the next time.
 */
struct stacksnap_error *snap_recorder_recording(struct snap_recorder *recorder,
						const struct snap_options *options,
						struct snap_recording **ret) _must_check_;

/* Puts names, statistics and the end into the file of snap_recorder_write_to(). */
struct stacksnap_error *snap_recorder_finish(struct snap_recorder *recorder) _must_check_;

const struct snap_log *snap_recorder_log(const struct snap_recorder *recorder);
