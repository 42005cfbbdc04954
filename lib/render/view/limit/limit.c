/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The limit of a recording's report: see limit.h. Each stack may have as many bytes of frames as
 * all fit with; a longer one is cut to them.
 */
#include "render/view/limit/limit.h"

#include "base/bsearch.h"
#include "model/stack_cut.h"
#include "render/view/limit/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	REPORT_BYTES = 64 << 20,
	TICK_BYTES = 64 << 10, /* more for each tick that is printed */
	FEW_FRAMES = 32,       /* before stacks are cut shorter than this, names are cut */
	LEAST_FRAMES = 8,      /* before they are cut shorter than this, some are left out */
};

static const size_t name_lengths[] = { SIZE_MAX, 256, 64, 16 };

/* ---- how much ---- */

static double most_bytes(const struct snap_limit *limit)
{
	if (limit->use != SNAP_FRAMES_IN_TICKS)
		return REPORT_BYTES;
	return REPORT_BYTES + (double)limit->from->tick_count * TICK_BYTES;
}

/* For stacks: half of all at least, as what tables list once is not theirs to cut. */
static double budget(const struct snap_limit *limit)
{
	double most = most_bytes(limit);

	return most - (limit->once < most / 2 ? limit->once : most / 2);
}

/* With at most so many bytes of frames of each stack. */
static double stack_cost(const struct snap_limit_stack *stack, double most)
{
	return stack->times * (stack->fixed + (stack->bytes < most ? stack->bytes : most));
}

static double all_costs(const struct snap_limit *limit, double most)
{
	double bytes = 0;

	for (size_t i = 0; i < limit->from->stack_count; i++)
		bytes += stack_cost(&limit->stacks[i], most);
	return bytes;
}

static double longest_stack(const struct snap_limit *limit)
{
	double most = 0;

	for (size_t i = 0; i < limit->from->stack_count; i++)
		if (limit->stacks[i].times > 0 && limit->stacks[i].bytes > most)
			most = limit->stacks[i].bytes;
	return most;
}

/* The bytes of frames that a stack may have; with 0 all may still be too much. */
static double fitting_bytes(const struct snap_limit *limit)
{
	double low = 0, high = longest_stack(limit);

	while (high - low > 1) {
		double middle = floor(low + (high - low) / 2);

		if (all_costs(limit, middle) <= budget(limit))
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Of those that are printed. */
static double bytes_of_usual_frame(const struct snap_limit *limit)
{
	double bytes = 0, frames = 0;

	for (size_t i = 0; i < limit->from->stack_count; i++) {
		const struct snap_limit_stack *stack = &limit->stacks[i];

		bytes += stack->times * stack->bytes;
		frames += stack->times * (double)limit->from->stacks[i].frame_count;
	}
	return frames > 0 ? bytes / frames : 0;
}

/* ---- cutting ---- */

/*
 * What stays of a stack: inner frames in half of the bytes, outer ones in the rest. False without
 * memory.
 */
static bool choose_frames(struct snap_limit *limit, const struct snap_recorded_stack *stack,
			  double most, struct snap_stack_cut *cut)
{
	const struct snap_frame **frames = stack->frames;
	/* An earlier gap becomes part of the new one. */
	size_t inner = stack->gap_count ? stack->gap_frame + 1 : stack->frame_count;
	size_t outer = stack->gap_count ? inner : 0;
	double left = most, bytes;

	*cut = (struct snap_stack_cut){ 0, 0 };
	for (; cut->head < inner; cut->head++, left -= bytes) {
		if (!snap_limit_frame_bytes(limit, stack, cut->head,
					    cut->head ? frames[cut->head - 1] : NULL, &bytes))
			return false;
		if (left - bytes < (cut->head ? most / 2 : 0))
			break;
	}
	outer = outer > cut->head ? outer : cut->head;
	for (; stack->frame_count - cut->tail > outer; cut->tail++, left -= bytes) {
		size_t next = stack->frame_count - cut->tail - 1;

		if (!snap_limit_frame_bytes(limit, stack, next, cut->tail ? frames[next + 1] : NULL,
					    &bytes))
			return false;
		if (left < bytes)
			break;
	}
	return true;
}

/* What is left of all stacks of a process that are left out. */
static void leave_out_stack(struct snap_recorded_stack *stack)
{
	*stack = (struct snap_recorded_stack){
		.process = stack->process,
		.id = "0000000000000000",
		.description = "(left out)",
		.unwind = SNAP_UNWIND_LIMIT,
		.unwind_detail = "left out for the size of the report",
	};
}

static bool shorten_labels(struct snap_limit *limit, struct snap_recorded_stack *stack)
{
	struct snap_label *labels;

	if (!stack->label_count)
		return true;
	labels = snap_arena_memdup(&limit->limited->arena, stack->labels,
				   stack->label_count * sizeof(*labels));
	stack->labels = labels;
	for (size_t i = 0; labels && i < stack->label_count; i++)
		if (!snap_limit_shorten_text(limit, &labels[i].key) ||
		    !snap_limit_shorten_text(limit, &labels[i].value))
			return false;
	return labels;
}

static bool shorten_names(struct snap_limit *limit, struct snap_recorded_stack *stack,
			  const struct snap_frame **frames)
{
	if (limit->longest == SIZE_MAX)
		return true;
	for (size_t i = 0; i < stack->frame_count; i++) {
		frames[i] = snap_limit_shorten_frame(limit, frames[i]);
		if (!frames[i])
			return false;
	}
	return shorten_labels(limit, stack) &&
	       snap_limit_shorten_text(limit, &stack->description) &&
	       snap_limit_shorten_text(limit, &stack->unwind_detail);
}

static bool cut_limited_stack(struct snap_limit *limit, size_t number, double most)
{
	struct snap_recorded_stack *stack = &limit->limited->recording.stacks[number];
	struct snap_limit_stack *of = &limit->stacks[number];
	struct snap_stack_cut cut = { stack->frame_count, 0 };
	const struct snap_frame **frames;

	if (of->bytes > most && !choose_frames(limit, stack, most, &cut))
		return false;
	of->left_out = of->left_out || (stack->frame_count && !cut.head);
	if (of->left_out) {
		leave_out_stack(stack);
		return true;
	}
	if (cut.head == stack->frame_count && limit->longest == SIZE_MAX)
		return true;
	frames = snap_arena_new_array(&limit->limited->arena, cut.head + cut.tail + 1,
				      const struct snap_frame *);
	if (!frames)
		return false;
	stack->frame_count = snap_stack_cut_copy(&cut, stack->frames, stack->frame_count, frames,
						 &stack->gap_frame, &stack->gap_count);
	stack->frames = frames;
	return shorten_names(limit, stack, frames);
}

/* The recording becomes a cut copy of itself, instead of an earlier one. */
static bool cut_stacks(struct snap_limit *limit, double most)
{
	struct snap_limited *limited = limit->limited;
	size_t count = limit->from->stack_count;

	snap_pointer_table_clear(&limit->copies);
	snap_interner_deinit(&limit->names);
	snap_arena_deinit(&limited->arena);
	snap_interner_init(&limit->names, &limited->arena);
	limited->recording.stacks =
		snap_arena_new_array(&limited->arena, count + 1, struct snap_recorded_stack);
	if (!limited->recording.stacks)
		return false;
	if (count)
		memcpy(limited->recording.stacks, limit->from->stacks,
		       count * sizeof(*limited->recording.stacks));
	return snap_all(count, i, cut_limited_stack(limit, i, most));
}

/* ---- leaving out ---- */

struct ranked {
	double samples;
	size_t stack;
};

SNAP_ORDER(by_samples, struct ranked, a, b, snap_compare(b->samples, a->samples),
	   snap_compare(a->stack, b->stack));

/* Those with the most samples stay. */
static bool leave_out_stacks(struct snap_limit *limit, double most)
{
	size_t count = limit->from->stack_count;
	_cleanup_free_ struct ranked *ranked = calloc(count + 1, sizeof(*ranked));
	double left = budget(limit);

	if (!ranked)
		return false;
	for (size_t i = 0; i < count; i++)
		ranked[i] = (struct ranked){ limit->stacks[i].samples, i };
	qsort(ranked, count, sizeof(*ranked), by_samples);
	for (size_t i = 0; i < count; i++) {
		struct snap_limit_stack *stack = &limit->stacks[ranked[i].stack];

		stack->left_out = stack_cost(stack, most) > left;
		if (!stack->left_out)
			left -= stack_cost(stack, most);
	}
	return true;
}

static size_t count_left_out(const struct snap_limit *limit)
{
	return snap_sum(limit->from->stack_count, i, limit->stacks[i].left_out);
}

/* ---- the warning ---- */

/* The warnings, copied, with another one; false without memory, for the message too. */
static bool add_warning(struct snap_arena *arena, struct snap_warning **warnings, size_t *count,
			const char *message)
{
	struct snap_warning *more = snap_arena_new_array(arena, *count + 1, struct snap_warning);

	if (!more || !message)
		return false;
	if (*count)
		memcpy(more, *warnings, *count * sizeof(*more));
	more[(*count)++] = (struct snap_warning){ .code = "report_limited", .message = message };
	*warnings = more;
	return true;
}

bool snap_limited_warn(struct snap_arena *arena, struct snap_snapshot *snapshot, size_t listed)
{
	const char *message = snap_arena_printf(
		arena, "groups list %zu threads in all, and have more than they list", listed);

	return add_warning(arena, &snapshot->warnings, &snapshot->warning_count, message);
}

bool snap_limited_warn_of(struct snap_arena *arena, struct snap_snapshot *snapshot,
			  const char *message)
{
	return add_warning(arena, &snapshot->warnings, &snapshot->warning_count, message);
}

/* "stacks are cut to some 12 frames, names to 256 bytes, 12 rare stacks are left out" */
static bool warn_of_limit(struct snap_limit *limit, double most)
{
	struct snap_recording *recording = &limit->limited->recording;
	struct snap_arena *arena = &limit->limited->arena;
	size_t left_out = count_left_out(limit);
	char cut[64] = "", names[64] = "", gone[80] = "";

	if (most < longest_stack(limit))
		snprintf(cut, sizeof(cut), " stacks are cut to some %.0f frames",
			 most / bytes_of_usual_frame(limit));
	if (limit->longest < SIZE_MAX)
		snprintf(names, sizeof(names), "%s names%s to %zu bytes", *cut ? "," : "",
			 *cut ? "" : " are cut", limit->longest);
	if (left_out)
		snprintf(gone, sizeof(gone), "%s %zu rare stack%s left out",
			 *cut || *names ? "," : "", left_out, left_out == 1 ? " is" : "s are");
	limit->limited->warning = snap_arena_printf(
		arena, "the report would be larger than %.0f MiB:%s%s%s (-n COUNT lifts the limit)",
		most_bytes(limit) / (1 << 20), cut, names, gone);
	return add_warning(arena, &recording->warnings, &recording->warning_count,
			   limit->limited->warning);
}

/* ---- all of it ---- */

/*
 * Where a cut is longer or shorter than that of the stack before, what they had in common is
 * printed again; so it is tried out. False without memory.
 */
static bool fit_changes(struct snap_limit *limit, double *most)
{
	/* Nothing is cut to less than a byte: then it is the number of changes that is too much. */
	double surely = *most > 1 ? *most : 1, bytes;

	for (*most = longest_stack(limit) / 2; *most > surely; *most = *most * 2 / 3) {
		if (!cut_stacks(limit, *most))
			return false;
		bytes = snap_limit_bytes_of_changes(limit);
		if (bytes < 0 || bytes <= most_bytes(limit))
			return bytes >= 0;
	}
	*most = surely > 1 ? surely : 0;
	return true;
}

/* Whether all fits as it is, with names as long as they may be; *most: how much of each does. */
static bool try_names(struct snap_limit *limit, bool *fits, double *most)
{
	double bytes;

	if (!snap_limit_measure(limit))
		return false;
	*most = INFINITY;
	bytes = all_costs(limit, INFINITY);
	*fits = bytes <= budget(limit);
	if (limit->use == SNAP_FRAMES_IN_CHANGES && !*fits) {
		if (!cut_stacks(limit, INFINITY))
			return false;
		bytes = snap_limit_bytes_of_changes(limit);
		*fits = bytes <= most_bytes(limit);
		if (bytes < 0)
			return false;
	}
	if (*fits)
		return true;
	*most = fitting_bytes(limit);
	return limit->use != SNAP_FRAMES_IN_CHANGES || fit_changes(limit, most);
}

/* Whether stacks are long enough, and names not too much of the whole. */
static bool is_good(const struct snap_limit *limit, bool fits, double most)
{
	double usual = bytes_of_usual_frame(limit);

	if (limit->once > most_bytes(limit) / 2)
		return false;
	return fits || most >= usual * (limit->longest == SIZE_MAX ? FEW_FRAMES : LEAST_FRAMES);
}

static bool limit_recording(struct snap_limit *limit)
{
	double most = INFINITY;
	bool fits = false, good = false;

	if (!snap_limit_count(limit))
		return false;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(name_lengths) && !good; i++) {
		/* Shorter ones help tables; elsewhere stacks are left out. */
		if (i > 1 && limit->once <= most_bytes(limit) / 2)
			break;
		limit->longest = name_lengths[i];
		if (!try_names(limit, &fits, &most))
			return false;
		good = is_good(limit, fits, most);
	}
	if (fits && limit->longest == SIZE_MAX) {
		limit->limited->recording.stacks = limit->from->stacks;
		return true;
	}
	if (!fits && !good) {
		most = LEAST_FRAMES * bytes_of_usual_frame(limit);
		if (!leave_out_stacks(limit, most))
			return false;
	}
	return cut_stacks(limit, most) && warn_of_limit(limit, most);
}

struct stacksnap_error *snap_limited_init(struct snap_limited *limited,
					  const struct snap_recording *recording,
					  const struct snap_options *options,
					  enum snap_frame_use use)
{
	_cleanup_(snap_limit_deinit) struct snap_limit limit = { .limited = limited,
								 .from = recording,
								 .options = options,
								 .use = use,
								 .longest = SIZE_MAX };

	*limited = (struct snap_limited){ .recording = *recording };
	snap_arena_init(&limited->arena);
	snap_interner_init(&limit.names, &limited->arena);
	if (options->frames_given || use == SNAP_FRAMES_AS_NUMBERS)
		return NULL;
	limit.stacks = calloc(recording->stack_count + 1, sizeof(*limit.stacks));
	return limit.stacks && limit_recording(&limit) ? NULL : snap_error_no_memory();
}

void snap_limited_deinit(struct snap_limited *limited)
{
	snap_arena_deinit(&limited->arena);
}
