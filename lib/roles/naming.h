/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Naming: the names of a log's frames, found in a parser.
 *
 * The parser is a copy of this process, so it has the log; what comes back are names. Where it is
 * lost, another one does what can be done with less: without files (modules and offsets), at last
 * without any byte of the targets. Knows nothing of how frames came into the log.
 */
#ifndef SNAP_ROLES_NAMING_H
#define SNAP_ROLES_NAMING_H

#include "model/log.h"
#include "model/options.h"
#include "roles/broker.h"

/*
 * Fills log->names as snap_analyze_log_names() does, within so much time; the broker answers about
 * log->capture. A parser that was lost is a warning there (parser_failed), and may leave frames
 * without names. NO_MEMORY, CANCELLED.
 */
struct stacksnap_error *snap_naming_run(struct snap_log *log, const struct snap_options *options,
					const struct snap_broker *broker,
					int64_t patience_ns) _must_check_;

#endif
