/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Budget: see budget.h. The bucket fills a little slower than the share says, which makes up for
 * what it holds at the beginning and for what is not measured: how long it takes a thread that was
 * let go to get a processor.
 */
#include "sample/budget.h"

enum {
	WHOLE = 1000000,       /* a share of all */
	FIRST_NS = 200000000,  /* how much time a new bucket holds the share of */
	MOST_NS = 1000000000,  /* and a full one */
	FIRST_STOP_NS = 30000, /* of which nothing is known yet */
	USUAL = 8,             /* after so many short stops a long one is mostly forgotten */
};

static int64_t share_of(const struct snap_budget_rules *rules, int64_t ns)
{
	/* Shares are at most a million, and times at most years. */
	return ns / WHOLE * rules->share + ns % WHOLE * rules->share / WHOLE;
}

static void fill(struct snap_budget *budget, const struct snap_budget_rules *rules, int64_t now_ns)
{
	int64_t most = share_of(rules, MOST_NS), passed = now_ns - budget->filled_ns;

	if (!budget->begun_ns) {
		budget->begun_ns = now_ns;
		budget->left_ns = share_of(rules, FIRST_NS);
		budget->usual_ns = FIRST_STOP_NS;
	} else if (passed > 0) {
		budget->left_ns += share_of(rules, passed) / 10 * 9;
	}
	if (budget->left_ns > most)
		budget->left_ns = most;
	budget->filled_ns = now_ns;
}

bool snap_budget_ask(struct snap_budget *budget, const struct snap_budget_rules *rules,
		     int64_t now_ns)
{
	int64_t wanted, length;

	if (!snap_budget_is_limited(rules))
		return true;
	fill(budget, rules, now_ns);
	wanted = budget->reserved_ns + budget->usual_ns;
	/* What takes longer than a full bucket holds must be possible some time, too. */
	if (budget->left_ns < wanted && budget->left_ns < share_of(rules, MOST_NS))
		return false;
	/* Towards the end there is no later in which to wait something off. */
	length = now_ns - budget->begun_ns;
	length = length > rules->horizon_ns ? length : rules->horizon_ns;
	if (rules->horizon_ns && budget->stood_ns &&
	    budget->stood_ns + wanted > share_of(rules, length))
		return false;
	budget->reserved_ns = wanted;
	return true;
}

/* On a busy machine few stops are much longer than most, and a share has no room for those. */
void snap_budget_spend(struct snap_budget *budget, unsigned stops, int64_t stood_ns)
{
	int64_t each = stops ? stood_ns / stops : 0;

	budget->left_ns -= stood_ns;
	budget->stood_ns += stood_ns;
	budget->reserved_ns = 0;
	if (each > budget->usual_ns)
		budget->usual_ns = each;
	else if (stops)
		budget->usual_ns += (each - budget->usual_ns) / USUAL;
}
