/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bytes of a descriptor, cut where documents begin: at lines that begin with {"schema". No line
 * inside a document does so. One such piece is in memory at a time. It may still hold several
 * documents, or none. Knows nothing of JSON.
 */
#pragma once

#include "base/error.h"
#include "model/options.h"

#include <stdbool.h>
#include <stddef.h>

struct snap_merge_stream {
	int fd;                             /* the caller's */
	const struct snap_options *options; /* the caller's; their cancel flag */
	char *data;
	size_t begin, end, capacity; /* of the bytes that were read */
	size_t searched;             /* so far no document begins before it */
	size_t held;                 /* where a NUL stands in place of `replaced` */
	char replaced;
	bool ended, holds;
};

void snap_merge_stream_deinit(struct snap_merge_stream *stream);

/*
 * The next piece, with a NUL behind it, until the next call; *ret NULL at the end. FORMAT: it is
 * larger than any document, or none, and passed over; CANCELLED, OS, NO_MEMORY.
 */
struct stacksnap_error *snap_merge_stream_next(struct snap_merge_stream *stream, char **ret,
					       size_t *size_ret) _must_check_;
