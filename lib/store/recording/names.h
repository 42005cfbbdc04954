/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The names of a log, and the meaning of its waits, as bytes. A parser hands them to the process that
 * has the log, of which the parser is a copy. Never on disk; checked on reading, as hostile bytes may
 * have taken over the parser.
 */
#pragma once

#include "base/error.h"
#include "model/log.h"

/* How many a log had before: only newer ones are written. */
struct snap_log_named {
	size_t names, warnings, explained;
};

static inline struct snap_log_named snap_log_named(const struct snap_log *log)
{
	return (struct snap_log_named){ log->name_count, log->capture->warning_count,
					log->explained_count };
}

/*
 * The names of the log with their frames, the warnings of log->capture, and the meaning of pairs, as
 * snap_analyze_log_names() and snap_log_explain() have added them. How many bytes
 * snap_log_names_write() will write; UINT64_MAX without memory.
 */
uint64_t snap_log_names_size(const struct snap_log *log, const struct snap_log_named *before);
/* Writes them to memory that has room for snap_log_names_size(). NO_MEMORY. */
struct stacksnap_error *snap_log_names_write(const struct snap_log *log,
					     const struct snap_log_named *before,
					     uint8_t *bytes) _must_check_;

/*
 * Adds them to a log that has as many names and explained pairs as the writer had before, and its
 * frames, stacks and objects; with copies of all texts. FORMAT, NO_MEMORY: then no name was added.
 */
struct stacksnap_error *snap_log_names_read(struct snap_log *log, const uint8_t *bytes,
					    uint64_t size) _must_check_;
