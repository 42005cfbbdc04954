/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where the pcs of a thread go: head and tail around a gap, see internal.h. */
#include "analyze/unwind/internal.h"
#include "base/buffer.h"

#include <string.h>

/*
 * A copy that is not whole has no tail: its last frames are somewhere in the middle. Then, as with
 * one frame, the first ones are kept and the stack ends there.
 */
void snap_sink_begin(struct snap_sink *sink, size_t max_frames, bool is_whole, uint64_t ceiling)
{
	sink->total = 0;
	sink->ceiling = ceiling;
	sink->is_cut = sink->no_memory = false;
	sink->tail = 0;
	sink->head = max_frames ? max_frames : SIZE_MAX;
	if (max_frames > 1 && is_whole)
		sink->tail = max_frames / 2;
}

/* The place for pc number `total`: the first `head` in order, then a ring of `tail`. */
static size_t slot_of_next(const struct snap_sink *sink)
{
	if (sink->total < sink->head)
		return sink->total;
	return sink->head + (sink->total - sink->head) % sink->tail;
}

bool snap_sink_add(struct snap_sink *sink, struct snap_pc pc)
{
	size_t at;

	if (sink->total >= sink->ceiling || (sink->total >= sink->head && sink->tail == 0)) {
		sink->is_cut = true;
		return false;
	}
	at = slot_of_next(sink);
	if (at >= sink->capacity &&
	    !snap_reserve_array(sink->pcs, sink->capacity, sink->capacity + 1)) {
		sink->is_cut = sink->no_memory = true;
		return false;
	}
	sink->pcs[at] = pc;
	sink->total++;
	return true;
}

void snap_sink_mark_exact(struct snap_sink *sink)
{
	struct snap_pc *last;

	if (sink->total == 0)
		return;
	sink->total--;
	last = &sink->pcs[slot_of_next(sink)];
	sink->total++;
	last->bits |= SNAP_PC_EXACT;
}

static void reverse_pcs(struct snap_pc *pcs, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		struct snap_pc kept = pcs[i];

		pcs[i] = pcs[count - 1 - i];
		pcs[count - 1 - i] = kept;
	}
}

static void rotate_pcs(struct snap_pc *pcs, size_t count, size_t first)
{
	reverse_pcs(pcs, first);
	reverse_pcs(pcs + first, count - first);
	reverse_pcs(pcs, count);
}

/*
 * `head` places were filled so that a stack of exactly max_frames needs no gap. With one, the last
 * of them give way to the tail.
 */
void snap_sink_end(struct snap_sink *sink, struct snap_pcs *ret)
{
	uint64_t beyond = sink->total > sink->head ? sink->total - sink->head : 0;
	size_t kept = sink->head - sink->tail, missing;

	ret->pcs = sink->pcs;
	ret->count = beyond ? sink->head : sink->total;
	ret->gap_after = 0;
	ret->gap_count = 0;
	if (!beyond)
		return;
	/* The tail: what is still missing of it after the ring was not filled is in the head. */
	missing = beyond < sink->tail ? sink->tail - beyond : 0;
	if (!missing)
		rotate_pcs(sink->pcs + sink->head, sink->tail, beyond % sink->tail);
	memmove(sink->pcs + kept, sink->pcs + sink->head - missing, sink->tail * sizeof(*ret->pcs));
	ret->gap_after = kept - 1;
	ret->gap_count = beyond;
}
