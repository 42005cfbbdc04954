/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The names of a log as bytes: what a parser hands to the process that holds the log, which is the
 * one that the parser is a copy of. Never on disk; checked on reading, as it comes from a process
 * that hostile bytes may have taken over.
 */
#ifndef SNAP_STORE_RECORDING_NAMES_H
#define SNAP_STORE_RECORDING_NAMES_H

#include "base/error.h"
#include "model/log.h"

/*
 * The names of the log from number `from` on, with the frames that they are of, and the warnings of
 * log->capture from number `warnings_from` on: what snap_analyze_log_names() has added since there
 * were so many. How many bytes snap_log_names_write() will write; UINT64_MAX without memory.
 */
uint64_t snap_log_names_size(const struct snap_log *log, size_t from, size_t warnings_from);
/* Writes them to memory that has room for snap_log_names_size(). NO_MEMORY. */
struct stacksnap_error *snap_log_names_write(const struct snap_log *log, size_t from,
					     size_t warnings_from, uint8_t *bytes) _must_check_;

/*
 * Adds them to a log that has `from` names and the frames that the writer had, with copies of all
 * texts. FORMAT, NO_MEMORY: then nothing was added.
 */
struct stacksnap_error *snap_log_names_read(struct snap_log *log, const uint8_t *bytes,
					    uint64_t size) _must_check_;

#endif
