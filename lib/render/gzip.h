/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Gzip as a stream, for formats whose readers take or want it compressed.
 *
 * The header has no name, no time and no system, so that the same input gives the same bytes.
 * Errors are kept and returned by snap_gzip_finish(). Knows nothing of what it compresses, and leaves
 * errors of the FILE to its owner.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdio.h>

struct snap_gzip;

/* `out` is borrowed until finish. NO_MEMORY. */
struct stacksnap_error *snap_gzip_create(FILE *out, struct snap_gzip **ret) _must_check_;
/* Writes nothing: what was not finished stays cut. Takes NULL. */
void snap_gzip_destroy(struct snap_gzip *gzip);

SNAP_POINTER_GUARD(struct snap_gzip, snap_gzip_destroy);

/* `gzip` is a struct snap_gzip: what snap_json_writer_create_to() takes as its `write`. */
void snap_gzip_write(void *gzip, const char *bytes, size_t size);
/* Ends the stream; once, and nothing may be written after it. */
struct stacksnap_error *snap_gzip_finish(struct snap_gzip *gzip) _must_check_;
