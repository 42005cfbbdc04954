/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Alerts: the problems that a watch has noticed. Each is raised once and over once.
 *
 * A plain value that is valid while the alert is reported. It points into the watch and into the
 * snapshot that showed the problem. Texts of the target are raw bytes. Knows nothing of how it was noticed.
 */
#pragma once

#include "model/snapshot.h"
#include "model/wait/watch_rules.h"

struct snap_alert {
	enum snap_alert_kind kind;
	bool over;
	int64_t time_ns;  /* CLOCK_REALTIME */
	int64_t since_ns; /* how long it has been so; `over`: how long it was */
	pid_t pid;
	const char *process; /* its name; NULL unknown */
	const pid_t *tids;   /* of the problem; BLOCKED: the thread that the others wait for */
	size_t tid_count;
	const char *name; /* of the thread, or what the names of all have in common; NULL */
	uint64_t count; /* BLOCKED: how many wait; SPINNING: percent; GROWTH: threads now; else 0 */
	uint64_t before; /* GROWTH: threads at the first of the sweeps */
	/* where it was seen; NULL: nowhere, or it is over */
	const struct snap_wait *wait;
	/* BLOCKED: the wait of the first thread that waits for it, and its own stack */
	const struct snap_wait *held;
	const char *function;
	const struct snap_stack *stack;
	const struct snap_deadlock *deadlock;
	const struct snap_snapshot *snapshot;
};

const char *snap_alert_word(enum snap_alert_kind kind);
/* SNAP_ALERT_KINDS: there is none. */
enum snap_alert_kind snap_alert_of_word(const char *word, size_t length);
/* The default rules. */
struct snap_watch_rules snap_watch_default_rules(void);
