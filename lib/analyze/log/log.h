/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Analysis of a log: from numbers to a recording with names.
 *
 * One part finds the names of frames and what waits mean; it needs files, and is done once. The
 * other part makes the recording that the options request (a slice of time, some threads, some
 * states), and needs no files. Knows nothing of how a log is filled or kept, nor of formats.
 */
#pragma once

#include "model/files.h"
#include "model/log.h"
#include "model/options.h"

/*
 * Fills log->names for all frames that have none yet: module, offset, functions, lines. Each file
 * is symbolized once, whatever the number of processes. Warnings about files go to
 * log->capture->warnings. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_analyze_log_names(struct snap_log *log,
					       const struct snap_options *options,
					       const struct snap_file_finder *finder) _must_check_;

/* What a pair of stack and object means; NULL: nothing that is known. `wait` dies with the call. */
typedef struct stacksnap_error *snap_log_wait_sink(void *context, uint32_t stack, uint32_t object,
						   const struct snap_wait *wait);

/*
 * Tells of pairs that were not explained yet (sorted by stack and object), in their order, what
 * threads wait for that stand there: kind and object, with the word that names its owner, and
 * nothing of one moment. The frames have their names. Where time is up (options->enough), or with
 * --no-explain, it tells nothing of the rest. NO_MEMORY, CANCELLED, and what `tell` says.
 */
struct stacksnap_error *snap_analyze_log_waits(const struct snap_log *log,
					       const struct snap_options *options,
					       const struct snap_file_finder *finder,
					       const struct snap_log_explained *pairs, size_t count,
					       snap_log_wait_sink *tell,
					       void *context) _must_check_;

/*
 * The recording of the options' slice (--from, --to: ticks with from <= time < to), threads,
 * states, matches. Frames without a name have one entry without function. The result is
 * independent of the log. INVALID: --from, --to that make no sense here. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_analyze_log(const struct snap_log *log,
					 const struct snap_options *options,
					 struct snap_recording **ret) _must_check_;
