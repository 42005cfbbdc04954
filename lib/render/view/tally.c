/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Samples added up: see tally.h. */
#include "render/view/tally.h"

#include "base/buffer.h"

#include <string.h>

static uint64_t row_hash(const struct snap_tally_row *row)
{
	uint64_t hash =
		snap_hash_add(row->process, (uint64_t)row->stack << 32 | (uint32_t)row->tid);

	hash = snap_hash_add(hash, (uintptr_t)row->name ^ (uintptr_t)row->task);
	hash = snap_hash_add(hash, (uintptr_t)row->syscall ^ (uint64_t)row->state << 56);
	return snap_hash_add(hash, (uintptr_t)row->wchan ^ (uintptr_t)row->object << 1);
}

static bool same_row(const struct snap_tally_row *a, const struct snap_tally_row *b)
{
	return a->stack == b->stack && a->process == b->process && a->tid == b->tid &&
	       a->name == b->name && a->state == b->state && a->syscall == b->syscall &&
	       a->wchan == b->wchan && a->object == b->object && a->task == b->task;
}

static bool add_row(struct snap_tally *tally, const struct snap_tally_row *row)
{
	uint64_t hash = row_hash(row);
	struct snap_probe probe = snap_hash_table_probe(&tally->table, hash);

	while (snap_probe_next(&probe))
		if (same_row(&tally->rows[probe.number], row)) {
			tally->rows[probe.number].count += row->count;
			return true;
		}
	if (!snap_reserve_array(tally->rows, tally->capacity, tally->count + 1) ||
	    !snap_hash_table_add(&tally->table, hash, tally->count))
		return false;
	tally->rows[tally->count++] = *row;
	return true;
}

/* The one pointer of a text; `seen` maps pointers of the recording to it. */
static bool unify(struct snap_tally *tally, struct snap_pointer_table *seen, const char *text,
		  const char **ret)
{
	struct snap_pointer_entry *found;

	*ret = NULL;
	if (!text)
		return true;
	found = snap_pointer_table_get(seen, text);
	if (!found)
		return false;
	if (!found->pointer)
		found->pointer = (void *)(uintptr_t)snap_intern(&tally->texts, text, strlen(text));
	*ret = found->pointer;
	return *ret != NULL;
}

/* "mutex ledger_lock"; false without memory. */
static bool find_object(struct snap_tally *tally, const struct snap_track *track, unsigned by,
			const char **ret)
{
	_cleanup_free_ char *object = NULL;

	*ret = NULL;
	if (!(by & SNAP_TALLY_OBJECT) || !snap_wait_is_shown(track->wait, by & SNAP_TALLY_GUESS))
		return true;
	object = snap_wait_object(track->wait);
	if (object && *object)
		*ret = snap_intern(&tally->texts, object, strlen(object));
	return object && (!*object || *ret);
}

static bool add_track(struct snap_tally *tally, struct snap_pointer_table *seen,
		      const struct snap_track *track, unsigned by)
{
	struct snap_tally_row row = {
		.process = track->process,
		.tid = by & SNAP_TALLY_TID ? track->tid : 0,
		.task = by & (SNAP_TALLY_TID | SNAP_TALLY_TASK) && track->task ? track : NULL,
	};

	if (!unify(tally, seen, track->name, &row.name) ||
	    !find_object(tally, track, by, &row.object))
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
		if (!add_row(tally, &row))
			return false;
	}
	return true;
}

struct stacksnap_error *snap_tally_init(struct snap_tally *tally,
					const struct snap_recording *recording, unsigned by)
{
	_cleanup_(snap_pointer_table_deinit) struct snap_pointer_table seen = { 0 };

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
	snap_hash_table_deinit(&tally->table);
	snap_interner_deinit(&tally->texts);
	snap_arena_deinit(&tally->arena);
}
