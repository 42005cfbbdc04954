/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See waited.h. Spells are gone through three times: how often each object was waited for; by which
 * threads and how long at a stretch; and, of the rows that are listed, when. Holders are found for
 * those alone, so that all takes as long as there are spells and holds, whatever a file claims.
 */
#include "render/wait/waited.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/table.h"
#include "base/text.h"
#include "render/wait/object.h"
#include "render/wait/shares.h"

#include <stdlib.h>
#include <string.h>

enum {
	NO_ROW = UINT32_MAX,
	FEW_OF_EACH = 3, /* rows of a process that are listed before others have more */
};

/* Objects that share one row. */
struct bundle {
	size_t process;
	const char *key; /* interned */
	uint64_t address;
	uint32_t first, last; /* waits */
	size_t objects, threads, last_track, rank;
	uint64_t samples, slots, longest;
	bool owed;
};

struct builder {
	const struct snap_recording *recording;
	struct snap_waited *result;
	struct snap_waited_most most;
	bool guesses; /* are shown, too */
	struct snap_holders holders;
	struct snap_arena arena; /* of texts that are compared */
	struct snap_interner texts;
	bool *is_reported; /* each wait */
	bool *is_taken;    /* likewise: a lock of Python that a program takes itself */
	struct snap_spells spells;
	uint64_t *samples;   /* of each wait */
	uint64_t *slots;     /* likewise: with those of missed ticks */
	uint32_t *next;      /* of each wait: the next one of its bundle */
	uint32_t *bundle_of; /* of each wait; NO_ROW: no thread waited for it */
	struct bundle *bundles;
	size_t bundle_count, bundle_capacity;
	struct snap_hash_table table; /* of bundles */
	struct local *locals;         /* own ends of connections */
	size_t local_count, local_capacity;
	struct snap_hash_table local_table;
	/* of waits that are listed: their spells, one after the other */
	struct snap_waited_stretch *stretches;
	size_t *stretch_begin; /* of each wait, and the end of the last one's */
};

/* An end of connections of a process; whether several peers have the other end of one. */
struct local {
	size_t process;
	const char *local, *remote; /* interned; remote: of the first one */
	bool has_many;
};

static void waited_builder_deinit(struct builder *builder)
{
	snap_holders_deinit(&builder->holders);
	snap_spells_deinit(&builder->spells);
	free(builder->is_reported);
	free(builder->is_taken);
	free(builder->samples);
	free(builder->slots);
	free(builder->next);
	free(builder->bundle_of);
	free(builder->bundles);
	snap_hash_table_deinit(&builder->table);
	free(builder->locals);
	snap_hash_table_deinit(&builder->local_table);
	free(builder->stretches);
	free(builder->stretch_begin);
	snap_interner_deinit(&builder->texts);
	snap_arena_deinit(&builder->arena);
}

static void count_waited_samples(struct builder *builder)
{
	const struct snap_recording *recording = builder->recording;
	uint64_t lost = 0;

	for (size_t i = 0; i < recording->track_count; i++) {
		struct snap_spell_walk walk;
		struct snap_spell spell;

		snap_spell_walk_init(&walk, &builder->spells, &recording->tracks[i]);
		while (snap_spell_walk_next(&walk, &spell)) {
			builder->samples[spell.wait] += (uint64_t)spell.last - spell.first + 1;
			builder->slots[spell.wait] += spell.end - spell.begin;
		}
		lost += walk.lost;
	}
	builder->result->missed_ns = snap_waited_ns(recording, lost);
}

/* The one copy of a malloc'ed text, which is freed; NULL without memory. */
static const char *intern(struct builder *builder, char *text)
{
	const char *copy = text ? snap_intern(&builder->texts, text, strlen(text)) : NULL;

	free(text);
	return copy;
}

/* Python's library takes locks to wait for work, too; a program takes them as they are. */
static void find_taken_locks(struct builder *builder)
{
	const struct snap_recording *recording = builder->recording;

	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++) {
			const struct snap_run *run = &recording->tracks[i].runs[k];
			const struct snap_recorded_stack *stack = &recording->stacks[run->stack];

			if (run->wait && run->wait <= recording->wait_count &&
			    !builder->is_taken[run->wait - 1] &&
			    snap_same_text(recording->waits[run->wait - 1].wait->variant, "python"))
				builder->is_taken[run->wait - 1] = snap_frames_are_own_managed(
					stack->frames, stack->frame_count);
		}
}

/* ---- connections ---- */

/* NULL without memory. */
static struct local *find_local(struct builder *builder, size_t process,
				const struct snap_wait *wait)
{
	const char *text = snap_intern(&builder->texts, wait->local, strlen(wait->local));
	uint64_t hash = snap_hash_add(process, (uintptr_t)text);
	struct snap_probe probe = snap_hash_table_probe(&builder->local_table, hash);
	size_t count = builder->local_count;

	if (!text)
		return NULL;
	while (snap_probe_next(&probe)) {
		struct local *local = &builder->locals[probe.number];

		if (local->process == process && local->local == text)
			return local;
	}
	if (!snap_reserve_array(builder->locals, builder->local_capacity, count + 1) ||
	    !snap_hash_table_add(&builder->local_table, hash, count))
		return NULL;
	builder->locals[count] = (struct local){ .process = process, .local = text };
	builder->local_count++;
	return &builder->locals[count];
}

/* Which own ends have several peers: those of a server. False without memory. */
static bool survey_connections(struct builder *builder)
{
	const struct snap_recording *recording = builder->recording;

	for (size_t i = 0; i < recording->wait_count; i++) {
		const struct snap_recorded_wait *wait = &recording->waits[i];
		struct local *local;
		const char *remote;

		if (!builder->samples[i] || !snap_waited_is_connection(wait->wait) ||
		    !wait->wait->local)
			continue;
		local = find_local(builder, wait->process, wait->wait);
		remote = snap_intern(&builder->texts, wait->wait->remote,
				     strlen(wait->wait->remote));
		if (!local || !remote)
			return false;
		local->has_many = local->has_many || (local->remote && local->remote != remote);
		local->remote = remote;
	}
	return true;
}

/* What objects of one row have in common; NULL without memory. */
static const char *key_of_wait(struct builder *builder, const struct snap_recorded_wait *recorded)
{
	const struct snap_wait *wait = recorded->wait;
	struct local *local;

	if (!snap_waited_is_connection(wait))
		return intern(builder, snap_waited_text(wait));
	if (!wait->local)
		return intern(builder, snap_waited_connection_text(wait, false));
	local = find_local(builder, recorded->process, wait);
	return local ? intern(builder, snap_waited_connection_text(wait, local->has_many)) : NULL;
}

/* ---- bundles ---- */

/* NULL without memory. */
static struct bundle *find_bundle(struct builder *builder, size_t process, const char *key,
				  uint64_t address)
{
	uint64_t hash = snap_hash_add(snap_hash_add(process, (uintptr_t)key), address);
	struct snap_probe probe = snap_hash_table_probe(&builder->table, hash);
	size_t count = builder->bundle_count;

	while (snap_probe_next(&probe)) {
		struct bundle *bundle = &builder->bundles[probe.number];

		if (bundle->process == process && bundle->key == key && bundle->address == address)
			return bundle;
	}
	if (!snap_reserve_array(builder->bundles, builder->bundle_capacity, count + 1) ||
	    !snap_hash_table_add(&builder->table, hash, count))
		return NULL;
	builder->bundles[count] = (struct bundle){ .process = process,
						   .key = key,
						   .address = address,
						   .first = NO_ROW,
						   .last_track = SIZE_MAX };
	builder->bundle_count++;
	return &builder->bundles[count];
}

/* False without memory. */
static bool add_waited_object(struct builder *builder, uint32_t number)
{
	const struct snap_recorded_wait *wait = &builder->recording->waits[number];
	const char *key = key_of_wait(builder, wait);
	struct bundle *bundle =
		key ? find_bundle(builder, wait->process, key, wait->wait->address) : NULL;

	if (!bundle)
		return false;
	builder->next[number] = NO_ROW;
	if (bundle->first == NO_ROW)
		bundle->first = number;
	else
		builder->next[bundle->last] = number;
	bundle->last = number;
	bundle->objects++;
	bundle->samples += builder->samples[number];
	bundle->slots += builder->slots[number];
	bundle->owed = bundle->owed || builder->is_taken[number] || snap_waited_is_owed(wait);
	builder->bundle_of[number] = (uint32_t)(bundle - builder->bundles);
	return true;
}

static bool bundle_waits(struct builder *builder)
{
	for (size_t i = 0; i < builder->recording->wait_count; i++) {
		builder->bundle_of[i] = NO_ROW;
		if (builder->samples[i] && !add_waited_object(builder, (uint32_t)i))
			return false;
	}
	return true;
}

/* How many threads waited, and the longest wait of one: spells of a track are in order. */
static void count_waited_threads(struct builder *builder)
{
	const struct snap_recording *recording = builder->recording;

	for (size_t i = 0; i < recording->track_count; i++) {
		struct snap_spell_walk walk;
		struct snap_spell spell;
		struct bundle *before = NULL;
		uint64_t length = 0;

		snap_spell_walk_init(&walk, &builder->spells, &recording->tracks[i]);
		while (snap_spell_walk_next(&walk, &spell)) {
			struct bundle *bundle = &builder->bundles[builder->bundle_of[spell.wait]];

			if (bundle != before || !spell.goes_on)
				length = 0;
			before = bundle;
			length = spell.is_broken ? 1 : length + (spell.end - spell.begin);
			if (length > bundle->longest)
				bundle->longest = length;
			bundle->threads += bundle->last_track != i;
			bundle->last_track = i;
		}
	}
}

/* ---- which are listed ---- */

/* By time down, then in the order of the recording. */
SNAP_ORDER(by_time, const struct bundle *, a, b, snap_compare((*b)->slots, (*a)->slots),
	   snap_compare((*a)->first, (*b)->first));

/* The first rows of each process, then others. */
SNAP_ORDER(by_rank, const struct bundle *, a, b, snap_compare((*a)->rank, (*b)->rank),
	   by_time(a, b));

/*
 * The first `most` of bundles that are sorted by time: half of the room is for the first ones of
 * each process, the rest for those with the most time. `seen`: of each process, zeroed.
 */
static size_t choose_bundles(struct bundle **bundles, size_t count, size_t most, size_t *seen)
{
	if (count <= most)
		return count;
	for (size_t i = 0; i < count; i++) {
		size_t rank = seen[bundles[i]->process]++;

		bundles[i]->rank = rank < FEW_OF_EACH ? rank : FEW_OF_EACH;
	}
	qsort(bundles, count, sizeof(*bundles), by_rank);
	qsort(bundles + most / 2, count - most / 2, sizeof(*bundles), by_time);
	qsort(bundles, most, sizeof(*bundles), by_time);
	return most;
}

static bool find_holders(struct builder *builder, const struct bundle *bundle,
			 struct snap_waited_row *row)
{
	_cleanup_(snap_shares_deinit) struct snap_shares shares = { .count = 0 };
	const size_t *begin = builder->stretch_begin;
	const struct snap_holder_spans *list;

	for (uint32_t wait = bundle->first; wait != NO_ROW; wait = builder->next[wait]) {
		if (!builder->recording->waits[wait].owner_count)
			continue;
		row->keeps_owner = true;
		list = snap_holders_of(&builder->holders, wait);
		if (!list || !snap_shares_add(&shares, &builder->spells, list,
					      builder->stretches + begin[wait],
					      begin[wait + 1] - begin[wait]))
			return false;
	}
	return snap_shares_list(&shares, builder->recording, &builder->result->arena,
				builder->most.holders, row);
}

/* ---- rows ---- */

/* NULL without memory. */
static const char *bundle_text(struct builder *builder, const struct bundle *bundle)
{
	struct snap_arena *arena = &builder->result->arena;
	_cleanup_free_ char *own = NULL;

	if (bundle->objects > 1 &&
	    snap_waited_is_connection(builder->recording->waits[bundle->first].wait))
		return snap_arena_printf(arena, "%s (%zu connections)", bundle->key,
					 bundle->objects);
	own = snap_waited_text(builder->recording->waits[bundle->first].wait);
	return own ? snap_arena_strdup(arena, own) : NULL;
}

static bool make_row(struct builder *builder, const struct bundle *bundle,
		     struct snap_waited_row *row)
{
	const struct snap_recording *recording = builder->recording;

	*row = (struct snap_waited_row){
		.process = bundle->process,
		.wait = recording->waits[bundle->first].wait,
		.text = bundle_text(builder, bundle),
		.owed = bundle->owed,
		.objects = bundle->objects,
		.samples = bundle->samples,
		.slots = bundle->slots,
		.ns = snap_waited_ns(recording, bundle->slots),
		.longest_ns = snap_waited_ns(recording, bundle->longest),
		.threads = bundle->threads,
	};
	return row->text && find_holders(builder, bundle, row);
}

/*
 * A walk through all spells of waits that are listed and had a holder: counted into the place
 * behind the next one's, which thereby ends where that begins; or put there.
 */
static void pass_stretches(struct builder *builder, const bool *listed, size_t *fill, bool puts)
{
	const struct snap_recording *recording = builder->recording;

	for (size_t i = 0; i < recording->track_count; i++) {
		struct snap_spell_walk walk;
		struct snap_spell spell;

		snap_spell_walk_init(&walk, &builder->spells, &recording->tracks[i]);
		while (snap_spell_walk_next(&walk, &spell)) {
			size_t wait = spell.wait;

			if (!recording->waits[wait].owner_count ||
			    !listed[builder->bundle_of[wait]])
				continue;
			if (puts)
				builder->stretches[fill[wait]] =
					(struct snap_waited_stretch){ spell.begin, spell.end };
			fill[puts ? wait : wait + 1]++;
		}
	}
}

/* The spells of the waits of bundles, each wait's after those of the one before. */
static bool list_stretches(struct builder *builder, struct bundle **bundles, size_t count)
{
	const struct snap_recording *recording = builder->recording;
	size_t *begin = calloc(recording->wait_count + 2, sizeof(*begin)), *fill;
	_cleanup_free_ bool *listed = calloc(builder->bundle_count + 1, sizeof(*listed));

	free(builder->stretch_begin);
	builder->stretch_begin = begin;
	if (!begin || !listed)
		return false;
	for (size_t i = 0; i < count; i++)
		listed[bundles[i] - builder->bundles] = true;
	fill = begin + 1;
	pass_stretches(builder, listed, fill, false);
	for (size_t i = 1; i <= recording->wait_count; i++)
		fill[i] += fill[i - 1];
	free(builder->stretches);
	builder->stretches = calloc(fill[recording->wait_count] + 1, sizeof(*builder->stretches));
	if (!builder->stretches)
		return false;
	pass_stretches(builder, listed, fill, true);
	return true;
}

/* Those that are owed, or those that are not. False without memory. */
static bool make_part(struct builder *builder, bool owed, size_t most,
		      struct snap_waited_part *part)
{
	const struct snap_recording *recording = builder->recording;
	_cleanup_free_ struct bundle **bundles =
		malloc((builder->bundle_count + 1) * sizeof(*bundles));
	_cleanup_free_ size_t *seen = calloc(recording->process_count + 1, sizeof(*seen));
	uint64_t all = 0, shown = 0;
	size_t count = 0;

	if (!bundles || !seen)
		return false;
	for (size_t i = 0; i < builder->bundle_count; i++)
		if (builder->bundles[i].owed == owed) {
			bundles[count++] = &builder->bundles[i];
			all += builder->bundles[i].slots;
		}
	qsort(bundles, count, sizeof(*bundles), by_time);
	part->row_total = count;
	part->row_count = choose_bundles(bundles, count, most, seen);
	part->rows = snap_arena_new_array(&builder->result->arena, part->row_count + 1,
					  struct snap_waited_row);
	if (!part->rows || !list_stretches(builder, bundles, part->row_count))
		return false;
	for (size_t i = 0; i < part->row_count; i++) {
		shown += bundles[i]->slots;
		if (!make_row(builder, bundles[i], &part->rows[i]))
			return false;
	}
	part->ns = snap_waited_ns(recording, all);
	part->other_ns = snap_waited_ns(recording, all - shown);
	return true;
}

static bool make_parts(struct builder *builder)
{
	size_t count = builder->recording->wait_count;

	builder->is_reported = calloc(count + 1, sizeof(*builder->is_reported));
	builder->is_taken = calloc(count + 1, sizeof(*builder->is_taken));
	builder->samples = calloc(count + 1, sizeof(*builder->samples));
	builder->slots = calloc(count + 1, sizeof(*builder->slots));
	builder->next = calloc(count + 1, sizeof(*builder->next));
	builder->bundle_of = calloc(count + 1, sizeof(*builder->bundle_of));
	if (!builder->is_reported || !builder->is_taken || !builder->samples || !builder->slots ||
	    !builder->next || !builder->bundle_of)
		return false;
	for (size_t i = 0; i < count; i++)
		builder->is_reported[i] =
			snap_wait_is_shown(builder->recording->waits[i].wait, builder->guesses);
	if (!snap_spells_init(&builder->spells, builder->recording, builder->is_reported))
		return false;
	count_waited_samples(builder);
	find_taken_locks(builder);
	if (!survey_connections(builder) || !bundle_waits(builder))
		return false;
	count_waited_threads(builder);
	return make_part(builder, true, builder->most.owed, &builder->result->owed) &&
	       make_part(builder, false, builder->most.idle, &builder->result->idle);
}

struct stacksnap_error *snap_waited_init(struct snap_waited *waited,
					 const struct snap_recording *recording,
					 const struct snap_options *options,
					 struct snap_waited_most most)
{
	_cleanup_(waited_builder_deinit) struct builder builder = {
		.recording = recording,
		.result = waited,
		.most = most,
		.guesses = options->explain == SNAP_EXPLAIN_ALL,
	};

	*waited = (struct snap_waited){ .owed = { .row_count = 0 } };
	snap_arena_init(&waited->arena);
	snap_arena_init(&builder.arena);
	snap_interner_init(&builder.texts, &builder.arena);
	/* A snapshot has no times. */
	if (!recording->explains || !recording->period_ns || !recording->wait_count ||
	    options->explain == SNAP_EXPLAIN_NO)
		return NULL;
	SNAP_TRY(snap_holders_init(&builder.holders, recording));
	return make_parts(&builder) ? NULL : snap_error_no_memory();
}

void snap_waited_deinit(struct snap_waited *waited)
{
	snap_arena_deinit(&waited->arena);
}
