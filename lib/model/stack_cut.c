/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Cutting a stack: see stack_cut.h. */
#include "model/stack_cut.h"

#include <string.h>

struct snap_stack_cut snap_stack_cut_to(size_t most, size_t count, size_t gap_frame,
					uint64_t gap_count)
{
	struct snap_stack_cut cut = { count, 0 };

	if (count <= most)
		return cut;
	cut.head = most - most / 2;
	cut.tail = most / 2;
	if (gap_count && cut.head > gap_frame + 1)
		cut.head = gap_frame + 1;
	if (gap_count && cut.tail > count - gap_frame - 1)
		cut.tail = count - gap_frame - 1;
	return cut;
}

size_t snap_stack_cut_copy(const struct snap_stack_cut *cut, const struct snap_frame **frames,
			   size_t count, const struct snap_frame **to, size_t *gap_frame,
			   uint64_t *gap_count)
{
	size_t left = cut->head + cut->tail;

	if (cut->head)
		memmove(to, frames, cut->head * sizeof(*to));
	if (cut->tail)
		memmove(to + cut->head, frames + count - cut->tail, cut->tail * sizeof(*to));
	if (left < count) {
		*gap_count += count - left;
		*gap_frame = cut->head - 1;
	}
	return left;
}
