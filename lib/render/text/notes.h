/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines below the tree of a report: what a terminal had no room for, what --no-idle has hidden, files
 * without symbols with the packages that have them, and names that the demangler does not know. Knows
 * no processes.
 */
#pragma once

#include "model/snapshot.h"
#include "render/text/line.h"

enum { SNAP_MOST_UNNAMED = 8 };

/* What was seen in the stacks that are shown. */
struct snap_text_notes {
	struct snap_unnamed {
		const char *module; /* of whose functions some have no names; NULL: no more */
		const char *build_id;
		size_t frames;
	} unnamed[SNAP_MOST_UNNAMED]; /* in the order of first sight */
	const char *mangled;          /* a name of C++ that is still mangled; NULL: none */
};

void snap_text_notes_take(struct snap_text_notes *notes, const struct snap_options *options,
			  const struct snap_stack *stack);
void snap_text_notes_put(const struct snap_text_notes *notes, struct snap_sheet *lines,
			 const struct snap_options *options);

/* What was left out, as a terminal has only so many lines. */
void snap_text_put_left_out(struct snap_sheet *lines, size_t groups, size_t processes);
/* `lacks`: what is not known of waits. Nothing is put where nothing is hidden. */
void snap_text_put_idle(struct snap_sheet *lines, const struct snap_idle *idle, unsigned lacks);
