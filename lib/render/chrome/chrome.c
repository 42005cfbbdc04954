/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Chrome trace events, for Perfetto and Catapult's viewer.
 *
 * Written event by event: what is kept is names, and one number per run of the current thread.
 * Readers know one name a pid, so a program that execs has its last one, with an instant at each
 * exec.
 *
 * Slices: what a thread executed, as functions that begin and end. A function that stays at its
 * depth under the same callers from one span to the next, without a gap between, is one slice. Each
 * is one event with its length (X), a parent before its children, so its end must be known when it
 * begins. That takes one number a span: how much of the stack before it goes on. A slice at depth D
 * ends before the first span of which not more than D goes on.
 *
 * Labels: an instant on the thread's line where what the program says of its work changes. They are
 * no arguments of slices, which readers would tell apart by them. Waits are instants for the same
 * reason (waits.c).
 */
#include "render/chrome/chrome.h"
#include "base/bsearch.h"
#include "base/buffer.h"
#include "render/render.h"
#include "render/view/figures.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- slices ---- */

/* A span and its stack. */
struct step {
	struct snap_span span;
	const struct snap_lines_of *lines;
	size_t common; /* frames that go on from the step before */
};

/* Frames of a step's stack with the one that shows the state. */
static size_t depth_of(const struct snap_chrome *chrome, const struct step *step)
{
	return step->lines->count + (chrome->options->state_frames != SNAP_STATE_FRAMES_NO);
}

static bool is_state(const struct snap_chrome *chrome, const struct step *step, size_t depth)
{
	switch (chrome->options->state_frames) {
	case SNAP_STATE_FRAMES_ROOT:
		return depth == 0;
	case SNAP_STATE_FRAMES_LEAF:
		return depth == step->lines->count;
	case SNAP_STATE_FRAMES_NO:
		break;
	}
	return false;
}

/* NULL for the one of the state. */
static const struct snap_line *line_at(const struct snap_chrome *chrome, const struct step *step,
				       size_t depth)
{
	if (is_state(chrome, step, depth))
		return NULL;
	return &step->lines
			->lines[depth - (chrome->options->state_frames == SNAP_STATE_FRAMES_ROOT)];
}

/* Equal names are equal pointers. */
static const char *chrome_name_at(const struct snap_chrome *chrome, const struct step *step,
				  size_t depth)
{
	const struct snap_line *line = line_at(chrome, step, depth);

	return line ? line->name : snap_profile_state(step->span.run->state);
}

static size_t common_frames(const struct snap_chrome *chrome, const struct step *before,
			    const struct step *step)
{
	size_t depth = depth_of(chrome, step), common = 0;

	if (before->span.end_ns != step->span.begin_ns)
		return 0;
	if (depth_of(chrome, before) < depth)
		depth = depth_of(chrome, before);
	while (common < depth &&
	       chrome_name_at(chrome, before, common) == chrome_name_at(chrome, step, common))
		common++;
	return common;
}

/* The colours of states' frames: names that Catapult reserves. */
static const char *const colors[SNAP_STATE_COUNT] = {
	[SNAP_STATE_UNKNOWN] = "thread_state_unknown",
	[SNAP_STATE_RUNNING] = "thread_state_running",
	[SNAP_STATE_SLEEPING] = "thread_state_sleeping",
	[SNAP_STATE_DISK] = "thread_state_uninterruptible",
	[SNAP_STATE_STOPPED] = "yellow",
	[SNAP_STATE_TRACED] = "yellow",
	[SNAP_STATE_ZOMBIE] = "black",
	[SNAP_STATE_DEAD] = "black",
	[SNAP_STATE_IDLE] = "grey",
	[SNAP_STATE_PARKED] = "grey",
	[SNAP_STATE_FROZEN] = "yellow",
};

/* What the slices that begin at one step have in common: a part of their events. */
struct slice_head {
	char text[128];
	size_t length;
	int64_t begin_us;
};

static void make_slice_head(const struct snap_chrome *chrome, const struct snap_track *track,
			    const struct step *step, struct slice_head *head)
{
	head->begin_us = snap_chrome_us(step->span.begin_ns);
	head->length = (size_t)snprintf(head->text, sizeof(head->text),
					"\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRId64,
					chrome->recording->processes[track->process].node->pid,
					track->tid, head->begin_us);
}

static void put_slice(struct snap_chrome *chrome, const struct slice_head *head,
		      const struct step *step, size_t depth, int64_t end_ns)
{
	const struct snap_line *line = line_at(chrome, step, depth);
	struct snap_json_writer *json = chrome->json;

	snap_json_begin_line(json, NULL, '{');
	snap_json_bytes(json, NULL, head->text, head->length);
	snap_json_number(json, "dur", snap_chrome_us(end_ns) - head->begin_us);
	snap_json_clean(json, "name", chrome_name_at(chrome, step, depth));
	if (!line)
		snap_json_clean(json, "cname", colors[step->span.run->state]);
	else if (line->entry)
		snap_json_text_if(json, "cat", line->entry->language);
	snap_json_end(json, '}');
}

/* The steps of one thread, and when the slices that begin at one of them end, by depth. */
struct slices {
	struct snap_chrome *chrome;
	const struct snap_track *track;
	struct step *steps;
	size_t step_count, step_capacity;
	int64_t *ends;
	size_t end_capacity;
};

SNAP_FREES(slices_deinit, struct slices, steps, ends);

static struct stacksnap_error *add_chrome_step(struct slices *slices, const struct snap_span *span)
{
	struct step step = { .span = *span };

	step.lines = snap_profile_stack(&slices->chrome->profile, span->run->stack);
	SNAP_TRY(snap_no_memory_unless(
		step.lines &&
		snap_reserve_array(slices->steps, slices->step_capacity, slices->step_count + 1)));
	if (slices->step_count)
		step.common = common_frames(slices->chrome, &slices->steps[slices->step_count - 1],
					    &step);
	slices->steps[slices->step_count++] = step;
	while (slices->end_capacity < depth_of(slices->chrome, &step))
		SNAP_TRY(snap_no_memory_unless(snap_reserve_array(
			slices->ends, slices->end_capacity, slices->end_capacity + 1)));
	return NULL;
}

static bool same_labels(struct snap_labels_of a, struct snap_labels_of b)
{
	bool same = a.count == b.count;

	for (size_t i = 0; same && a.labels != b.labels && i < a.count; i++)
		same = strcmp(a.labels[i].key, b.labels[i].key) == 0 &&
		       strcmp(a.labels[i].value, b.labels[i].value) == 0;
	return same;
}

/* Those from a step on, where they are others than before; none: they ended. */
static void put_chrome_labels(struct slices *slices, size_t number)
{
	const struct snap_recording *recording = slices->chrome->recording;
	const struct snap_span *span = &slices->steps[number].span;
	struct snap_json_writer *json = slices->chrome->json;
	struct snap_labels_of before = { .count = 0 },
			      now = snap_profile_labels(recording, slices->track, span->run);

	if (number)
		before = snap_profile_labels(recording, slices->track,
					     slices->steps[number - 1].span.run);
	if (same_labels(before, now))
		return;
	snap_chrome_begin(slices->chrome, "i",
			  recording->processes[slices->track->process].node->pid,
			  slices->track->tid);
	snap_json_clean(json, "name", "labels");
	snap_json_clean(json, "cat", "labels");
	snap_json_clean(json, "s", "t");
	snap_json_number(json, "ts", snap_chrome_us(span->begin_ns));
	snap_json_begin(json, "args", '{');
	for (size_t i = 0; i < now.count; i++)
		snap_json_label(json, now.labels[i].key, now.labels[i].value);
	snap_json_end(json, '}');
	snap_json_end(json, '}');
}

/* The slices that begin at a step; the inner ones end first. */
static void put_slices_of_step(struct slices *slices, size_t number)
{
	const struct step *step = &slices->steps[number];
	size_t depth = depth_of(slices->chrome, step), open = depth;
	struct slice_head head;

	for (size_t next = number + 1; open > step->common; next++) {
		size_t common = next < slices->step_count ? slices->steps[next].common : 0;

		while (open > step->common && open > common)
			slices->ends[--open] = slices->steps[next - 1].span.end_ns;
	}
	if (step->common == depth)
		return;
	make_slice_head(slices->chrome, slices->track, step, &head);
	for (size_t i = step->common; i < depth; i++)
		put_slice(slices->chrome, &head, step, i, slices->ends[i]);
}

/* In order of time, parents before their children. */
static struct stacksnap_error *put_slices(struct snap_chrome *chrome,
					  const struct snap_track *track)
{
	_cleanup_(slices_deinit) struct slices slices = { .chrome = chrome, .track = track };
	struct snap_spans spans;
	struct snap_span span;

	snap_spans_init(&spans, &chrome->timeline, track);
	while (snap_spans_next(&spans, &span))
		SNAP_TRY(add_chrome_step(&slices, &span));
	for (size_t i = 0; i < slices.step_count; i++) {
		put_chrome_labels(&slices, i);
		put_slices_of_step(&slices, i);
	}
	return snap_chrome_put_waits(chrome, track);
}

/* ---- names ---- */

/* `text` is escaped. */
static void put_name(struct snap_chrome *chrome, pid_t pid, pid_t tid, const char *kind,
		     const char *key, const char *text)
{
	snap_chrome_begin(chrome, "M", pid, tid);
	snap_json_clean(chrome->json, "name", kind);
	snap_json_begin(chrome->json, "args", '{');
	snap_json_clean(chrome->json, key, text);
	snap_json_end(chrome->json, '}');
	snap_json_end(chrome->json, '}');
}

static struct stacksnap_error *put_process_name(struct snap_chrome *chrome,
						const struct snap_node *node)
{
	const char *name = snap_profile_escaped(&chrome->profile, node->name ? node->name : "?");
	const char *label =
		node->description ? snap_profile_escaped(&chrome->profile, node->description) : "";

	SNAP_TRY(snap_no_memory_unless(name && label));
	put_name(chrome, node->pid, 0, "process_name", "name", name);
	if (*label)
		put_name(chrome, node->pid, 0, "process_labels", "labels", label);
	return NULL;
}

/* The process goes on as another program, or its pid has come to another process. */
static void put_change(struct snap_chrome *chrome, const struct snap_recorded_process *before,
		       const struct snap_recorded_process *process)
{
	const struct snap_recording *recording = chrome->recording;
	struct snap_json_writer *json = chrome->json;

	if (process->first >= recording->tick_count)
		return;
	snap_chrome_begin(chrome, "i", process->node->pid, 0);
	snap_json_clean(json, "name", before->execed ? "exec" : "new process");
	snap_json_clean(json, "cat", "process");
	snap_json_clean(json, "s", "p");
	snap_json_number(json, "ts", snap_chrome_us(recording->ticks[process->first].time_ns));
	snap_json_begin(json, "args", '{');
	snap_json_text(json, "from", before->node->name);
	snap_json_text(json, "to", process->node->name);
	snap_json_end(json, '}');
	snap_json_end(json, '}');
}

/* ---- processes and threads ---- */

/* A process and its tracks. */
struct program {
	const struct snap_recorded_process *process;
	const struct snap_track *tracks;
	size_t track_count;
};

/* Programs of one pid next to each other, in order of time. */
SNAP_ORDER(by_pid, struct program, a, b, snap_compare(a->process->node->pid, b->process->node->pid),
	   snap_compare(a->process->first, b->process->first),
	   snap_compare(a->process, b->process));

static struct program *list_programs(const struct snap_recording *recording)
{
	struct program *programs = calloc(recording->process_count + 1, sizeof(*programs));

	if (!programs)
		return NULL;
	for (size_t i = 0; i < recording->process_count; i++)
		programs[i].process = &recording->processes[i];
	for (size_t i = 0; i < recording->track_count; i++) {
		struct program *program = &programs[recording->tracks[i].process];

		if (program->track_count++ == 0)
			program->tracks = &recording->tracks[i];
	}
	qsort(programs, recording->process_count, sizeof(*programs), by_pid);
	return programs;
}

static int by_tid(const void *key, const void *element)
{
	pid_t tid = *(const pid_t *)key, other = ((const struct snap_track *)element)->tid;

	return (tid > other) - (tid < other);
}

/* Whether a later program of the same pid, which is one of `count` that follow, has the thread. */
static bool goes_on(const struct program *programs, size_t count, const struct snap_track *track)
{
	for (size_t i = 1; i < count; i++) {
		const struct snap_track *later =
			programs[i].track_count
				? bsearch(&track->tid, programs[i].tracks, programs[i].track_count,
					  sizeof(*later), by_tid)
				: NULL;

		if (later && later->run_count)
			return true;
	}
	return false;
}

/* The threads of the first of `count` programs of one pid. */
static struct stacksnap_error *put_tracks(struct snap_chrome *chrome,
					  const struct program *programs, size_t count)
{
	for (size_t i = 0; i < programs->track_count; i++) {
		const struct snap_track *track = &programs->tracks[i];
		const char *name = snap_profile_thread(&chrome->profile, track);

		SNAP_TRY(snap_no_memory_unless(name));
		if (track->run_count == 0)
			continue;
		if (!goes_on(programs, count, track))
			put_name(chrome, programs->process->node->pid, track->tid, "thread_name",
				 "name", name);
		SNAP_TRY(put_slices(chrome, track));
	}
	return NULL;
}

/* All programs of one pid. */
static struct stacksnap_error *put_programs(struct snap_chrome *chrome,
					    const struct program *programs, size_t count)
{
	SNAP_TRY(put_process_name(chrome, programs[count - 1].process->node));
	for (size_t i = 0; i < count; i++) {
		const struct program *program = &programs[i];
		size_t number = (size_t)(program->process - chrome->recording->processes);

		if (i)
			put_change(chrome, programs[i - 1].process, program->process);
		SNAP_TRY(put_tracks(chrome, program, count - i));
		SNAP_TRY(snap_chrome_put_states(chrome, number, program->tracks,
						program->track_count));
	}
	return NULL;
}

static struct stacksnap_error *put_chrome_processes(struct snap_chrome *chrome,
						    const struct program *programs)
{
	size_t count = chrome->recording->process_count;

	for (size_t i = 0, next; i < count; i = next) {
		pid_t pid = programs[i].process->node->pid;

		for (next = i + 1; next < count && programs[next].process->node->pid == pid;)
			next++;
		SNAP_TRY(put_programs(chrome, programs + i, next - i));
	}
	return NULL;
}

/* ---- the document ---- */

static void put_chrome_head(struct snap_chrome *chrome)
{
	const struct snap_recording *recording = chrome->recording;
	struct snap_json_writer *json = chrome->json;

	snap_json_clean(json, "displayTimeUnit", "ms");
	snap_json_begin(json, "otherData", '{');
	snap_json_clean(json, "tool", "stacksnap");
	snap_json_clean(json, "version", SNAP_VERSION);
	snap_json_time_if(json, "time", recording->time_ns);
	snap_json_text(json, "host", recording->host.name);
	snap_json_text(json, "kernel", recording->host.kernel);
	if (recording->period_ns) {
		snap_json_number(json, "period_ns", recording->period_ns);
		snap_figures_put(json, recording);
	}
	snap_json_end(json, '}');
}

static struct stacksnap_error *put_chrome_document(struct snap_chrome *chrome)
{
	_cleanup_free_ struct program *programs = list_programs(chrome->recording);
	struct snap_json_writer *json = chrome->json;

	SNAP_TRY(snap_no_memory_unless(programs));
	snap_json_begin(json, NULL, '{');
	put_chrome_head(chrome);
	snap_json_begin_line(json, "traceEvents", '[');
	SNAP_TRY(put_chrome_processes(chrome, programs));
	snap_chrome_put_stops(chrome);
	snap_json_line(json);
	snap_json_end(json, ']');
	snap_json_end(json, '}');
	snap_json_end_document(json);
	snap_json_flush(json);
	return snap_no_memory_unless(!json->failed);
}

static void chrome_deinit(struct snap_chrome *chrome)
{
	snap_wait_marks_deinit(&chrome->marks);
	snap_timeline_deinit(&chrome->timeline);
	snap_profile_deinit(&chrome->profile);
	snap_json_writer_destroy(chrome->json);
}

struct stacksnap_error *snap_render_chrome(const struct snap_recording *recording,
					   const struct snap_options *options, FILE *out)
{
	_cleanup_(chrome_deinit) struct snap_chrome chrome = {
		.recording = recording,
		.options = options,
		.json = snap_json_writer_create(out, SNAP_JSON_COMPACT),
	};

	SNAP_TRY(snap_profile_init(&chrome.profile, recording));
	snap_profile_show_labels(&chrome.profile, options);
	SNAP_TRY(snap_timeline_init(&chrome.timeline, recording));
	SNAP_TRY(snap_wait_marks_init(&chrome.marks, recording, options));
	return chrome.json ? put_chrome_document(&chrome) : snap_error_no_memory();
}
