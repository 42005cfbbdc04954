/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads of the Firefox Profiler's format: see internal.h. Columns are written one after
 * the other, so the samples of a thread are made first.
 */
#include "render/firefox/internal.h"

#include <string.h>

/* More samples than this are not drawn one by one: a run then has its first and its last. */
enum { MOST_SAMPLES = 2000000 };

struct snap_error *snap_firefox_threads_init(struct snap_firefox_threads *threads,
					     const struct snap_recording *recording,
					     struct snap_firefox_tables *tables)
{
	uint64_t samples = 0;
	bool ok = true;

	*threads = (struct snap_firefox_threads){ .recording = recording, .tables = tables };
	for (unsigned i = 0; i < SNAP_STATE_COUNT; i++) {
		const char *word = snap_state_word(i);

		threads->state_names[i] = snap_pool_add(&tables->strings, word, strlen(word));
		ok = ok && threads->state_names[i] != SIZE_MAX;
	}
	threads->stop_name = snap_pool_add(&tables->strings, "stop", 4);
	ok = ok && threads->stop_name != SIZE_MAX;
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
	free(threads->samples);
	free(threads->spans);
}

/* ---- samples ---- */

static bool add_sample(struct snap_firefox_threads *threads, struct snap_firefox_sample sample)
{
	if (!snap_grow_array(threads->samples, threads->sample_capacity, threads->sample_count))
		return false;
	threads->samples[threads->sample_count++] = sample;
	return true;
}

/*
 * What a running thread used since the sample before: all of that time if it ran then, too, else
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

static bool add_end(struct snap_firefox_threads *threads, uint32_t tick)
{
	return add_sample(threads, (struct snap_firefox_sample){
					   .time_us = snap_firefox_us(snap_recording_tick_end(
						   threads->recording, tick)),
				   });
}

static bool add_run(struct snap_firefox_threads *threads, const struct snap_run *run)
{
	uint32_t first = run->first;

	for (uint32_t tick = run->first; tick < run->last; tick++)
		if (snap_firefox_gap_after(threads->recording, tick)) {
			if (!add_stretch(threads, run, first, tick) || !add_end(threads, tick))
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

		if (!add_run(threads, run))
			return false;
		if (run->last + 1 < recording->tick_count &&
		    (!follows || snap_firefox_gap_after(recording, run->last)) &&
		    !add_end(threads, run->last))
			return false;
	}
	return true;
}

static void put_samples(const struct snap_firefox_threads *threads, struct snap_json_out *json)
{
	const struct snap_firefox_sample *samples = threads->samples;
	size_t count = threads->sample_count;

	snap_json_out_raw(json, "\"samples\":{\"weightType\":\"samples\"");
	snap_firefox_begin_column(json, "stack");
	for (size_t i = 0; i < count; i++) {
		snap_json_out_raw(json, i ? "," : "");
		if (samples[i].stack)
			snap_json_out_number(json, samples[i].stack - 1);
		else
			snap_json_out_raw(json, "null");
	}
	snap_json_out_raw(json, "]");
	snap_firefox_begin_column(json, "timeDeltas");
	for (size_t i = 0; i < count; i++) {
		snap_json_out_raw(json, i ? "," : "");
		snap_json_out_decimal(json, samples[i].time_us - (i ? samples[i - 1].time_us : 0),
				      3);
	}
	snap_json_out_raw(json, "]");
	snap_firefox_begin_column(json, "weight");
	for (size_t i = 0; i < count; i++) {
		snap_json_out_raw(json, i ? "," : "");
		snap_json_out_number(json, samples[i].weight);
	}
	snap_json_out_raw(json, "]");
	snap_firefox_begin_column(json, "threadCPUDelta");
	for (size_t i = 0; i < count; i++) {
		snap_json_out_raw(json, i ? "," : "");
		snap_json_out_number(json, samples[i].cpu_us);
	}
	snap_json_out_raw(json, "],\"length\":");
	snap_json_out_number(json, (int64_t)count);
	snap_json_out_raw(json, "}");
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

void snap_firefox_put_id(struct snap_json_out *json, const struct snap_recording *recording,
			 size_t process, pid_t id)
{
	size_t number = program_number(recording, process);
	char text[48];

	if (number == 1)
		snprintf(text, sizeof(text), "%d", id);
	else
		snprintf(text, sizeof(text), "%d.%zu", id, number);
	snap_json_out_clean(json, text);
}

/* When it was first and last seen. */
static void put_life(struct snap_json_out *json, const struct snap_recording *recording,
		     const struct snap_track *track)
{
	const struct snap_recorded_process *process = &recording->processes[track->process];
	const struct snap_run *last = track->run_count ? &track->runs[track->run_count - 1] : NULL;

	snap_json_out_raw(json, ",\"processStartupTime\":");
	snap_json_out_decimal(json, snap_firefox_time_us(recording, process->first), 3);
	snap_json_out_raw(json, ",\"processShutdownTime\":");
	if (process->ended || process->execed)
		snap_json_out_decimal(
			json, snap_firefox_us(snap_recording_tick_end(recording, process->last)),
			3);
	else
		snap_json_out_raw(json, "null");
	snap_json_out_raw(json, ",\"registerTime\":");
	snap_json_out_decimal(json,
			      last ? snap_firefox_time_us(recording, track->runs[0].first) : 0, 3);
	snap_json_out_raw(json, ",\"unregisterTime\":");
	if (last && last->last + 1 < recording->tick_count)
		snap_json_out_decimal(
			json, snap_firefox_us(snap_recording_tick_end(recording, last->last)), 3);
	else
		snap_json_out_raw(json, "null");
}

bool snap_firefox_put_thread(struct snap_firefox_threads *threads, struct snap_json_out *json,
			     size_t number)
{
	const struct snap_recording *recording = threads->recording;
	const struct snap_track *track = &recording->tracks[number];
	const struct snap_node *node = recording->processes[track->process].node;

	if (!collect_samples(threads, track) || !snap_firefox_collect_spans(threads, track))
		return false;
	snap_json_out_raw(json, "{\"name\":");
	snap_json_out_text(json, track->name ? track->name : "?");
	snap_json_out_raw(json, ",\"processName\":");
	snap_json_out_text(json, node->name ? node->name : "?");
	snap_json_out_raw(json, ",\"pid\":");
	snap_firefox_put_id(json, recording, track->process, node->pid);
	snap_json_out_raw(json, ",\"tid\":");
	snap_firefox_put_id(json, recording, track->process, track->tid);
	snap_json_out_raw(json, ",\"processType\":\"default\",\"isMainThread\":");
	snap_json_out_raw(json, track->tid == node->pid ? "true" : "false");
	put_life(json, recording, track);
	snap_json_out_raw(json, ",\"pausedRanges\":[],\"showMarkersInTimeline\":true,\n");
	put_samples(threads, json);
	snap_firefox_put_markers(threads, json, number == 0 && recording->period_ns > 0);
	snap_json_out_raw(json, "}");
	return true;
}
