/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stacks as text: see stack.h. */
#include "render/text/stack/parts.h"

#include "base/text.h"
#include "render/view/own.h"

void snap_text_stacks_deinit(struct snap_text_stacks *stacks)
{
	snap_text_stacks_clear(stacks);
	snap_folders_deinit(&stacks->folders);
	snap_chains_deinit(&stacks->chains);
}

void snap_text_stacks_clear(struct snap_text_stacks *stacks)
{
	snap_pointer_table_release(&stacks->shown, snap_shown_frame_destroy);
}

const struct snap_shown_frame *snap_text_shown_frame(struct snap_text_stacks *stacks,
						     const struct snap_frame *frame)
{
	struct snap_pointer_entry *found = snap_pointer_table_get(&stacks->shown, frame);

	if (found && !found->pointer)
		found->pointer = snap_shown_frame_create(
			stacks->lines,
			&(struct snap_shown_by){ stacks->options, &stacks->folders,
						 stacks->name_width, stacks->options->summary },
			frame);
	if (!found || !found->pointer) {
		stacks->lines->failed = true;
		return NULL;
	}
	return found->pointer;
}

const char *snap_text_mark_guessed(struct snap_text_stacks *stacks, bool guessed)
{
	stacks->has_guessed = stacks->has_guessed || guessed;
	return guessed ? stacks->lines->signs->guessed : NULL;
}

/* Where a stack of a language's own functions stands: in the one that it is called by. */
static const struct snap_frame *described_frame(const struct snap_stack *stack, size_t *entry_ret)
{
	for (size_t i = stack->frame_count; i-- > 0;) {
		const struct snap_frame *frame = stack->frames[i];

		for (size_t k = 0; k < frame->entry_count; k++) {
			*entry_ret = k;
			if (frame->entries[k].language &&
			    snap_same_text(frame->entries[k].function, stack->description))
				return frame;
		}
	}
	*entry_ret = 0;
	return NULL;
}

const struct snap_frame *snap_text_own_frame(const struct snap_stack *stack, size_t *entry_ret)
{
	return snap_own_frame(stack->frames, stack->frame_count, entry_ret)
		       ?: described_frame(stack, entry_ret)
		       ?: (stack->frame_count ? stack->frames[0] : NULL);
}

void snap_text_stacks_survey(struct snap_text_stacks *stacks, const struct snap_stack *stack)
{
	const struct snap_frame *last = NULL;
	bool fine = true;
	size_t entry;

	if (stacks->options->call_tree && !snap_text_tree_is_wide(stacks->options))
		return;
	if (stacks->options->summary) {
		stacks->chains.functions.options = stacks->options;
		last = snap_text_own_frame(stack, &entry);
		fine = !last || (snap_folders_add(&stacks->folders, stacks->options, last) &&
				 snap_chains_add(&stacks->chains, stack, last, entry));
	} else {
		for (size_t i = 0; i < stack->frame_count && fine; last = stack->frames[i++])
			fine = stack->frames[i] == last ||
			       snap_folders_add(&stacks->folders, stacks->options,
						stack->frames[i]);
	}
	stacks->lines->failed = stacks->lines->failed || !fine;
}

void snap_text_stacks_note(struct snap_text_stacks *stacks)
{
	struct snap_sheet *lines = stacks->lines;

	if (!stacks->has_guessed)
		return;
	snap_line_blank(lines);
	snap_line_begin(lines);
	snap_line_add(lines, SNAP_STYLE_CYAN, lines->signs->guessed);
	snap_line_add(lines, SNAP_STYLE_DIM,
		      " guessed, by frame pointer or by scanning the stack, or found from such a "
		      "frame: may be wrong");
	snap_line_end(lines, SNAP_STYLE_PLAIN, NULL);
}

void snap_text_stacks_put_measured(struct snap_text_stacks *stacks, void (*put)(void *context),
				   void *context)
{
	struct snap_sheet *lines = stacks->lines;

	lines->measuring = true;
	put(context);
	if (stacks->options->summary) {
		snap_sheet_fix_stops(lines);
		put(context);
	}
	lines->measuring = false;
	put(context);
	snap_text_stacks_note(stacks);
	snap_folders_note(&stacks->folders, lines, !stacks->has_guessed);
}
