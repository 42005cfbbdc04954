/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Analysis in a sandbox: from a collector's bytes, or a file of JSON, to a snapshot.
 *
 * What hostile files can spoil is spoilt step by step: where the parser dies or is late, another
 * one tries without the file that it was at, a few times; then one without symbols, and then one
 * that reads no file at all, so that each thread has the address it stood at. The snapshot says
 * what is missing, and why.
 */
#ifndef SNAP_ROLES_ANALYSIS_H
#define SNAP_ROLES_ANALYSIS_H

#include "model/snapshot.h"
#include "roles/collector/collector.h"

/*
 * Analyzes the collector's capture until `deadline_ns` (CLOCK_MONOTONIC; 0: never), or a third of a
 * second later with nothing but addresses. Errors of snap_analyze(); CRASHED, TIMEOUT when even
 * that failed; OS when there is no sandbox to be had.
 */
struct snap_error *snap_analyze_in_sandbox(struct snap_collector *collector,
					   const struct snap_options *options, int64_t deadline_ns,
					   struct snap_snapshot **ret) _must_check_;

/* Reads a snapshot from its JSON and filters it, see snap_snapshot_read_json(). */
struct snap_error *snap_read_json_in_sandbox(int fd, const struct snap_options *options,
					     struct snap_snapshot **ret) _must_check_;

#endif
