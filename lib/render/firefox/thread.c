/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads of the Firefox Profiler's format: see thread.h. Columns are written one after the other,
 * so the samples and the markers of a thread are made first.
 */
#include "render/firefox/thread.h"

#include "base/buffer.h"
#include "base/text.h"

#include <string.h>

/* More samples than this are not drawn one by one: a run then has its first and its last. */
enum { MOST_SAMPLES = 2000000 };

/* The number of a label's key in strings, SIZE_MAX without memory. */
static size_t number_key(struct snap_firefox_tables *tables, const struct snap_label *label)
{
	const char *key = snap_profile_escaped(tables->profile, label->key);

	return key ? snap_pool_add(&tables->strings, key, strlen(key)) : SIZE_MAX;
}

static bool add_keys(struct snap_firefox_tables *tables, const struct snap_label *labels,
		     size_t count)
{
	return snap_all(count, i, number_key(tables, &labels[i]) != SIZE_MAX);
}

/* Names of markers: strings are written before the threads are. */
static bool add_all_keys(struct snap_firefox_tables *tables, const struct snap_recording *recording)
{
	bool ok = true;

	for (size_t i = 0; i < recording->stack_count && ok; i++)
		ok = add_keys(tables, recording->stacks[i].labels,
			      recording->stacks[i].label_count);
	for (size_t i = 0; i < recording->track_count && ok; i++) {
		const struct snap_task *task = recording->tracks[i].task;

		ok = !task || add_keys(tables, task->labels, task->label_count);
	}
	return ok;
}

struct stacksnap_error *snap_firefox_threads_init(struct snap_firefox_threads *threads,
						  const struct snap_recording *recording,
						  const struct snap_options *options,
						  struct snap_firefox_tables *tables)
{
	uint64_t samples = 0;
	bool ok = true;

	*threads = (struct snap_firefox_threads){ .recording = recording, .tables = tables };
	SNAP_TRY(snap_wait_marks_init(&threads->waits, recording, options));
	for (unsigned i = 0; i < SNAP_STATE_COUNT; i++) {
		const char *word = snap_state_word(i);

		threads->state_names[i] = snap_pool_add(&tables->strings, word, strlen(word));
		ok = ok && threads->state_names[i] != SIZE_MAX;
	}
	threads->stop_name = snap_pool_add(&tables->strings, "stop", 4);
	threads->wait_name = snap_pool_add(&tables->strings, "wait", 4);
	ok = ok && threads->stop_name != SIZE_MAX && threads->wait_name != SIZE_MAX &&
	     add_all_keys(tables, recording);
	for (size_t i = 0; i < recording->track_count && ok; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count && ok; k++) {
			const struct snap_run *run = &recording->tracks[i].runs[k];

			samples += snap_run_samples(run);
			ok = snap_firefox_stack(tables, run->stack, run->state) != SIZE_MAX;
		}
	threads->all = samples <= MOST_SAMPLES;
	return ok ? NULL : snap_error_no_memory();
}

void snap_firefox_threads_deinit(struct snap_firefox_threads *threads)
{
	snap_wait_marks_deinit(&threads->waits);
	free(threads->samples);
	free(threads->spans);
	free(threads->labels);
	free(threads->open);
	free(threads->still);
}

/* Ticks were missed after this one: the states until the next are unknown. */
static bool gap_after(const struct snap_recording *recording, size_t tick)
{
	return tick + 1 < recording->tick_count &&
	       snap_recording_tick_end(recording, tick) != recording->ticks[tick + 1].time_ns;
}

/* ---- samples ---- */

static bool add_sample(struct snap_firefox_threads *threads, struct snap_firefox_sample sample)
{
	return snap_append(threads->samples, threads->sample_count, threads->sample_capacity,
			   sample);
}

/*
 * What a running thread used since the sample before: all of this time if it ran then, too, else
 * one period of it.
 */
static int64_t cpu_us(const struct snap_firefox_threads *threads, const struct snap_run *run,
		      int64_t now_us, bool first)
{
	const struct snap_recording *recording = threads->recording;
	int64_t period = snap_firefox_us(recording->period_ns), since;

	if (run->state != SNAP_STATE_RUNNING)
		return 0;
	since = threads->sample_count ? now_us - threads->samples[threads->sample_count - 1].time_us
				      : period;
	return first && since > period ? period : since;
}

/* A stretch of a run without a gap, [first, last]. */
static bool add_stretch(struct snap_firefox_threads *threads, const struct snap_run *run,
			uint32_t first, uint32_t last)
{
	const struct snap_recording *recording = threads->recording;
	size_t row = snap_firefox_stack(threads->tables, run->stack, run->state);
	uint32_t count = last - first + 1, step = threads->all || count < 3 ? 1 : count - 1;

	for (uint32_t tick = first; tick <= last; tick += step) {
		int64_t now_us = snap_firefox_time_us(recording, tick);
		struct snap_firefox_sample sample = {
			.stack = (uint32_t)row + 1,
			.weight = step == 1       ? 1
				  : tick == first ? count - count / 2
						  : count / 2,
			.time_us = now_us,
			.cpu_us = cpu_us(threads, run, now_us, tick == first),
		};

		if (!add_sample(threads, sample))
			return false;
	}
	return true;
}

static bool add_firefox_end(struct snap_firefox_threads *threads, uint32_t tick)
{
	return add_sample(threads, (struct snap_firefox_sample){
					   .time_us = snap_firefox_us(snap_recording_tick_end(
						   threads->recording, tick)),
				   });
}

static bool add_firefox_run(struct snap_firefox_threads *threads, const struct snap_run *run)
{
	uint32_t first = run->first;

	for (uint32_t tick = run->first; tick < run->last; tick++)
		if (gap_after(threads->recording, tick)) {
			if (!add_stretch(threads, run, first, tick) ||
			    !add_firefox_end(threads, tick))
				return false;
			first = tick + 1;
		}
	return add_stretch(threads, run, first, run->last);
}

static bool collect_samples(struct snap_firefox_threads *threads, const struct snap_track *track)
{
	const struct snap_recording *recording = threads->recording;

	threads->sample_count = 0;
	for (size_t i = 0; i < track->run_count; i++) {
		const struct snap_run *run = &track->runs[i];
		bool follows =
			i + 1 < track->run_count && track->runs[i + 1].first == run->last + 1;

		if (!add_firefox_run(threads, run))
			return false;
		if (run->last + 1 < recording->tick_count &&
		    (!follows || gap_after(recording, run->last)) &&
		    !add_firefox_end(threads, run->last))
			return false;
	}
	return true;
}

static void put_firefox_samples(const struct snap_firefox_threads *threads,
				struct snap_json_writer *json)
{
	const struct snap_firefox_sample *samples = threads->samples;
	size_t count = threads->sample_count;

	snap_json_begin(json, "samples", '{');
	snap_json_clean(json, "weightType", "samples");
	snap_json_begin(json, "stack", '[');
	for (size_t i = 0; i < count; i++) {
		if (samples[i].stack)
			snap_json_number(json, NULL, samples[i].stack - 1);
		else
			snap_json_null(json, NULL);
	}
	snap_json_end(json, ']');
	snap_json_list(json, "timeDeltas", count, i,
		       snap_json_decimal(json, NULL,
					 samples[i].time_us - (i ? samples[i - 1].time_us : 0), 3));
	snap_json_list(json, "weight", count, i, snap_json_number(json, NULL, samples[i].weight));
	snap_json_list(json, "threadCPUDelta", count, i,
		       snap_json_number(json, NULL, samples[i].cpu_us));
	snap_json_number(json, "length", (int64_t)count);
	snap_json_end(json, '}');
}

/* ---- labels: each for as long as the thread had it ---- */

/* The span of the stretch before that goes on, SIZE_MAX: there is none. */
static size_t find_open(const struct snap_firefox_threads *threads, const struct snap_label *label,
			const struct snap_run *run)
{
	for (size_t i = 0; i < threads->open_count; i++) {
		const struct snap_firefox_label *open = &threads->labels[threads->open[i]];

		if (open->run.last + 1 == run->first &&
		    !gap_after(threads->recording, open->run.last) &&
		    strcmp(open->label->key, label->key) == 0 &&
		    strcmp(open->label->value, label->value) == 0)
			return threads->open[i];
	}
	return SIZE_MAX;
}

static bool add_firefox_label(struct snap_firefox_threads *threads, const struct snap_label *label,
			      const struct snap_run *run)
{
	size_t at = find_open(threads, label, run), name;

	if (!snap_reserve_array(threads->still, threads->still_capacity, threads->still_count + 1))
		return false;
	if (at == SIZE_MAX) {
		at = threads->label_count;
		name = number_key(threads->tables, label);
		if (name == SIZE_MAX ||
		    !snap_reserve_array(threads->labels, threads->label_capacity, at + 1))
			return false;
		threads->labels[threads->label_count++] =
			(struct snap_firefox_label){ label, *run, name };
	}
	threads->still[threads->still_count++] = at;
	return true;
}

/* Of a stretch of a run without a gap. */
static bool add_firefox_labels(struct snap_firefox_threads *threads, const struct snap_track *track,
			       const struct snap_run *run)
{
	struct snap_labels_of labels = snap_profile_labels(threads->recording, track, run);
	size_t *before = threads->open, capacity = threads->open_capacity;

	threads->still_count = 0;
	if (!snap_all(labels.count, i, add_firefox_label(threads, &labels.labels[i], run)))
		return false;
	for (size_t i = 0; i < threads->still_count; i++)
		threads->labels[threads->still[i]].run.last = run->last;
	threads->open = threads->still;
	threads->open_count = threads->still_count;
	threads->open_capacity = threads->still_capacity;
	threads->still = before;
	threads->still_capacity = capacity;
	return true;
}

/* ---- markers: a span for as long as the thread stayed in a state, and one for each stop ---- */

static bool continues_span(const struct snap_recording *recording, const struct snap_run *span,
			   const struct snap_run *run)
{
	return span->last + 1 == run->first && span->state == run->state &&
	       snap_same_text(span->syscall, run->syscall) &&
	       snap_same_text(span->wchan, run->wchan) && !gap_after(recording, span->last);
}

static bool add_firefox_span(struct snap_firefox_threads *threads, const struct snap_run *run)
{
	struct snap_run *last =
		threads->span_count ? &threads->spans[threads->span_count - 1] : NULL;

	if (last && continues_span(threads->recording, last, run)) {
		last->last = run->last;
		return true;
	}
	return snap_append(threads->spans, threads->span_count, threads->span_capacity, *run);
}

/* Fills threads->spans and labels. False without memory. */
static bool collect_spans(struct snap_firefox_threads *threads, const struct snap_track *track)
{
	threads->span_count = threads->label_count = threads->open_count = 0;
	for (size_t i = 0; i < track->run_count; i++) {
		struct snap_run rest = track->runs[i];

		for (uint32_t tick = rest.first; tick < track->runs[i].last; tick++) {
			if (!gap_after(threads->recording, tick))
				continue;
			rest.last = tick;
			if (!add_firefox_span(threads, &rest) ||
			    !add_firefox_labels(threads, track, &rest))
				return false;
			rest.first = tick + 1;
			rest.last = track->runs[i].last;
		}
		if (!add_firefox_span(threads, &rest) || !add_firefox_labels(threads, track, &rest))
			return false;
	}
	return true;
}

/* A stop belongs to no thread: all are marked on the first one. */
static size_t stop_count(const struct snap_firefox_threads *threads, bool stops)
{
	size_t count = 0;

	for (size_t i = 0; stops && i < threads->recording->tick_count; i++)
		count += threads->recording->ticks[i].stopped_ns > 0;
	return count;
}

/* What the thread waited for, and the holder. */
static void put_wait_data(struct snap_json_writer *json, const struct snap_wait_mark *mark)
{
	_cleanup_free_ char *by = NULL;

	snap_json_begin_line(json, NULL, '{');
	snap_json_clean(json, "type", "Wait");
	snap_json_text(json, "object", mark->object);
	if (mark->has_holder) {
		snap_json_text_if(json, "holder", mark->holder.function);
		if (asprintf(&by, "%d %s", mark->holder.tid,
			     mark->holder_name ? mark->holder_name : "") < 0) {
			by = NULL;
			json->failed = true;
		}
		snap_json_text_if(json, "by", by);
	}
	snap_json_end(json, '}');
}

static void put_marker_data(const struct snap_firefox_threads *threads,
			    struct snap_json_writer *json, size_t stops)
{
	snap_json_begin(json, "data", '[');
	for (size_t i = 0; i < threads->span_count; i++) {
		const struct snap_run *span = &threads->spans[i];

		snap_json_begin_line(json, NULL, '{');
		snap_json_clean(json, "type", "State");
		snap_json_text(json, "state", snap_state_word(span->state));
		if (span->syscall)
			snap_json_text(json, "syscall", span->syscall);
		if (span->wchan)
			snap_json_text(json, "wchan", span->wchan);
		snap_json_end(json, '}');
	}
	for (size_t i = 0; i < threads->label_count; i++) {
		snap_json_begin_line(json, NULL, '{');
		snap_json_clean(json, "type", "Label");
		snap_json_text(json, "value", threads->labels[i].label->value);
		snap_json_end(json, '}');
	}
	for (size_t i = 0; i < threads->waits.count; i++)
		put_wait_data(json, &threads->waits.items[i]);
	for (size_t i = 0; i < stops; i++)
		snap_json_raw(json, NULL, "{\"type\":\"Stop\"}");
	snap_json_end(json, ']');
}

enum marker_column { MARKER_NAME, MARKER_START, MARKER_END, MARKER_PHASE, MARKER_CATEGORY };

/* A snapshot has no length: its markers are instants. */
static void put_span_cell(const struct snap_firefox_threads *threads, struct snap_json_writer *json,
			  const struct snap_run *span, size_t name,
			  enum snap_firefox_category category, enum marker_column column)
{
	const struct snap_recording *recording = threads->recording;
	bool instant = recording->period_ns == 0;

	switch (column) {
	case MARKER_NAME:
		snap_json_number(json, NULL, (int64_t)name);
		break;
	case MARKER_START:
		snap_json_decimal(json, NULL, snap_firefox_time_us(recording, span->first), 3);
		break;
	case MARKER_END:
		if (instant)
			snap_json_null(json, NULL);
		else
			snap_json_decimal(
				json, NULL,
				snap_firefox_us(snap_recording_tick_end(recording, span->last)), 3);
		break;
	case MARKER_PHASE:
		snap_json_number(json, NULL, !instant);
		break;
	case MARKER_CATEGORY:
		snap_json_number(json, NULL, category);
		break;
	}
}

static void put_stop_cell(const struct snap_firefox_threads *threads, struct snap_json_writer *json,
			  const struct snap_tick *tick, enum marker_column column)
{
	switch (column) {
	case MARKER_NAME:
		snap_json_number(json, NULL, (int64_t)threads->stop_name);
		break;
	case MARKER_START:
		snap_json_decimal(json, NULL, snap_firefox_us(tick->time_ns), 3);
		break;
	case MARKER_END:
		snap_json_decimal(json, NULL, snap_firefox_us(tick->time_ns + tick->stopped_ns), 3);
		break;
	case MARKER_PHASE:
		snap_json_number(json, NULL, 1);
		break;
	case MARKER_CATEGORY:
		snap_json_number(json, NULL, SNAP_FIREFOX_OTHER);
		break;
	}
}

static void put_markers(const struct snap_firefox_threads *threads, struct snap_json_writer *json,
			bool stops)
{
	static const char *const keys[] = {
		[MARKER_NAME] = "name",   [MARKER_START] = "startTime",   [MARKER_END] = "endTime",
		[MARKER_PHASE] = "phase", [MARKER_CATEGORY] = "category",
	};
	const struct snap_recording *recording = threads->recording;
	size_t marked = stop_count(threads, stops);

	snap_json_begin_line(json, "markers", '{');
	snap_json_number(json, "length",
			 (int64_t)(threads->span_count + threads->label_count +
				   threads->waits.count + marked));
	put_marker_data(threads, json, marked);
	for (unsigned column = 0; column < SNAP_ARRAY_SIZE(keys); column++) {
		snap_json_begin(json, keys[column], '[');
		for (size_t i = 0; i < threads->span_count; i++)
			put_span_cell(threads, json, &threads->spans[i],
				      threads->state_names[threads->spans[i].state],
				      snap_firefox_category_of(threads->spans[i].state), column);
		for (size_t i = 0; i < threads->label_count; i++)
			put_span_cell(threads, json, &threads->labels[i].run,
				      threads->labels[i].name, SNAP_FIREFOX_OTHER, column);
		for (size_t i = 0; i < threads->waits.count; i++) {
			const struct snap_wait_mark *mark = &threads->waits.items[i];

			put_span_cell(
				threads, json,
				&(struct snap_run){ .first = mark->first, .last = mark->last },
				threads->wait_name, SNAP_FIREFOX_OTHER, column);
		}
		for (size_t i = 0; stops && i < recording->tick_count; i++)
			if (recording->ticks[i].stopped_ns > 0)
				put_stop_cell(threads, json, &recording->ticks[i], column);
		snap_json_end(json, ']');
	}
	snap_json_end(json, '}');
}

/* ---- the thread ---- */

/* Programs that one process ran one after the other have its pid; readers want different ones. */
static size_t program_number(const struct snap_recording *recording, size_t process)
{
	size_t number = 1;

	for (size_t i = 0; i < process; i++)
		number += recording->processes[i].node->pid ==
			  recording->processes[process].node->pid;
	return number;
}

void snap_firefox_put_id(struct snap_json_writer *json, const char *key,
			 const struct snap_recording *recording, size_t process, pid_t id)
{
	size_t number = program_number(recording, process);
	char text[48];

	if (number == 1)
		snprintf(text, sizeof(text), "%d", id);
	else
		snprintf(text, sizeof(text), "%d.%zu", id, number);
	snap_json_clean(json, key, text);
}

/* Milliseconds, or null where the recording ended before it did. */
static void put_end_time(struct snap_json_writer *json, const char *key,
			 const struct snap_recording *recording, bool ended, uint32_t tick)
{
	if (ended)
		snap_json_decimal(json, key,
				  snap_firefox_us(snap_recording_tick_end(recording, tick)), 3);
	else
		snap_json_null(json, key);
}

/* When it was first and last seen. */
static void put_life(struct snap_json_writer *json, const struct snap_recording *recording,
		     const struct snap_track *track)
{
	const struct snap_recorded_process *process = &recording->processes[track->process];
	const struct snap_run *last = track->run_count ? &track->runs[track->run_count - 1] : NULL;

	snap_json_decimal(json, "processStartupTime",
			  snap_firefox_time_us(recording, process->first), 3);
	put_end_time(json, "processShutdownTime", recording, process->ended || process->execed,
		     process->last);
	snap_json_decimal(json, "registerTime",
			  last ? snap_firefox_time_us(recording, track->runs[0].first) : 0, 3);
	put_end_time(json, "unregisterTime", recording,
		     last && last->last + 1 < recording->tick_count, last ? last->last : 0);
}

/* Tasks of one name differ by their ids. */
static void put_thread_name(struct snap_json_writer *json, const struct snap_track *track)
{
	_cleanup_free_ char *name = NULL;

	if (track->task && asprintf(&name, "%s/%s", track->name, track->task->id) < 0) {
		name = NULL;
		json->failed = true;
	}
	snap_json_text(json, "name", name ? name : track->name ? track->name : "?");
}

bool snap_firefox_put_thread(struct snap_firefox_threads *threads, struct snap_json_writer *json,
			     size_t number)
{
	const struct snap_recording *recording = threads->recording;
	const struct snap_track *track = &recording->tracks[number];
	const struct snap_node *node = recording->processes[track->process].node;

	if (!collect_samples(threads, track) || !collect_spans(threads, track) ||
	    !snap_wait_marks_make(&threads->waits, track))
		return false;
	snap_json_begin(json, NULL, '{');
	put_thread_name(json, track);
	snap_json_text(json, "processName", node->name ? node->name : "?");
	snap_firefox_put_id(json, "pid", recording, track->process, node->pid);
	snap_firefox_put_id(json, "tid", recording, track->process, track->tid);
	snap_json_clean(json, "processType", "default");
	snap_json_bool(json, "isMainThread", track->tid == node->pid);
	put_life(json, recording, track);
	snap_json_raw(json, "pausedRanges", "[]");
	snap_json_bool(json, "showMarkersInTimeline", true);
	snap_json_line(json);
	put_firefox_samples(threads, json);
	put_markers(threads, json, number == 0 && recording->period_ns > 0);
	snap_json_end(json, '}');
	return true;
}
