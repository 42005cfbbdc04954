/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * speedscope's format: what the parts of the document share. speedscope.c has head and frames,
 * samples.c what profiles are made of, sums.c and threads.c the two kinds of profiles. Knows
 * nothing of other formats.
 */
#pragma once

#include "base/error.h"
#include "render/json/writer.h"
#include "render/speedscope/waits.h"
#include "render/view/profile.h"
#include "render/view/spans.h"

/* A stack as numbers of frames, root first. */
struct snap_scope_stack {
	const uint32_t *frames; /* NULL: not made yet */
	size_t count;
};

struct snap_scope {
	const struct snap_recording *recording;
	const struct snap_options *options;
	struct snap_json_writer *json;
	struct snap_profile profile;
	struct snap_timeline timeline;
	struct snap_scope_frames frames;
	struct snap_scope_stack *stacks; /* one a stack of the recording */
	struct snap_scope_waits waits;
};

/* A stack of the recording, made when it is first asked for. NULL without memory. */
const struct snap_scope_stack *snap_scope_stack(struct snap_scope *scope, size_t number);

/*
 * A profile: begun, its samples, then as many weights, which the caller writes, and ended. NO_MEMORY.
 * `name` and `detail` (NULL: none) are escaped, and are joined by a space.
 */
struct stacksnap_error *snap_scope_begin(struct snap_scope *scope, const char *name,
					 const char *detail) _must_check_;
/* `process`: the text of a frame before all others, or NULL; `wait`: a frame + 1, or 0. */
struct stacksnap_error *snap_scope_put_sample(struct snap_scope *scope, const char *process,
					      enum snap_state state, size_t wait,
					      size_t number) _must_check_;
void snap_scope_begin_weights(struct snap_scope *scope);
void snap_scope_end(struct snap_scope *scope, int64_t total);

/* All profiles that add up: of all threads, of each process. NO_MEMORY. */
struct stacksnap_error *snap_scope_put_sums(struct snap_scope *scope) _must_check_;
/* A profile for each thread; the recording has ticks. NO_MEMORY. */
struct stacksnap_error *snap_scope_put_threads(struct snap_scope *scope) _must_check_;
