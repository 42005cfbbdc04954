/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How threads were taken, in the text of a snapshot that is not of one instant (--no-stop). Knows
 * nothing of how it is done.
 */
#ifndef SNAP_RENDER_TEXT_TAKEN_H
#define SNAP_RENDER_TEXT_TAKEN_H

#include "model/options.h"
#include "model/snapshot.h"
#include "render/text/line.h"

/* "   not stopped: 62 of 65 threads read while blocked, 3 stopped one by one, …" */
void snap_text_taken_head(struct snap_sheet *lines, const struct snap_options *options,
			  const struct snap_snapshot *snapshot);
/* "  (3 read while blocked, 1 stopped alone)"; nothing where all were stopped together. */
void snap_text_taken_group(struct snap_sheet *lines, const struct snap_stack *stack);

#endif
