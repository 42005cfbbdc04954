/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A log on disk, .snaprec: magic, version, checksummed chunks, little endian, varints; written as
 * the log grows, readable meanwhile, checked on reading.
 *
 * A writer remembers how much of each array it has written and appends the rest as one chunk; a
 * chunk that was cut short by a kill is left out by the reader, which then reports `unfinished`. Knows
 * the fields of struct snap_log and nothing of what they mean.
 */
#pragma once

#include "store/log/log.h"

struct snap_log_writer;

/* Writes the head. The descriptor stays the caller's. */
struct stacksnap_error *snap_log_writer_create(const struct snap_log *log, int fd,
					       struct snap_log_writer **ret) _must_check_;
void snap_log_writer_destroy(struct snap_log_writer *writer);

SNAP_POINTER_GUARD(struct snap_log_writer, snap_log_writer_destroy);

/* Appends what came since the last call as one chunk. The log must not have been renumbered. */
struct stacksnap_error *snap_log_writer_flush(struct snap_log_writer *writer,
					      const struct snap_log *log) _must_check_;
/* Appends names, statistics and the end. */
struct stacksnap_error *snap_log_writer_finish(struct snap_log_writer *writer,
					       const struct snap_log *log) _must_check_;

/* A whole log in one go: what a ring writes, and `render -f snaprec`. */
struct stacksnap_error *snap_log_write(const struct snap_log *log, int fd) _must_check_;

/*
 * Reads one back. FORMAT: truncated in its head, foreign, other version, not consistent in itself.
 * A file without an end is no error: end is SNAP_END_UNFINISHED.
 */
struct stacksnap_error *snap_log_read(int fd, struct snap_log **ret) _must_check_;

/* Whether these first bytes of a file are those of a recording. */
bool snap_log_is_recording(const void *bytes, size_t size);
/* How many bytes that takes. */
enum { SNAP_LOG_MAGIC_SIZE = 16 };
