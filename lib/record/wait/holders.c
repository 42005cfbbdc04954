/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which threads hold what others wait for: see holders.h. Times are counted in ticks. */
#include "record/wait/holders.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "record/wait/object.h"

#include <string.h>

enum {
	SHARE = 50,              /* of a period one part */
	LEAST_SHARE_NS = 20000,  /* one hand-over, however short the period is */
	MOST_OWED_PERIODS = 100, /* of what one late answer has cost */
	MOST_BATCH = 32,         /* futexes of one process, each two ranges at most */
	MOST_CHOSEN = 4 * MOST_BATCH,
	REST_SECONDS = 5, /* of a process, or a futex, that cannot be read */
	SLOW_SECONDS = 1, /* the longest time between two looks at one */
	LAZY = 8,         /* ticks from a sample with words to the first look */
	CLASSES = 64,     /* of how much a look matters, by powers of two */
};

/* A futex with a waiter. */
struct snap_watched_futex {
	struct snap_owner_source *source;
	uint64_t address;
	uint64_t due;  /* the tick from which on it may be read */
	uint64_t left; /* the last tick in which a waiter ceased to wait */
	uint32_t object, waiters;
	uint32_t wait; /* ticks to the next look, if nothing has changed */
};

struct snap_owner_batch {
	uint32_t chosen[MOST_CHOSEN];
	struct snap_sampled_bytes pieces[2 * MOST_BATCH];
	struct snap_futex_bytes words[MOST_BATCH];
};

_Static_assert(2 * MOST_BATCH <= SNAP_SAMPLED_WORDS_MOST, "as many as may be read at once");
_Static_assert(MOST_BATCH *(SNAP_WORDS_BEFORE + SNAP_WORDS_BEHIND) <= SNAP_SAMPLED_WORDS_BYTES,
	       "as many bytes");

void snap_owner_watch_init(struct snap_owner_watch *holders, struct snap_log *log)
{
	int64_t share = log->period_ns / SHARE;

	*holders = (struct snap_owner_watch){
		.log = log, .tick = 1, .share_ns = share < LEAST_SHARE_NS ? LEAST_SHARE_NS : share
	};
}

void snap_owner_watch_deinit(struct snap_owner_watch *holders)
{
	free(holders->futexes);
	free(holders->places);
	free(holders->batch);
}

static uint64_t ticks_of(const struct snap_owner_watch *holders, int64_t seconds)
{
	int64_t period = holders->log->period_ns;

	return period > 0 && period < seconds * SNAP_NS_PER_S
		       ? (uint64_t)(seconds * SNAP_NS_PER_S / period)
		       : 1;
}

/* ---- which there are ---- */

static struct snap_watched_futex *find_watched_futex(const struct snap_owner_watch *holders,
						     uint32_t object)
{
	uint32_t place = object < holders->place_count ? holders->places[object] : 0;

	return place ? &holders->futexes[place - 1] : NULL;
}

static void drop(struct snap_owner_watch *holders, struct snap_watched_futex *futex)
{
	const struct snap_watched_futex *last = &holders->futexes[--holders->count];

	holders->places[futex->object] = 0;
	if (futex == last)
		return;
	*futex = *last;
	holders->places[futex->object] = (uint32_t)(futex - holders->futexes) + 1;
}

static struct stacksnap_error *add_futex_waiter(struct snap_owner_watch *holders,
						struct snap_owner_source *source, uint32_t object)
{
	const struct snap_log_object *of = &holders->log->objects[object];
	struct snap_watched_futex *futex = find_watched_futex(holders, object);

	if (futex) {
		futex->waiters++;
		return NULL;
	}
	/* A word on the waiter's own stack has no holder; other calls have no words that change. */
	if (!of->is_futex || of->call.sp)
		return NULL;
	if (!snap_reserve_array_zeroed(holders->places, holders->place_capacity, object + 1) ||
	    !snap_reserve_array(holders->futexes, holders->capacity, holders->count + 1))
		return snap_error_no_memory();
	holders->place_count = holders->place_capacity;
	holders->futexes[holders->count++] =
		(struct snap_watched_futex){ .source = source,
					     .address = of->call.arguments[0],
					     .object = object,
					     .due = holders->tick,
					     .waiters = 1,
					     .wait = 1 };
	holders->places[object] = (uint32_t)holders->count;
	return NULL;
}

/* A thread ceased to wait, and may have got the lock. */
static void remove_waiter(struct snap_owner_watch *holders, uint32_t object)
{
	struct snap_watched_futex *futex = find_watched_futex(holders, object);

	if (!futex)
		return;
	futex->due = futex->left = holders->tick;
	futex->wait = 1;
	if (--futex->waiters == 0)
		drop(holders, futex);
}

/* Adds it to the log; *changed_ret: it differs from the last one. */
static struct stacksnap_error *log_holder(struct snap_owner_watch *holders, uint32_t object,
					  const struct snap_memory_image *words, bool *changed_ret)
{
	struct snap_log *log = holders->log;
	const struct snap_log_wait_bytes *held = snap_log_owner_bytes(log, object);
	ptrdiff_t before = held ? held - log->words : -1;

	SNAP_TRY(snap_log_set_owner(log, object, words));
	held = snap_log_owner_bytes(log, object);
	*changed_ret = (held ? held - log->words : -1) != before;
	return NULL;
}

/* A waiter was sampled: if the sample has the words, and no other thread has run, they are right. */
static struct stacksnap_error *take_sample(struct snap_owner_watch *holders, uint32_t object,
					   const struct snap_memory_image *words)
{
	struct snap_watched_futex *futex = find_watched_futex(holders, object);
	bool changed;

	if (!futex)
		return NULL;
	if (!words || !words->piece_count) {
		futex->due = holders->tick;
		futex->wait = 1;
		return NULL;
	}
	if (futex->left != holders->tick) {
		futex->due = holders->tick + LAZY;
		futex->wait = LAZY;
	}
	return log_holder(holders, object, words, &changed);
}

struct stacksnap_error *snap_owner_watch_stand(struct snap_owner_watch *holders,
					       struct snap_owner_source *source, uint32_t before,
					       uint32_t after,
					       const struct snap_memory_image *words)
{
	if (before != after) {
		if (before)
			remove_waiter(holders, before - 1);
		SNAP_TRY(after ? add_futex_waiter(holders, source, after - 1) : NULL);
	}
	return after ? take_sample(holders, after - 1, words) : NULL;
}

void snap_owner_watch_forget(struct snap_owner_watch *holders,
			     const struct snap_owner_source *source)
{
	for (size_t i = holders->count; i-- > 0;)
		if (holders->futexes[i].source == source)
			drop(holders, &holders->futexes[i]);
}

void snap_owner_watch_renumber(struct snap_owner_watch *holders)
{
	size_t kept = 0;

	if (holders->place_count)
		memset(holders->places, 0, holders->place_count * sizeof(*holders->places));
	for (size_t i = 0; i < holders->count; i++) {
		struct snap_watched_futex futex = holders->futexes[i];

		futex.object = snap_log_moved_object(holders->log, futex.object);
		if (futex.object >= holders->place_count)
			continue;
		holders->futexes[kept++] = futex;
		holders->places[futex.object] = (uint32_t)kept;
	}
	holders->count = kept;
}

/* ---- whose turn it is ---- */

/* 0: it is not due. Else how much it matters: by the waiting threads, and since when it is due. */
static unsigned class_of(const struct snap_owner_watch *holders,
			 const struct snap_watched_futex *futex)
{
	uint64_t weight;

	if (futex->due > holders->tick || futex->source->rest_tick > holders->tick)
		return 0;
	weight = futex->waiters * (holders->tick - futex->due + 1);
	return 64 - (unsigned)__builtin_clzll(weight | 1);
}

/* The least class of which all can be taken, or some of it if there are too many of the highest. */
static unsigned lowest_class(const size_t counts[CLASSES + 1])
{
	unsigned lowest = CLASSES;
	size_t all = counts[CLASSES];

	while (lowest > 1 && all + counts[lowest - 1] <= MOST_CHOSEN)
		all += counts[--lowest];
	return lowest;
}

/* By process, so that one hand-over does for many. */
static int compare_chosen(const void *left, const void *right, void *context)
{
	const struct snap_watched_futex *futexes = context;
	const struct snap_watched_futex *a = &futexes[*(const uint32_t *)left],
					*b = &futexes[*(const uint32_t *)right];

	return snap_compare((uintptr_t)a->source, (uintptr_t)b->source)
		       ?: snap_compare(a->object, b->object);
}

/* Which are read now. Of a class that has no room as a whole those come that stand first now. */
static size_t choose_futexes(struct snap_owner_watch *holders)
{
	size_t counts[CLASSES + 1] = { 0 }, count = 0, first;
	uint32_t *chosen = holders->batch->chosen;
	unsigned lowest;

	for (size_t i = 0; i < holders->count; i++)
		counts[class_of(holders, &holders->futexes[i])]++;
	lowest = lowest_class(counts);
	first = holders->count ? holders->tick % holders->count : 0;
	for (size_t n = 0; n < holders->count && count < MOST_CHOSEN; n++) {
		size_t i = (first + n) % holders->count;

		if (class_of(holders, &holders->futexes[i]) >= lowest)
			chosen[count++] = (uint32_t)i;
	}
	for (size_t n = 0; n < holders->count && count < MOST_CHOSEN && lowest > 1; n++) {
		size_t i = (first + n) % holders->count;

		if (class_of(holders, &holders->futexes[i]) == lowest - 1)
			chosen[count++] = (uint32_t)i;
	}
	qsort_r(chosen, count, sizeof(*chosen), compare_chosen, holders->futexes);
	return count;
}

/* ---- reading ---- */

static size_t list_pieces(struct snap_owner_watch *holders, const uint32_t *chosen, size_t count)
{
	struct snap_owner_batch *batch = holders->batch;
	size_t pieces = 0;

	for (size_t i = 0; i < count; i++) {
		struct snap_futex_bytes *words = &batch->words[i];
		uint8_t *bytes = words->bytes;

		snap_futex_bytes_init(words, holders->futexes[chosen[i]].address);
		for (size_t k = 0; k < words->count; k++) {
			batch->pieces[pieces++] =
				(struct snap_sampled_bytes){ .address = words->ranges[k].address,
							     .size = words->ranges[k].size,
							     .bytes = bytes };
			bytes += words->ranges[k].size;
		}
	}
	return pieces;
}

static struct stacksnap_error *take_futex_bytes(struct snap_owner_watch *holders,
						struct snap_watched_futex *futex,
						const struct snap_futex_bytes *words)
{
	struct snap_memory_piece piece;
	const struct snap_memory_image image = { .pieces = &piece,
						 .piece_count = 1,
						 .bytes = sizeof(words->bytes) };
	bool there = snap_futex_bytes_piece(words, &piece), changed;
	uint64_t slowest = ticks_of(holders, SLOW_SECONDS);

	SNAP_TRY(log_holder(holders, futex->object, there ? &image : NULL, &changed));
	futex->wait = changed ? 1 : 2 * futex->wait;
	if (futex->wait > slowest)
		futex->wait = (uint32_t)slowest;
	futex->due = holders->tick + (there ? futex->wait : ticks_of(holders, REST_SECONDS));
	return NULL;
}

/* Those of one process, with one hand-over. */
static struct stacksnap_error *read_batch(struct snap_owner_watch *holders,
					  struct snap_sampler *sampler, const uint32_t *chosen,
					  size_t count)
{
	struct snap_owner_batch *batch = holders->batch;
	struct snap_owner_source *source = holders->futexes[chosen[0]].source;
	size_t pieces = list_pieces(holders, chosen, count), at = 0;
	struct stacksnap_error *err = NULL;

	holders->calls++;
	holders->reads += count;
	/* Another program, or a process that keeps us waiting: nothing is known for a while. */
	if (snap_sampler_read_bytes(sampler, source->process, batch->pieces, pieces)) {
		source->rest_tick = holders->tick + ticks_of(holders, REST_SECONDS);
		return NULL;
	}
	for (size_t i = 0; i < count && !err; i++) {
		struct snap_futex_bytes *words = &batch->words[i];

		for (size_t k = 0; k < words->count; k++) {
			uint32_t got = batch->pieces[at++].got;

			words->got[k] = got < words->ranges[k].size ? got : words->ranges[k].size;
		}
		err = take_futex_bytes(holders, &holders->futexes[chosen[i]], words);
	}
	return err;
}

static size_t length_of_batch(const struct snap_owner_watch *holders, const uint32_t *chosen,
			      size_t count)
{
	size_t length = 1;

	while (length < count && length < MOST_BATCH &&
	       holders->futexes[chosen[length]].source == holders->futexes[chosen[0]].source)
		length++;
	return length;
}

static struct stacksnap_error *read_chosen(struct snap_owner_watch *holders,
					   struct snap_sampler *sampler, size_t count,
					   int64_t until_ns)
{
	const uint32_t *chosen = holders->batch->chosen;
	struct stacksnap_error *err = NULL;
	size_t length;

	for (size_t at = 0; at < count && !err; at += length) {
		length = length_of_batch(holders, chosen + at, count - at);
		err = read_batch(holders, sampler, chosen + at, length);
		if (snap_clock_ns(CLOCK_MONOTONIC) > until_ns)
			break;
	}
	return err;
}

struct stacksnap_error *snap_owner_watch_read(struct snap_owner_watch *holders,
					      struct snap_sampler *sampler)
{
	int64_t share = holders->share_ns, begin;
	struct stacksnap_error *err = NULL;
	size_t count;

	holders->owed_ns -= holders->owed_ns < share ? holders->owed_ns : share;
	if (holders->count && !holders->owed_ns) {
		if (!holders->batch)
			holders->batch = malloc(sizeof(*holders->batch));
		SNAP_TRY(snap_no_memory_unless(holders->batch));
		begin = snap_clock_ns(CLOCK_MONOTONIC);
		count = choose_futexes(holders);
		err = read_chosen(holders, sampler, count, begin + share);
		holders->owed_ns = snap_clock_ns(CLOCK_MONOTONIC) - begin - share;
		if (holders->owed_ns < 0)
			holders->owed_ns = 0;
		if (holders->owed_ns > MOST_OWED_PERIODS * share)
			holders->owed_ns = MOST_OWED_PERIODS * share;
	}
	holders->tick++;
	return err;
}
