/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the text says of a group in a recording that a snapshot does not have: its share of all
 * samples, and of which states it is made up.
 */
#ifndef SNAP_RENDER_TEXT_SHARE_H
#define SNAP_RENDER_TEXT_SHARE_H

#include "model/snapshot.h"
#include "render/text/line.h"

/* "72.0 %  118 samples × "; `width` is that of the largest number. */
void snap_text_share(struct snap_sheet *lines, uint64_t samples, uint64_t all, size_t width);
/* "disk 90 %, running 10 %", the most frequent first. */
void snap_text_share_states(struct snap_sheet *lines, const struct snap_stack *stack);

#endif
