/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Markers of the Firefox Profiler's format: see internal.h. A span for as long as a thread
 * stayed in a state, and one for each stop.
 */
#include "render/firefox/internal.h"

#include <string.h>

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool goes_on(const struct snap_recording *recording, const struct snap_run *span,
		    const struct snap_run *run)
{
	return span->last + 1 == run->first && span->state == run->state &&
	       same_text(span->syscall, run->syscall) && same_text(span->wchan, run->wchan) &&
	       !snap_firefox_gap_after(recording, span->last);
}

static bool add_span(struct snap_firefox_threads *threads, const struct snap_run *run)
{
	struct snap_run *last =
		threads->span_count ? &threads->spans[threads->span_count - 1] : NULL;

	if (last && goes_on(threads->recording, last, run)) {
		last->last = run->last;
		return true;
	}
	if (!snap_grow_array(threads->spans, threads->span_capacity, threads->span_count))
		return false;
	threads->spans[threads->span_count++] = *run;
	return true;
}

bool snap_firefox_collect_spans(struct snap_firefox_threads *threads,
				const struct snap_track *track)
{
	threads->span_count = 0;
	for (size_t i = 0; i < track->run_count; i++) {
		struct snap_run rest = track->runs[i];

		for (uint32_t tick = rest.first; tick < track->runs[i].last; tick++) {
			if (!snap_firefox_gap_after(threads->recording, tick))
				continue;
			rest.last = tick;
			if (!add_span(threads, &rest))
				return false;
			rest.first = tick + 1;
			rest.last = track->runs[i].last;
		}
		if (!add_span(threads, &rest))
			return false;
	}
	return true;
}

static void put_member(struct snap_json_out *json, const char *key, const char *text)
{
	if (!text)
		return;
	snap_json_out_raw(json, ",\"");
	snap_json_out_raw(json, key);
	snap_json_out_raw(json, "\":");
	snap_json_out_text(json, text);
}

/* Stops are nobody's own: they are marked on the first thread. */
static size_t stop_count(const struct snap_firefox_threads *threads, bool stops)
{
	size_t count = 0;

	for (size_t i = 0; stops && i < threads->recording->tick_count; i++)
		count += threads->recording->ticks[i].stopped_ns > 0;
	return count;
}

static void put_marker_data(const struct snap_firefox_threads *threads, struct snap_json_out *json,
			    size_t stops)
{
	snap_firefox_begin_column(json, "data");
	for (size_t i = 0; i < threads->span_count; i++) {
		const struct snap_run *span = &threads->spans[i];

		snap_json_out_raw(json, i ? ",\n{\"type\":\"State\"" : "\n{\"type\":\"State\"");
		put_member(json, "state", snap_state_word(span->state));
		put_member(json, "syscall", span->syscall);
		put_member(json, "wchan", span->wchan);
		snap_json_out_raw(json, "}");
	}
	for (size_t i = 0; i < stops; i++)
		snap_json_out_raw(json, threads->span_count + i ? ",{\"type\":\"Stop\"}"
								: "{\"type\":\"Stop\"}");
	snap_json_out_raw(json, "]");
}

enum marker_column { MARKER_NAME, MARKER_START, MARKER_END, MARKER_PHASE, MARKER_CATEGORY };

/* A snapshot has no length: its markers are instants. */
static void put_span_cell(const struct snap_firefox_threads *threads, struct snap_json_out *json,
			  const struct snap_run *span, enum marker_column column)
{
	const struct snap_recording *recording = threads->recording;
	bool instant = recording->period_ns == 0;

	switch (column) {
	case MARKER_NAME:
		snap_json_out_number(json, (int64_t)threads->state_names[span->state]);
		break;
	case MARKER_START:
		snap_json_out_decimal(json, snap_firefox_time_us(recording, span->first), 3);
		break;
	case MARKER_END:
		if (instant)
			snap_json_out_raw(json, "null");
		else
			snap_json_out_decimal(
				json,
				snap_firefox_us(snap_recording_tick_end(recording, span->last)), 3);
		break;
	case MARKER_PHASE:
		snap_json_out_raw(json, instant ? "0" : "1");
		break;
	case MARKER_CATEGORY:
		snap_json_out_number(json, snap_firefox_category_of(span->state));
		break;
	}
}

static void put_stop_cell(const struct snap_firefox_threads *threads, struct snap_json_out *json,
			  const struct snap_tick *tick, enum marker_column column)
{
	switch (column) {
	case MARKER_NAME:
		snap_json_out_number(json, (int64_t)threads->stop_name);
		break;
	case MARKER_START:
		snap_json_out_decimal(json, snap_firefox_us(tick->time_ns), 3);
		break;
	case MARKER_END:
		snap_json_out_decimal(json, snap_firefox_us(tick->time_ns + tick->stopped_ns), 3);
		break;
	case MARKER_PHASE:
		snap_json_out_raw(json, "1");
		break;
	case MARKER_CATEGORY:
		snap_json_out_number(json, SNAP_FIREFOX_OTHER);
		break;
	}
}

void snap_firefox_put_markers(const struct snap_firefox_threads *threads,
			      struct snap_json_out *json, bool stops)
{
	static const char *const keys[] = {
		[MARKER_NAME] = "name",   [MARKER_START] = "startTime",   [MARKER_END] = "endTime",
		[MARKER_PHASE] = "phase", [MARKER_CATEGORY] = "category",
	};
	const struct snap_recording *recording = threads->recording;
	size_t marked = stop_count(threads, stops);

	snap_json_out_raw(json, ",\n\"markers\":{\"length\":");
	snap_json_out_number(json, (int64_t)(threads->span_count + marked));
	put_marker_data(threads, json, marked);
	for (unsigned column = 0; column < SNAP_ARRAY_SIZE(keys); column++) {
		bool begun = false;

		snap_firefox_begin_column(json, keys[column]);
		for (size_t i = 0; i < threads->span_count; i++, begun = true) {
			snap_json_out_raw(json, begun ? "," : "");
			put_span_cell(threads, json, &threads->spans[i], column);
		}
		for (size_t i = 0; stops && i < recording->tick_count; i++) {
			if (recording->ticks[i].stopped_ns <= 0)
				continue;
			snap_json_out_raw(json, begun ? "," : "");
			put_stop_cell(threads, json, &recording->ticks[i], column);
			begun = true;
		}
		snap_json_out_raw(json, "]");
	}
	snap_json_out_raw(json, "}");
}
