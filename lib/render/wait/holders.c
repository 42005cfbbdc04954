/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See holders.h. */
#include "render/wait/holders.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <string.h>

/*
 * In a forged file a thread may hold a million locks, and each of them asks for all of its runs:
 * beyond so many the holder of a lock is named, but not the function in which it stood.
 */
enum { MOST_STEPS = 1 << 26 };

/*
 * A thousand threads that wait for one lock whose owner changes at each tick: formats that have a
 * sample or a mark for each get so many changes, and then none.
 */
enum { MOST_PIECES = 1 << 22 };

struct stacksnap_error *snap_holders_init(struct snap_holders *holders,
					  const struct snap_recording *recording)
{
	*holders = (struct snap_holders){ .recording = recording,
					  .steps = MOST_STEPS,
					  .pieces = MOST_PIECES };
	snap_arena_init(&holders->arena);
	snap_interner_init(&holders->names, &holders->arena);
	holders->functions = calloc(recording->stack_count + 1, sizeof(*holders->functions));
	holders->looked_at = calloc(recording->stack_count + 1, sizeof(*holders->looked_at));
	holders->lists = calloc(recording->wait_count + 1, sizeof(*holders->lists));
	return snap_no_memory_unless(holders->functions && holders->looked_at && holders->lists);
}

void snap_holders_deinit(struct snap_holders *holders)
{
	free(holders->functions);
	free(holders->looked_at);
	free(holders->lists);
	snap_interner_deinit(&holders->names);
	snap_arena_deinit(&holders->arena);
}

/* ---- where a thread stands ---- */

const char *snap_holder_function(const struct snap_frame *const *frames, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct snap_frame *frame = frames[i];

		for (size_t k = 0; k < frame->entry_count; k++) {
			const struct snap_entry *entry = &frame->entries[k];

			if (entry->function && !entry->system && !entry->kernel)
				return entry->function;
		}
	}
	return NULL;
}

/* False without memory. */
static bool find_holder_function(struct snap_holders *holders, uint32_t stack, const char **ret)
{
	if (!holders->looked_at[stack]) {
		const struct snap_recorded_stack *of = &holders->recording->stacks[stack];
		const char *function = snap_holder_function(of->frames, of->frame_count);

		if (function) {
			function = snap_intern(&holders->names, function, strlen(function));
			if (!function)
				return false;
		}
		holders->functions[stack] = function;
		holders->looked_at[stack] = true;
	}
	*ret = holders->functions[stack];
	return true;
}

/* ---- the holder ---- */

struct list {
	struct snap_holder_span *items;
	size_t count, capacity;
};

SNAP_FREES(list_deinit, struct list, items);

static bool add_held(struct list *list, const struct snap_holder_span *held)
{
	struct snap_holder_span *before = list->count ? &list->items[list->count - 1] : NULL;

	if (before && before->last + 1 == held->first && before->track == held->track &&
	    before->tid == held->tid && before->lack == held->lack &&
	    before->function == held->function) {
		before->last = held->last;
		return true;
	}
	return snap_append(list->items, list->count, list->capacity, *held);
}

/* The first run of a track that is not over at a tick; run_count: none. */
static size_t first_run(const struct snap_track *track, uint32_t tick)
{
	return snap_first_not(track->run_count, i, track->runs[i].last < tick);
}

/* What the thread did from tick `first` to tick `last`, in which it had it. */
static bool add_holder_track(struct snap_holders *holders, struct list *list, size_t number,
			     uint32_t first, uint32_t last, bool is_process)
{
	const struct snap_track *track = &holders->recording->tracks[number];
	struct snap_holder_span held = {
		.first = first, .last = last, .track = number, .tid = track->tid
	};

	/* Which of several threads has to act is not known, nor where it stood. */
	if (is_process) {
		held.last = last;
		return add_held(list, &held);
	}
	for (size_t i = first_run(track, first);
	     i < track->run_count && track->runs[i].first <= last && holders->steps; i++) {
		const struct snap_run *run = &track->runs[i];

		holders->steps--;
		held.function = NULL;
		held.last = run->first - 1;
		if (run->first > held.first && !add_held(list, &held))
			return false;
		held.first = run->first > held.first ? run->first : held.first;
		held.last = run->last < last ? run->last : last;
		if (!find_holder_function(holders, run->stack, &held.function) ||
		    !add_held(list, &held))
			return false;
		if (held.last == last)
			return true;
		held.first = held.last + 1;
	}
	held.last = last;
	held.function = NULL;
	return add_held(list, &held);
}

/* Whether the owner is known, and can never release it. */
static bool is_lost(enum snap_owner_lack lack)
{
	return lack == SNAP_OWNER_EXITED || lack == SNAP_OWNER_AT_FORK || lack == SNAP_OWNER_DIED;
}

static bool make_list(struct snap_holders *holders, const struct snap_recorded_wait *wait,
		      struct list *list)
{
	uint32_t next = 0;

	for (size_t i = 0; i < wait->owner_count; i++) {
		const struct snap_owner_span *hold = &wait->owners[i];
		bool fine = true;

		if (hold->first < next || hold->last < hold->first || hold->last == UINT32_MAX)
			continue;
		next = hold->last + 1;
		if (hold->lack == SNAP_OWNER_KNOWN && hold->track < holders->recording->track_count)
			fine = add_holder_track(holders, list, hold->track, hold->first, hold->last,
						hold->is_process);
		else if (hold->tid && (hold->lack == SNAP_OWNER_KNOWN || is_lost(hold->lack)))
			fine = add_held(list, &(struct snap_holder_span){ .first = hold->first,
									  .last = hold->last,
									  .track = SIZE_MAX,
									  .tid = hold->tid,
									  .lack = hold->lack });
		if (!fine)
			return false;
	}
	return true;
}

const struct snap_holder_spans *snap_holders_of(struct snap_holders *holders, size_t wait)
{
	struct snap_holder_spans *result = &holders->lists[wait];
	_cleanup_(list_deinit) struct list list = { .count = 0 };

	if (result->items)
		return result;
	if (!make_list(holders, &holders->recording->waits[wait], &list))
		return NULL;
	result->items = list.count ? snap_arena_memdup(&holders->arena, list.items,
						       list.count * sizeof(*list.items))
				   : snap_arena_new(&holders->arena, struct snap_holder_span);
	result->count = list.count;
	return result->items ? result : NULL;
}

/* ---- of a run ---- */

/* The first one that is not over at a tick. */
static size_t first_held(const struct snap_holder_spans *list, uint32_t tick)
{
	return snap_first_not(list->count, i, list->items[i].last < tick);
}

const struct snap_holder_span *snap_holders_at(struct snap_holders *holders, size_t wait,
					       uint32_t tick)
{
	const struct snap_holder_spans *list = snap_holders_of(holders, wait);
	size_t at = list ? first_held(list, tick) : 0;

	return list && at < list->count && list->items[at].first <= tick ? &list->items[at] : NULL;
}

void snap_wait_pieces_init(struct snap_wait_pieces *pieces, struct snap_holders *holders,
			   const struct snap_run *run)
{
	*pieces = (struct snap_wait_pieces){ .holders = holders, .run = run, .tick = run->first };
	pieces->list = snap_holders_of(holders, run->wait - 1);
	pieces->failed = !pieces->list;
	pieces->at = pieces->list ? first_held(pieces->list, run->first) : 0;
}

bool snap_wait_pieces_next(struct snap_wait_pieces *pieces, struct snap_wait_piece *piece)
{
	const struct snap_holder_span *held = NULL;
	size_t *left = &pieces->holders->pieces;

	if (pieces->failed || pieces->over)
		return false;
	*piece = (struct snap_wait_piece){ .first = pieces->tick, .last = pieces->run->last };
	if (*left && pieces->at < pieces->list->count)
		held = &pieces->list->items[pieces->at];
	if (held && held->first > pieces->run->last)
		held = NULL;
	*left -= held != NULL;
	if (held && held->first > pieces->tick) {
		piece->last = held->first - 1;
	} else if (held) {
		piece->held = held;
		piece->last = held->last < piece->last ? held->last : piece->last;
		pieces->at++;
	}
	pieces->over = piece->last == pieces->run->last;
	pieces->tick = piece->last + 1;
	return true;
}
