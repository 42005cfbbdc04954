/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads all documents of a descriptor into a merger. A document that cannot be read is reported and
 * skipped, and the next ones are read. Knows nothing of what is in a document, nor of how it is
 * added.
 */
#pragma once

#include "merge/merger.h"
#include "model/options.h"

struct snap_merge_input {
	struct snap_merger *merger;
	const struct snap_options *options; /* their cancel flag */
	/* A line about a document; NULL: no calls. */
	void (*tell)(void *context, const char *line);
	void *context;
	size_t taken, twice, skipped; /* documents: skipped ones are missing in the result */
};

/* `name` is part of these lines. NO_MEMORY, CANCELLED; OS: it cannot be read any further. */
struct stacksnap_error *snap_merge_input(struct snap_merge_input *input, int fd,
					 const char *name) _must_check_;
