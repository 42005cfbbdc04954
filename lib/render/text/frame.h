/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is shown of a frame: a name and a location for each of its functions. Pure text, escaped and
 * elided; knows nothing of lines, trees and colours.
 */
#pragma once

#include "model/snapshot.h"
#include "render/text/source_paths.h"

struct snap_shown_entry {
	char *name, *location;
	bool inlined, tail_call, system, kernel;
	bool guessed; /* of the function itself: its frame was not found by CFI */
};

struct snap_shown_frame {
	size_t count;
	struct snap_shown_entry entries[];
};

/* By what frames are shown. */
struct snap_shown_by {
	const struct snap_options *options;
	const struct snap_folders *folders;
	size_t name_width; /* columns for a name; 0: as wide as it is */
	bool alone;        /* no location stands beside the name */
};

/* malloc'ed; NULL without memory. */
struct snap_shown_frame *snap_shown_frame_create(struct snap_sheet *lines,
						 const struct snap_shown_by *by,
						 const struct snap_frame *frame);
void snap_shown_frame_destroy(void *frame);

/*
 * The same of one entry, malloc'ed: its name, and where it is; the line may be left out.
 * NULL without memory.
 */
char *snap_shown_name(struct snap_sheet *lines, const struct snap_shown_by *by,
		      const struct snap_frame *frame, const struct snap_entry *entry);
char *snap_shown_location(struct snap_sheet *lines, const struct snap_shown_by *by,
			  const struct snap_frame *frame, const struct snap_entry *entry,
			  bool has_line);
/* Whether two frames look alike: equal runs are printed once. */
bool snap_shown_frame_equal(const struct snap_shown_frame *a, const struct snap_shown_frame *b);
