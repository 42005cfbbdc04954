/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Kinds of waits: a table with a row for each, in words.c. The row has its words and what is true of
 * all waits of the kind, for analysis, lines, tables and alerts. A new kind is one row there.
 */
#pragma once

#include "model/wait/wait.h"

/* Facts of a kind; bits. */
enum snap_wait_kind_fact {
	SNAP_KIND_LOCK = 1 << 0,           /* one has it to itself while others wait for it */
	SNAP_KIND_ENDED_BY_OWNER = 1 << 1, /* the owner alone can end such a wait */
	SNAP_KIND_RUN = 1 << 2,            /* the owner runs it, and does not hold it */
	SNAP_KIND_HAS_ENDS = 1 << 3,       /* processes have it, or its other end, open */
	SNAP_KIND_IDLE = 1 << 4,           /* without a known owner it may be a wait for work */
	SNAP_KIND_STUCK = 1 << 5,          /* it is never a wait for work */
	SNAP_KIND_STUCK_WRITER = 1 << 6,   /* the same of a thread that writes or connects */
	SNAP_KIND_SOCKET = 1 << 7,
	SNAP_KIND_POLL = 1 << 8,     /* of several descriptors */
	SNAP_KIND_HALTED = 1 << 9,   /* the thread has been halted; it did not go to wait */
	SNAP_KIND_ADDRESS = 1 << 10, /* its text is the noun and an address */
	SNAP_KIND_NUMBER = 1 << 11,  /* its text is the noun and a path or a number */
	/* A lock that a thread holds, not a file lock: processes have that one. */
	SNAP_KIND_HELD = SNAP_KIND_LOCK | SNAP_KIND_ENDED_BY_OWNER | SNAP_KIND_STUCK,
};

struct snap_wait_kind_row {
	const char *word;   /* of the JSON */
	const char *noun;   /* as people call it; NULL: as the JSON does */
	const char *before; /* between "waits" and the object; NULL: its line begins otherwise */
	unsigned facts;     /* bits of enum snap_wait_kind_fact */
};

const struct snap_wait_kind_row *snap_wait_kind_row(enum snap_wait_kind kind);
/* Whether all of these facts are true of a kind. */
bool snap_wait_kind_is(enum snap_wait_kind kind, unsigned facts);
