/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The time line of a thread: its runs as stretches of time, broken where ticks were missed, for
 * formats that draw time. Knows nothing of stacks, and of no format.
 */
#pragma once

#include "model/recording.h"

/* How long a sample of a snapshot, which has no length, is drawn. */
enum { SNAP_SPAN_NOMINAL_NS = 1000000 };

/* When ticks end, and after which of them some were missed. */
struct snap_timeline {
	const struct snap_recording *recording;
	uint32_t *gaps; /* ticks that end before the next one begins, in order; owned */
	size_t gap_count, gap_capacity;
};

/* NO_MEMORY. Released by snap_timeline_deinit() in any case. */
struct stacksnap_error *snap_timeline_init(struct snap_timeline *timeline,
					   const struct snap_recording *recording) _must_check_;
void snap_timeline_deinit(struct snap_timeline *timeline);

/* snap_recording_tick_end(); in a snapshot after a nominal time. */
int64_t snap_timeline_tick_end(const struct snap_timeline *timeline, size_t tick);

/* The thread was in the state of the run in [begin_ns, end_ns) since the recording's start. */
struct snap_span {
	const struct snap_run *run;
	int64_t begin_ns, end_ns;
};

/* Walks the spans of a track, in order; they never overlap. */
struct snap_spans {
	const struct snap_timeline *timeline;
	const struct snap_track *track;
	size_t run;    /* the current one */
	uint32_t tick; /* of it, where the next span begins at the earliest */
	size_t gap;    /* the next one that may lie in it */
};

void snap_spans_init(struct snap_spans *spans, const struct snap_timeline *timeline,
		     const struct snap_track *track);
/* False: there are no more. */
bool snap_spans_next(struct snap_spans *spans, struct snap_span *span);
