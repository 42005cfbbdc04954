/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Samples of a recording added up: one row for those that a profile does not tell apart.
 *
 * Rows come in the order in which the recording first has them, so the same recording gives the
 * same rows. Texts are raw bytes of the recording; equal text is the same pointer. Knows nothing of
 * any format.
 */
#pragma once

#include "base/table.h"
#include "model/options.h"
#include "model/recording.h"

/* What is distinguished, besides process, stack and thread name. */
enum snap_tally_by {
	SNAP_TALLY_TID = 1 << 0,
	SNAP_TALLY_WAIT = 1 << 1,   /* state, syscall, wchan */
	SNAP_TALLY_TASK = 1 << 2,   /* tasks, which have labels of their own */
	SNAP_TALLY_OBJECT = 1 << 3, /* what it waits for, where that is sure … */
	SNAP_TALLY_GUESS = 1 << 4,  /* … or a hint */
	SNAP_TALLY_HOLDER = 1 << 5, /* with OBJECT: in which function the holder was */
	SNAP_TALLY_STATE = 1 << 6,  /* a part of WAIT */
};

struct snap_tally_row {
	const char *name, *syscall, *wchan; /* NULL: none, or not distinguished */
	const char *object;                 /* snap_wait_object(); the same */
	const char *holder;                 /* render/wait/holders.h; the same */
	size_t process;
	uint32_t stack;
	pid_t tid;                     /* 0: not distinguished */
	enum snap_state state;         /* SNAP_STATE_UNKNOWN if not distinguished */
	const struct snap_track *task; /* of a task, if they are distinguished */
	uint64_t count;                /* samples */
};

struct snap_tally {
	struct snap_tally_row *rows;
	size_t count;
	/* inside */
	size_t capacity;
	struct snap_hash_table table; /* of rows */
	struct snap_arena arena;
	struct snap_interner texts;
	size_t object_bytes; /* of texts of objects */
};

/* What a profile of rows (pprof) tells apart, and one of frames alone. */
unsigned snap_tally_of_profile(const struct snap_options *options);
unsigned snap_tally_of_frames(const struct snap_options *options);

/* `by`: enum snap_tally_by. NO_MEMORY. Released by snap_tally_deinit() in any case. */
struct stacksnap_error *snap_tally_init(struct snap_tally *tally,
					const struct snap_recording *recording,
					unsigned by) _must_check_;
void snap_tally_deinit(struct snap_tally *tally);
