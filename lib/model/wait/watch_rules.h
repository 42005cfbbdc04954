/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rules of a watch: which conditions it checks, and when it reports each. Plain values. Knows
 * nothing of how a condition is found (watch/conditions.h), nor of what an alert holds (alert.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The words of the JSON and of --watch stand in model/wait/alert.c. */
enum snap_alert_kind {
	SNAP_ALERT_DEADLOCK, /* threads that can never go on, in two snapshots */
	SNAP_ALERT_BLOCKED,  /* many threads wait for one, or for an owner that never comes */
	SNAP_ALERT_STUCK,    /* the same wait for a lock, a file, a child or a peer */
	SNAP_ALERT_DISK,     /* state D, in the same function of the kernel */
	SNAP_ALERT_SPINNING, /* uses a processor, at the same place */
	SNAP_ALERT_POOL,     /* no thread of a pool waits for work */
	SNAP_ALERT_PEER,     /* a connection does not move: nothing is acknowledged */
	SNAP_ALERT_GROWTH,   /* ever more threads of one name */
	SNAP_ALERT_KINDS,
};

struct snap_watch_rule {
	bool on;
	/* BLOCKED: threads; SPINNING: percent of a processor; GROWTH: percent; others: unused */
	uint32_t least;
	int64_t for_ns; /* how long it must hold */
};

struct snap_watch_rules {
	struct snap_watch_rule of[SNAP_ALERT_KINDS];
};
