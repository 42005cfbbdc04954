/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Budget: see budget.h. The bucket fills a little slower than the share says, which makes up for
 * what it holds at the beginning and for what is not measured: how long it takes a thread that was
 * let go to get a processor.
 */
#include "sample/budget.h"

#include "base/cleanup.h"

enum {
	WHOLE = 1000000,       /* a share of all */
	FIRST_NS = 200000000,  /* how much time a new bucket holds the share of */
	MOST_NS = 1000000000,  /* and a full one */
	FIRST_STOP_NS = 30000, /* of which nothing is known yet */
	USUAL = 8,             /* after so many short stops a long one is mostly forgotten */
};

static int64_t share_of_period(const struct snap_budget_rules *rules, int64_t ns)
{
	/* Shares are at most a million, and times at most years. */
	return ns / WHOLE * rules->share + ns % WHOLE * rules->share / WHOLE;
}

/* As long as the time that counts has not begun, there is only what a bucket holds at first. */
static void fill_bucket(struct snap_budget *budget, const struct snap_budget_rules *rules,
			int64_t now_ns)
{
	int64_t most = share_of_period(rules, MOST_NS), from = budget->filled_ns;

	if (!budget->begun_ns) {
		budget->begun_ns = from = now_ns;
		budget->left_ns = share_of_period(rules, FIRST_NS);
		budget->usual_ns = FIRST_STOP_NS;
	}
	from = SNAP_MAX(from, rules->since_ns);
	if (now_ns > from)
		budget->left_ns += share_of_period(rules, now_ns - from) / 10 * 9;
	budget->left_ns = SNAP_MIN(budget->left_ns, most);
	budget->filled_ns = now_ns;
}

/*
 * The share of the time so far, whose end may come any moment: then there is no later in which to
 * wait something off.
 */
static int64_t share_so_far(const struct snap_budget *budget, const struct snap_budget_rules *rules,
			    int64_t now_ns)
{
	int64_t from = budget->begun_ns > rules->since_ns ? budget->begun_ns : rules->since_ns;
	int64_t least = FIRST_NS, length = now_ns > from ? now_ns - from : 0;

	if (rules->horizon_ns && rules->horizon_ns < least)
		least = rules->horizon_ns;
	return share_of_period(rules, length > least ? length : least);
}

bool snap_budget_ask(struct snap_budget *budget, const struct snap_budget_rules *rules,
		     int64_t now_ns)
{
	int64_t wanted, reserved;

	if (!snap_budget_is_limited(rules))
		return true;
	fill_bucket(budget, rules, now_ns);
	reserved = budget->reserved_ns + budget->usual_ns;
	wanted = reserved > budget->long_ns ? reserved : budget->long_ns;
	/* What takes longer than a full bucket holds must be possible some time, too, if alone. */
	if (budget->left_ns < wanted &&
	    (budget->reserved_ns || budget->left_ns < share_of_period(rules, MOST_NS)))
		return false;
	if (budget->stood_ns && budget->stood_ns + wanted > share_so_far(budget, rules, now_ns))
		return false;
	budget->reserved_ns = reserved;
	return true;
}

int64_t snap_budget_room(struct snap_budget *budget, const struct snap_budget_rules *rules,
			 int64_t now_ns)
{
	int64_t left;

	if (!snap_budget_is_limited(rules))
		return INT64_MAX;
	fill_bucket(budget, rules, now_ns);
	left = share_so_far(budget, rules, now_ns) - budget->stood_ns;
	left = left < budget->left_ns ? left : budget->left_ns;
	return left > 0 ? left : 0;
}

int64_t snap_budget_most(const struct snap_budget_rules *rules)
{
	return snap_budget_is_limited(rules) ? share_of_period(rules, MOST_NS) : INT64_MAX;
}

/* What one stop takes, or some together, from what the last took: the next may take as long. */
static int64_t expect(int64_t expected_ns, int64_t last_ns)
{
	return last_ns > expected_ns ? last_ns : expected_ns + (last_ns - expected_ns) / USUAL;
}

void snap_budget_add(struct snap_budget *budget, int64_t from_ns, int64_t stood_ns)
{
	int64_t until = from_ns + stood_ns;

	from_ns = SNAP_MAX(from_ns, budget->until_ns);
	if (until <= from_ns)
		return;
	budget->call_ns += until - from_ns;
	budget->until_ns = until;
}

/* On a busy machine few stops are much longer than most, and a share has no room for those. */
void snap_budget_spend(struct snap_budget *budget, unsigned stops, int64_t stood_ns)
{
	budget->left_ns -= stood_ns;
	budget->stood_ns += stood_ns;
	budget->reserved_ns = budget->call_ns = budget->until_ns = 0;
	if (!stops)
		return;
	budget->usual_ns = expect(budget->usual_ns, stood_ns / stops);
	budget->long_ns = expect(budget->long_ns, stood_ns);
}
