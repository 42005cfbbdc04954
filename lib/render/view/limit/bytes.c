/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How many bytes formats print of frames, with their names: see parts.h. */
#include "base/escape.h"
#include "base/text.h"
#include "render/view/limit/parts.h"

#include <stdlib.h>
#include <string.h>

/* Of what is printed, without texts of the target. */
enum {
	ENTRY_BYTES = 300, /* JSON of a function of a frame */
	CALL_BYTES = 220,  /* and of one in a tree of calls */
	GROUP_BYTES = 600, /* and of a stack */
	LINE_BYTES = 170,  /* text: a function, with colours and blanks */
	TITLE_BYTES = 700,
	RAIL_BYTES = 4,  /* of each level of the tree in front of them … */
	RAIL_COLOR = 13, /* … with a colour */
	MOST_RAILS = 40,
	EVENT_BYTES = 128,
	NUMBER_BYTES = 8,
	SUFFIX_BYTES = 5,  /* folded: with the separator */
	OWNER_BYTES = 200, /* and the threads of a line */
	TABLE_BYTES = 128, /* memory of a frame in tables */
	OFFSET_BYTES = 20, /* "+0x…" */
	ONCE_BYTES = 150,  /* of a frame that tables list, without its texts */
	GAP_BYTES = 128,
	WAIT_BYTES = 400, /* of a line that tells a wait, whose names are cut */
	LABEL_BYTES = 12, /* of a label, beside its key and its value */
};

void snap_limit_deinit(struct snap_limit *limit)
{
	free(limit->stacks);
	snap_pointer_table_deinit(&limit->frames);
	snap_pointer_table_deinit(&limit->texts);
	snap_pointer_table_deinit(&limit->copies);
	snap_interner_deinit(&limit->names);
	snap_buffer_deinit(&limit->scratch);
}

/* ---- texts ---- */

static uint64_t count_byte(const char *text, size_t length, char byte)
{
	uint64_t count = 0;

	for (const char *p = text; (p = memchr(p, byte, length - (size_t)(p - text))); p++)
		count++;
	return count;
}

/* As it is printed; without memory the scratch buffer has failed. */
static uint64_t shown_text_bytes(struct snap_limit *limit, const char *text)
{
	bool ascii = limit->use == SNAP_FRAMES_IN_TEXT && !limit->options->utf8;
	unsigned flags = ascii ? SNAP_ESCAPE_ASCII : 0;
	size_t length = text ? strlen(text) : 0, dots = 0;
	uint64_t bytes;
	char *escaped;

	if (length > limit->longest) {
		length = limit->longest;
		dots = 3;
	}
	if (!snap_escape_is_clean(text ? text : "", length, flags)) {
		snap_buffer_clear(&limit->scratch);
		escaped = snap_buffer_reserve(&limit->scratch, 4 * length + 1);
		if (!escaped)
			return 0;
		length = snap_escape(text, length, flags, escaped, 4 * length + 1);
		text = escaped;
	}
	bytes = length + dots;
	if (length && limit->use != SNAP_FRAMES_IN_TEXT && limit->use != SNAP_FRAMES_IN_LINES)
		bytes += count_byte(text, length, '"') + count_byte(text, length, '\\');
	if (length && limit->use == SNAP_FRAMES_IN_LINES)
		bytes += 3 * count_byte(text, length, ';');
	return bytes;
}

static uint64_t name_bytes(struct snap_limit *limit, const struct snap_frame *frame,
			   const struct snap_entry *entry)
{
	const char *name = entry->function && entry->function[0] ? entry->function : entry->symbol;

	if (limit->use == SNAP_FRAMES_IN_TEXT && limit->options->raw_names && entry->symbol)
		name = entry->symbol;
	if (name && name[0])
		return shown_text_bytes(limit, name);
	return OFFSET_BYTES +
	       (frame->module ? shown_text_bytes(limit, snap_base_name(frame->module)) : 0);
}

static uint64_t line_bytes(struct snap_limit *limit, const struct snap_frame *frame,
			   const struct snap_entry *entry)
{
	uint64_t bytes = LINE_BYTES + name_bytes(limit, frame, entry);

	if (frame->module)
		bytes += shown_text_bytes(limit, limit->options->show_module
							 ? frame->module
							 : snap_base_name(frame->module));
	if (limit->options->show_build_id)
		bytes += shown_text_bytes(limit, frame->build_id) + OFFSET_BYTES;
	return bytes + shown_text_bytes(limit, entry->file);
}

/* Of the node that it may have in the tree of a process. */
static uint64_t call_bytes(struct snap_limit *limit, const struct snap_frame *frame,
			   const struct snap_entry *entry)
{
	if (!limit->options->call_tree)
		return 0;
	return CALL_BYTES + name_bytes(limit, frame, entry) +
	       shown_text_bytes(limit, frame->module ? frame->module : entry->file);
}

static uint64_t entry_bytes(struct snap_limit *limit, const struct snap_frame *frame,
			    const struct snap_entry *entry)
{
	switch (limit->use) {
	case SNAP_FRAMES_AS_NUMBERS:
		break;
	case SNAP_FRAMES_IN_TABLES:
		return TABLE_BYTES;
	case SNAP_FRAMES_IN_ROWS:
	case SNAP_FRAMES_IN_SAMPLES:
		return NUMBER_BYTES;
	case SNAP_FRAMES_IN_LINES:
		return SUFFIX_BYTES + name_bytes(limit, frame, entry);
	case SNAP_FRAMES_IN_TEXT:
		return line_bytes(limit, frame, entry);
	case SNAP_FRAMES_IN_GROUPS:
	case SNAP_FRAMES_IN_TICKS:
		return ENTRY_BYTES + shown_text_bytes(limit, entry->function) +
		       shown_text_bytes(limit, entry->symbol) +
		       shown_text_bytes(limit, entry->file) +
		       shown_text_bytes(limit, frame->module) +
		       shown_text_bytes(limit, frame->build_id) + call_bytes(limit, frame, entry);
	case SNAP_FRAMES_IN_CHANGES:
		return EVENT_BYTES + name_bytes(limit, frame, entry);
	}
	return 0;
}

/* ---- what tables list once ---- */

static bool in_tables(enum snap_frame_use use)
{
	return use == SNAP_FRAMES_IN_TABLES || use == SNAP_FRAMES_IN_ROWS ||
	       use == SNAP_FRAMES_IN_SAMPLES;
}

static bool add_text_once(struct snap_limit *limit, const char *text)
{
	struct snap_pointer_entry *found =
		text ? snap_pointer_table_get(&limit->texts, text) : NULL;

	if (!text || !found)
		return !text;
	if (!found->number)
		limit->once += (double)shown_text_bytes(limit, text);
	found->number = 1;
	return true;
}

static bool add_frame_once(struct snap_limit *limit, const struct snap_frame *frame)
{
	bool fine = add_text_once(limit, frame->module) && add_text_once(limit, frame->build_id);

	for (size_t i = 0; i < frame->entry_count && fine; i++) {
		const struct snap_entry *entry = &frame->entries[i];

		limit->once += ONCE_BYTES;
		fine = add_text_once(limit, entry->function) &&
		       add_text_once(limit, entry->symbol) && add_text_once(limit, entry->file);
	}
	return fine;
}

/* ---- frames and stacks ---- */

/* Text prints a row of rails before each line. */
static uint64_t rails_of(const struct snap_limit *limit, size_t process)
{
	const struct snap_recorded_process *processes = limit->from->processes;
	size_t depth = 2, parent = processes[process].parent;

	if (limit->use != SNAP_FRAMES_IN_TEXT)
		return 0;
	if (limit->options->call_tree)
		depth = MOST_RAILS;
	for (; depth < MOST_RAILS && parent < process; depth++) {
		process = parent;
		parent = processes[process].parent;
	}
	return depth * (RAIL_BYTES + (limit->options->color ? RAIL_COLOR : 0));
}

bool snap_limit_frame_bytes(struct snap_limit *limit, const struct snap_recorded_stack *stack,
			    size_t number, const struct snap_frame *beside, double *ret)
{
	const struct snap_frame *frame = stack->frames[number];
	struct snap_pointer_entry *found = snap_pointer_table_get(&limit->frames, frame);

	if (found && !found->number) {
		uint64_t rails = rails_of(limit, stack->process);

		for (size_t i = 0; i < frame->entry_count; i++)
			found->number += rails + entry_bytes(limit, frame, &frame->entries[i]);
		if (in_tables(limit->use) && !add_frame_once(limit, frame))
			return false;
	}
	*ret = found ? (double)found->number : 0;
	/* In text, equal ones in a row are one line. */
	if (limit->use == SNAP_FRAMES_IN_TEXT && frame == beside)
		*ret = 0;
	return found && !limit->scratch.failed;
}

/* ---- labels ---- */

/* Whether stacks that have a label begin with it. */
static bool is_line(const struct snap_options *options, const char *key)
{
	if (snap_begins_with(key, "label."))
		key += 6;
	return snap_any(options->group_label_count, i, strcmp(options->group_labels[i], key) == 0);
}

/* What is printed of a label each time that its stack is. */
static uint64_t label_bytes(struct snap_limit *limit, const struct snap_label *label)
{
	bool in_lines = limit->use == SNAP_FRAMES_IN_LINES;

	if (in_tables(limit->use))
		return 2 * NUMBER_BYTES;
	if (limit->use == SNAP_FRAMES_AS_NUMBERS ||
	    (in_lines && !is_line(limit->options, label->key)) ||
	    (limit->use == SNAP_FRAMES_IN_TEXT && limit->options->summary))
		return 0;
	return (in_lines ? SUFFIX_BYTES : LABEL_BYTES) + shown_text_bytes(limit, label->key) +
	       shown_text_bytes(limit, label->value);
}

static bool measure_labels(struct snap_limit *limit, const struct snap_recorded_stack *stack,
			   uint64_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < stack->label_count; i++) {
		const struct snap_label *label = &stack->labels[i];

		*ret += label_bytes(limit, label);
		if (in_tables(limit->use) &&
		    (!add_text_once(limit, label->key) || !add_text_once(limit, label->value)))
			return false;
	}
	return true;
}

/* What is printed with each stack. */
static uint64_t shown_stack_bytes(struct snap_limit *limit, const struct snap_recorded_stack *stack,
				  const struct snap_limit_stack *of)
{
	switch (limit->use) {
	case SNAP_FRAMES_AS_NUMBERS:
	case SNAP_FRAMES_IN_TABLES:
		break;
	case SNAP_FRAMES_IN_ROWS:
	case SNAP_FRAMES_IN_SAMPLES:
		return GAP_BYTES;
	case SNAP_FRAMES_IN_LINES:
		return OWNER_BYTES + GAP_BYTES;
	case SNAP_FRAMES_IN_TEXT:
		return TITLE_BYTES + 4 * rails_of(limit, stack->process) +
		       of->waits * (WAIT_BYTES + rails_of(limit, stack->process)) +
		       shown_text_bytes(limit, stack->unwind_detail) +
		       shown_text_bytes(limit, limit->options->summary ? stack->description : NULL);
	case SNAP_FRAMES_IN_GROUPS:
	case SNAP_FRAMES_IN_TICKS:
		return GROUP_BYTES + shown_text_bytes(limit, stack->description) +
		       shown_text_bytes(limit, stack->unwind_detail);
	case SNAP_FRAMES_IN_CHANGES:
		return EVENT_BYTES + GAP_BYTES;
	}
	return 0;
}

static bool measure_stack(struct snap_limit *limit, const struct snap_recorded_stack *stack,
			  struct snap_limit_stack *of)
{
	double bytes, most = 0;
	uint64_t labels;

	if (!measure_labels(limit, stack, &labels))
		return false;
	*of = (struct snap_limit_stack){
		.times = of->times,
		.samples = of->samples,
		.fixed = (double)(shown_stack_bytes(limit, stack, of) + labels),
		.waits = of->waits,
	};
	for (size_t i = 0; i < stack->frame_count; i++) {
		if (!snap_limit_frame_bytes(limit, stack, i, i ? stack->frames[i - 1] : NULL,
					    &bytes))
			return false;
		most = bytes > most ? bytes : most;
		of->bytes += bytes;
	}
	/* A summary has one line, which is of one of its frames. */
	if (limit->use == SNAP_FRAMES_IN_TEXT && limit->options->summary) {
		of->fixed += most;
		of->bytes = 0;
	}
	return true;
}

bool snap_limit_measure(struct snap_limit *limit)
{
	snap_pointer_table_clear(&limit->frames);
	snap_pointer_table_clear(&limit->texts);
	limit->once = 0;
	return snap_all(limit->from->stack_count, i,
			measure_stack(limit, &limit->from->stacks[i], &limit->stacks[i])) &&
	       !limit->scratch.failed;
}

/* ---- changes ---- */

/* How many frames were left out just outside of a frame. */
static uint64_t gap_at(const struct snap_recorded_stack *stack, size_t frame)
{
	return frame == stack->gap_frame ? stack->gap_count : 0;
}

/* The outer frames that two stacks have in common are printed once: how many inner ones are not. */
static size_t count_changed(const struct snap_recorded_stack *before,
			    const struct snap_recorded_stack *stack)
{
	size_t left = stack->frame_count, left_before = before ? before->frame_count : 0;

	while (left && left_before && stack->frames[left - 1] == before->frames[left_before - 1] &&
	       gap_at(stack, left - 1) == gap_at(before, left_before - 1)) {
		left--;
		left_before--;
	}
	return left;
}

double snap_limit_bytes_of_changes(struct snap_limit *limit)
{
	const struct snap_recording *recording = &limit->limited->recording;
	double sum = 0, bytes;

	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];
		const struct snap_recorded_stack *before = NULL;

		for (size_t k = 0; k < track->run_count; k++) {
			const struct snap_recorded_stack *stack =
				&recording->stacks[track->runs[k].stack];
			size_t changed = count_changed(before, stack);

			uint64_t labels;

			if (!measure_labels(limit, stack, &labels))
				return -1;
			sum += EVENT_BYTES + GAP_BYTES + (double)labels;
			for (size_t n = 0; n < changed; n++) {
				if (!snap_limit_frame_bytes(limit, stack, n, NULL, &bytes))
					return -1;
				sum += bytes;
			}
			before = stack;
		}
	}
	return sum;
}

/* ---- shortening ---- */

bool snap_limit_shorten_text(struct snap_limit *limit, const char **text)
{
	size_t length = *text && limit->longest < SIZE_MAX ? strlen(*text) : 0;
	struct snap_buffer *cut = &limit->scratch;

	if (length <= limit->longest)
		return true;
	snap_buffer_clear(cut);
	snap_buffer_add(cut, *text, snap_text_cut(*text, length, limit->longest));
	snap_buffer_add_text(cut, "...");
	*text = cut->failed ? NULL : snap_intern(&limit->names, cut->data, cut->size);
	return *text;
}

const struct snap_frame *snap_limit_shorten_frame(struct snap_limit *limit,
						  const struct snap_frame *from)
{
	struct snap_arena *arena = &limit->limited->arena;
	struct snap_pointer_entry *found = snap_pointer_table_get(&limit->copies, from);
	struct snap_frame *frame;

	if (!found || found->pointer)
		return found ? found->pointer : NULL;
	frame = snap_arena_memdup(arena, from, sizeof(*from));
	if (!frame)
		return NULL;
	frame->entries =
		snap_arena_memdup(arena, from->entries, from->entry_count * sizeof(*from->entries));
	if (!frame->entries || !snap_limit_shorten_text(limit, &frame->module) ||
	    !snap_limit_shorten_text(limit, &frame->build_id))
		return NULL;
	for (size_t i = 0; i < frame->entry_count; i++) {
		struct snap_entry *named = &frame->entries[i];

		if (!snap_limit_shorten_text(limit, &named->function) ||
		    !snap_limit_shorten_text(limit, &named->symbol) ||
		    !snap_limit_shorten_text(limit, &named->file))
			return NULL;
	}
	found->pointer = frame;
	return frame;
}
