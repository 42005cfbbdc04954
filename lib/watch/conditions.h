/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Conditions: what of the alerts holds, by a sweep, the pools and the last snapshot; and whether
 * another snapshot is needed to tell. Knows neither when that may be taken, nor where alerts go.
 */
#pragma once

#include "watch/alarm.h"
#include "watch/pools.h"
#include "watch/sweep.h"
#include "watch/view.h"

struct snap_conditions {
	const struct snap_options *options;
	const struct snap_sweep *sweep;
	const struct snap_pools *pools;
	const struct snap_view *view;
	struct snap_alarms *alarms;
};

/* Reports all that holds at the look of the sweep. NO_MEMORY. */
struct stacksnap_error *
snap_conditions_check(const struct snap_conditions *conditions) _must_check_;

/*
 * Whether a snapshot would tell more than the last one: a thread waits elsewhere by now and keeps
 * waiting, or something must be seen once more or followed.
 */
bool snap_conditions_need_view(const struct snap_conditions *conditions);
