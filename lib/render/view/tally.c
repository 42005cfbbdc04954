/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Samples added up in a table of open addressing, at most half full: see tally.h. */
#include "render/view/tally.h"

#include "render/view/pointer_map.h"

#include <string.h>

enum { FIRST_SLOTS = 1024, MAX_ROWS = 1 << 30 };

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0xff51afd7ed558ccdull;
	return hash ^ hash >> 32;
}

static uint64_t row_hash(const struct snap_tally_row *row)
{
	uint64_t hash = mix(row->process, (uint64_t)row->stack << 32 | (uint32_t)row->tid);

	hash = mix(hash, (uintptr_t)row->name);
	hash = mix(hash, (uintptr_t)row->syscall ^ (uint64_t)row->state << 56);
	return mix(hash, (uintptr_t)row->wchan);
}

static bool same_row(const struct snap_tally_row *a, const struct snap_tally_row *b)
{
	return a->stack == b->stack && a->process == b->process && a->tid == b->tid &&
	       a->name == b->name && a->state == b->state && a->syscall == b->syscall &&
	       a->wchan == b->wchan;
}

/* The slot of an equal row, or a free one. */
static uint32_t *find(struct snap_tally *tally, const struct snap_tally_row *row)
{
	size_t k = row_hash(row) & (tally->slot_count - 1);

	while (tally->slots[k] && !same_row(&tally->rows[tally->slots[k] - 1], row))
		k = (k + 1) & (tally->slot_count - 1);
	return &tally->slots[k];
}

static bool rehash(struct snap_tally *tally)
{
	size_t slot_count = tally->slot_count ? tally->slot_count * 2 : FIRST_SLOTS;
	uint32_t *slots = calloc(slot_count, sizeof(*slots));

	if (!slots)
		return false;
	free(tally->slots);
	tally->slots = slots;
	tally->slot_count = slot_count;
	for (size_t i = 0; i < tally->count; i++)
		*find(tally, &tally->rows[i]) = (uint32_t)(i + 1);
	return true;
}

static bool add(struct snap_tally *tally, const struct snap_tally_row *row)
{
	uint32_t *slot;

	if (tally->count * 2 >= tally->slot_count && !rehash(tally))
		return false;
	slot = find(tally, row);
	if (*slot) {
		tally->rows[*slot - 1].count += row->count;
		return true;
	}
	if (tally->count == MAX_ROWS ||
	    !snap_grow_array(tally->rows, tally->capacity, tally->count))
		return false;
	tally->rows[tally->count++] = *row;
	*slot = (uint32_t)tally->count;
	return true;
}

/* The one pointer of a text; `seen` remembers what pointers of the recording have become. */
static bool unify(struct snap_tally *tally, struct snap_pointer_map *seen, const char *text,
		  const char **ret)
{
	void **slot;

	*ret = NULL;
	if (!text)
		return true;
	slot = snap_pointer_map_slot(seen, text);
	if (!slot)
		return false;
	if (!*slot)
		*slot = (void *)(uintptr_t)snap_intern(&tally->texts, text, strlen(text));
	*ret = *slot;
	return *ret != NULL;
}

static bool add_track(struct snap_tally *tally, struct snap_pointer_map *seen,
		      const struct snap_track *track, unsigned by)
{
	struct snap_tally_row row = {
		.process = track->process,
		.tid = by & SNAP_TALLY_TID ? track->tid : 0,
	};

	if (!unify(tally, seen, track->name, &row.name))
		return false;
	for (size_t i = 0; i < track->run_count; i++) {
		const struct snap_run *run = &track->runs[i];

		row.stack = run->stack;
		row.count = snap_run_samples(run);
		if (by & SNAP_TALLY_WAIT) {
			row.state = run->state;
			if (!unify(tally, seen, run->syscall, &row.syscall) ||
			    !unify(tally, seen, run->wchan, &row.wchan))
				return false;
		}
		if (!add(tally, &row))
			return false;
	}
	return true;
}

static void forget(struct snap_pointer_map *seen)
{
	snap_pointer_map_clear(seen, NULL);
}

struct snap_error *snap_tally_init(struct snap_tally *tally, const struct snap_recording *recording,
				   unsigned by)
{
	_cleanup_(forget) struct snap_pointer_map seen = { 0 };

	*tally = (struct snap_tally){ 0 };
	snap_arena_init(&tally->arena);
	snap_interner_init(&tally->texts, &tally->arena);
	for (size_t i = 0; i < recording->track_count; i++)
		if (!add_track(tally, &seen, &recording->tracks[i], by))
			return snap_error_no_memory();
	return NULL;
}

void snap_tally_deinit(struct snap_tally *tally)
{
	free(tally->rows);
	free(tally->slots);
	snap_interner_deinit(&tally->texts);
	snap_arena_deinit(&tally->arena);
}
