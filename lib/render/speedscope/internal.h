/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parts of speedscope's format among each other: numbers of frames, and profiles of all, of a
 * process, of a thread. Included by render/speedscope*.c only.
 */
#ifndef SNAP_RENDER_SPEEDSCOPE_INTERNAL_H
#define SNAP_RENDER_SPEEDSCOPE_INTERNAL_H

#include "model/options.h"
#include "render/json/writer.h"
#include "render/view/profile.h"
#include "render/view/spans.h"

/* One of shared.frames. */
struct snap_scope_frame {
	const char *name;      /* escaped */
	const char *file;      /* raw, NULL unknown */
	uint32_t line, column; /* 0 unknown, or more than one */
};

/*
 * Frames of the file. A function is one frame, at whichever of its lines it was seen: the viewer
 * adds up by frame. It has a line where it was seen at one only.
 */
struct snap_scope_frames {
	struct snap_scope_frame *list;
	size_t count, capacity;
	struct snap_arena arena;
	struct snap_interner keys;
	struct snap_pointer_map numbers;  /* interned key -> number + 1 */
	struct snap_pointer_map by_frame; /* struct snap_frame -> numbers + 1, one an entry */
};

void snap_scope_frames_init(struct snap_scope_frames *frames);
void snap_scope_frames_deinit(struct snap_scope_frames *frames);
/* The number of a line's frame; false without memory. */
bool snap_scope_frame_of(struct snap_scope_frames *frames, const struct snap_line *line,
			 uint32_t *ret);
/* The same of a frame that is no function: a state, a process. `name` must live on. */
bool snap_scope_frame_named(struct snap_scope_frames *frames, const char *name, uint32_t *ret);

/* A stack as numbers of frames, root first. */
struct snap_scope_stack {
	const uint32_t *frames; /* NULL: not made yet */
	size_t count;
};

struct snap_scope {
	const struct snap_recording *recording;
	const struct snap_options *options;
	struct snap_json_out *json;
	struct snap_profile profile;
	struct snap_timeline timeline;
	struct snap_scope_frames frames;
	struct snap_scope_stack *stacks; /* one a stack of the recording */
	size_t profile_count;            /* written so far */
};

/* NULL without memory. */
const struct snap_scope_stack *snap_scope_stack(struct snap_scope *scope, size_t number);

/*
 * A profile: begin, any number of samples, weights, any number of them, end. `name` and `detail`
 * (NULL: none) are escaped, and are joined by a space.
 */
void snap_scope_begin(struct snap_scope *scope, const char *name, const char *detail);
/* `process`: the text of a frame before all others, or NULL. */
struct snap_error *snap_scope_sample(struct snap_scope *scope, bool first, const char *process,
				     enum snap_state state, size_t stack) _must_check_;
void snap_scope_weights(struct snap_scope *scope);
void snap_scope_weight(struct snap_scope *scope, bool first, int64_t weight);
void snap_scope_end(struct snap_scope *scope, int64_t total);

/* Profiles of all threads, then of each process: samples added up. */
struct snap_error *snap_scope_sums(struct snap_scope *scope) _must_check_;
/* Profiles of threads, along the time. */
struct snap_error *snap_scope_threads(struct snap_scope *scope) _must_check_;

#endif
