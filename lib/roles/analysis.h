/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Analysis: makes a snapshot in a sandbox, from a collector's bytes or from a file of JSON. If a
 * parser is lost, the snapshot has less (roles/fallback.h), at worst the pc of each thread, and
 * says what is missing and why. Knows nothing of how the capture was taken, nor of output formats.
 */
#pragma once

#include "model/snapshot.h"
#include "roles/collector/collector.h"
#include "roles/parser.h"

/*
 * In a parser: leaves it a result that its maker accepts, as it has read it back. Where it is too
 * large, or refused, the processes that make most of it lose waits, then functions, then frames.
 */
struct stacksnap_error *snap_leave_snapshot(struct snap_snapshot *snapshot,
					    struct snap_parser_job *job) _must_check_;

/*
 * Makes the parser for an analysis under these options before the capture exists: it enters its
 * sandbox while the collector reads the targets. OS.
 */
struct stacksnap_error *snap_analysis_prepare(const struct snap_options *options,
					      int64_t deadline_ns,
					      struct snap_parser **ret) _must_check_;

/*
 * Analyzes the collector's capture until `deadline_ns` (CLOCK_MONOTONIC; 0: never), at worst with
 * addresses alone; these take a moment more if the deadline has passed. `prepared` was made for
 * these very options, and is used up; NULL: none was made. If even the last try fails, addresses
 * are listed without a parser. Errors of snap_analyze(); OS when the sandbox cannot be made.
 */
struct stacksnap_error *snap_analyze_in_sandbox(struct snap_collector *collector,
						struct snap_parser *prepared,
						const struct snap_options *options,
						int64_t deadline_ns,
						struct snap_snapshot **ret) _must_check_;

/* Reads a snapshot from its JSON and filters it, see snap_snapshot_read_json(). */
struct stacksnap_error *snap_read_json_in_sandbox(int fd, const struct snap_options *options,
						  struct snap_snapshot **ret) _must_check_;
