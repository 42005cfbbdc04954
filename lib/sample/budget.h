/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Budget: how long a process may still be made to stand in a recording.
 *
 * A bucket that fills with time, at a share of it, and is emptied by stops. It may be overdrawn by
 * what could not be foreseen, which is waited off. All by numbers: knows no clock, and not what a
 * stop is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The share, and how long the whole will take; the same for all processes. */
struct snap_budget_rules {
	uint32_t share;     /* in millionths; 0, or all of it: no limit */
	int64_t horizon_ns; /* 0: it has no known end */
	int64_t since_ns;   /* when the time begins to count; INT64_MAX: not known yet */
};

struct snap_budget {
	int64_t begun_ns, filled_ns; /* 0: nothing was asked for yet */
	int64_t left_ns;             /* as of filled_ns */
	int64_t reserved_ns;         /* for stops that were asked for */
	int64_t usual_ns;            /* what one stop takes, if it takes long */
	int64_t long_ns;             /* the same of stops that were made together */
	int64_t stood_ns;            /* in all */
	int64_t call_ns, until_ns;   /* of the current stops: how long it was stopped, until when */
};

static inline bool snap_budget_is_limited(const struct snap_budget_rules *rules)
{
	return rules->share > 0 && rules->share < 1000000;
}

/* Whether one more stop fits; if so its usual time is reserved. */
bool snap_budget_ask(struct snap_budget *budget, const struct snap_budget_rules *rules,
		     int64_t now_ns);
/* For how long it may stand now, all in all; INT64_MAX: no limit. */
int64_t snap_budget_room(struct snap_budget *budget, const struct snap_budget_rules *rules,
			 int64_t now_ns);
/* What it may stand in a second, which is what is saved up at most; INT64_MAX: no limit. */
int64_t snap_budget_most(const struct snap_budget_rules *rules);
/*
 * A thread of it stands from then on, for so long. Those of a call begin in order; what they share
 * counts once, in call_ns, which snap_budget_spend() begins anew.
 */
void snap_budget_add(struct snap_budget *budget, int64_t from_ns, int64_t stood_ns);
/* `stops` that were asked for stopped the process for so long. */
void snap_budget_spend(struct snap_budget *budget, unsigned stops, int64_t stood_ns);
