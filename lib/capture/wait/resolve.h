/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits, after the release: what the numbers in the threads' calls lead to.
 *
 *     threads        (calls and wchan of those that were not copied)          threads.c
 *     wants          (which descriptors, locks, queues the calls name)        wants.c
 *     descriptors    (links, fdinfo, what an epoll watches; the same call?)   descriptors.c
 *     sockets        (sock_diag, one dump a network namespace)                sockets.c, dump.c
 *     ends           (the other end of a pipe, socket, lock)          peers.c, scan.c
 *     locks, queues, frozen                                                   locks.c, queues.c …
 *
 * Everything is asked by number, in workers that may be left behind (asker.h); nothing that a
 * target names is opened. Knows nothing of locks in memory, nor of what a wait means.
 */
#pragma once

#include "model/capture.h"
#include "model/options.h"

/*
 * Fills in what facts.h describes but for words of memory and the clocks: descriptors, sockets,
 * locks, ends, outsiders, queues, frozen, and of threads call, wchan and call_confirmed where they
 * are absent. Called once, when all threads run again and have their registers and words, with
 * capture->waits. `until_ns`: CLOCK_MONOTONIC. What is not found out, for want of time or memory,
 * is absent, and `lacks` says why.
 */
void snap_capture_resolve_waits(const struct snap_options *options, struct snap_capture *capture,
				int64_t until_ns);

/* Whether a control group of version 2 is frozen; some microseconds. NULL is not. */
bool snap_capture_is_frozen(const char *group);
