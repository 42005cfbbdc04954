/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The frames of a file of speedscope's format. A function is one frame, at whichever of its lines
 * it was seen: the viewer adds up by frame. It has a line where it was seen at one only. Knows
 * nothing of samples.
 */
#pragma once

#include "render/view/pool.h"
#include "render/view/profile.h"

struct snap_scope_frame {
	const char *name;      /* escaped */
	const char *file;      /* raw, NULL unknown */
	uint32_t line, column; /* 0 unknown, or more than one */
};

/* All zero: empty. */
struct snap_scope_frames {
	struct snap_scope_frame *list; /* one a key */
	size_t capacity;
	struct snap_pool keys;
	struct snap_pointer_table by_frame; /* struct snap_frame -> numbers + 1, one an entry */
	struct snap_arena arena;
};

void snap_scope_frames_deinit(struct snap_scope_frames *frames);
/* The number of a line's frame; SIZE_MAX without memory. */
size_t snap_scope_frame_of(struct snap_scope_frames *frames, const struct snap_line *line);
/* The same of a frame that is no function: a state, a process. `name` must live on. */
size_t snap_scope_frame_named(struct snap_scope_frames *frames, const char *name);
