/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See spells.h. */
#include "render/wait/spells.h"

#include "base/bsearch.h"

#include <stdlib.h>

enum { MOST_MISSED = 1 << 24 /* between two ticks; a file may say anything */ };

/* ---- slots ---- */

/* Ticks lie on a grid from time 0 on; a late one lies in the slot in which it was taken. */
static uint64_t missed_between(const struct snap_recording *recording, int64_t before, int64_t next)
{
	int64_t slots = next / recording->period_ns - before / recording->period_ns;

	if (slots <= 1)
		return 0;
	return slots - 1 < MOST_MISSED ? (uint64_t)slots - 1 : MOST_MISSED;
}

/* Those up to the end of the run, where the current spell goes on until then. */
static uint64_t missed_at_end(const struct snap_recording *recording)
{
	size_t count = recording->tick_count;

	if (!count || recording->is_slice)
		return 0;
	/* Less than half of one is none. */
	return missed_between(recording, recording->ticks[count - 1].time_ns,
			      recording->stats.duration_ns + recording->period_ns / 2);
}

bool snap_spells_init(struct snap_spells *spells, const struct snap_recording *recording,
		      const bool *is_reported)
{
	size_t count = recording->tick_count;

	*spells = (struct snap_spells){ .recording = recording, .is_reported = is_reported };
	spells->slots = malloc((count + 1) * sizeof(*spells->slots));
	spells->gaps = malloc((count + 1) * sizeof(*spells->gaps));
	if (!spells->slots || !spells->gaps)
		return false;
	for (size_t i = 0; i < count; i++) {
		uint64_t missed = i ? missed_between(recording, recording->ticks[i - 1].time_ns,
						     recording->ticks[i].time_ns)
				    : 0;

		spells->slots[i] = i ? spells->slots[i - 1] + 1 + missed : 0;
		if (missed)
			spells->gaps[spells->gap_count++] = (uint32_t)i;
	}
	spells->last_slots = missed_at_end(recording);
	return true;
}

void snap_spells_deinit(struct snap_spells *spells)
{
	free(spells->slots);
	free(spells->gaps);
}

/* That were missed before a tick. */
static uint64_t missed_before(const struct snap_spells *spells, uint32_t tick)
{
	return tick ? spells->slots[tick] - spells->slots[tick - 1] - 1 : 0;
}

/* The first tick behind one before which some were missed; UINT32_MAX: none. */
static uint32_t next_gap(const struct snap_spells *spells, uint32_t tick)
{
	size_t at = snap_first_not(spells->gap_count, i, spells->gaps[i] <= tick);

	return at < spells->gap_count ? spells->gaps[at] : UINT32_MAX;
}

/* ---- a track ---- */

static bool is_spell_reported(const struct snap_spells *spells, const struct snap_run *run)
{
	return run->wait && run->wait <= spells->recording->wait_count &&
	       spells->is_reported[run->wait - 1];
}

/* It was seen to be there, and not what it does: it did not stop, or was not to be stopped. */
static bool is_unseen(const struct snap_spells *spells, const struct snap_run *run)
{
	const struct snap_recording *recording = spells->recording;

	return !run->wait && run->state != SNAP_STATE_RUNNING &&
	       run->stack < recording->stack_count &&
	       recording->stacks[run->stack].unwind == SNAP_UNWIND_NOT_STOPPED;
}

/* The run before or behind it, if there is no tick between them. */
static const struct snap_run *neighbour(const struct snap_spell_walk *walk, bool behind)
{
	const struct snap_run *run = &walk->track->runs[walk->run];

	if (behind)
		return walk->run + 1 < walk->track->run_count && run[1].first == run->last + 1
			       ? &run[1]
			       : NULL;
	return walk->run && run[-1].last + 1 == run->first ? &run[-1] : NULL;
}

/* At the tick before the current run. */
static bool waited_before(const struct snap_spell_walk *walk)
{
	const struct snap_run *before = neighbour(walk, false);

	return before && is_spell_reported(walk->spells, before);
}

void snap_spell_walk_init(struct snap_spell_walk *walk, const struct snap_spells *spells,
			  const struct snap_track *track)
{
	*walk = (struct snap_spell_walk){ .spells = spells, .track = track };
}

/* Whether its counters say that it ran, or that it did not; else that is not known. */
static bool knows(const struct snap_spell_walk *walk, uint32_t tick)
{
	return tick < walk->spells->recording->wakes_end;
}

/* The range of wakes that is not over at the current tick; NULL: none. */
static const struct snap_wake *wake_at(struct snap_spell_walk *walk)
{
	const struct snap_track *track = walk->track;

	while (walk->wake < track->wake_count && track->wakes[walk->wake].last < walk->tick)
		walk->wake++;
	return walk->wake < track->wake_count ? &track->wakes[walk->wake] : NULL;
}

/* What was missed between two runs is of a wait that both are of, if it did not run. */
static uint64_t begin_run(struct snap_spell_walk *walk, const struct snap_run *run)
{
	const struct snap_spells *spells = walk->spells;
	const struct snap_run *before = neighbour(walk, false);
	uint64_t missed = before ? missed_before(spells, run->first) : 0;
	const struct snap_wake *wake;

	walk->is_begun = true;
	walk->tick = run->first;
	wake = wake_at(walk);
	if (!missed || (!is_spell_reported(spells, before) && !is_spell_reported(spells, run)))
		return 0;
	if (before->wait == run->wait && knows(walk, run->first) &&
	    (!wake || wake->first > run->first))
		return missed;
	walk->lost += missed;
	return 0;
}

static void end_spell_run(struct snap_spell_walk *walk, const struct snap_run *run)
{
	const struct snap_spells *spells = walk->spells;
	const struct snap_run *before = neighbour(walk, false), *next = neighbour(walk, true);

	if (is_unseen(spells, run) && ((before && is_spell_reported(spells, before)) ||
				       (next && is_spell_reported(spells, next))))
		walk->lost += snap_run_samples(run);
	if (is_spell_reported(spells, run) &&
	    (size_t)run->last + 1 == spells->recording->tick_count)
		walk->lost += spells->last_slots;
	walk->is_begun = false;
	walk->run++;
}

/* The last tick of the spell that begins at the current tick. */
static uint32_t end_of_spell(struct snap_spell_walk *walk, const struct snap_run *run,
			     struct snap_spell *spell)
{
	const struct snap_wake *wake = wake_at(walk);
	bool is_wake = wake && wake->first <= walk->tick, is_known = knows(walk, walk->tick);
	uint32_t last = run->last, gap;

	spell->goes_on = !is_known || !is_wake;
	spell->is_broken = is_known && is_wake && wake->last > walk->tick;
	if (spell->is_broken) {
		/* Its last one begins a wait that may be long. */
		last = wake->last - 1 < last ? wake->last - 1 : last;
	} else if (is_known) {
		if (is_wake)
			wake = walk->wake + 1 < walk->track->wake_count ? wake + 1 : NULL;
		if (wake && wake->first - 1 < last)
			last = wake->first - 1;
	}
	if (is_known && walk->spells->recording->wakes_end - 1 < last)
		last = (uint32_t)walk->spells->recording->wakes_end - 1;
	/* Where it may have run between any two ticks what was missed is lost. */
	gap = is_known && !spell->is_broken ? UINT32_MAX : next_gap(walk->spells, walk->tick);
	return gap != UINT32_MAX && gap - 1 < last ? gap - 1 : last;
}

bool snap_spell_walk_next(struct snap_spell_walk *walk, struct snap_spell *spell)
{
	const struct snap_spells *spells = walk->spells;

	while (walk->run < walk->track->run_count) {
		const struct snap_run *run = &walk->track->runs[walk->run];
		uint64_t filled = 0;

		if (!walk->is_begun)
			filled = begin_run(walk, run);
		else if (is_spell_reported(spells, run) && walk->tick <= run->last)
			walk->lost += missed_before(spells, walk->tick);
		if (!is_spell_reported(spells, run) || walk->tick > run->last) {
			end_spell_run(walk, run);
			continue;
		}
		*spell = (struct snap_spell){ .wait = run->wait - 1, .first = walk->tick };
		spell->last = end_of_spell(walk, run, spell);
		spell->begin = spells->slots[spell->first] - filled;
		spell->end = spells->slots[spell->last] + 1;
		if (spell->first == run->first && !waited_before(walk))
			spell->goes_on = false;
		walk->tick = spell->last + 1;
		return true;
	}
	return false;
}
