/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Profiles of threads, along the time of the recording: a sample is a span in which the stack and
 * the state stayed the same. Where a thread was not there, or ticks were missed, there is a sample
 * without frames, so that all threads have the same axis. The viewer draws one thread at a time and
 * lists all; of very many, only the busiest are written.
 */
#include "base/bsearch.h"
#include "base/buffer.h"
#include "render/speedscope/speedscope.h"

#include <stdlib.h>

enum { MAX_THREADS = 500 };

/* ---- which threads ---- */

struct candidate {
	size_t track;
	uint64_t running; /* samples */
	size_t runs;
};

/* Most samples on a processor first, then most changes; threads are there in order anyway. */
SNAP_ORDER(by_work, struct candidate, a, b, snap_compare(b->running, a->running),
	   snap_compare(b->runs, a->runs), snap_compare(a->track, b->track));

SNAP_ORDER(by_track, struct candidate, a, b, snap_compare(a->track, b->track));

static uint64_t running_samples(const struct snap_track *track)
{
	return snap_sum(
		track->run_count, i,
		track->runs[i].state == SNAP_STATE_RUNNING ? snap_run_samples(&track->runs[i]) : 0);
}

/* The threads to write, in their order; NULL without memory. */
static struct candidate *choose_threads(const struct snap_recording *recording, size_t *count_ret)
{
	struct candidate *list = calloc(recording->track_count + 1, sizeof(*list));
	size_t count = 0;

	if (!list)
		return NULL;
	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];

		if (track->run_count)
			list[count++] =
				(struct candidate){ i, running_samples(track), track->run_count };
	}
	if (count > MAX_THREADS) {
		qsort(list, count, sizeof(*list), by_work);
		count = MAX_THREADS;
		qsort(list, count, sizeof(*list), by_track);
	}
	*count_ret = count;
	return list;
}

/* ---- one thread ---- */

/* The samples that are written, and those of which only the weight is still to come. */
struct thread_line {
	struct snap_scope *scope;
	int64_t *weights;
	size_t count, capacity;
	int64_t at_ns;              /* where the last sample ends */
	const struct snap_run *run; /* of the last sample; NULL: it has no frames */
	size_t wait;                /* of the same: a frame + 1, or 0 */
};

SNAP_FREES(thread_line_deinit, struct thread_line, weights);

static bool add_weight(struct thread_line *line, int64_t end_ns)
{
	if (!snap_append(line->weights, line->count, line->capacity, end_ns - line->at_ns))
		return false;
	line->at_ns = end_ns;
	return true;
}

/* Nothing was seen until then. */
static struct stacksnap_error *add_timeline_gap(struct thread_line *line, int64_t end_ns)
{
	if (end_ns <= line->at_ns)
		return NULL;
	snap_json_begin_line(line->scope->json, NULL, '[');
	snap_json_end(line->scope->json, ']');
	line->run = NULL;
	return add_weight(line, end_ns) ? NULL : snap_error_no_memory();
}

static struct stacksnap_error *add_timeline_span(struct thread_line *line,
						 const struct snap_span *span)
{
	const struct snap_run *run = span->run;
	size_t wait = snap_scope_frame_of_run(&line->scope->waits, run);

	SNAP_TRY(add_timeline_gap(line, span->begin_ns));
	SNAP_TRY(snap_no_memory_unless(wait != SIZE_MAX));
	if (line->run && line->run->stack == run->stack && line->run->state == run->state &&
	    line->wait == wait) {
		line->weights[line->count - 1] += span->end_ns - line->at_ns;
		line->at_ns = span->end_ns;
		return NULL;
	}
	SNAP_TRY(snap_scope_put_sample(line->scope, NULL, run->state, wait, run->stack));
	line->run = run;
	line->wait = wait;
	return add_weight(line, span->end_ns) ? NULL : snap_error_no_memory();
}

static struct stacksnap_error *put_spans(struct snap_scope *scope, const struct snap_track *track,
					 struct thread_line *line)
{
	const struct snap_recording *recording = scope->recording;
	struct snap_spans spans;
	struct snap_span span;
	struct stacksnap_error *err = NULL;

	snap_spans_init(&spans, &scope->timeline, track);
	while (!err && snap_spans_next(&spans, &span))
		err = add_timeline_span(line, &span);
	if (err)
		return err;
	return add_timeline_gap(
		line, snap_timeline_tick_end(&scope->timeline, recording->tick_count - 1));
}

static struct stacksnap_error *put_timeline_thread(struct snap_scope *scope,
						   const struct snap_track *track)
{
	const struct snap_recording *recording = scope->recording;
	const char *thread = snap_profile_thread(&scope->profile, track);
	const char *process = snap_profile_process(&scope->profile, track->process);
	int64_t begin_ns = recording->ticks[0].time_ns;
	_cleanup_(thread_line_deinit) struct thread_line line = { .scope = scope,
								  .at_ns = begin_ns };

	SNAP_TRY(snap_no_memory_unless(thread && process));
	SNAP_TRY(recording->process_count == 1 ? snap_scope_begin(scope, thread, NULL)
					       : snap_scope_begin(scope, process, thread));
	SNAP_TRY(put_spans(scope, track, &line));
	snap_scope_begin_weights(scope);
	for (size_t i = 0; i < line.count; i++)
		snap_json_number(scope->json, NULL, line.weights[i]);
	snap_scope_end(scope, line.at_ns - begin_ns);
	return NULL;
}

struct stacksnap_error *snap_scope_put_threads(struct snap_scope *scope)
{
	size_t count = 0;
	_cleanup_free_ struct candidate *list = choose_threads(scope->recording, &count);

	SNAP_TRY(snap_no_memory_unless(list));
	for (size_t i = 0; i < count; i++)
		SNAP_TRY(put_timeline_thread(scope, &scope->recording->tracks[list[i].track]));
	return NULL;
}
