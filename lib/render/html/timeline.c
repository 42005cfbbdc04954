/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A recording along its time for an HTML page: ticks, and where each thread stood at them. The page
 * makes its groups of these, for whatever slice is looked at. See parts.h.
 *
 * What a thread may be found in (stack, state, system call, wait) is a row of "cells", and a run is
 * one to three numbers: 4 * cell, plus 1 where its length follows, plus 2 where before that the
 * ticks follow at which the thread was not seen.
 */
#include "render/html/parts.h"
#include "render/wait/waited.h"

enum { LENGTH_FOLLOWS = 1, GAP_FOLLOWS = 2, CELL = 4 };

struct cell_row {
	uint32_t stack, state, syscall, wchan, wait, task_state;
};

struct timeline {
	struct snap_html *html;
	const struct snap_recording *recording;
	struct snap_pool cells;
	uint32_t *waits; /* of the recording's: their texts + 1; 0: not made yet */
};

static void timeline_deinit(struct timeline *timeline)
{
	snap_pool_deinit(&timeline->cells);
	free(timeline->waits);
}

/* ---- processes, stacks, ticks ---- */

static void put_timeline_processes(struct snap_html *html, const struct snap_recording *recording)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin_line(json, "processes", '[');
	for (size_t i = 0; i < recording->process_count; i++) {
		const struct snap_recorded_process *process = &recording->processes[i];

		snap_json_begin_line(json, NULL, '{');
		if (process->parent != SIZE_MAX)
			snap_json_number(json, "above", (int64_t)process->parent);
		snap_html_put_process(html, process->node, recording->time_ns);
		snap_json_number(json, "first", process->first);
		snap_json_number(json, "last", process->last);
		snap_json_true_if(json, "ended", process->ended);
		snap_json_true_if(json, "execed", process->execed);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static void put_timeline_stacks(struct snap_html *html, const struct snap_recording *recording)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin_line(json, "recorded", '[');
	for (size_t i = 0; i < recording->stack_count && !html->failed; i++) {
		const struct snap_recorded_stack *from = &recording->stacks[i];
		struct snap_stack stack = {
			.description = from->description,
			.labels = from->labels,
			.label_count = from->label_count,
			.unwind = from->unwind,
			.unwind_detail = from->unwind_detail,
			.gap_frame = from->gap_frame,
			.gap_count = from->gap_count,
			.frames = from->frames,
			.frame_count = from->frame_count,
		};

		memcpy(stack.id, from->id, sizeof(stack.id));
		snap_json_begin(json, NULL, '{');
		snap_html_put_group(html, &stack);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

/* Microseconds from each tick to the next, and from the last one to its end. */
static void put_ticks(struct snap_html *html, const struct snap_recording *recording)
{
	struct snap_json_writer *json = html->json;

	snap_json_line(json);
	snap_json_number(json, "period_us", recording->period_ns / 1000);
	if (recording->tick_count)
		snap_json_number(json, "from_us", recording->ticks[0].time_ns / 1000);
	snap_json_begin(json, "ticks", '[');
	for (size_t i = 0; i < recording->tick_count; i++) {
		int64_t next = i + 1 < recording->tick_count
				       ? recording->ticks[i + 1].time_ns
				       : snap_recording_tick_end(recording, i);

		snap_json_number(json, NULL, next / 1000 - recording->ticks[i].time_ns / 1000);
	}
	snap_json_end(json, ']');
}

/* ---- threads ---- */

static size_t wait_of(struct timeline *timeline, const struct snap_track *track,
		      const struct snap_run *run)
{
	struct snap_html *html = timeline->html;
	uint32_t *known;

	if (!run->wait)
		return snap_html_wait(html, track->wait);
	known = &timeline->waits[run->wait - 1];
	if (!*known)
		*known = (uint32_t)snap_html_wait(html,
						  timeline->recording->waits[run->wait - 1].wait) +
			 1;
	return *known - 1;
}

static size_t cell_of(struct timeline *timeline, const struct snap_track *track,
		      const struct snap_run *run)
{
	struct snap_html *html = timeline->html;
	struct cell_row row = {
		.stack = run->stack,
		.state = run->state,
		.syscall = (uint32_t)snap_html_text(html, run->syscall),
		.wchan = (uint32_t)snap_html_text(html, run->wchan),
		.wait = (uint32_t)wait_of(timeline, track, run),
		.task_state = track->task ? run->task_state : 0,
	};
	size_t number = snap_pool_add(&timeline->cells, &row, sizeof(row));

	if (number == SIZE_MAX)
		html->failed = true;
	return number;
}

static void put_runs(struct timeline *timeline, const struct snap_track *track)
{
	struct snap_json_writer *json = timeline->html->json;
	uint32_t at = 0;

	snap_json_begin(json, "runs", '[');
	for (size_t i = 0; i < track->run_count && !timeline->html->failed; i++) {
		const struct snap_run *run = &track->runs[i];
		uint64_t length = snap_run_samples(run);
		int64_t head = (int64_t)cell_of(timeline, track, run) * CELL;

		head += (length > 1 ? LENGTH_FOLLOWS : 0) + (run->first > at ? GAP_FOLLOWS : 0);
		snap_json_number(json, NULL, head);
		if (run->first > at)
			snap_json_number(json, NULL, run->first - at);
		if (length > 1)
			snap_json_number(json, NULL, (int64_t)length);
		at = run->last + 1;
	}
	snap_json_end(json, ']');
}

static void put_track(struct timeline *timeline, const struct snap_track *track)
{
	struct snap_html *html = timeline->html;
	struct snap_json_writer *json = html->json;

	snap_json_begin_line(json, NULL, '{');
	snap_json_number(json, "process", (int64_t)track->process);
	snap_json_number(json, "tid", track->tid);
	snap_html_put_text(html, "name", snap_html_text(html, track->name));
	if (track->task) {
		snap_json_text_if(json, "runtime", track->runtime);
		snap_html_put_text(html, "task", snap_html_text(html, track->task->id));
		snap_html_put_labels(html, "labels", track->task->labels, track->task->label_count);
	}
	put_runs(timeline, track);
	snap_json_end(json, '}');
}

static void put_tracks(struct timeline *timeline)
{
	const struct snap_recording *recording = timeline->recording;
	struct snap_json_writer *json = timeline->html->json;

	snap_json_begin_line(json, "tracks", '[');
	for (size_t i = 0; i < recording->track_count && !timeline->html->failed; i++)
		if (recording->tracks[i].run_count)
			put_track(timeline, &recording->tracks[i]);
	snap_json_end(json, ']');
}

static void put_cells(struct timeline *timeline)
{
	struct snap_json_writer *json = timeline->html->json;
	struct cell_row row;

	snap_json_begin_line(json, "cells", '[');
	for (size_t i = 0; i < timeline->cells.count; i++) {
		memcpy(&row, timeline->cells.entries[i].bytes, sizeof(row));
		snap_json_number(json, NULL, row.stack);
		snap_json_number(json, NULL, row.state);
		snap_json_number(json, NULL, row.syscall);
		snap_json_number(json, NULL, row.wchan);
		snap_json_number(json, NULL, row.wait);
		snap_json_number(json, NULL, row.task_state);
	}
	snap_json_end(json, ']');
}

/* ---- time by wait ---- */

static void put_holder(struct snap_html *html, const struct snap_waited_holder *holder)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin(json, NULL, '{');
	snap_json_text_if(json, "function", holder->function);
	snap_json_number_if(json, "pid", holder->pid);
	snap_json_number_if(json, "tid", holder->tid);
	snap_json_text_if(json, "name", holder->name);
	snap_json_number(json, "us", holder->ns / 1000);
	if (holder->lack != SNAP_OWNER_KNOWN)
		snap_json_clean(json, "lack", snap_owner_lack_word(holder->lack));
	snap_json_end(json, '}');
}

static void put_waited_part(struct snap_html *html, const char *key,
			    const struct snap_waited_part *part)
{
	struct snap_json_writer *json = html->json;

	snap_json_begin_line(json, key, '[');
	for (size_t i = 0; i < part->row_count; i++) {
		const struct snap_waited_row *row = &part->rows[i];

		snap_json_begin(json, NULL, '{');
		snap_json_number(json, "process", (int64_t)row->process);
		snap_json_text(json, "text", row->text);
		snap_json_number(json, "us", row->ns / 1000);
		snap_json_number(json, "longest_us", row->longest_ns / 1000);
		snap_json_number(json, "threads", (int64_t)row->threads);
		if (row->keeps_owner)
			snap_json_number_if(json, "unknown_us", row->unknown_ns / 1000);
		snap_json_list(json, "holders", row->holder_count, k,
			       put_holder(html, &row->holders[k]));
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static struct stacksnap_error *put_waited(struct snap_html *html,
					  const struct snap_recording *recording)
{
	static const struct snap_waited_most most = { .owed = 100, .idle = 50, .holders = 5 };
	_cleanup_(snap_waited_deinit) struct snap_waited waited = { .missed_ns = 0 };

	SNAP_TRY(snap_waited_init(&waited, recording, html->options, most));
	put_waited_part(html, "owed", &waited.owed);
	put_waited_part(html, "idle", &waited.idle);
	return NULL;
}

struct stacksnap_error *snap_html_put_timeline(struct snap_html *html,
					       const struct snap_recording *recording)
{
	_cleanup_(timeline_deinit) struct timeline timeline = {
		.html = html,
		.recording = recording,
		.waits = calloc(recording->wait_count + 1, sizeof(*timeline.waits)),
	};

	SNAP_TRY(snap_no_memory_unless(timeline.waits));
	put_timeline_processes(html, recording);
	put_timeline_stacks(html, recording);
	put_ticks(html, recording);
	put_tracks(&timeline);
	put_cells(&timeline);
	return html->failed ? snap_error_no_memory() : put_waited(html, recording);
}
