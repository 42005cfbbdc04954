/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The frames of PHP's one thread, as debug_backtrace() reports them, cut into runs: a run is
 * executed by one execute_ex() on the machine's stack. Generators that delegate to each other are
 * one frame without a function in the chain: the frame of the outermost of them.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/php/php.h"

#include "base/buffer.h"

struct place {
	const struct snap_runtime_frame *frame;
};

struct walk {
	const struct snap_php *php;
	struct snap_runtime_stack stack;
	size_t first; /* of the current run */
	const struct snap_runtime_frame **frames;
	size_t frame_count, frame_capacity;
	struct snap_runtime_run *runs;
	size_t run_count, run_capacity;
	struct snap_php_call nameless; /* code of a file: its caller tells how it was called */
	bool has_nameless;
	bool is_broken;               /* a frame made no sense */
	bool is_delegating;           /* the current frame is of a generator that delegates */
	struct snap_hash_table table; /* of places: frames that there are */
	struct place *places;
	size_t place_count, place_capacity;
};

static bool same_place(const struct snap_entry *a, const struct snap_entry *b)
{
	/* all texts are interned */
	return a->function == b->function && a->file == b->file && a->line == b->line;
}

/* The one frame with this entry; NULL: no memory. */
static const struct snap_runtime_frame *find_php_frame(struct walk *walk,
						       const struct snap_entry *entry)
{
	uint64_t hash = snap_hash_add(
		snap_hash_add(snap_hash_pointer(entry->function), (uintptr_t)entry->file),
		entry->line);
	struct snap_probe probe = snap_hash_table_probe(&walk->table, hash);
	struct snap_arena *arena = walk->php->process->arena;
	struct snap_runtime_frame *frame;

	while (snap_probe_next(&probe))
		if (same_place(walk->places[probe.number].frame->entries, entry))
			return walk->places[probe.number].frame;
	frame = snap_arena_new(arena, struct snap_runtime_frame);
	if (!frame ||
	    !snap_reserve_array(walk->places, walk->place_capacity, walk->place_count + 1) ||
	    !snap_hash_table_add(&walk->table, hash, walk->place_count))
		return NULL;
	frame->entries = snap_arena_memdup(arena, entry, sizeof(*entry));
	frame->entry_count = 1;
	walk->places[walk->place_count++].frame = frame;
	return frame->entries ? frame : NULL;
}

static bool end_php_run(struct walk *walk)
{
	if (walk->frame_count == walk->first)
		return true;
	if (!snap_append(walk->runs, walk->run_count, walk->run_capacity,
			 (struct snap_runtime_run){ .first = walk->first,
						    .count = walk->frame_count - walk->first }))
		return false;
	walk->first = walk->frame_count;
	return true;
}

/* What is further out is not shown: what stands between would be missing silently. */
static void end_unread(struct walk *walk)
{
	walk->stack.end = SNAP_UNWIND_UNREADABLE;
	walk->stack.reason = "frames of PHP that were not copied";
}

static void end_at_limit(struct walk *walk)
{
	walk->stack.end = SNAP_UNWIND_LIMIT;
	walk->stack.reason = "more frames of PHP than are read";
}

static bool add_call(struct walk *walk, const struct snap_php_call *call, const char *how)
{
	const struct snap_options *options = walk->php->process->options;
	struct snap_entry entry = { .language = "php" };
	const struct snap_runtime_frame *frame;
	uint64_t type = snap_runtime_field(call->frame, SNAP_PHP_FRAME_TYPE, 4);

	if (walk->frame_count == SNAP_PHP_MOST_FRAMES) {
		end_at_limit(walk);
		return true;
	}
	entry.function = snap_php_name(walk->php, call, how);
	if (options->lines) {
		entry.file = call->file;
		entry.line = call->line;
	}
	frame = entry.function ? find_php_frame(walk, &entry) : NULL;
	if (!frame || !snap_append(walk->frames, walk->frame_count, walk->frame_capacity, frame))
		return false;
	if (walk->is_delegating && walk->first + 1 == walk->frame_count && walk->run_count) {
		/* The generator that it delegates to runs in place of it. */
		walk->runs[walk->run_count - 1].count++;
		walk->first = walk->frame_count;
		return true;
	}
	/* A C function that is called from C has no loop of its own. */
	return call->is_internal || !(type & SNAP_PHP_TOP_CALL) || end_php_run(walk);
}

/* A frame that runs something. */
static bool take_call(struct walk *walk, const uint8_t *frame, bool is_innermost)
{
	struct snap_php_call call;
	const char *how;
	bool there;

	if (!snap_php_call_read(walk->php, frame, is_innermost, &call, &there))
		return false;
	if (!there) {
		walk->is_broken = true;
		return true;
	}
	if (call.is_internal && !call.name)
		return true; /* the bottom of a fiber */
	if (walk->has_nameless) {
		if (!snap_php_include(walk->php, &call, &how)) {
			end_unread(walk);
			return true;
		}
		walk->has_nameless = false;
		if (!add_call(walk, &walk->nameless, how))
			return false;
	}
	if (call.name)
		return add_call(walk, &call, NULL);
	walk->nameless = call;
	walk->has_nameless = true;
	return true;
}

/*
 * The frames of generators that the last one delegates for, outermost first; how many they are.
 * Where not all of them are known, the innermost are missing, and the stack ends: none is taken.
 */
static size_t find_generators(struct walk *walk, uint64_t generator, uint64_t *frames)
{
	const struct snap_runtime_process *process = walk->php->process;
	uint64_t parent, more = walk->php->generator;

	for (size_t i = 0; i < SNAP_PHP_MOST_GENERATORS; i++) {
		if (!snap_runtime_word(process, generator + SNAP_PHP_GENERATOR_PARENT + more,
				       &parent) ||
		    (parent &&
		     !snap_runtime_word(process, generator + SNAP_PHP_GENERATOR_FRAME + more,
					&frames[i]))) {
			end_unread(walk);
			return 0;
		}
		if (!parent)
			return i;
		generator = parent;
	}
	end_at_limit(walk);
	return 0;
}

/* The last of the generators found is the innermost. `stand_in`: the frame inside the first one. */
static bool take_generators(struct walk *walk, uint64_t stand_in, uint64_t generator)
{
	uint64_t frames[SNAP_PHP_MOST_GENERATORS], more = walk->php->generator;
	uint64_t place = stand_in - generator;
	uint8_t frame[SNAP_PHP_FRAME];
	size_t count;

	/* Its place tells of the word in front, too: not all versions were seen. */
	if (place < SNAP_PHP_LARGEST_GENERATOR &&
	    (place >= SNAP_PHP_GENERATOR_STAND_IN) != (more != 0)) {
		walk->is_broken = true;
		return true;
	}
	count = find_generators(walk, generator, frames);
	walk->is_delegating = true;
	while (count > 0 && !walk->is_broken && walk->stack.end == SNAP_UNWIND_COMPLETE) {
		if (!snap_runtime_read(walk->php->process, frames[--count], frame, sizeof(frame)))
			walk->is_broken = true;
		else if (!take_call(walk, frame, false))
			return false;
	}
	walk->is_delegating = false;
	return true;
}

static bool follow_php_frames(struct walk *walk)
{
	uint64_t address = walk->php->innermost;
	uint8_t frame[SNAP_PHP_FRAME];
	bool fits = true;

	for (size_t i = 0; fits && address && !walk->is_broken; i++) {
		if (walk->stack.end != SNAP_UNWIND_COMPLETE)
			break;
		/* One more, to see that there is one. */
		if (i > SNAP_PHP_MOST_FRAMES ||
		    !snap_runtime_read(walk->php->process, address, frame, sizeof(frame))) {
			end_unread(walk);
			break;
		}
		if (snap_runtime_field(frame, SNAP_PHP_FRAME_FUNCTION, 8) != 0)
			fits = take_call(walk, frame, address == walk->php->innermost);
		else if (frame[SNAP_PHP_FRAME_TYPE] == SNAP_PHP_IS_OBJECT)
			fits = take_generators(walk, address,
					       snap_runtime_field(frame, SNAP_PHP_FRAME_THIS, 8));
		address = snap_runtime_field(frame, SNAP_PHP_FRAME_PREVIOUS, 8);
	}
	/* No file has included it, if no frame is missing. */
	if (fits && walk->has_nameless && !walk->is_broken &&
	    walk->stack.end == SNAP_UNWIND_COMPLETE)
		fits = add_call(walk, &walk->nameless, snap_php_main);
	if (walk->is_broken) {
		walk->stack.end = SNAP_UNWIND_FAILED;
		walk->stack.reason = "a frame of PHP makes no sense";
	}
	return fits && end_php_run(walk);
}

static bool fill_thread(struct walk *walk, struct snap_runtime_result *result)
{
	struct snap_arena *arena = walk->php->process->arena;
	struct snap_runtime_thread *thread = snap_arena_new(arena, struct snap_runtime_thread);

	if (!thread)
		return false;
	thread->tid = walk->php->process->process->pid;
	thread->stack = walk->stack;
	thread->stack.frames =
		snap_arena_memdup(arena, walk->frames, walk->frame_count * sizeof(*walk->frames));
	thread->stack.count = walk->frame_count;
	thread->runs = snap_arena_memdup(arena, walk->runs, walk->run_count * sizeof(*walk->runs));
	thread->run_count = walk->run_count;
	thread->loop_function = "execute_ex";
	result->threads = thread;
	result->thread_count = 1;
	return thread->stack.frames && thread->runs;
}

struct stacksnap_error *snap_php_frames(const struct snap_php *php,
					struct snap_runtime_result *result)
{
	struct walk walk = { .php = php };
	bool fits = follow_php_frames(&walk);

	result->torn = walk.is_broken;
	if (fits && walk.frame_count)
		fits = fill_thread(&walk, result);
	else if (php->innermost)
		result->refused =
			snap_runtime_why(php->process, walk.stack.end == SNAP_UNWIND_UNREADABLE
							       ? "its memory cannot be read"
							       : "its frames are not understood");
	snap_hash_table_deinit(&walk.table);
	free(walk.places);
	free(walk.frames);
	free(walk.runs);
	return fits ? NULL : snap_error_no_memory();
}
