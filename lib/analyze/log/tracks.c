/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads and stacks of a recording, in their final order. See internal.h; who is shown
 * was decided in tree.c.
 */
#include "analyze/log/internal.h"

#include <string.h>

static int by_place(const void *left, const void *right)
{
	const struct snap_track *a = left, *b = right;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	/* A number that was given twice. */
	return a->runs->first < b->runs->first ? -1 : a->runs->first > b->runs->first;
}

bool snap_log_make_tracks(struct snap_log_analysis *of, const uint32_t *shown)
{
	struct snap_recording *recording = of->recording;
	const struct snap_log *log = of->log;
	size_t count = 0;

	for (size_t i = 0; i < log->thread_count; i++)
		count +=
			of->lines[i].run_count && shown[log->threads[i].process] != SNAP_LOG_HIDDEN;
	recording->tracks = snap_arena_new_array(snap_analysis_arena(&of->analysis), count + 1,
						 struct snap_track);
	if (!recording->tracks)
		return false;
	for (size_t i = 0; i < log->thread_count; i++) {
		const struct snap_log_thread *thread = &log->threads[i];
		const struct snap_log_line *line = &of->lines[i];

		if (!line->run_count || shown[thread->process] == SNAP_LOG_HIDDEN)
			continue;
		recording->tracks[recording->track_count++] = (struct snap_track){
			.process = shown[thread->process],
			.tid = thread->tid,
			.ns_tid = thread->ns_tid,
			.name = snap_analysis_text(&of->analysis, thread->name),
			.kernel = thread->kernel,
			.runs = line->runs,
			.run_count = line->run_count,
		};
	}
	qsort(recording->tracks, recording->track_count, sizeof(*recording->tracks), by_place);
	return true;
}

/* A stack on its way to its place. */
struct placed {
	uint32_t process, original, old;
};

static int by_original(const void *left, const void *right)
{
	const struct placed *a = left, *b = right;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->original < b->original ? -1 : a->original > b->original;
}

/* Those of processes that are shown, process by process, in the order of the log. */
static size_t place_stacks(const struct snap_log_analysis *of, const uint32_t *shown,
			   struct placed *placed)
{
	size_t count = 0;

	for (size_t i = 0; i < of->recording->stack_count; i++) {
		uint32_t process = shown[of->stacks[i].process];

		if (process != SNAP_LOG_HIDDEN)
			placed[count++] = (struct placed){ process, of->originals[i], (uint32_t)i };
	}
	qsort(placed, count, sizeof(*placed), by_original);
	return count;
}

bool snap_log_make_stacks(struct snap_log_analysis *of, const uint32_t *shown)
{
	struct snap_recording *recording = of->recording;
	size_t count = recording->stack_count;
	_cleanup_free_ uint32_t *moved = malloc((count + 1) * sizeof(*moved));
	_cleanup_free_ struct placed *placed = malloc((count + 1) * sizeof(*placed));

	recording->stacks = snap_arena_new_array(snap_analysis_arena(&of->analysis), count + 1,
						 struct snap_recorded_stack);
	if (!recording->stacks || !moved || !placed)
		return false;
	recording->stack_count = place_stacks(of, shown, placed);
	for (size_t i = 0; i < recording->stack_count; i++) {
		moved[placed[i].old] = (uint32_t)i;
		recording->stacks[i] = of->stacks[placed[i].old];
		recording->stacks[i].process = placed[i].process;
	}
	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++) {
			struct snap_run *run = &recording->tracks[i].runs[k];

			run->stack = moved[run->stack];
		}
	return true;
}
