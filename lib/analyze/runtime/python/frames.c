/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The chain of frames of one thread of Python, cut into runs: a run is executed by one loop of the
 * interpreter, which is a function on the machine's stack. From 3.12 on each run ends with a shim,
 * a frame without code that lies in that function's own frame. 3.11 marks the outermost frame of
 * each run, and has a list of the loops. Earlier versions have a loop for each frame. Knows nothing
 * of lists of threads.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/python.h"

#include "base/buffer.h"

struct walk {
	struct snap_python *python;
	const uint8_t *state;
	uint64_t loop;      /* of 3.10 to 3.12: the one that runs the current frame; 0: none */
	uint64_t last_shim; /* 0: the last frame was none */
	bool was_cut;       /* there were more frames than are read */
	size_t first;       /* of the current run */
	const struct snap_runtime_frame **frames;
	size_t frame_count, frame_capacity;
	struct snap_runtime_run *runs;
	size_t run_count, run_capacity;
};

/* Ends the current run, if anything is in it. False: no memory. */
static bool end_python_run(struct walk *walk, uint64_t anchor)
{
	if (walk->frame_count == walk->first)
		return true;
	if (!snap_reserve_array(walk->runs, walk->run_capacity, walk->run_count + 1))
		return false;
	walk->runs[walk->run_count++] = (struct snap_runtime_run){
		.first = walk->first, .count = walk->frame_count - walk->first, .anchor = anchor
	};
	walk->first = walk->frame_count;
	return true;
}

/* The loop around this one; it lies further up on the stack. */
static void leave_loop(struct walk *walk)
{
	const struct snap_python_layout *layout = &walk->python->layout;
	uint64_t previous;

	if (walk->loop == 0)
		return;
	if (!snap_runtime_word(walk->python->process, walk->loop + layout->loop.previous,
			       &previous) ||
	    previous <= walk->loop)
		previous = 0;
	walk->loop = previous;
}

/* After a frame was taken: whether its run ends with it. */
static bool ends_run(const struct walk *walk, const uint8_t *frame)
{
	const struct snap_python_layout *layout = &walk->python->layout;

	if (layout->frame.owner)
		return false;
	return !layout->frame.is_entry || frame[layout->frame.is_entry] != 0;
}

/* One frame of the chain; NULL in *reason: it was taken. */
static bool take_python_frame(struct walk *walk, uint64_t address, const uint8_t *frame,
			      const char **reason)
{
	const struct snap_python_layout *layout = &walk->python->layout;
	const struct snap_runtime_frame *made;

	if (layout->frame.owner && frame[layout->frame.owner] >= layout->frame.first_shim) {
		walk->last_shim = address;
		return end_python_run(walk, address);
	}
	walk->last_shim = 0;
	if (!snap_python_frame(walk->python, frame, &made))
		return false;
	if (!made) {
		*reason = "a frame of Python makes no sense";
		return true;
	}
	if (!snap_reserve_array(walk->frames, walk->frame_capacity, walk->frame_count + 1))
		return false;
	walk->frames[walk->frame_count++] = made;
	if (ends_run(walk, frame)) {
		if (!end_python_run(walk, walk->loop))
			return false;
		leave_loop(walk);
	}
	return true;
}

static const char not_copied[] = "frames of Python that were not copied";

static uint64_t innermost_frame(struct walk *walk, const char **reason)
{
	const struct snap_python_layout *layout = &walk->python->layout;
	uint64_t frame = 0;

	if (layout->thread.loop)
		walk->loop = snap_runtime_field(walk->state, layout->thread.loop, 8);
	if (layout->thread.frame)
		return snap_runtime_field(walk->state, layout->thread.frame, 8);
	if (walk->loop &&
	    !snap_runtime_word(walk->python->process, walk->loop + layout->loop.frame, &frame))
		*reason = not_copied;
	return frame;
}

/* From the innermost frame out. NULL in *reason: to the end, or to the limit. */
static bool follow_python_frames(struct walk *walk, uint64_t address, uint64_t *outermost_ret,
				 const char **reason)
{
	const struct snap_python_layout *layout = &walk->python->layout;
	uint8_t frame[SNAP_PYTHON_RECORD];

	for (size_t i = 0; address != 0 && !*reason; i++) {
		if (i == SNAP_PYTHON_MOST_FRAMES || walk->python->frames_left == 0) {
			walk->was_cut = true;
			break;
		}
		walk->python->frames_left--;
		if (!snap_runtime_read(walk->python->process, address, frame, layout->frame.size)) {
			*reason = not_copied;
			break;
		}
		*outermost_ret = address;
		if (!take_python_frame(walk, address, frame, reason))
			return false;
		address = snap_runtime_field(frame, layout->frame.previous, 8);
	}
	return end_python_run(walk, 0);
}

/* How the chain ended, if nothing was wrong with its frames. */
static void judge_end(const struct walk *walk, uint64_t outermost, struct snap_runtime_stack *stack)
{
	const struct snap_python_layout *layout = &walk->python->layout;
	uint32_t base = layout->thread.base_frame;

	stack->end = SNAP_UNWIND_COMPLETE;
	if (walk->was_cut) {
		stack->end = SNAP_UNWIND_LIMIT;
		stack->reason = "more frames of Python than are read";
	} else if (layout->frame.owner &&
		   (walk->last_shim != outermost ||
		    (base && snap_runtime_field(walk->state, base, 8) != outermost))) {
		stack->end = SNAP_UNWIND_FAILED;
		stack->reason = "the frames of Python do not end where they should";
	}
}

struct stacksnap_error *snap_python_chain_read(struct snap_python *python, const uint8_t *state,
					       struct snap_python_chain *chain)
{
	struct snap_arena *arena = python->process->arena;
	struct walk walk = { .python = python, .state = state };
	const char *reason = NULL;
	uint64_t outermost = 0;
	bool fits;

	chain->innermost = innermost_frame(&walk, &reason);
	fits = follow_python_frames(&walk, chain->innermost, &outermost, &reason);

	judge_end(&walk, outermost, &chain->stack);
	if (reason) {
		chain->stack.end = SNAP_UNWIND_UNREADABLE;
		chain->stack.reason = reason;
	}
	if (fits && walk.frame_count) {
		chain->stack.frames = snap_arena_memdup(arena, walk.frames,
							walk.frame_count * sizeof(*walk.frames));
		chain->runs =
			snap_arena_memdup(arena, walk.runs, walk.run_count * sizeof(*walk.runs));
		fits = chain->stack.frames && chain->runs;
		chain->stack.count = walk.frame_count;
		chain->run_count = walk.run_count;
	}
	free(walk.frames);
	free(walk.runs);
	return fits ? NULL : snap_error_no_memory();
}
