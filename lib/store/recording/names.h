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
 * Writes the names of the log with their frames, the warnings of log->capture, and the meaning of pairs,
 * as snap_analyze_log_names() and snap_log_explain() have added them; and reads them back. OTHER: there
 * is no room for them; FORMAT: snap_log_names_read() would refuse them; NO_MEMORY.
 */
struct stacksnap_error *snap_log_names_write(const struct snap_log *log,
					     const struct snap_log_named *before, uint8_t *bytes,
					     uint64_t room, uint64_t *size_ret) _must_check_;
/*
 * How many bytes the names and pairs of each space of the log make, about, and the most of them;
 * UINT64_MAX: one of them could not be written. `bytes` is used for it.
 */
uint64_t snap_log_names_measure(const struct snap_log *log, const struct snap_log_named *before,
				uint8_t *bytes, uint64_t room, uint64_t *sizes);

/*
 * Adds them to a log that has as many names and explained pairs as the writer had before, and its
 * frames, stacks and objects; with copies of all texts. FORMAT, NO_MEMORY: then no name was added.
 */
struct stacksnap_error *snap_log_names_read(struct snap_log *log, const uint8_t *bytes,
					    uint64_t size) _must_check_;
