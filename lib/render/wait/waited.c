/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See waited.h. Runs are gone through three times: how often each object was waited for, by whom
 * and how long at a stretch, and of the rows that are listed when. Who had an object is found for
 * those alone, so that all takes as long as there are runs and holds, whatever a file claims.
 */
#include "render/wait/waited.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/table.h"
#include "render/wait/object.h"
#include "render/wait/shares.h"

#include <stdlib.h>
#include <string.h>

enum {
	NO_ROW = UINT32_MAX,
	FEW_OF_EACH = 3, /* rows of a process that are listed before others have more */
};

/* Objects that are told in one row. */
struct bundle {
	size_t process;
	const char *key; /* interned */
	uint64_t address;
	uint32_t first, last; /* waits */
	size_t objects, threads, last_track, rank;
	uint64_t samples, longest;
	bool owed;
};

struct builder {
	const struct snap_recording *recording;
	struct snap_waited *result;
	struct snap_waited_most most;
	bool guesses; /* are told, too */
	struct snap_holders holders;
	struct snap_arena arena; /* of texts that are compared */
	struct snap_interner texts;
	uint64_t *samples;   /* of each wait */
	uint32_t *next;      /* of each wait: the next one of its bundle */
	uint32_t *bundle_of; /* of each wait; NO_ROW: nobody waited for it */
	struct bundle *bundles;
	size_t bundle_count, bundle_capacity;
	struct snap_hash_table table; /* of bundles */
	struct local *locals;         /* own ends of connections */
	size_t local_count, local_capacity;
	struct snap_hash_table local_table;
	/* of waits that are listed: their runs, one after the other */
	struct snap_waited_stretch *stretches;
	size_t *stretch_begin; /* of each wait, and the end of the last one's */
};

/* An end of connections of a process; whether several peers have the other end of one. */
struct local {
	size_t process;
	const char *local, *remote; /* interned; remote: of the first one */
	bool has_many;
};

static void builder_deinit(struct builder *builder)
{
	snap_holders_deinit(&builder->holders);
	free(builder->samples);
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

/* The number of a run's wait, SIZE_MAX: none that is to be told. */
static size_t wait_of(const struct builder *builder, const struct snap_run *run)
{
	const struct snap_recording *recording = builder->recording;

	if (run->wait == 0 || run->wait > recording->wait_count ||
	    !snap_wait_is_shown(recording->waits[run->wait - 1].wait, builder->guesses))
		return SIZE_MAX;
	return run->wait - 1;
}

static void count_samples(struct builder *builder)
{
	const struct snap_recording *recording = builder->recording;

	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++) {
			const struct snap_run *run = &recording->tracks[i].runs[k];
			size_t wait = wait_of(builder, run);

			if (wait != SIZE_MAX)
				builder->samples[wait] += snap_run_samples(run);
		}
}

/* The one copy of a malloc'ed text, which is freed; NULL without memory. */
static const char *intern(struct builder *builder, char *text)
{
	const char *copy = text ? snap_intern(&builder->texts, text, strlen(text)) : NULL;

	free(text);
	return copy;
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
static const char *key_of(struct builder *builder, const struct snap_recorded_wait *recorded)
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
static bool add_wait(struct builder *builder, uint32_t number)
{
	const struct snap_recorded_wait *wait = &builder->recording->waits[number];
	const char *key = key_of(builder, wait);
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
	bundle->owed = bundle->owed || snap_waited_is_owed(wait);
	builder->bundle_of[number] = (uint32_t)(bundle - builder->bundles);
	return true;
}

static bool bundle_waits(struct builder *builder)
{
	for (size_t i = 0; i < builder->recording->wait_count; i++) {
		builder->bundle_of[i] = NO_ROW;
		if (builder->samples[i] && !add_wait(builder, (uint32_t)i))
			return false;
	}
	return true;
}

/* How many threads waited, and the longest wait of one: runs of a track are in order. */
static void count_threads(struct builder *builder)
{
	const struct snap_recording *recording = builder->recording;

	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];
		struct bundle *before = NULL;
		uint64_t length = 0;

		for (size_t k = 0; k < track->run_count; k++) {
			const struct snap_run *run = &track->runs[k];
			size_t wait = wait_of(builder, run);
			struct bundle *bundle =
				wait == SIZE_MAX ? NULL
						 : &builder->bundles[builder->bundle_of[wait]];

			if (bundle != before || (k && run[-1].last + 1 != run->first))
				length = 0;
			before = bundle;
			if (!bundle)
				continue;
			length += snap_run_samples(run);
			if (length > bundle->longest)
				bundle->longest = length;
			bundle->threads += bundle->last_track != i;
			bundle->last_track = i;
		}
	}
}

/* ---- which are listed ---- */

/* By time down, then in the order of the recording. */
static int by_samples(const void *left, const void *right)
{
	const struct bundle *a = *(const struct bundle *const *)left,
			    *b = *(const struct bundle *const *)right;

	return snap_compare(b->samples, a->samples) ?: snap_compare(a->first, b->first);
}

/* The first rows of each process, then others. */
static int by_rank(const void *left, const void *right)
{
	const struct bundle *a = *(const struct bundle *const *)left,
			    *b = *(const struct bundle *const *)right;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return by_samples(left, right);
}

/*
 * The first `most` of bundles that are sorted by time: half of the room is for the first ones of
 * each process, the rest for who has the most. `seen`: of each process, zeroed.
 */
static size_t choose(struct bundle **bundles, size_t count, size_t most, size_t *seen)
{
	if (count <= most)
		return count;
	for (size_t i = 0; i < count; i++) {
		size_t rank = seen[bundles[i]->process]++;

		bundles[i]->rank = rank < FEW_OF_EACH ? rank : FEW_OF_EACH;
	}
	qsort(bundles, count, sizeof(*bundles), by_rank);
	qsort(bundles + most / 2, count - most / 2, sizeof(*bundles), by_samples);
	qsort(bundles, most, sizeof(*bundles), by_samples);
	return most;
}

static bool find_holders(struct builder *builder, const struct bundle *bundle,
			 struct snap_waited_row *row)
{
	_cleanup_(snap_shares_deinit) struct snap_shares shares = { .count = 0 };
	const size_t *begin = builder->stretch_begin;
	const struct snap_held_list *list;

	for (uint32_t wait = bundle->first; wait != NO_ROW; wait = builder->next[wait]) {
		if (!builder->recording->waits[wait].hold_count)
			continue;
		row->keeps_owner = true;
		list = snap_holders_of(&builder->holders, wait);
		if (!list || !snap_shares_add(&shares, list, builder->stretches + begin[wait],
					      begin[wait + 1] - begin[wait]))
			return false;
	}
	return snap_shares_list(&shares, builder->recording, &builder->result->arena,
				builder->most.holders, row);
}

/* ---- rows ---- */

/* NULL without memory. */
static const char *row_text(struct builder *builder, const struct bundle *bundle)
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
		.text = row_text(builder, bundle),
		.owed = bundle->owed,
		.objects = bundle->objects,
		.samples = bundle->samples,
		.ns = snap_waited_ns(recording, bundle->samples),
		.longest_ns = snap_waited_ns(recording, bundle->longest),
		.threads = bundle->threads,
	};
	return row->text && find_holders(builder, bundle, row);
}

/* The runs of the waits of bundles, each wait's after those of the one before. */
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
	/* Counted into the place behind the next one's, which thereby ends where that begins. */
	fill = begin + 1;
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < recording->track_count; i++)
			for (size_t k = 0; k < recording->tracks[i].run_count; k++) {
				const struct snap_run *run = &recording->tracks[i].runs[k];
				size_t wait = wait_of(builder, run);

				if (wait == SIZE_MAX || !recording->waits[wait].hold_count ||
				    !listed[builder->bundle_of[wait]])
					continue;
				if (pass)
					builder->stretches[fill[wait]] =
						(struct snap_waited_stretch){ run->first,
									      run->last + 1 };
				fill[pass ? wait : wait + 1]++;
			}
		if (pass)
			break;
		for (size_t i = 1; i <= recording->wait_count; i++)
			fill[i] += fill[i - 1];
		free(builder->stretches);
		builder->stretches =
			calloc(fill[recording->wait_count] + 1, sizeof(*builder->stretches));
		if (!builder->stretches)
			return false;
	}
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
			all += builder->bundles[i].samples;
		}
	qsort(bundles, count, sizeof(*bundles), by_samples);
	part->row_total = count;
	part->row_count = choose(bundles, count, most, seen);
	part->rows = snap_arena_new_array(&builder->result->arena, part->row_count + 1,
					  struct snap_waited_row);
	if (!part->rows || !list_stretches(builder, bundles, part->row_count))
		return false;
	for (size_t i = 0; i < part->row_count; i++) {
		shown += bundles[i]->samples;
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

	builder->samples = calloc(count + 1, sizeof(*builder->samples));
	builder->next = calloc(count + 1, sizeof(*builder->next));
	builder->bundle_of = calloc(count + 1, sizeof(*builder->bundle_of));
	if (!builder->samples || !builder->next || !builder->bundle_of)
		return false;
	count_samples(builder);
	if (!survey_connections(builder) || !bundle_waits(builder))
		return false;
	count_threads(builder);
	return make_part(builder, true, builder->most.owed, &builder->result->owed) &&
	       make_part(builder, false, builder->most.idle, &builder->result->idle);
}

struct stacksnap_error *snap_waited_init(struct snap_waited *waited,
					 const struct snap_recording *recording,
					 const struct snap_options *options,
					 struct snap_waited_most most)
{
	_cleanup_(builder_deinit) struct builder builder = {
		.recording = recording,
		.result = waited,
		.most = most,
		.guesses = options->explain == SNAP_EXPLAIN_ALL,
	};
	struct stacksnap_error *err;

	*waited = (struct snap_waited){ .owed = { .row_count = 0 } };
	snap_arena_init(&waited->arena);
	snap_arena_init(&builder.arena);
	snap_interner_init(&builder.texts, &builder.arena);
	/* A snapshot has no times. */
	if (!recording->explains || !recording->period_ns || !recording->wait_count ||
	    options->explain == SNAP_EXPLAIN_NO)
		return NULL;
	err = snap_holders_init(&builder.holders, recording);
	if (err)
		return err;
	return make_parts(&builder) ? NULL : snap_error_no_memory();
}

void snap_waited_deinit(struct snap_waited *waited)
{
	snap_arena_deinit(&waited->arena);
}
