/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See marks.h. */
#include "render/wait/marks.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <string.h>

enum {
	MOST_BYTES = 64 << 20,
	MARK_BYTES = 200, /* of a mark, without its texts */
};

static const char cut_text[] = "(further waits are left out for the size of the report)";

struct stacksnap_error *snap_wait_marks_init(struct snap_wait_marks *marks,
					     const struct snap_recording *recording,
					     const struct snap_options *options)
{
	struct stacksnap_error *err;

	*marks = (struct snap_wait_marks){ .recording = recording,
					   .options = options,
					   .bytes = MOST_BYTES };
	err = snap_holders_init(&marks->holders, recording);
	snap_interner_init(&marks->texts, &marks->holders.arena);
	return err ? err : snap_timeline_init(&marks->timeline, recording);
}

void snap_wait_marks_deinit(struct snap_wait_marks *marks)
{
	snap_interner_deinit(&marks->texts);
	snap_pointer_table_deinit(&marks->objects);
	snap_timeline_deinit(&marks->timeline);
	snap_holders_deinit(&marks->holders);
	free(marks->items);
}

/* The number of the first gap at or after a tick. */
static size_t first_gap(const struct snap_timeline *timeline, uint32_t tick)
{
	return snap_first_not(timeline->gap_count, i, timeline->gaps[i] < tick);
}

/* Ticks were missed after this one. */
static bool gap_after(const struct snap_timeline *timeline, uint32_t tick)
{
	size_t gap = first_gap(timeline, tick);

	return gap < timeline->gap_count && timeline->gaps[gap] == tick;
}

/* NULL in *ret: what a run waits for has no name, or is not to be shown. False without memory. */
static bool find_mark_object(struct snap_wait_marks *marks, const struct snap_run *run,
			     const char **ret)
{
	const struct snap_recording *recording = marks->recording;
	const struct snap_wait *wait;
	struct snap_pointer_entry *found;
	_cleanup_free_ char *object = NULL;

	*ret = NULL;
	if (!run->wait || run->wait > recording->wait_count ||
	    marks->options->explain == SNAP_EXPLAIN_NO)
		return true;
	wait = recording->waits[run->wait - 1].wait;
	if (!snap_wait_is_shown(wait, marks->options->explain == SNAP_EXPLAIN_ALL))
		return true;
	found = snap_pointer_table_get(&marks->objects, wait);
	if (found && !found->pointer) {
		object = snap_wait_object(wait);
		found->pointer = object ? (void *)(uintptr_t)snap_intern(&marks->texts, object,
									 strlen(object))
					: NULL;
	}
	if (!found || !found->pointer)
		return false;
	*ret = *(const char *)found->pointer ? found->pointer : NULL;
	return true;
}

static bool same_holder(const struct snap_wait_mark *a, const struct snap_wait_mark *b)
{
	if (a->has_holder != b->has_holder)
		return false;
	return !a->has_holder ||
	       (a->holder.track == b->holder.track && a->holder.tid == b->holder.tid &&
		a->holder.lack == b->holder.lack && a->holder.function == b->holder.function);
}

static size_t bytes_of(const struct snap_wait_mark *mark)
{
	const char *function = mark->has_holder ? mark->holder.function : NULL;

	return MARK_BYTES + strlen(mark->object) + (function ? strlen(function) : 0) +
	       (mark->holder_name ? strlen(mark->holder_name) : 0);
}

/* Without effect beyond the limit, but for one that says so. */
static bool add_mark(struct snap_wait_marks *marks, struct snap_wait_mark mark)
{
	const struct snap_recording *recording = marks->recording;
	struct snap_wait_mark *before = marks->count ? &marks->items[marks->count - 1] : NULL;

	if (before && before->last + 1 == mark.first &&
	    !gap_after(&marks->timeline, before->last) && before->object == mark.object &&
	    same_holder(before, &mark)) {
		before->last = mark.last;
		return true;
	}
	if (marks->reported)
		return true;
	if (mark.has_holder && mark.holder.track < recording->track_count)
		mark.holder_name = recording->tracks[mark.holder.track].name;
	if (bytes_of(&mark) > marks->bytes) {
		marks->reported = true;
		mark = (struct snap_wait_mark){ mark.first, mark.last, .object = cut_text };
	} else {
		marks->bytes -= bytes_of(&mark);
	}
	return snap_append(marks->items, marks->count, marks->capacity, mark);
}

/* From tick to tick without a gap. */
static bool add_parts(struct snap_wait_marks *marks, struct snap_wait_mark mark)
{
	const struct snap_timeline *timeline = &marks->timeline;
	uint32_t last = mark.last;

	for (size_t i = first_gap(timeline, mark.first);
	     i < timeline->gap_count && timeline->gaps[i] < last; i++) {
		mark.last = timeline->gaps[i];
		if (!add_mark(marks, mark))
			return false;
		mark.first = mark.last + 1;
	}
	mark.last = last;
	return add_mark(marks, mark);
}

static bool add_mark_run(struct snap_wait_marks *marks, const struct snap_run *run)
{
	struct snap_wait_pieces pieces;
	struct snap_wait_piece piece;
	const char *object;

	if (!find_mark_object(marks, run, &object))
		return false;
	if (!object)
		return true;
	snap_wait_pieces_init(&pieces, &marks->holders, run);
	while (snap_wait_pieces_next(&pieces, &piece)) {
		struct snap_wait_mark mark = { piece.first, piece.last, .object = object };

		mark.has_holder = piece.held != NULL;
		if (piece.held)
			mark.holder = *piece.held;
		if (!add_parts(marks, mark))
			return false;
	}
	return !pieces.failed;
}

bool snap_wait_marks_make(struct snap_wait_marks *marks, const struct snap_track *track)
{
	marks->count = 0;
	return snap_all(track->run_count, i, add_mark_run(marks, &track->runs[i]));
}
