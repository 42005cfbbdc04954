/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Patience, and what is left of it: see stop_backoff.h. */
#include "capture/stop_backoff.h"

enum {
	HALF_NS = 200000000, /* lost, that halve the patience */
	LAST_NS = 200000000, /* lost over a user, whose trees come last then */
	/* Shares of the time of a run, in percent. What is left is for names, and the report. */
	NO_RETRY = 30,
	PREPARED = 50, /* the trees that are begun first … */
	PREPARE = 10,  /* … and what each one has in any case */
	NO_TREE = 60,
	NO_STOP = 75,
};

void snap_stop_backoff_begin(struct snap_stop_backoff *pace, int64_t now_ns, int64_t timeout_ns)
{
	*pace = (struct snap_stop_backoff){
		.no_retry_ns = now_ns + timeout_ns * NO_RETRY / 100,
		.prepared_ns = now_ns + timeout_ns * PREPARED / 100,
		.prepare_ns = timeout_ns * PREPARE / 100,
		.no_tree_ns = now_ns + timeout_ns * NO_TREE / 100,
		.no_stop_ns = now_ns + timeout_ns * NO_STOP / 100,
	};
}

int64_t snap_stop_backoff_prepare_until_ns(const struct snap_stop_backoff *pace, int64_t now_ns)
{
	int64_t least_ns = now_ns + pace->prepare_ns;

	return pace->prepared_ns > least_ns ? pace->prepared_ns : least_ns;
}

void snap_stop_backoff_again(struct snap_stop_backoff *pace)
{
	pace->lost_ns = 0;
	pace->user_count = 0;
}

void snap_stop_backoff_lose(struct snap_stop_backoff *pace, int64_t ns)
{
	pace->lost_ns += ns;
}

void snap_stop_backoff_blame(struct snap_stop_backoff *pace, uid_t uid, int64_t ns)
{
	size_t i = 0;

	if (uid == (uid_t)-1)
		return;
	while (i < pace->user_count && pace->users[i].uid != uid)
		i++;
	if (i == SNAP_STOP_BACKOFF_USERS)
		return;
	if (i == pace->user_count) {
		pace->users[pace->user_count].uid = uid;
		pace->users[pace->user_count++].lost_ns = 0;
	}
	pace->users[i].lost_ns += ns;
}

uint32_t snap_stop_backoff_patience(const struct snap_stop_backoff *pace, uid_t uid)
{
	uint32_t least = snap_stop_backoff_is_last(pace, uid) ? SNAP_STOP_BACKOFF_LEAST_OF_ALL
							      : SNAP_STOP_BACKOFF_LEAST;
	uint32_t percent = 100;

	for (int64_t lost = pace->lost_ns; lost >= HALF_NS && percent > least; lost -= HALF_NS)
		percent /= 2;
	return percent > least ? percent : least;
}

bool snap_stop_backoff_is_last(const struct snap_stop_backoff *pace, uid_t uid)
{
	for (size_t i = 0; i < pace->user_count; i++)
		if (pace->users[i].uid == uid)
			return pace->users[i].lost_ns >= LAST_NS;
	return false;
}
