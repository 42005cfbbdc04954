/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See speedscope.h: what profiles are made of. */
#include "render/speedscope/speedscope.h"

/* ---- stacks ---- */

const struct snap_scope_stack *snap_scope_stack(struct snap_scope *scope, size_t number)
{
	const struct snap_lines_of *lines = snap_profile_stack(&scope->profile, number);
	struct snap_scope_stack *stack = &scope->stacks[number];
	uint32_t *frames;

	if (!lines || stack->frames)
		return lines ? stack : NULL;
	frames = snap_arena_new_array(&scope->frames.arena, lines->count, uint32_t);
	if (!frames)
		return NULL;
	for (size_t i = 0; i < lines->count; i++) {
		size_t frame = snap_scope_frame_of(&scope->frames, &lines->lines[i]);

		if (frame == SIZE_MAX)
			return NULL;
		frames[i] = (uint32_t)frame;
	}
	stack->count = lines->count;
	stack->frames = frames;
	return stack;
}

/* ---- a profile ---- */

struct stacksnap_error *snap_scope_begin(struct snap_scope *scope, const char *name,
					 const char *detail)
{
	bool snapshot = scope->recording->period_ns == 0;

	if (detail)
		name = snap_arena_printf(&scope->profile.arena, "%s %s", name, detail);
	SNAP_TRY(snap_no_memory_unless(name));
	snap_json_begin_line(scope->json, NULL, '{');
	snap_json_clean(scope->json, "type", "sampled");
	snap_json_clean(scope->json, "unit", snapshot ? "none" : "nanoseconds");
	snap_json_clean(scope->json, "name", name);
	snap_json_number(scope->json, "startValue", 0);
	snap_json_begin(scope->json, "samples", '[');
	return NULL;
}

struct stacksnap_error *snap_scope_put_sample(struct snap_scope *scope, const char *process,
					      enum snap_state state, size_t wait, size_t number)
{
	const struct snap_scope_stack *stack = snap_scope_stack(scope, number);
	enum snap_state_frames where = scope->options->state_frames;
	size_t first = process ? snap_scope_frame_named(&scope->frames, process) : 0;
	size_t standing = snap_scope_frame_named(&scope->frames, snap_profile_state(state));

	SNAP_TRY(snap_no_memory_unless(stack && first != SIZE_MAX && standing != SIZE_MAX));
	snap_json_begin_line(scope->json, NULL, '[');
	if (process)
		snap_json_number(scope->json, NULL, (int64_t)first);
	if (where == SNAP_STATE_FRAMES_ROOT)
		snap_json_number(scope->json, NULL, (int64_t)standing);
	if (wait)
		snap_json_number(scope->json, NULL, (int64_t)wait - 1);
	for (size_t i = 0; i < stack->count; i++)
		snap_json_number(scope->json, NULL, stack->frames[i]);
	if (where == SNAP_STATE_FRAMES_LEAF)
		snap_json_number(scope->json, NULL, (int64_t)standing);
	snap_json_end(scope->json, ']');
	return NULL;
}

void snap_scope_begin_weights(struct snap_scope *scope)
{
	snap_json_end(scope->json, ']');
	snap_json_begin_line(scope->json, "weights", '[');
}

void snap_scope_end(struct snap_scope *scope, int64_t total)
{
	snap_json_end(scope->json, ']');
	snap_json_number(scope->json, "endValue", total);
	snap_json_end(scope->json, '}');
}
