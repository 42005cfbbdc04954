/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Slices: what a thread executed, as functions that begin and end. A function that stays at its
 * depth under the same callers from one span to the next, without a gap between, is one slice.
 *
 * Each slice is one event with its length (X), a parent before its children, so its end must be
 * known when it begins. That takes one number a span: how much of the stack before it goes on. A
 * slice at depth D ends before the first span of which not more than D goes on.
 */
#include "render/chrome/internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* A span and its stack. */
struct step {
	struct snap_span span;
	const struct snap_lines_of *lines;
	size_t common; /* frames that go on from the step before */
};

/* Frames of a step's stack with the one that stands for the state. */
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

/* Equal names are equal pointers. */
static const char *name_at(const struct snap_chrome *chrome, const struct step *step, size_t depth)
{
	if (is_state(chrome, step, depth))
		return snap_profile_state(step->span.run->state);
	return step->lines->lines[depth - (chrome->options->state_frames == SNAP_STATE_FRAMES_ROOT)]
		.name;
}

static size_t common_frames(const struct snap_chrome *chrome, const struct step *before,
			    const struct step *step)
{
	size_t depth = depth_of(chrome, step), common = 0;

	if (before->span.end_ns != step->span.begin_ns)
		return 0;
	if (depth_of(chrome, before) < depth)
		depth = depth_of(chrome, before);
	while (common < depth && name_at(chrome, before, common) == name_at(chrome, step, common))
		common++;
	return common;
}

/* The colour of a state's frame: names that Catapult reserves. */
static const char *color_of(enum snap_state state)
{
	switch (state) {
	case SNAP_STATE_RUNNING:
		return "thread_state_running";
	case SNAP_STATE_SLEEPING:
		return "thread_state_sleeping";
	case SNAP_STATE_DISK:
		return "thread_state_uninterruptible";
	case SNAP_STATE_STOPPED:
	case SNAP_STATE_TRACED:
		return "yellow";
	case SNAP_STATE_ZOMBIE:
	case SNAP_STATE_DEAD:
		return "black";
	case SNAP_STATE_IDLE:
	case SNAP_STATE_PARKED:
		return "grey";
	case SNAP_STATE_UNKNOWN:
	case SNAP_STATE_COUNT:
		break;
	}
	return "thread_state_unknown";
}

/* What the slices that begin at one step have in common. */
struct head {
	char text[128];
	size_t length;
	int64_t begin_us;
};

static void make_head(const struct snap_chrome *chrome, const struct snap_track *track,
		      const struct step *step, struct head *head)
{
	head->begin_us = snap_chrome_microseconds(step->span.begin_ns);
	/* The process's name is in the document already: this is never the first event. */
	head->length = (size_t)snprintf(
		head->text, sizeof(head->text),
		",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRId64 ",\"dur\":",
		chrome->recording->processes[track->process].node->pid, track->tid, head->begin_us);
}

static void put_slice(struct snap_chrome *chrome, const struct head *head, const struct step *step,
		      size_t depth, int64_t end_ns)
{
	static const char name[] = ",\"name\":";

	snap_json_out_bytes(chrome->json, head->text, head->length);
	snap_json_out_number(chrome->json, snap_chrome_microseconds(end_ns) - head->begin_us);
	snap_json_out_bytes(chrome->json, name, sizeof(name) - 1);
	snap_json_out_clean(chrome->json, name_at(chrome, step, depth));
	if (is_state(chrome, step, depth)) {
		snap_json_out_raw(chrome->json, ",\"cname\":\"");
		snap_json_out_raw(chrome->json, color_of(step->span.run->state));
		snap_json_out_raw(chrome->json, "\"");
	}
	snap_json_out_bytes(chrome->json, "}", 1);
}

/* The steps of one thread, and when the slices that begin at one of them end, by depth. */
struct walk {
	struct snap_chrome *chrome;
	const struct snap_track *track;
	struct step *steps;
	size_t step_count, step_capacity;
	int64_t *ends;
	size_t end_capacity;
};

static void walk_deinit(struct walk *walk)
{
	free(walk->steps);
	free(walk->ends);
}

static struct snap_error *add_step(struct walk *walk, const struct snap_span *span)
{
	struct step step = { .span = *span };

	step.lines = snap_profile_stack(&walk->chrome->profile, span->run->stack);
	if (!step.lines || !snap_grow_array(walk->steps, walk->step_capacity, walk->step_count))
		return snap_error_no_memory();
	if (walk->step_count)
		step.common =
			common_frames(walk->chrome, &walk->steps[walk->step_count - 1], &step);
	walk->steps[walk->step_count++] = step;
	while (walk->end_capacity < depth_of(walk->chrome, &step))
		if (!snap_grow_array(walk->ends, walk->end_capacity, walk->end_capacity))
			return snap_error_no_memory();
	return NULL;
}

/* The slices that begin at a step; the inner ones end first. */
static void put_step(struct walk *walk, size_t number)
{
	const struct step *step = &walk->steps[number];
	size_t depth = depth_of(walk->chrome, step), open = depth;
	struct head head;

	for (size_t next = number + 1; open > step->common; next++) {
		size_t common = next < walk->step_count ? walk->steps[next].common : 0;

		while (open > step->common && open > common)
			walk->ends[--open] = walk->steps[next - 1].span.end_ns;
	}
	if (step->common == depth)
		return;
	make_head(walk->chrome, walk->track, step, &head);
	for (size_t i = step->common; i < depth; i++)
		put_slice(walk->chrome, &head, step, i, walk->ends[i]);
}

struct snap_error *snap_chrome_slices(struct snap_chrome *chrome, const struct snap_track *track)
{
	_cleanup_(walk_deinit) struct walk walk = { .chrome = chrome, .track = track };
	struct snap_spans spans;
	struct snap_span span;

	snap_spans_init(&spans, &chrome->timeline, track);
	while (snap_spans_next(&spans, &span)) {
		struct snap_error *err = add_step(&walk, &span);

		if (err)
			return err;
	}
	for (size_t i = 0; i < walk.step_count; i++)
		put_step(&walk, i);
	return NULL;
}
