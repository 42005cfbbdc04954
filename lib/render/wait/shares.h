/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which threads held an object of a recording while others waited for it: waits of many threads and the time
 * line of one owner, multiplied. A part of waited.c.
 */
#pragma once

#include "render/wait/holders.h"
#include "render/wait/spells.h"
#include "render/wait/waited.h"

/* A time in which a thread waited: [begin, end) of slots. */
struct snap_waited_stretch {
	uint64_t begin, end;
};

/* One thread in one function that had an object. */
struct snap_share {
	const char *function;
	enum snap_owner_lack lack;
	size_t track;
	pid_t tid;
	uint64_t slots; /* of the threads that waited meanwhile */
};

/* All zero: empty. */
struct snap_shares {
	struct snap_share *items;
	size_t count, capacity;
};

void snap_shares_deinit(struct snap_shares *shares);

/*
 * Adds those of one object; `stretches` in any order. A thread that held it at two ticks, without
 * another holder between, held it when ticks were missed. False without memory.
 */
bool snap_shares_add(struct snap_shares *shares, const struct snap_spells *spells,
		     const struct snap_holder_spans *held,
		     const struct snap_waited_stretch *stretches, size_t count) _must_check_;

/*
 * The holders of a row whose slots are known, of which at most so many are listed; in the arena.
 * False without memory.
 */
bool snap_shares_list(struct snap_shares *shares, const struct snap_recording *recording,
		      struct snap_arena *arena, size_t most,
		      struct snap_waited_row *row) _must_check_;

/* What so many slots are in time. */
int64_t snap_waited_ns(const struct snap_recording *recording, uint64_t slots);
