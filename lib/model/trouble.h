/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Troubles: why a process could not be read or stopped, and what each reason means for a report.
 *
 * One table for all stages: the word in the JSON, whether the report is incomplete (exit status 1),
 * whether a line on standard error says so. Knows
 * nothing of how a trouble is found, nor of the sentences that explain it.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>

/* Files hold these numbers: new ones come last. */
enum snap_trouble {
	SNAP_TROUBLE_NONE,
	SNAP_TROUBLE_NO_SUCH_PROCESS,
	SNAP_TROUBLE_PERMISSION_DENIED,
	SNAP_TROUBLE_ALREADY_TRACED,
	SNAP_TROUBLE_EXITED, /* before it could be stopped */
	SNAP_TROUBLE_STOP_TIMEOUT,
	SNAP_TROUBLE_ZOMBIE,
	SNAP_TROUBLE_KERNEL_THREAD,
	SNAP_TROUBLE_UNSUPPORTED_ARCH,
	SNAP_TROUBLE_INTERNAL,
	SNAP_TROUBLE_NOT_RESPONDING, /* a call that a process can make sleep did not return */
	SNAP_TROUBLE_OUT_OF_TIME,    /* when the time of the run was up it had not been stopped */
	SNAP_TROUBLE_COUNT,
};

/* The processes for which a rule about a trouble is valid. */
enum snap_trouble_scope {
	SNAP_FOR_NONE,
	SNAP_FOR_TARGETS, /* which the user asked for, not their descendants */
	SNAP_FOR_ALL,
};

struct snap_trouble_row {
	const char *word;                          /* error.code of the JSON; "" for none */
	enum snap_trouble_scope loss;              /* the report is not whole: exit status 1 */
	enum snap_trouble_scope warning;           /* a snapshot's line on standard error */
	enum snap_trouble_scope recording_warning; /* a recording's */
	enum snap_error_code error; /* of a recording none of whose targets can be read */
	bool ended;                 /* the process has ended, or never was */
};

extern const struct snap_trouble_row snap_troubles[SNAP_TROUBLE_COUNT];

static inline bool snap_trouble_applies(enum snap_trouble_scope scope, bool is_target)
{
	return scope == SNAP_FOR_ALL || (scope == SNAP_FOR_TARGETS && is_target);
}

static inline const char *snap_trouble_word(enum snap_trouble trouble)
{
	return snap_troubles[trouble].word;
}

/*
 * Whether a warning with this code says that names, stacks or samples are missing: exit status 1.
 */
bool snap_warning_costs_names(const char *code);
