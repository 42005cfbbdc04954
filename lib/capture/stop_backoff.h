/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Backoff of stops: how long a capture of many trees waits for trees that do not stop.
 *
 * Each tree is a stop of its own, and each that stalls costs some hundred milliseconds of patience;
 * many of them would use up the time of the whole run, and all stacks would be lost. So the more
 * was lost by then, the less patience there is for the next; trees of users who have cost much come
 * last; and when a share of the time is over, no more trees are begun. Knows no stop and no process
 * except by the numbers that it gets.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	SNAP_STOP_BACKOFF_USERS = 64,
	/* Percent of patience that are always left, and to the trees that come last. */
	SNAP_STOP_BACKOFF_LEAST = 10,
	SNAP_STOP_BACKOFF_LEAST_OF_ALL = 5,
};

struct snap_stop_backoff {
	/* CLOCK_MONOTONIC: from when on nothing is done twice, no tree begun, no stop goes on. */
	int64_t no_retry_ns, no_tree_ns, no_stop_ns;
	/* Until when the first trees may be read before their stops, and how long later ones. */
	int64_t prepared_ns, prepare_ns;
	int64_t lost_ns; /* over trees that stalled */
	struct {
		uid_t uid;
		int64_t lost_ns;
	} users[SNAP_STOP_BACKOFF_USERS];
	size_t user_count;
};

/* A capture that begins now, of a run that has so long for all. */
void snap_stop_backoff_begin(struct snap_stop_backoff *pace, int64_t now_ns, int64_t timeout_ns);
/* Until when a tree that is begun now is read before its stop. */
int64_t snap_stop_backoff_prepare_until_ns(const struct snap_stop_backoff *pace, int64_t now_ns);
/* For another try: nothing was lost, the time goes on. */
void snap_stop_backoff_again(struct snap_stop_backoff *pace);
/* So much was lost over a tree. */
void snap_stop_backoff_lose(struct snap_stop_backoff *pace, int64_t ns);
/* Processes of this user, in this tree, were the cause; (uid_t)-1: the user is not known. */
void snap_stop_backoff_blame(struct snap_stop_backoff *pace, uid_t uid, int64_t ns);
/* What is left of patience for a tree of this user, in percent. */
uint32_t snap_stop_backoff_patience(const struct snap_stop_backoff *pace, uid_t uid);
/* Whether trees of this user have cost so much that all others come first. */
bool snap_stop_backoff_is_last(const struct snap_stop_backoff *pace, uid_t uid);
