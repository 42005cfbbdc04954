/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs as stretches of time: see spans.h. */
#include "render/view/spans.h"
#include "base/buffer.h"

#include <stdlib.h>

int64_t snap_timeline_tick_end(const struct snap_timeline *timeline, size_t tick)
{
	const struct snap_recording *recording = timeline->recording;

	if (recording->period_ns == 0)
		return recording->ticks[tick].time_ns + SNAP_SPAN_NOMINAL_NS;
	return snap_recording_tick_end(recording, tick);
}

struct stacksnap_error *snap_timeline_init(struct snap_timeline *timeline,
					   const struct snap_recording *recording)
{
	*timeline = (struct snap_timeline){ .recording = recording };
	for (size_t i = 0; i + 1 < recording->tick_count; i++) {
		if (snap_timeline_tick_end(timeline, i) >= recording->ticks[i + 1].time_ns)
			continue;
		SNAP_TRY(snap_no_memory_unless(snap_append(timeline->gaps, timeline->gap_count,
							   timeline->gap_capacity, (uint32_t)i)));
	}
	return NULL;
}

void snap_timeline_deinit(struct snap_timeline *timeline)
{
	free(timeline->gaps);
}

void snap_spans_init(struct snap_spans *spans, const struct snap_timeline *timeline,
		     const struct snap_track *track)
{
	*spans = (struct snap_spans){ .timeline = timeline, .track = track };
}

bool snap_spans_next(struct snap_spans *spans, struct snap_span *span)
{
	const struct snap_timeline *timeline = spans->timeline;
	const struct snap_run *run = &spans->track->runs[spans->run];
	uint32_t first, last;

	if (spans->run == spans->track->run_count)
		return false;
	first = spans->tick > run->first ? spans->tick : run->first;
	last = run->last;
	while (spans->gap < timeline->gap_count && timeline->gaps[spans->gap] < first)
		spans->gap++;
	if (spans->gap < timeline->gap_count && timeline->gaps[spans->gap] < last)
		last = timeline->gaps[spans->gap];
	*span = (struct snap_span){
		.run = run,
		.begin_ns = timeline->recording->ticks[first].time_ns,
		.end_ns = snap_timeline_tick_end(timeline, last),
	};
	spans->tick = last + 1;
	if (last == run->last)
		spans->run++;
	return true;
}
