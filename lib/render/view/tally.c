/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Samples added up: see tally.h. */
#include "render/view/tally.h"

#include "base/buffer.h"
#include "render/wait/holders.h"

#include <string.h>

static uint64_t row_hash(const struct snap_tally_row *row)
{
	uint64_t hash =
		snap_hash_add(row->process, (uint64_t)row->stack << 32 | (uint32_t)row->tid);

	hash = snap_hash_add(hash, (uintptr_t)row->name ^ (uintptr_t)row->task);
	hash = snap_hash_add(hash, (uintptr_t)row->syscall ^ (uint64_t)row->state << 56);
	hash = snap_hash_add(hash, (uintptr_t)row->wchan ^ (uintptr_t)row->object << 1);
	return snap_hash_add(hash, (uintptr_t)row->holder);
}

static bool same_row(const struct snap_tally_row *a, const struct snap_tally_row *b)
{
	return a->stack == b->stack && a->process == b->process && a->tid == b->tid &&
	       a->name == b->name && a->state == b->state && a->syscall == b->syscall &&
	       a->wchan == b->wchan && a->object == b->object && a->holder == b->holder &&
	       a->task == b->task;
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

/* A file may have millions of objects: those beyond so many bytes of texts are one. */
enum { MOST_OBJECT_BYTES = 16 << 20 };

/* "mutex ledger_lock"; false without memory. */
static bool find_tally_object(struct snap_tally *tally, const struct snap_wait *wait, unsigned by,
			      const char **ret)
{
	_cleanup_free_ char *object = NULL;
	const char *text;

	*ret = NULL;
	if (!(by & SNAP_TALLY_OBJECT) || !snap_wait_is_shown(wait, by & SNAP_TALLY_GUESS))
		return true;
	object = snap_wait_object(wait);
	if (!object || !*object)
		return object;
	text = tally->object_bytes > MOST_OBJECT_BYTES ? "(others)" : object;
	tally->object_bytes += strlen(text);
	*ret = snap_intern(&tally->texts, text, strlen(text));
	return *ret;
}

/* What is made once for all tracks. */
struct adder {
	struct snap_tally *tally;
	const struct snap_recording *recording;
	unsigned by;
	struct snap_pointer_table seen;    /* texts of the recording */
	struct snap_pointer_table objects; /* waits of the recording */
	struct snap_holders holders;
};

static void adder_deinit(struct adder *adder)
{
	snap_pointer_table_deinit(&adder->seen);
	snap_pointer_table_deinit(&adder->objects);
	snap_holders_deinit(&adder->holders);
}

/* What a run waits for. False without memory. */
static bool find_object_of_run(struct adder *adder, const struct snap_run *run, const char **ret)
{
	const struct snap_wait *wait;
	struct snap_pointer_entry *found;
	const char *object;

	if (!(adder->by & SNAP_TALLY_OBJECT) || !run->wait ||
	    run->wait > adder->recording->wait_count)
		return true;
	wait = adder->recording->waits[run->wait - 1].wait;
	found = snap_pointer_table_get(&adder->objects, wait);
	if (!found)
		return false;
	/* The wait's own address means no object. */
	if (!found->pointer) {
		if (!find_tally_object(adder->tally, wait, adder->by, &object))
			return false;
		found->pointer = (void *)(uintptr_t)(object ? object : (const char *)wait);
	}
	*ret = found->pointer == wait ? NULL : found->pointer;
	return true;
}

/* The samples of a run that waits for an object, by holder. */
static bool add_pieces(struct adder *adder, const struct snap_run *run, struct snap_tally_row row)
{
	struct snap_wait_pieces pieces;
	struct snap_wait_piece piece;

	snap_wait_pieces_init(&pieces, &adder->holders, run);
	while (snap_wait_pieces_next(&pieces, &piece)) {
		const char *function = piece.held ? piece.held->function : NULL;

		row.count = (uint64_t)piece.last - piece.first + 1;
		row.holder = NULL;
		if (!unify(adder->tally, &adder->seen, function, &row.holder) ||
		    !add_row(adder->tally, &row))
			return false;
	}
	return !pieces.failed;
}

static bool add_tally_run(struct adder *adder, const struct snap_run *run,
			  struct snap_tally_row row)
{
	row.stack = run->stack;
	row.count = snap_run_samples(run);
	if (adder->by & (SNAP_TALLY_WAIT | SNAP_TALLY_STATE))
		row.state = run->state;
	if (adder->by & SNAP_TALLY_WAIT &&
	    (!unify(adder->tally, &adder->seen, run->syscall, &row.syscall) ||
	     !unify(adder->tally, &adder->seen, run->wchan, &row.wchan)))
		return false;
	if (!find_object_of_run(adder, run, &row.object))
		return false;
	if (row.object && run->wait && adder->by & SNAP_TALLY_HOLDER &&
	    adder->recording->waits[run->wait - 1].owner_count)
		return add_pieces(adder, run, row);
	return add_row(adder->tally, &row);
}

static bool add_tally_track(struct adder *adder, const struct snap_track *track)
{
	unsigned by = adder->by;
	struct snap_tally_row row = {
		.process = track->process,
		.tid = by & SNAP_TALLY_TID ? track->tid : 0,
		.task = by & (SNAP_TALLY_TID | SNAP_TALLY_TASK) && track->task ? track : NULL,
	};

	if (!unify(adder->tally, &adder->seen, track->name, &row.name) ||
	    (track->wait && !find_tally_object(adder->tally, track->wait, by, &row.object)))
		return false;
	return snap_all(track->run_count, i, add_tally_run(adder, &track->runs[i], row));
}

struct stacksnap_error *snap_tally_init(struct snap_tally *tally,
					const struct snap_recording *recording, unsigned by)
{
	_cleanup_(adder_deinit) struct adder adder = { .tally = tally,
						       .recording = recording,
						       .by = by };

	*tally = (struct snap_tally){ 0 };
	snap_arena_init(&tally->arena);
	snap_interner_init(&tally->texts, &tally->arena);
	SNAP_TRY(snap_holders_init(&adder.holders, recording));
	return snap_no_memory_unless(snap_all(recording->track_count, i,
					      add_tally_track(&adder, &recording->tracks[i])));
}

static unsigned of_objects(const struct snap_options *options)
{
	return options->explain == SNAP_EXPLAIN_NO    ? 0
	       : options->explain == SNAP_EXPLAIN_ALL ? SNAP_TALLY_OBJECT | SNAP_TALLY_GUESS
						      : SNAP_TALLY_OBJECT;
}

unsigned snap_tally_of_frames(const struct snap_options *options)
{
	return (options->group_by & SNAP_GROUP_TID ? SNAP_TALLY_TID : 0) |
	       (options->group_by & SNAP_GROUP_WAIT ? of_objects(options) : 0);
}

unsigned snap_tally_of_profile(const struct snap_options *options)
{
	return SNAP_TALLY_WAIT | SNAP_TALLY_TASK | SNAP_TALLY_HOLDER | of_objects(options) |
	       (options->group_by & SNAP_GROUP_TID ? SNAP_TALLY_TID : 0);
}

void snap_tally_deinit(struct snap_tally *tally)
{
	free(tally->rows);
	snap_hash_table_deinit(&tally->table);
	snap_interner_deinit(&tally->texts);
	snap_arena_deinit(&tally->arena);
}
