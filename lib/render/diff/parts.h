/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parts of a diff's text, see diff.h; for the files of this folder only. text.c has the document
 * and the order of its parts, groups.c those whose lines are stacks. Knows nothing of JSON, nor of how
 * a change was found.
 */
#pragma once

#include "model/diff/diff.h"
#include "render/text/stack.h"

struct snap_diff_text {
	const struct snap_diff *diff;
	const struct snap_options *options;
	struct snap_sheet lines;
	struct snap_text_stacks stacks;
};

/* A word on a line of its own, behind an empty one. */
void snap_diff_text_heading(struct snap_diff_text *text, enum snap_style style, const char *word);

/* Before the first line: what the groups that will be shown have in common. */
void snap_diff_text_survey(struct snap_diff_text *text);
void snap_diff_text_groups(struct snap_diff_text *text);
void snap_diff_text_stuck(struct snap_diff_text *text);
