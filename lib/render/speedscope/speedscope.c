/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * speedscope's own format: the document, its samples and its frames. What is in a profile is said
 * by sums.c and threads.c.
 *
 * Written as a stream: profiles first, and then the frames that they needed.
 */
#include "render/render.h"
#include "render/speedscope/internal.h"
#include "render/view/when.h"

#include <stdlib.h>

/* ---- stacks ---- */

static const struct snap_scope_stack *make_stack(struct snap_scope *scope, size_t number)
{
	const struct snap_lines_of *lines = snap_profile_stack(&scope->profile, number);
	struct snap_scope_stack *stack = &scope->stacks[number];
	uint32_t *frames;

	if (!lines)
		return NULL;
	frames = snap_arena_new_array(&scope->frames.arena, lines->count, uint32_t);
	if (!frames)
		return NULL;
	for (size_t i = 0; i < lines->count; i++)
		if (!snap_scope_frame_of(&scope->frames, &lines->lines[i], &frames[i]))
			return NULL;
	stack->count = lines->count;
	stack->frames = frames;
	return stack;
}

const struct snap_scope_stack *snap_scope_stack(struct snap_scope *scope, size_t number)
{
	return scope->stacks[number].frames ? &scope->stacks[number] : make_stack(scope, number);
}

/* ---- a profile ---- */

void snap_scope_begin(struct snap_scope *scope, const char *name, const char *detail)
{
	bool snapshot = scope->recording->period_ns == 0;

	snap_json_out_raw(scope->json, scope->profile_count++ ? ",\n" : "");
	snap_json_out_raw(scope->json, "{\"type\":\"sampled\",\"unit\":\"");
	snap_json_out_raw(scope->json, snapshot ? "none" : "nanoseconds");
	snap_json_out_raw(scope->json, "\",\"name\":");
	if (detail) {
		/* Two strings, joined without their inner quotes. */
		_cleanup_free_ char *both = NULL;

		if (asprintf(&both, "%s %s", name, detail) < 0) {
			both = NULL;
			scope->json->failed = true;
		}
		snap_json_out_clean(scope->json, both ? both : name);
	} else {
		snap_json_out_clean(scope->json, name);
	}
	snap_json_out_raw(scope->json, ",\"startValue\":0,\"samples\":[");
}

static void put_frame(struct snap_scope *scope, uint32_t frame, bool *first)
{
	if (!*first)
		snap_json_out_bytes(scope->json, ",", 1);
	*first = false;
	snap_json_out_number(scope->json, frame);
}

struct snap_error *snap_scope_sample(struct snap_scope *scope, bool first, const char *process,
				     enum snap_state state, size_t number)
{
	const struct snap_scope_stack *stack = snap_scope_stack(scope, number);
	enum snap_state_frames where = scope->options->state_frames;
	bool first_frame = true;
	uint32_t frame;

	if (!stack)
		return snap_error_no_memory();
	snap_json_out_raw(scope->json, first ? "\n[" : ",\n[");
	if (process) {
		if (!snap_scope_frame_named(&scope->frames, process, &frame))
			return snap_error_no_memory();
		put_frame(scope, frame, &first_frame);
	}
	if (!snap_scope_frame_named(&scope->frames, snap_profile_state(state), &frame))
		return snap_error_no_memory();
	if (where == SNAP_STATE_FRAMES_ROOT)
		put_frame(scope, frame, &first_frame);
	for (size_t i = 0; i < stack->count; i++)
		put_frame(scope, stack->frames[i], &first_frame);
	if (where == SNAP_STATE_FRAMES_LEAF)
		put_frame(scope, frame, &first_frame);
	snap_json_out_bytes(scope->json, "]", 1);
	return NULL;
}

void snap_scope_weights(struct snap_scope *scope)
{
	snap_json_out_raw(scope->json, "],\n\"weights\":[");
}

void snap_scope_weight(struct snap_scope *scope, bool first, int64_t weight)
{
	if (!first)
		snap_json_out_bytes(scope->json, ",", 1);
	snap_json_out_number(scope->json, weight);
}

void snap_scope_end(struct snap_scope *scope, int64_t total)
{
	snap_json_out_raw(scope->json, "],\"endValue\":");
	snap_json_out_number(scope->json, total);
	snap_json_out_raw(scope->json, "}");
}

/* ---- the document ---- */

static void put_frames(struct snap_scope *scope)
{
	for (size_t i = 0; i < scope->frames.count; i++) {
		const struct snap_scope_frame *frame = &scope->frames.list[i];

		snap_json_out_raw(scope->json, i ? ",\n{\"name\":" : "\n{\"name\":");
		snap_json_out_clean(scope->json, frame->name);
		if (frame->file) {
			snap_json_out_raw(scope->json, ",\"file\":");
			snap_json_out_text(scope->json, frame->file);
		}
		if (frame->line) {
			snap_json_out_raw(scope->json, ",\"line\":");
			snap_json_out_number(scope->json, frame->line);
		}
		if (frame->column) {
			snap_json_out_raw(scope->json, ",\"col\":");
			snap_json_out_number(scope->json, frame->column);
		}
		snap_json_out_bytes(scope->json, "}", 1);
	}
}

static struct snap_error *put_head(struct snap_scope *scope)
{
	const struct snap_recording *recording = scope->recording;
	const char *root = recording->process_count ? snap_profile_process(&scope->profile, 0) : "";
	_cleanup_free_ char *name = NULL;
	char when[SNAP_WHEN_SIZE];

	snap_when(recording->time_ns, 'T', 3, when);
	if (!root || asprintf(&name, "%s%s%s", root, *root ? " " : "", when) < 0) {
		name = NULL;
		return snap_error_no_memory();
	}
	snap_json_out_raw(scope->json,
			  "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
			  "\"exporter\":\"stacksnap@" SNAP_VERSION "\",\n\"name\":");
	snap_json_out_clean(scope->json, name);
	snap_json_out_raw(scope->json, ",\n\"activeProfileIndex\":0,\n\"profiles\":[\n");
	return NULL;
}

static struct snap_error *put_document(struct snap_scope *scope)
{
	struct snap_error *err;

	err = put_head(scope);
	if (err)
		return err;
	err = snap_scope_sums(scope);
	if (err)
		return err;
	err = scope->recording->period_ns ? snap_scope_threads(scope) : NULL;
	if (err)
		return err;
	snap_json_out_raw(scope->json, "],\n\"shared\":{\"frames\":[");
	put_frames(scope);
	snap_json_out_raw(scope->json, "]}}\n");
	snap_json_out_flush(scope->json);
	return scope->json->failed ? snap_error_no_memory() : NULL;
}

static void scope_deinit(struct snap_scope *scope)
{
	snap_timeline_deinit(&scope->timeline);
	snap_profile_deinit(&scope->profile);
	snap_scope_frames_deinit(&scope->frames);
	snap_json_out_destroy(scope->json);
	free(scope->stacks);
}

struct snap_error *snap_render_speedscope(const struct snap_recording *recording,
					  const struct snap_options *options, FILE *out)
{
	_cleanup_(scope_deinit) struct snap_scope scope = {
		.recording = recording,
		.options = options,
		.json = snap_json_out_create(out),
		.stacks = calloc(recording->stack_count + 1, sizeof(*scope.stacks)),
	};
	struct snap_error *err;

	snap_scope_frames_init(&scope.frames);
	err = snap_profile_init(&scope.profile, recording);
	if (err)
		return err;
	err = snap_timeline_init(&scope.timeline, recording);
	if (err)
		return err;
	return scope.json && scope.stacks ? put_document(&scope) : snap_error_no_memory();
}
