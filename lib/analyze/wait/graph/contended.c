/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Objects that several threads wait for: struct snap_contended of model/wait/wait.h. */
#include "analyze/wait/waiter.h"

#include "base/bsearch.h"
#include "model/wait/kind.h"

#include <stdlib.h>

/* Locks with an object that is known, in the order of waiters. */
static size_t list_by_object(const struct snap_wait_analysis *waits, size_t *numbers)
{
	size_t count = 0;

	for (size_t i = 0; i < waits->waiter_count; i++) {
		const struct snap_waiter *waiter = &waits->waiters[i];

		if (waiter->wait && waiter->object &&
		    snap_wait_kind_is(waiter->wait->kind, SNAP_KIND_LOCK) &&
		    waiter->wait->confidence >= SNAP_WAIT_IS_LIKELY)
			numbers[count++] = i;
	}
	return count;
}

static int compare_objects(const void *left, const void *right, void *context)
{
	const struct snap_waiter *waiters = context;
	size_t a = *(const size_t *)left, b = *(const size_t *)right;

	return snap_compare(waiters[a].object, waiters[b].object) ?: snap_compare(a, b);
}

SNAP_ORDER(compare_contended, struct snap_contended, a, b, snap_compare(b->waiters, a->waiters),
	   snap_compare(a->wait->address, b->wait->address), snap_compare(a->pid, b->pid));

struct stacksnap_error *snap_wait_find_contended(struct snap_wait_analysis *waits)
{
	struct snap_waits *ret = &waits->analysis->snapshot->waits;
	_cleanup_free_ size_t *numbers = calloc(waits->waiter_count + 1, sizeof(*numbers));
	size_t count = numbers ? list_by_object(waits, numbers) : 0;

	/* Each has two waiters or more. */
	ret->contended =
		snap_arena_new_array(snap_wait_arena(waits), count / 2 + 1, struct snap_contended);
	SNAP_TRY(snap_no_memory_unless(numbers && ret->contended));
	qsort_r(numbers, count, sizeof(*numbers), compare_objects, waits->waiters);
	for (size_t i = 0, end; i < count; i = end) {
		const struct snap_waiter *first = &waits->waiters[numbers[i]];

		for (end = i; end < count && waits->waiters[numbers[end]].object == first->object;)
			end++;
		if (end - i > 1)
			ret->contended[ret->contended_count++] =
				(struct snap_contended){ end - i, snap_waiter_process(first)->pid,
							 first->wait };
	}
	qsort(ret->contended, ret->contended_count, sizeof(*ret->contended), compare_contended);
	if (ret->contended_count > SNAP_WAIT_LIST)
		ret->contended_count = SNAP_WAIT_LIST;
	return NULL;
}
