/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writes parts of a document again in the one form of merged documents: a blank behind commas and
 * colons, and strings escaped like all text of a target. Knows nothing of what the parts mean.
 */
#pragma once

#include "base/buffer.h"
#include "store/json/scan.h"

struct snap_merge_canon {
	struct snap_buffer decoded, raw; /* of a string with escapes */
	const char *wrong;               /* static: what a string was refused for */
};

void snap_merge_canon_deinit(struct snap_merge_canon *canon);

/* The raw text, NUL-terminated, borrowed until the next call; NULL: refused, or no memory. */
const char *snap_merge_canon_raw(struct snap_merge_canon *canon, const struct snap_json_span *span,
				 size_t most, size_t *length_ret);

/* A string with its quotes. False: refused. */
bool snap_merge_canon_string(struct snap_merge_canon *canon, const struct snap_json_span *span,
			     size_t most, struct snap_buffer *out);

/* Members of an object, behind others if there are some since `begin`; none for an empty text. */
bool snap_merge_canon_text(struct snap_merge_canon *canon, const char *key,
			   const struct snap_json_span *span, size_t most, struct snap_buffer *out,
			   size_t begin);
void snap_merge_canon_number(const char *key, int64_t number, struct snap_buffer *out,
			     size_t begin);
void snap_merge_canon_true(const char *key, struct snap_buffer *out, size_t begin);
