/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A capture on disk: magic, version, checksummed sections, little endian, checked on reading.
 *
 * Knows the fields of struct snap_capture and nothing of what they mean.
 */
#pragma once

#include "base/error.h"
#include "model/capture.h"

#include <stdbool.h>

/* Writes the capture to a descriptor; `live` and timing of this run are left out. */
struct stacksnap_error *snap_capture_write(const struct snap_capture *capture, int fd) _must_check_;

/* Reads one back. FORMAT: truncated, foreign, other version, or not consistent in itself. */
struct stacksnap_error *snap_capture_read(int fd, struct snap_capture **ret) _must_check_;

/*
 * The same through memory, from one process to another on the same machine: a memfd, without
 * checksums, and without the bytes in capture->shared: `shared_fd` is a copy of its shared_fd (-1:
 * there was none). The bytes are checked as those of a file are, and stay mapped; the memfds must not
 * be written to any more.
 */
struct stacksnap_error *snap_capture_hand_over(const struct snap_capture *capture,
					       int fd) _must_check_;
struct stacksnap_error *snap_capture_take_over(int fd, int shared_fd,
					       struct snap_capture **ret) _must_check_;

/* Whether these first bytes of a file are those of a capture. */
bool snap_capture_is_capture(const void *bytes, size_t size);
