/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Wakes of a log -> ranges of ticks of each thread, within the slice. See internal.h. Wakes of a
 * file can be wrong: in any case ranges are in order and lie in the slice. Knows nothing of waits.
 */
#include "analyze/log/internal.h"

#include <stdlib.h>

/* The slice, while it is walked. */
struct walk {
	struct snap_log_analysis *of;
	/* Of each thread, the tick of the slice + 1 from which it runs; 0: it does not. */
	uint32_t *since;
};

SNAP_FREES(wake_walk_deinit, struct walk, since);

/* The wakes of a tick end here. */
static size_t wakes_up_to(const struct snap_log *log, size_t tick)
{
	return (size_t)(log->ticks[tick].wake_end - log->first_wake);
}

static size_t count_sliced_wakes(const struct snap_log_analysis *of)
{
	return of->end ? wakes_up_to(of->log, of->end - 1) : 0;
}

/* One that is open and each wake make one range, at most. */
static bool allocate_wakes(struct snap_log_analysis *of)
{
	const struct snap_log *log = of->log;
	size_t count = count_sliced_wakes(of), total = count + log->ran_before_count;
	struct snap_wake *wakes;
	_cleanup_free_ uint32_t *most = calloc(log->thread_count + 1, sizeof(*most));

	wakes = snap_arena_new_array(snap_analysis_arena(&of->analysis), total + 1,
				     struct snap_wake);
	if (!wakes || !most)
		return false;
	for (size_t i = 0; i < log->ran_before_count && i < log->thread_count; i++)
		most[i]++;
	for (size_t i = 0; i < count; i++)
		most[log->wakes[i].thread]++;
	for (size_t i = 0; i < log->thread_count; i++) {
		of->lines[i].wakes = wakes;
		wakes += most[i];
	}
	return true;
}

static void add_range(struct snap_log_line *line, uint32_t first, uint32_t last)
{
	struct snap_wake *before = line->wake_count ? &line->wakes[line->wake_count - 1] : NULL;

	if (before && first <= before->last)
		first = before->last + 1;
	if (first > last)
		return;
	if (before && before->last + 1 == first)
		before->last = last;
	else
		line->wakes[line->wake_count++] = (struct snap_wake){ first, last };
}

/* It has run before each tick up to `end`, if it did so at all. */
static void end_range(struct walk *walk, uint32_t thread, uint32_t end)
{
	uint32_t since = walk->since[thread];

	walk->since[thread] = 0;
	if (since && since - 1 < end)
		add_range(&walk->of->lines[thread], since - 1, end - 1);
}

static void take_wake(struct walk *walk, const struct snap_log_wake *wake, size_t tick)
{
	bool is_before = tick < walk->of->first;
	uint32_t at = is_before ? 0 : (uint32_t)(tick - walk->of->first);

	end_range(walk, wake->thread, at);
	if (wake->ran == SNAP_LOG_RAN_EACH)
		walk->since[wake->thread] = at + 1;
	else if (wake->ran == SNAP_LOG_RAN_ONCE && !is_before)
		add_range(&walk->of->lines[wake->thread], at, at);
}

static void set_end(const struct snap_log_analysis *of)
{
	const struct snap_log *log = of->log;
	uint64_t begin = log->first_tick + of->first, count = of->end - of->first;

	if (log->wakes_end > begin)
		of->recording->wakes_end =
			(size_t)(log->wakes_end - begin < count ? log->wakes_end - begin : count);
}

bool snap_log_make_wakes(struct snap_log_analysis *of)
{
	const struct snap_log *log = of->log;
	_cleanup_(wake_walk_deinit) struct walk walk = { .of = of };
	size_t next = 0;

	walk.since = calloc(log->thread_count + 1, sizeof(*walk.since));
	if (!walk.since || !allocate_wakes(of))
		return false;
	for (size_t i = 0; i < log->ran_before_count && i < log->thread_count; i++)
		walk.since[i] = log->ran_before[i] == SNAP_LOG_RAN_EACH;
	for (size_t i = 0; i < of->end; i++)
		for (; next < wakes_up_to(log, i); next++)
			take_wake(&walk, &log->wakes[next], i);
	for (size_t i = 0; i < log->thread_count; i++)
		end_range(&walk, (uint32_t)i, (uint32_t)(of->end - of->first));
	set_end(of);
	return true;
}
