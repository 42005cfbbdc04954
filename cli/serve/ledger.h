/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ledger: how long the server may still make its targets stand still, all requests together.
 *
 * One share of the time for all targets, so each has at most that. What a snapshot has taken is a
 * debt, which is paid off as time goes by; a recording has a part of the share set aside. All by
 * numbers: knows no clock.
 */
#pragma once

#include <stdint.h>

struct snap_serve_ledger {
	double share;     /* of the time, up to 1, which is no limit */
	double set_aside; /* of the share, for recordings that are going on */
	double debt_ns;   /* as of at_ns */
	int64_t at_ns;
};

/* How long no target may be stopped, 0: it may; INT64_MAX: for as long as there are so many recordings. */
int64_t snap_serve_ledger_wait(struct snap_serve_ledger *ledger, int64_t now_ns);
/* They stood still for so long. */
void snap_serve_ledger_add(struct snap_serve_ledger *ledger, int64_t now_ns, int64_t stopped_ns);
/* The share of a new recording, half of what is left; where there is nothing to wait for. */
double snap_serve_ledger_set_aside(struct snap_serve_ledger *ledger, int64_t now_ns);
/* It has ended after so long; what it has taken beyond its share is a debt. */
void snap_serve_ledger_give_back(struct snap_serve_ledger *ledger, int64_t now_ns, double share,
				 int64_t length_ns, int64_t stopped_ns);
