/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The limit of a recording's report: see limit.h. How often each stack is printed, how long that
 * is, the number of frames with which all fits; then copies of the stacks that are longer.
 */
#include "render/view/limit.h"

#include "base/escape.h"
#include "base/table.h"
#include "model/stack_cut.h"

#include <string.h>

enum {
	REPORT_BYTES = 64 << 20,
	TICK_BYTES = 64 << 10, /* more for each tick that is printed */
	MEMORY_OF_FRAME = 128, /* of a frame in tables */
	EVENT_BYTES = 100,     /* of a frame as an event, without its name */
	ENTRY_BYTES = 300,     /* of a frame in full, without its texts */
	STACK_BYTES = 600,     /* of a stack in full, without its frames */
	SHORT_NAME = 256,      /* what names are cut to, when a few frames are too many */
	LEAST_FRAMES = 2,
	MOST_FRAMES = 1 << 24,
};

/* Of each stack of the recording. */
struct use {
	double times;         /* how often it is printed */
	double bytes;         /* of a frame, on the average */
	uint32_t tick, track; /* the latest one that was counted, + 1 */
	unsigned states;      /* bits of those in which threads of that track were in it */
};

struct limit {
	struct snap_limited *limited;
	const struct snap_options *options;
	enum snap_frame_use use;
	struct use *uses;
	struct snap_pointer_table frames; /* bytes of each, or its short copy */
	bool shortened;
};

static void limit_deinit(struct limit *limit)
{
	free(limit->uses);
	snap_pointer_table_deinit(&limit->frames);
}

/* ---- how often ---- */

/* Whether groups are told apart by what differs from thread to thread. */
static bool groups_differ(const struct snap_options *options)
{
	return options->group_by &
	       ~(unsigned)(SNAP_GROUP_STACK | SNAP_GROUP_STATE | SNAP_GROUP_TYPE);
}

static void count_groups(struct limit *limit)
{
	const struct snap_recording *recording = &limit->limited->recording;
	bool differ = groups_differ(limit->options);

	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];

		for (size_t k = 0; k < track->run_count; k++) {
			struct use *use = &limit->uses[track->runs[k].stack];
			unsigned state = 1u << track->runs[k].state;

			if (differ && use->track != i + 1)
				use->states = 0;
			use->track = (uint32_t)i + 1;
			use->times += !(use->states & state);
			use->states |= state;
		}
	}
}

/* A tick prints each stack once, in which some thread is. False without memory. */
static bool count_ticks(struct limit *limit)
{
	const struct snap_recording *recording = &limit->limited->recording;
	_cleanup_free_ size_t *cursors = calloc(recording->track_count + 1, sizeof(*cursors));

	for (uint32_t tick = 0; cursors && tick < recording->tick_count; tick++)
		for (size_t i = 0; i < recording->track_count; i++) {
			const struct snap_track *track = &recording->tracks[i];
			struct use *use;

			while (cursors[i] < track->run_count && track->runs[cursors[i]].last < tick)
				cursors[i]++;
			if (cursors[i] == track->run_count || track->runs[cursors[i]].first > tick)
				continue;
			use = &limit->uses[track->runs[cursors[i]].stack];
			use->times += use->tick != tick + 1;
			use->tick = tick + 1;
		}
	return cursors;
}

/* The outer frames that two stacks have in common are printed once. */
static void count_changes(struct limit *limit)
{
	const struct snap_recording *recording = &limit->limited->recording;

	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];
		const struct snap_recorded_stack *before = NULL;

		for (size_t k = 0; k < track->run_count; k++) {
			const struct snap_recorded_stack *stack =
				&recording->stacks[track->runs[k].stack];
			size_t count = stack->frame_count, common = 0;

			while (before && common < count && common < before->frame_count &&
			       stack->frames[count - 1 - common] ==
				       before->frames[before->frame_count - 1 - common])
				common++;
			if (count)
				limit->uses[track->runs[k].stack].times +=
					(double)(count - common) / (double)count;
			before = stack;
		}
	}
}

static bool count_uses(struct limit *limit)
{
	switch (limit->use) {
	case SNAP_FRAMES_AS_NUMBERS:
		break;
	case SNAP_FRAMES_IN_TABLES:
		for (size_t i = 0; i < limit->limited->recording.stack_count; i++)
			limit->uses[i].times = 1;
		break;
	case SNAP_FRAMES_IN_GROUPS:
		count_groups(limit);
		break;
	case SNAP_FRAMES_IN_TICKS:
		return count_ticks(limit);
	case SNAP_FRAMES_IN_CHANGES:
		count_changes(limit);
		break;
	}
	return true;
}

/* ---- how long ---- */

/* With escapes; of a text that is shown once. */
static uint64_t text_bytes(const struct limit *limit, const char *text)
{
	uint64_t bytes = 0;

	for (size_t i = 0; text && text[i] && (!limit->shortened || i < SHORT_NAME); i++)
		bytes += (unsigned char)text[i] < ' ' || (unsigned char)text[i] > '~' ? 4 : 1;
	return bytes;
}

static uint64_t frame_bytes(const struct limit *limit, const struct snap_frame *frame)
{
	bool in_full = limit->use != SNAP_FRAMES_IN_CHANGES;
	uint64_t bytes = 0;

	if (limit->use == SNAP_FRAMES_IN_TABLES)
		return MEMORY_OF_FRAME;
	if (in_full)
		bytes = text_bytes(limit, frame->module) + text_bytes(limit, frame->build_id);
	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];

		bytes += in_full ? ENTRY_BYTES : EVENT_BYTES;
		bytes += text_bytes(limit, entry->function);
		if (in_full)
			bytes += text_bytes(limit, entry->file) + text_bytes(limit, entry->symbol);
	}
	return bytes;
}

/* False without memory. */
static bool measure_stacks(struct limit *limit)
{
	const struct snap_recording *recording = &limit->limited->recording;

	snap_pointer_table_clear(&limit->frames);
	for (size_t i = 0; i < recording->stack_count; i++) {
		const struct snap_recorded_stack *stack = &recording->stacks[i];
		uint64_t bytes = 0;

		for (size_t k = 0; k < stack->frame_count; k++) {
			struct snap_pointer_entry *entry =
				snap_pointer_table_get(&limit->frames, stack->frames[k]);

			if (!entry)
				return false;
			if (!entry->number)
				entry->number = frame_bytes(limit, stack->frames[k]);
			bytes += entry->number;
		}
		limit->uses[i].bytes =
			stack->frame_count ? (double)bytes / (double)stack->frame_count : 0;
	}
	return true;
}

static double report_bytes(const struct limit *limit, size_t most)
{
	const struct snap_recording *recording = &limit->limited->recording;
	bool in_full = limit->use == SNAP_FRAMES_IN_GROUPS || limit->use == SNAP_FRAMES_IN_TICKS;
	double bytes = 0;

	for (size_t i = 0; i < recording->stack_count; i++) {
		const struct use *use = &limit->uses[i];
		size_t count = recording->stacks[i].frame_count;

		bytes += use->times * (in_full ? STACK_BYTES : 0);
		bytes += use->times * use->bytes * (double)(count < most ? count : most);
	}
	return bytes;
}

static double most_bytes(const struct limit *limit)
{
	const struct snap_recording *recording = &limit->limited->recording;

	if (limit->use != SNAP_FRAMES_IN_TICKS)
		return REPORT_BYTES;
	return REPORT_BYTES + (double)recording->tick_count * TICK_BYTES;
}

static size_t fitting_length(const struct limit *limit)
{
	size_t low = LEAST_FRAMES, high = MOST_FRAMES;

	while (low < high) {
		size_t middle = high - (high - low) / 2;

		if (report_bytes(limit, middle) <= most_bytes(limit))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* ---- cutting ---- */

static bool shorten_text(struct snap_arena *arena, const char **text)
{
	size_t length = *text ? strnlen(*text, SHORT_NAME + 1) : 0;
	char cut[SHORT_NAME + 4];

	if (length <= SHORT_NAME)
		return true;
	length = snap_text_cut(*text, length, SHORT_NAME);
	memcpy(cut, *text, length);
	memcpy(cut + length, "...", 4);
	*text = snap_arena_strdup(arena, cut);
	return *text;
}

/* A copy of a frame with short texts, once for all stacks that have it. NULL without memory. */
static const struct snap_frame *shorten_frame(struct limit *limit, const struct snap_frame *from)
{
	struct snap_arena *arena = &limit->limited->arena;
	struct snap_pointer_entry *entry = snap_pointer_table_get(&limit->frames, from);
	struct snap_frame *frame;

	if (!entry || entry->pointer)
		return entry ? entry->pointer : NULL;
	frame = snap_arena_memdup(arena, from, sizeof(*from));
	if (!frame)
		return NULL;
	frame->entries =
		snap_arena_memdup(arena, from->entries, from->entry_count * sizeof(*from->entries));
	if (!frame->entries || !shorten_text(arena, &frame->module))
		return NULL;
	for (size_t i = 0; i < frame->entry_count; i++) {
		struct snap_entry *named = &frame->entries[i];

		if (!shorten_text(arena, &named->function) ||
		    !shorten_text(arena, &named->symbol) || !shorten_text(arena, &named->file))
			return NULL;
	}
	entry->pointer = frame;
	return frame;
}

static bool cut_stack(struct limit *limit, struct snap_recorded_stack *stack, size_t most)
{
	const struct snap_stack_cut cut =
		snap_stack_cut_to(most, stack->frame_count, stack->gap_frame, stack->gap_count);
	const struct snap_frame **frames;

	if (stack->frame_count <= most && !limit->shortened)
		return true;
	frames = snap_arena_new_array(&limit->limited->arena, cut.head + cut.tail + 1,
				      const struct snap_frame *);
	if (!frames)
		return false;
	stack->frame_count = snap_stack_cut_copy(&cut, stack->frames, stack->frame_count, frames,
						 &stack->gap_frame, &stack->gap_count);
	stack->frames = frames;
	for (size_t i = 0; limit->shortened && i < stack->frame_count; i++) {
		frames[i] = shorten_frame(limit, frames[i]);
		if (!frames[i])
			return false;
	}
	return true;
}

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

static bool warn_of_limit(struct limit *limit, size_t most)
{
	struct snap_recording *recording = &limit->limited->recording;
	struct snap_arena *arena = &limit->limited->arena;

	return add_warning(
		arena, &recording->warnings, &recording->warning_count,
		snap_arena_printf(
			arena,
			"the report would be larger than %d MiB: stacks are cut to %zu frames%s "
			"(-n COUNT sets the number)",
			(int)(most_bytes(limit) / (1 << 20)), most,
			limit->shortened ? ", names to 256 bytes" : ""));
}

static bool cut_stacks(struct limit *limit, size_t most)
{
	struct snap_recording *recording = &limit->limited->recording;

	recording->stacks = snap_arena_memdup(&limit->limited->arena, recording->stacks,
					      recording->stack_count * sizeof(*recording->stacks));
	if (!recording->stacks)
		return false;
	snap_pointer_table_clear(&limit->frames);
	for (size_t i = 0; i < recording->stack_count; i++)
		if (!cut_stack(limit, &recording->stacks[i], most))
			return false;
	return warn_of_limit(limit, most);
}

static bool limit_recording(struct limit *limit)
{
	limit->uses = calloc(limit->limited->recording.stack_count + 1, sizeof(*limit->uses));
	if (!limit->uses || !count_uses(limit) || !measure_stacks(limit))
		return false;
	if (report_bytes(limit, MOST_FRAMES) <= most_bytes(limit))
		return true;
	if (report_bytes(limit, LEAST_FRAMES) > most_bytes(limit)) {
		limit->shortened = true;
		if (!measure_stacks(limit))
			return false;
	}
	return cut_stacks(limit, fitting_length(limit));
}

struct stacksnap_error *snap_limited_init(struct snap_limited *limited,
					  const struct snap_recording *recording,
					  const struct snap_options *options,
					  enum snap_frame_use use)
{
	_cleanup_(limit_deinit) struct limit limit = { .limited = limited,
						       .options = options,
						       .use = use };

	*limited = (struct snap_limited){ .recording = *recording };
	snap_arena_init(&limited->arena);
	if (options->frames_given || use == SNAP_FRAMES_AS_NUMBERS)
		return NULL;
	return limit_recording(&limit) ? NULL : snap_error_no_memory();
}

void snap_limited_deinit(struct snap_limited *limited)
{
	snap_arena_deinit(&limited->arena);
}
