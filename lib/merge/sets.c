/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sets of hosts as ranges: see sets.h. */
#include "merge/sets.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

/* At `at`, where all ranges before it end below the host. */
static bool insert(struct snap_host_set *set, size_t at, uint32_t host)
{
	bool joins_before = at > 0 && set->ranges[at - 1].last + 1 == host,
	     joins_after = at < set->count && set->ranges[at].first == host + 1;

	if (joins_before && joins_after) {
		set->ranges[at - 1].last = set->ranges[at].last;
		memmove(&set->ranges[at], &set->ranges[at + 1],
			(--set->count - at) * sizeof(*set->ranges));
	} else if (joins_before) {
		set->ranges[at - 1].last = host;
	} else if (joins_after) {
		set->ranges[at].first = host;
	} else {
		if (!snap_reserve_array(set->ranges, set->capacity, set->count + 1))
			return false;
		memmove(&set->ranges[at + 1], &set->ranges[at],
			(set->count++ - at) * sizeof(*set->ranges));
		set->ranges[at] = (struct snap_host_range){ host, host };
	}
	return true;
}

bool snap_host_set_add(struct snap_host_set *set, uint32_t host)
{
	size_t at = set->count;

	if (at && set->ranges[at - 1].last >= host)
		at = snap_first_not(set->count, i, set->ranges[i].last < host);
	return (at < set->count && set->ranges[at].first <= host) || insert(set, at, host);
}

size_t snap_host_set_size(const struct snap_host_set *set)
{
	return snap_sum(set->count, i, set->ranges[i].last - set->ranges[i].first + 1);
}

SNAP_ORDER(compare_numbers, uint32_t, a, b, snap_compare(*a, *b));

bool snap_host_set_renumber(const struct snap_host_set *set, const uint32_t *numbers,
			    uint32_t *scratch, struct snap_arena *arena, struct snap_host_set *ret)
{
	size_t count = 0, ranges = 0;

	for (size_t i = 0; i < set->count; i++)
		for (uint32_t k = set->ranges[i].first; k <= set->ranges[i].last; k++)
			scratch[count++] = numbers[k];
	if (count > 1)
		qsort(scratch, count, sizeof(*scratch), compare_numbers);
	for (size_t i = 0; i < count; i++)
		ranges += i == 0 || scratch[i] != scratch[i - 1] + 1;
	*ret = (struct snap_host_set){ .capacity = ranges };
	ret->ranges = snap_arena_new_array(arena, ranges + 1, struct snap_host_range);
	for (size_t i = 0; ret->ranges && i < count; i++)
		if (i == 0 || scratch[i] != scratch[i - 1] + 1)
			ret->ranges[ret->count++] =
				(struct snap_host_range){ scratch[i], scratch[i] };
		else
			ret->ranges[ret->count - 1].last = scratch[i];
	return ret->ranges != NULL;
}
