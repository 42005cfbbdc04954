/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Divides a limit fairly among processes: a process that needs less than its share keeps all it
 * has. Users share first, then their containers, then the processes of these. So a thousand
 * processes of one user take nothing from those of another user. Knows nothing of the things that
 * are shared.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct snap_claim {
	uint64_t bytes;        /* what it needs */
	uid_t uid;             /* (uid_t)-1 of all unknown ones, which are one */
	const char *container; /* NULL: none */
	uint64_t share;        /* what it may have; UINT64_MAX: all it needs */
};

/*
 * Sets the share of each, so that all together have no more than `limit` bytes; the order stays.
 * Returns 1; 0 where all fit as they are; -1 without memory.
 */
int snap_fair_shares(struct snap_claim *claims, size_t count, uint64_t limit);
