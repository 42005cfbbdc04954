/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See shares.h. */
#include "render/wait/shares.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/escape.h"

#include <string.h>

/* Walks stretches of one wait: how many threads wait in each slot. */
struct sweep {
	const uint64_t *begins, *ends; /* sorted */
	size_t count, begin, end;
	uint64_t active, sum, at;
};

/* Up to slot `until`, without it. */
static void sweep_to(struct sweep *sweep, uint64_t until)
{
	while (sweep->at < until) {
		uint64_t next = until;

		while (sweep->begin < sweep->count && sweep->begins[sweep->begin] <= sweep->at) {
			sweep->begin++;
			sweep->active++;
		}
		while (sweep->end < sweep->count && sweep->ends[sweep->end] <= sweep->at) {
			sweep->end++;
			sweep->active--;
		}
		if (sweep->begin < sweep->count && sweep->begins[sweep->begin] < next)
			next = sweep->begins[sweep->begin];
		if (sweep->end < sweep->count && sweep->ends[sweep->end] < next)
			next = sweep->ends[sweep->end];
		sweep->sum += sweep->active * (next - sweep->at);
		sweep->at = next;
	}
}

void snap_shares_deinit(struct snap_shares *shares)
{
	free(shares->items);
}

SNAP_ORDER(by_number, uint64_t, a, b, snap_compare(*a, *b));

static bool add_share(struct snap_shares *shares, const struct snap_holder_span *held,
		      uint64_t slots)
{
	if (!slots)
		return true;
	return snap_append(shares->items, shares->count, shares->capacity,
			   (struct snap_share){ .function = held->function,
						.lack = held->lack,
						.track = held->track,
						.tid = held->tid,
						.slots = slots });
}

/* The slot behind a tick; a file may hold any. */
static uint64_t slot_behind(const struct snap_spells *spells, uint32_t tick)
{
	size_t count = spells->recording->tick_count;

	return spells->slots[tick < count ? tick : count - 1] + 1;
}

bool snap_shares_add(struct snap_shares *shares, const struct snap_spells *spells,
		     const struct snap_holder_spans *held,
		     const struct snap_waited_stretch *stretches, size_t count)
{
	_cleanup_free_ uint64_t *slots = malloc((2 * count + 1) * sizeof(*slots));
	struct sweep sweep = { .begins = slots, .ends = slots + count, .count = count };

	if (!slots)
		return false;
	for (size_t i = 0; i < count; i++) {
		slots[i] = stretches[i].begin;
		slots[count + i] = stretches[i].end;
	}
	qsort(slots, count, sizeof(*slots), by_number);
	qsort(slots + count, count, sizeof(*slots), by_number);
	for (size_t i = 0; i < held->count; i++) {
		uint64_t before;

		if (held->items[i].first >= spells->recording->tick_count)
			break;
		sweep_to(&sweep, spells->slots[held->items[i].first]);
		before = sweep.sum;
		sweep_to(&sweep, slot_behind(spells, held->items[i].last));
		if (!add_share(shares, &held->items[i], sweep.sum - before))
			return false;
	}
	return true;
}

static int compare_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

SNAP_ORDER(by_function, struct snap_share, a, b, compare_text(a->function, b->function),
	   snap_compare(a->lack, b->lack), snap_compare(a->track, b->track),
	   snap_compare(a->tid, b->tid));

SNAP_ORDER(by_time, struct snap_waited_holder, a, b, snap_compare(b->slots, a->slots),
	   compare_text(a->function, b->function), (int)a->lack - (int)b->lack);

/* Shares of one thread in one function become one. */
static void merge_shares(struct snap_shares *shares)
{
	size_t count = 0;

	if (shares->count)
		qsort(shares->items, shares->count, sizeof(*shares->items), by_function);
	for (size_t i = 0; i < shares->count; i++) {
		if (count && by_function(&shares->items[count - 1], &shares->items[i]) == 0)
			shares->items[count - 1].slots += shares->items[i].slots;
		else
			shares->items[count++] = shares->items[i];
	}
	shares->count = count;
}

/* The holder of shares from one on that are of one function; where those of the next one begin. */
static size_t make_holder(const struct snap_recording *recording, const struct snap_shares *shares,
			  size_t begin, struct snap_waited_holder *holder)
{
	const struct snap_share *most = &shares->items[begin];
	size_t end = begin;

	*holder = (struct snap_waited_holder){ .function = most->function, .lack = most->lack };
	for (; end < shares->count && shares->items[end].function == holder->function &&
	       shares->items[end].lack == holder->lack;
	     end++) {
		const struct snap_share *share = &shares->items[end];

		holder->threads++;
		holder->slots += share->slots;
		most = share->slots > most->slots ? share : most;
	}
	holder->tid = most->tid;
	if (most->track != SIZE_MAX) {
		const struct snap_track *track = &recording->tracks[most->track];

		holder->name = track->name;
		holder->pid = recording->processes[track->process].node->pid;
	}
	return end;
}

int64_t snap_waited_ns(const struct snap_recording *recording, uint64_t slots)
{
	int64_t ns;

	/* A file may hold any. */
	if (__builtin_mul_overflow(slots, snap_recording_weight(recording), &ns))
		ns = INT64_MAX;
	return ns;
}

/* Names of kilobytes say no more than their beginning; NULL without memory. */
static const char *copy_function(struct snap_arena *arena, const char *function)
{
	enum { LONGEST = 1000 };
	size_t length = strlen(function);

	if (length <= LONGEST)
		return snap_arena_strdup(arena, function);
	return snap_arena_printf(arena, "%.*s...", (int)snap_text_cut(function, length, LONGEST),
				 function);
}

bool snap_shares_list(struct snap_shares *shares, const struct snap_recording *recording,
		      struct snap_arena *arena, size_t most, struct snap_waited_row *row)
{
	_cleanup_free_ struct snap_waited_holder *all = calloc(shares->count + 1, sizeof(*all));
	uint64_t others = 0, known = 0;

	if (!all)
		return false;
	merge_shares(shares);
	for (size_t i = 0; i < shares->count; row->holder_total++)
		i = make_holder(recording, shares, i, &all[row->holder_total]);
	qsort(all, row->holder_total, sizeof(*all), by_time);
	row->holder_count = row->holder_total < most ? row->holder_total : most;
	for (size_t i = 0; i < row->holder_total; i++) {
		all[i].ns = snap_waited_ns(recording, all[i].slots);
		known += all[i].slots;
		others += i < row->holder_count ? 0 : all[i].slots;
		if (i < row->holder_count && all[i].function)
			all[i].function = copy_function(arena, all[i].function);
	}
	row->other_ns = snap_waited_ns(recording, others);
	row->unknown_ns = snap_waited_ns(recording, known < row->slots ? row->slots - known : 0);
	row->holders = snap_arena_memdup(arena, all, (row->holder_count + 1) * sizeof(*all));
	return row->holders;
}
