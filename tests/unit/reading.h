/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads a thread for a copy as the sampler does: by a reader's worker. */
#pragma once

#include "model/capture.h"
#include "sample/copy_blocked.h"
#include "sample/reader.h"

struct reading {
	struct snap_reader *reader;
	struct snap_reader_target target;
	uint64_t start, end; /* the stack that is read at once; 0: none is */
	size_t most;
};

static inline int reading_locate(void *context, struct snap_syscall_line *ret)
{
	const struct reading *reading = context;

	const struct snap_reader_question question = { .target = reading->target,
						       .start = reading->start,
						       .end = reading->end };

	return snap_reader_locate(reading->reader, &question, reading->most, ret);
}

static inline ssize_t reading_read(void *context, uint64_t address, uint8_t *bytes, size_t size)
{
	const struct reading *reading = context;

	return snap_reader_read(reading->reader, &reading->target, address, bytes, size);
}

static inline struct snap_blocked_source reading_source(struct reading *reading)
{
	return (struct snap_blocked_source){ .locate = reading_locate,
					     .read = reading_read,
					     .context = reading };
}
