/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ledger: see ledger.h. */
#include "serve/ledger.h"

static const double LEAST_SHARE = 0.001; /* that --max-stopped of a recording may be */

static void pay_off(struct snap_serve_ledger *ledger, int64_t now_ns)
{
	double paid = (double)(now_ns - ledger->at_ns) * (ledger->share - ledger->set_aside);

	ledger->debt_ns = ledger->debt_ns > paid ? ledger->debt_ns - paid : 0;
	ledger->at_ns = now_ns;
}

int64_t snap_serve_ledger_wait(struct snap_serve_ledger *ledger, int64_t now_ns)
{
	double rate = ledger->share - ledger->set_aside;

	if (ledger->share >= 1)
		return 0;
	pay_off(ledger, now_ns);
	if (rate < LEAST_SHARE * 0.999)
		return INT64_MAX;
	/* A rest of a nanosecond that rounding leaves is none. */
	return ledger->debt_ns < 1 ? 0 : (int64_t)(ledger->debt_ns / rate) + 1;
}

void snap_serve_ledger_add(struct snap_serve_ledger *ledger, int64_t now_ns, int64_t stopped_ns)
{
	pay_off(ledger, now_ns);
	if (stopped_ns > 0)
		ledger->debt_ns += (double)stopped_ns;
}

double snap_serve_ledger_set_aside(struct snap_serve_ledger *ledger, int64_t now_ns)
{
	double left = ledger->share - ledger->set_aside, share = left / 2;

	if (ledger->share >= 1)
		return 1;
	pay_off(ledger, now_ns);
	if (share < LEAST_SHARE)
		share = LEAST_SHARE;
	ledger->set_aside += share;
	return share;
}

void snap_serve_ledger_give_back(struct snap_serve_ledger *ledger, int64_t now_ns, double share,
				 int64_t length_ns, int64_t stopped_ns)
{
	pay_off(ledger, now_ns);
	if (ledger->share >= 1)
		return;
	ledger->set_aside -= share;
	if (ledger->set_aside < LEAST_SHARE / 2)
		ledger->set_aside = 0;
	snap_serve_ledger_add(ledger, now_ns, stopped_ns - (int64_t)((double)length_ns * share));
}
