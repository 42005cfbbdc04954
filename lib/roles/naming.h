/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Naming: finds the names of a log's frames, and what its threads wait for, in a parser.
 *
 * The parser is a copy of this process, so it has the log, and sends back names. If it is lost,
 * another parser does with less: without files (modules and offsets), and at last without any byte
 * of the targets. Knows nothing of how frames came into the log.
 */
#pragma once

#include "model/log.h"
#include "model/options.h"
#include "roles/parser.h"
#include "store/recording/names.h"

/*
 * In a parser: leaves the names that are new in its copy of the log. Where they are too large, or
 * refused, the address spaces that make most of them lose waits, then functions, then modules.
 */
struct stacksnap_error *snap_leave_names(struct snap_log *log, const struct snap_log_named *before,
					 struct snap_parser_job *job) _must_check_;

struct snap_naming_limits {
	int64_t patience_ns;
	_Atomic int64_t *asked_ns; /* see struct snap_parser_call: done a second later */
	bool for_file;             /* unnamed frames stay so: a reader of the file can name them */
};

/*
 * Fills log->names as snap_analyze_log_names() does, and log->explained, within limits; the broker
 * answers about log->capture. A lost parser becomes a warning there (parser_failed), and may leave
 * frames without names; a run out of time becomes another (names_late). NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_naming_run(struct snap_log *log, const struct snap_options *options,
					const struct snap_broker *broker,
					const struct snap_naming_limits *limits) _must_check_;
