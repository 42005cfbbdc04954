/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What threads of a recording waited for, by its name: one text for all threads that waited for the same.
 * Texts are raw bytes of the target. Knows no times.
 */
#pragma once

#include "model/options.h"
#include "model/recording.h"

/* A wait as a report shows it: addresses of what has no name are for -v. */
struct snap_wait snap_shown_wait(const struct snap_options *options, const struct snap_wait *wait);

/* A socket with an end on the other side that is known by its address. */
bool snap_waited_is_connection(const struct snap_wait *wait);

/*
 * "mutex ledger_lock", "accept on tcp 0.0.0.0:80", and where it has no name what is known of it:
 * "epoll: 2 descriptors", "sleep". Never empty; malloc'ed; NULL without memory.
 */
char *snap_waited_text(const struct snap_wait *wait);

/*
 * All connections to one peer: "tcp -> 10.0.0.9:5432"; with `by_local` those of one own end: "tcp at
 * 0.0.0.0:80". The same.
 */
char *snap_waited_connection_text(const struct snap_wait *wait, bool by_local);

/*
 * Whether a holder is known, or else a thread must exist that has to act. Threads that
 * wait for work do so mostly at a condition or a semaphore, which keep no owner.
 */
bool snap_waited_is_owed(const struct snap_recorded_wait *recorded);

/* Bytes that a wait takes as JSON, at the most. */
size_t snap_waited_bytes(const struct snap_wait *wait);
