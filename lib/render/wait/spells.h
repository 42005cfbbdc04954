/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Spells: for how long a thread of a recording waited for one thing, also over ticks that were missed.
 *
 * Time is counted in slots, of a period each: a tick is the sample of its own one, and those between
 * two ticks were missed. What a thread did then is known where it waited for the same before and
 * behind, and its counters say that it did not run: it waited on. Else it is unknown, and the slots
 * are lost. Knows no holders and no format.
 */
#pragma once

#include "model/recording.h"

struct snap_spells {
	const struct snap_recording *recording;
	const bool *is_reported; /* of each wait; borrowed */
	uint64_t *slots;         /* of each tick */
	uint32_t *gaps;          /* ticks before which some were missed */
	size_t gap_count;
	uint64_t last_slots; /* that were missed behind the last tick */
};

/* False without memory; released by snap_spells_deinit() in any case. */
bool snap_spells_init(struct snap_spells *spells, const struct snap_recording *recording,
		      const bool *is_reported) _must_check_;
void snap_spells_deinit(struct snap_spells *spells);

/* Samples of one run, without an end of the wait between them unless it `is_broken`. */
struct snap_spell {
	size_t wait; /* index in waits */
	uint32_t first, last;
	uint64_t begin, end; /* slots, those that were missed among them */
	bool goes_on;        /* with what the one before was, as far as is known */
	bool is_broken;      /* each of its samples is of another wait */
};

/* Walks the spells of a track, in order. */
struct snap_spell_walk {
	const struct snap_spells *spells;
	const struct snap_track *track;
	size_t run, wake;
	bool is_begun; /* the current run */
	uint32_t tick; /* that comes next, in it */
	uint64_t lost; /* so far: slots of which it is not known whether it waited */
};

void snap_spell_walk_init(struct snap_spell_walk *walk, const struct snap_spells *spells,
			  const struct snap_track *track);
/* False: there are no more, and `lost` is known. */
bool snap_spell_walk_next(struct snap_spell_walk *walk, struct snap_spell *spell);
