/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which thread held what threads of a recording waited for, and what the holder did meanwhile: the innermost
 * function of its own at each tick.
 *
 * Made once for each wait that is asked for. Texts are raw bytes of the recording; equal text is
 * the same pointer. Knows no waiters and no format.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "model/recording.h"

/* The innermost function of a thread's own; NULL: none is known. */
const char *snap_holder_function(const struct snap_frame *const *frames, size_t count);

/* From tick `first` to tick `last` one thread had it, and stood in one function. */
struct snap_holder_span {
	uint32_t first, last;
	size_t track; /* index in tracks; SIZE_MAX: not in the recording */
	pid_t tid;
	enum snap_owner_lack
		lack;         /* KNOWN; else why `tid` has it for ever: EXITED, AT_FORK, DIED */
	const char *function; /* NULL: it has none of its own, or was not sampled */
};

/* In order, not overlapping; between them no holder is known. */
struct snap_holder_spans {
	const struct snap_holder_span *items; /* NULL: not made yet */
	size_t count;
};

struct snap_holders {
	const struct snap_recording *recording;
	struct snap_arena arena;
	struct snap_interner names;
	const char **functions;          /* of each stack: its own function, see `looked_at` */
	bool *looked_at;                 /* at the stack */
	struct snap_holder_spans *lists; /* of each wait */
	size_t steps, pieces;            /* that may still be taken, see holders.c */
};

/* NO_MEMORY. Released by snap_holders_deinit() in any case. */
struct stacksnap_error *snap_holders_init(struct snap_holders *holders,
					  const struct snap_recording *recording) _must_check_;
void snap_holders_deinit(struct snap_holders *holders);

/* Of a wait's number in the recording; NULL without memory. */
const struct snap_holder_spans *snap_holders_of(struct snap_holders *holders, size_t wait);

/* The holder at a tick; NULL: none is known, or no memory. */
const struct snap_holder_span *snap_holders_at(struct snap_holders *holders, size_t wait,
					       uint32_t tick);

/* A part of a run in which holder and place of the holder stayed the same. */
struct snap_wait_piece {
	uint32_t first, last;
	const struct snap_holder_span *held; /* NULL: not known */
};

/*
 * Walks the parts of a run that waits, of which there is one at least. Beyond a number of them, of
 * all runs, the rest of each run is one part without a known holder.
 */
struct snap_wait_pieces {
	struct snap_holders *holders;
	const struct snap_run *run;
	const struct snap_holder_spans *list;
	size_t at;
	uint32_t tick;
	bool over, failed; /* failed: no memory */
};

void snap_wait_pieces_init(struct snap_wait_pieces *pieces, struct snap_holders *holders,
			   const struct snap_run *run);
/* False: there are no more, or no memory. */
bool snap_wait_pieces_next(struct snap_wait_pieces *pieces, struct snap_wait_piece *piece);
