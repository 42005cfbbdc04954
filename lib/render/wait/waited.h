/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Time by wait: what the threads of a recording waited for, for how long, and which thread held it
 * meanwhile.
 *
 * One row for each object of a process; connections to one peer are one row, and so are those of
 * one listening address. What another thread must provide (a lock, data of a peer, the end of a
 * child) comes before what threads without work wait for (the time, new connections, a condition).
 * Plain values; texts are raw bytes of the recording. Knows nothing of formats.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "model/options.h"
#include "model/recording.h"

/* A function in which threads had the object while others waited for it. */
struct snap_waited_holder {
	const char *function;      /* NULL: not known */
	enum snap_owner_lack lack; /* KNOWN; else why the thread can never release it */
	pid_t pid, tid;            /* of the thread that had it the longest; pid 0: not known */
	const char *name;          /* of this thread; NULL: not known */
	size_t threads;
	uint64_t slots; /* of the threads that waited meanwhile */
	int64_t ns;
};

struct snap_waited_row {
	size_t process;               /* index in the recording's */
	const struct snap_wait *wait; /* of the first of its objects */
	/* "mutex ledger_lock", "tcp 10.0.0.9:5432 (12 connections)", "sleep"; never empty */
	const char *text;
	bool owed;
	size_t objects;          /* 1, but for connections */
	uint64_t samples, slots; /* those of missed ticks are slots, too: see spells.h */
	int64_t ns, longest_ns;  /* of all threads; of one thread without an end between */
	size_t threads;
	bool keeps_owner; /* a holder may be known: the rest of the time is `unknown_ns` */
	struct snap_waited_holder *holders; /* by time down */
	size_t holder_count, holder_total;  /* listed, and all */
	int64_t other_ns;                   /* of those that are not listed */
	int64_t unknown_ns;                 /* no holder is known */
};

/* What is owed, and then what is not. */
struct snap_waited_part {
	struct snap_waited_row *rows; /* by time down */
	size_t row_count, row_total;  /* listed, and all */
	int64_t ns, other_ns;         /* of all rows; of those that are not listed */
};

struct snap_waited {
	struct snap_arena arena;
	struct snap_waited_part owed, idle;
	/*
	 * Of ticks that were missed: of threads that waited before or behind, of which it is not known
	 * what they did meanwhile. In no row.
	 */
	int64_t missed_ns;
};

/* Rows and holders that are listed. */
struct snap_waited_most {
	size_t owed, idle, holders;
};

/*
 * Of waits that are certain or likely, or of all with --explain; nothing with --no-explain. The
 * result borrows from the recording. NO_MEMORY; released by snap_waited_deinit() in any case.
 */
struct stacksnap_error *snap_waited_init(struct snap_waited *waited,
					 const struct snap_recording *recording,
					 const struct snap_options *options,
					 struct snap_waited_most most) _must_check_;
void snap_waited_deinit(struct snap_waited *waited);

/* Whether there is anything to tell of waits. */
static inline bool snap_waited_has_rows(const struct snap_waited *waited)
{
	return waited->owed.row_count || waited->idle.row_count;
}
