/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds stacks that have the address of a lock that keeps no owner: the holder of a guard has a
 * pointer to the lock there. Stacks have old words, too, so this is a hint, and no edge.
 *
 * One walk over the stacks of a process searches for all addresses.
 */
#include "analyze/wait/waiter.h"
#include "base/bsearch.h"

#include <stdlib.h>
#include <string.h>

enum {
	MOST_HINTS = 3,
	BEFORE = 12, /* a guard may point to the beginning of what has the word inside */
	MOST_BYTES = 64 << 20,
};

/* A wait, and an object whose address is looked for. */
struct sought {
	uint64_t address;
	struct snap_waiter *waiter;
};

struct search {
	struct snap_wait_analysis *waits;
	struct sought *sought; /* sorted; equal addresses: the first one has the hints */
	size_t count;
	uint64_t bytes; /* that were walked over, in all processes */
};

SNAP_ORDER(compare_sought, struct sought, a, b, snap_compare(a->address, b->address),
	   snap_compare(a->waiter->thread->thread->tid, b->waiter->thread->thread->tid));

static bool wants_hint(const struct snap_wait *wait)
{
	return wait && wait->address && !wait->has_owner &&
	       wait->owner_lack == SNAP_OWNER_NOT_KEPT && wait->readers <= 0 &&
	       (wait->kind == SNAP_WAIT_MUTEX || wait->kind == SNAP_WAIT_RWLOCK ||
		wait->kind == SNAP_WAIT_ONCE);
}

/* One hint a thread, in the order of their tids. */
static bool add_hint(struct search *search, struct snap_wait *wait, const struct snap_waiter *found)
{
	pid_t tid = found->thread->thread->tid;

	if (wait->hint_count == MOST_HINTS ||
	    (wait->hint_count && wait->hints[wait->hint_count - 1].tid == tid))
		return true;
	if (!wait->hints)
		wait->hints = snap_arena_new_array(snap_wait_arena(search->waits), MOST_HINTS,
						   struct snap_wait_party);
	if (!wait->hints)
		return false;
	wait->hints[wait->hint_count++] = snap_wait_party_of(found);
	return true;
}

/* A word that may be the address of something sought, by a thread that does not wait for it. */
static bool look_at_word(struct search *search, const struct snap_waiter *waiter, uint64_t word)
{
	size_t at = snap_first_not(search->count, i, search->sought[i].address < word);
	const struct sought *sought = &search->sought[at];

	if (at == search->count || sought->address > word + BEFORE ||
	    (sought->address - word) % 4 != 0)
		return true;
	return waiter->object == sought->waiter->object ||
	       add_hint(search, sought->waiter->wait, waiter);
}

static bool walk_stack_words(struct search *search, const struct snap_waiter *waiter)
{
	const struct snap_thread *thread = waiter->thread->thread;
	uint64_t least = search->sought[0].address - BEFORE;
	uint64_t span = search->sought[search->count - 1].address - least;
	uint64_t at = waiter->call.known ? waiter->call.sp : thread->stack_address;

	if (!thread->stack || at < thread->stack_address)
		return true;
	at = (at - thread->stack_address + 7) & ~7ull;
	for (; at + 8 <= thread->stack_size && search->bytes < MOST_BYTES;
	     at += 8, search->bytes += 8) {
		uint64_t word;

		memcpy(&word, thread->stack + at, sizeof(word));
		if (word - least <= span && !look_at_word(search, waiter, word))
			return false;
	}
	return true;
}

/* All that wait for an object have the same hints. */
static void share_hints(struct search *search)
{
	for (size_t i = 1; i < search->count; i++) {
		const struct sought *before = &search->sought[i - 1], *one = &search->sought[i];

		if (before->address != one->address)
			continue;
		one->waiter->wait->hints = before->waiter->wait->hints;
		one->waiter->wait->hint_count = before->waiter->wait->hint_count;
	}
}

static bool search_process(struct search *search, size_t process)
{
	struct snap_wait_analysis *waits = search->waits;

	search->count = 0;
	for (size_t i = waits->first[process]; i < waits->first[process + 1]; i++)
		if (wants_hint(waits->waiters[i].wait))
			search->sought[search->count++] =
				(struct sought){ waits->waiters[i].wait->address,
						 &waits->waiters[i] };
	if (search->count == 0)
		return true;
	qsort(search->sought, search->count, sizeof(*search->sought), compare_sought);
	for (size_t i = waits->first[process]; i < waits->first[process + 1]; i++)
		if (!walk_stack_words(search, &waits->waiters[i]))
			return false;
	share_hints(search);
	return true;
}

struct stacksnap_error *snap_wait_find_hints(struct snap_wait_analysis *waits)
{
	_cleanup_free_ struct sought *sought = NULL;
	struct search search = { .waits = waits };

	if (waits->analysis->options->explain != SNAP_EXPLAIN_ALL)
		return NULL;
	sought = malloc((waits->waiter_count + 1) * sizeof(*sought));
	SNAP_TRY(snap_no_memory_unless(sought));
	search.sought = sought;
	return snap_no_memory_unless(
		snap_all(waits->analysis->capture->process_count, i, search_process(&search, i)));
}
