/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shares of a limit, by users first: see fair_share.h. */
#include "analyze/fair_share.h"

#include "base/bsearch.h"
#include "base/cleanup.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Whose a claim is; at the last level each is its own. */
enum level { BY_USER, BY_CONTAINER, BY_PROCESS };

/* Of some neighbours in the order of users and containers. */
struct group {
	size_t first, count;
	uint64_t bytes;
};

struct sharing {
	struct snap_claim **claims; /* in that order */
	struct group *groups;       /* room for as many, of each level */
	size_t count;
};

static int compare_containers(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

SNAP_ORDER(compare_claims, const struct snap_claim *, a, b, snap_compare((*a)->uid, (*b)->uid),
	   compare_containers((*a)->container, (*b)->container));

static bool is_same_group(enum level level, const struct snap_claim *a, const struct snap_claim *b)
{
	return level != BY_PROCESS && a->uid == b->uid &&
	       (level == BY_USER || compare_containers(a->container, b->container) == 0);
}

SNAP_ORDER(compare_groups, struct group, a, b, snap_compare(a->bytes, b->bytes));

static size_t find_groups(const struct sharing *sharing, enum level level,
			  const struct group *within, struct group *groups)
{
	size_t count = 0;

	for (size_t i = within->first; i < within->first + within->count; i++) {
		const struct snap_claim *claim = sharing->claims[i];

		if (i == within->first || !is_same_group(level, sharing->claims[i - 1], claim))
			groups[count++] = (struct group){ .first = i };
		groups[count - 1].count++;
		groups[count - 1].bytes += claim->bytes;
	}
	return count;
}

/* In the order of their sizes, small ones leave to the others what they do not need. */
static void share_out(const struct sharing *sharing, enum level level, const struct group *within,
		      uint64_t limit)
{
	struct group *groups = sharing->groups + level * sharing->count + within->first;
	size_t count = find_groups(sharing, level, within, groups);

	qsort(groups, count, sizeof(*groups), compare_groups);
	for (size_t i = 0; i < count; i++) {
		uint64_t share = limit / (count - i);

		if (groups[i].bytes <= share) {
			limit -= groups[i].bytes;
			continue;
		}
		limit -= share;
		if (level == BY_PROCESS)
			sharing->claims[groups[i].first]->share = share;
		else
			share_out(sharing, level + 1, &groups[i], share);
	}
}

int snap_fair_shares(struct snap_claim *claims, size_t count, uint64_t limit)
{
	_cleanup_free_ struct snap_claim **ordered = NULL;
	_cleanup_free_ struct group *groups = NULL;
	struct group all = { .count = count };

	for (size_t i = 0; i < count; i++) {
		all.bytes += claims[i].bytes;
		claims[i].share = UINT64_MAX;
	}
	if (all.bytes <= limit)
		return 0;
	ordered = calloc(count, sizeof(*ordered));
	groups = calloc(count, (BY_PROCESS + 1) * sizeof(*groups));
	if (!ordered || !groups)
		return -1;
	for (size_t i = 0; i < count; i++)
		ordered[i] = &claims[i];
	qsort(ordered, count, sizeof(*ordered), compare_claims);
	share_out(&(struct sharing){ ordered, groups, count }, BY_USER, &all, limit);
	return 1;
}
