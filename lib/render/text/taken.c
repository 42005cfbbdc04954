/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See taken.h. Threads that could not be copied at all count as neither. */
#include "render/text/taken.h"

#include "render/view/walk.h"
#include "render/view/when.h"

struct taken {
	size_t unstopped, alone, all;
};

static void count_stack(const struct snap_stack *stack, struct taken *taken)
{
	for (size_t i = 0; i < stack->thread_count; i++) {
		taken->unstopped += stack->threads[i].taken == SNAP_TAKEN_UNSTOPPED;
		taken->alone += stack->threads[i].taken == SNAP_TAKEN_ALONE;
	}
	taken->all += stack->thread_count;
}

static struct taken count_all(const struct snap_snapshot *snapshot)
{
	struct taken taken = { 0 };
	struct snap_walk_step step;
	struct snap_walk walk;

	snap_walk_init(&walk, snapshot);
	while (snap_walk_next(&walk, &step)) {
		for (size_t i = 0; !step.leave && i < step.node->stack_count; i++)
			count_stack(&step.node->stacks[i], &taken);
	}
	snap_walk_deinit(&walk);
	return taken;
}

void snap_text_taken_head(struct snap_sheet *lines, const struct snap_options *options,
			  const struct snap_snapshot *snapshot)
{
	struct taken taken = count_all(snapshot);
	char length[SNAP_WHEN_SIZE];

	snap_line_printf(lines, SNAP_STYLE_PLAIN,
			 "   not stopped: %zu of %zu thread%s read while blocked", taken.unstopped,
			 taken.all, taken.all == 1 ? "" : "s");
	if (taken.alone)
		snap_line_printf(lines, SNAP_STYLE_PLAIN, ", %zu stopped one by one", taken.alone);
	if (taken.alone && options->verbose && snapshot->stop_duration_ns) {
		snap_when_length(snapshot->stop_duration_ns, length);
		snap_line_printf(lines, SNAP_STYLE_PLAIN, " (at most %s each)", length);
	}
	if (taken.all > 1)
		snap_line_add(lines, SNAP_STYLE_PLAIN, ", not at one instant");
}

void snap_text_taken_group(struct snap_sheet *lines, const struct snap_stack *stack)
{
	struct taken taken = { 0 };

	count_stack(stack, &taken);
	if (taken.unstopped && taken.alone)
		snap_line_printf(lines, SNAP_STYLE_DIM,
				 "  (%zu read while blocked, %zu stopped alone)", taken.unstopped,
				 taken.alone);
	else if (taken.unstopped || taken.alone)
		snap_line_add(lines, SNAP_STYLE_DIM,
			      taken.alone ? "  (stopped alone)" : "  (read while blocked)");
}
