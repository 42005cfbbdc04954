/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Alarms: what holds just now, and for how long; each is raised once and over once.
 *
 * Conditions report what they see, look after look, under a key that is the same as long as it is
 * the same thing. An alarm keeps when it was seen first, whether it was reported, and the text for
 * its end. It does not know how a condition is found.
 */
#pragma once

#include "base/error.h"
#include "model/wait/alert.h"

enum { SNAP_ALARM_TIDS = 64 }; /* of an alarm that are kept */

struct snap_alarm;

struct snap_alarms {
	const struct snap_watch_rules *rules;
	struct snap_alarm **list;
	size_t count, capacity;
	uint64_t round;
	/* Called with each alert; false ends it: no further alert is reported. */
	bool (*tell)(void *context, const struct snap_alert *alert);
	void *context;
	bool enough;
	size_t raised; /* ever */
};

/* Something that holds. */
struct snap_sighting {
	uint64_t key;       /* with the kind of `alert` the identity */
	int64_t holds_ns;   /* for how long it has, as far as the sighting itself knows */
	unsigned sightings; /* so many evidences there must be, each with another `evidence` */
	uint64_t evidence;
	struct snap_alert alert; /* time, since and over are not looked at */
};

void snap_alarms_deinit(struct snap_alarms *alarms);

/* Each round of looks begins so … */
void snap_alarms_begin(struct snap_alarms *alarms);
/* … then all that holds is reported, at `now_ns` (CLOCK_MONOTONIC); NO_MEMORY … */
struct stacksnap_error *snap_alarms_see(struct snap_alarms *alarms,
					const struct snap_sighting *sighting,
					int64_t now_ns) _must_check_;
/* … and what was not reported is over. */
void snap_alarms_end(struct snap_alarms *alarms, int64_t now_ns);

/* Whether one of a kind holds, reported or not. */
bool snap_alarms_hold(const struct snap_alarms *alarms, enum snap_alert_kind kind);
/* Whether something has been seen, but not often enough: one more evidence decides. */
bool snap_alarms_lack_evidence(const struct snap_alarms *alarms);
