/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Analyze: a pure function from a capture, and the files that it requests, to a snapshot.
 *
 * It unwinds, names, labels, groups and filters. It never touches the target and opens no file.
 */
#pragma once

#include "model/files.h"
#include "model/options.h"
#include "model/snapshot.h"

/* The result is the caller's and independent of the capture. NO_MEMORY, CANCELLED. */
struct stacksnap_error *snap_analyze(const struct snap_capture *capture,
				     const struct snap_options *options,
				     const struct snap_file_finder *finder,
				     struct snap_snapshot **ret) _must_check_;

/* The same with other runtimes than those of the table (runtime/runtimes.h); NULL ends the list. */
struct snap_runtime;
struct stacksnap_error *snap_analyze_with(const struct snap_capture *capture,
					  const struct snap_options *options,
					  const struct snap_file_finder *finder,
					  const struct snap_runtime *const *runtimes,
					  struct snap_snapshot **ret) _must_check_;
