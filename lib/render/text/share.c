/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Groups of a recording as text: see share.h. */
#include "render/text/share.h"

#include <inttypes.h>

void snap_text_share(struct snap_sheet *lines, uint64_t samples, uint64_t all, size_t width)
{
	snap_line_printf(lines, SNAP_STYLE_BOLD, "%5.1f %%", 100.0 * (double)samples / (double)all);
	snap_line_printf(lines, SNAP_STYLE_PLAIN, "  %*" PRIu64 " sample%s %s ", (int)width,
			 samples, samples == 1 ? " " : "s", lines->signs->times);
}

void snap_text_share_states(struct snap_sheet *lines, const struct snap_stack *stack)
{
	uint64_t left = UINT64_MAX;
	unsigned last = 0;

	for (bool begun = false;; begun = true) {
		unsigned most = SNAP_STATE_COUNT;

		/* The next one: fewer samples than the last, or as many and behind it. */
		for (unsigned i = 0; i < SNAP_STATE_COUNT; i++) {
			uint64_t count = stack->state_samples[i];

			if (count && (count < left || (count == left && i > last)) &&
			    (most == SNAP_STATE_COUNT || count > stack->state_samples[most]))
				most = i;
		}
		if (most == SNAP_STATE_COUNT)
			return;
		left = stack->state_samples[most];
		last = most;
		snap_line_printf(lines, SNAP_STYLE_PLAIN, "%s%s %.0f %%", begun ? ", " : "",
				 snap_state_word(most),
				 100.0 * (double)left / (double)stack->samples);
	}
}
