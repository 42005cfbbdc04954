/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stacks of goroutines by the table alone: the size of each function's frame leads to its return
 * address, through assembly, signals and calls from C.
 *
 * A stack is complete when it ends in a function without a caller, and the frame before is the
 * function that the goroutine began with. Otherwise it says what is missing. Knows no state.
 */
#include "analyze/runtime/go/internal.h"

#include <string.h>

/* What is being unwound. */
struct walk {
	struct snap_go *go;
	const struct snap_go_start *start;
	const uint8_t *bytes; /* of the stack, as far as they are there */
	uint64_t bytes_at, byte_count;
	const struct snap_runtime_frame *frames[SNAP_GO_MOST_FRAMES];
	size_t count, most;
	bool calls_panic;                 /* what the last frame was called by is shown */
	const struct snap_go_site *outer; /* the last one before the end */
	const char *reason;
	enum snap_unwind_end end;
};

static bool read_word(struct walk *walk, uint64_t address, uint64_t *ret)
{
	if (address >= walk->bytes_at && address - walk->bytes_at < walk->byte_count &&
	    walk->byte_count - (address - walk->bytes_at) >= 8) {
		memcpy(ret, walk->bytes + (address - walk->bytes_at), 8);
		return true;
	}
	return snap_go_read_stack(walk->go, walk->start->thread, address, ret, 8);
}

static bool fail_at(struct walk *walk, enum snap_unwind_end end, const char *reason)
{
	walk->end = end;
	walk->reason = reason;
	return false;
}

/* Whether the outermost function is the one that the goroutine was begun with. */
static bool is_sealed(const struct walk *walk)
{
	const struct snap_go_site *outer = walk->outer;
	uint64_t entered = walk->start->entered;
	const char *name;

	if (!outer)
		return walk->count > 0; /* at its very beginning, or its very end */
	name = snap_go_site_name(outer);
	if (strcmp(name, "runtime.goexit1") == 0)
		return true;
	if (entered == 0)
		return strcmp(name, "runtime.cgocallback") == 0;
	return outer->text && outer->text->start + outer->function.entry == entered;
}

/* Adds a frame; false: there is room for no more. */
static bool add_frame(struct walk *walk, const struct snap_go_site *site)
{
	const struct snap_runtime_frame *frame = snap_go_frame(walk->go, site, walk->calls_panic);

	walk->calls_panic = site->is_panic;
	if (!frame)
		return true;
	if (walk->count == walk->most)
		return false;
	walk->frames[walk->count++] = frame;
	return true;
}

/* The caller of a function that has no frame; only the innermost one can be. */
static bool take_kept_return(struct walk *walk, uint64_t *pc, uint64_t *sp, bool *is_exact)
{
	const struct snap_go_start *start = walk->start;

	if (!*is_exact || *pc != start->pc || *sp != start->sp)
		return fail_at(walk, SNAP_UNWIND_FAILED, "the size of a frame is unknown");
	if (!snap_go_kept_return(start->thread, pc))
		return fail_at(walk, SNAP_UNWIND_FAILED,
			       "a register that is readable only in a stopped thread");
	*is_exact = false;
	return true;
}

/* One frame; false: the stack has ended. */
static bool take_go_frame(struct walk *walk, uint64_t *pc, uint64_t *sp, bool *is_exact)
{
	const struct snap_go_site *site = snap_go_site(walk->go, *pc, *is_exact);
	uint64_t next;

	if (!site)
		return fail_at(walk, SNAP_UNWIND_FAILED, "too many different places");
	/* A thread that C has made enters Go here. */
	if (!site->text && walk->outer && walk->start->entered == 0 && is_sealed(walk))
		return fail_at(walk, SNAP_UNWIND_COMPLETE, NULL);
	if (!site->text)
		return fail_at(walk, SNAP_UNWIND_FAILED, "an address that is in no Go function");
	if (!add_frame(walk, site))
		return fail_at(walk, SNAP_UNWIND_LIMIT, "more frames than are shown");
	if (site->function.flags & SNAP_GO_TOP_FRAME) {
		if (is_sealed(walk))
			return fail_at(walk, SNAP_UNWIND_COMPLETE, NULL);
		return fail_at(walk, SNAP_UNWIND_FAILED, "it does not end where it began");
	}
	walk->outer = site;
	if (site->keeps_return)
		return take_kept_return(walk, pc, sp, is_exact);
	if (!site->has_size)
		return fail_at(walk, SNAP_UNWIND_FAILED, "the size of a frame is unknown");
	if (*sp + site->size + 8 > walk->start->high || *sp + site->size < *sp) {
		if (walk->start->entered == 0 && is_sealed(walk))
			return fail_at(walk, SNAP_UNWIND_COMPLETE, NULL);
		return fail_at(walk, SNAP_UNWIND_FAILED, "a frame that lies outside the stack");
	}
	if (*sp + site->size + 8 - walk->bytes_at > SNAP_GO_MOST_STACK)
		return fail_at(walk, SNAP_UNWIND_LIMIT, "a stack of more than 128 KiB");
	if (!read_word(walk, *sp + site->size, &next))
		return fail_at(walk, SNAP_UNWIND_UNREADABLE, "stack memory that was not copied");
	*sp += site->size + 8;
	*pc = next;
	*is_exact = site->interrupts;
	return true;
}

static void walk_stack(struct walk *walk)
{
	uint64_t pc = walk->start->pc, sp = walk->start->sp;
	bool is_exact = walk->start->is_exact;

	/* Each turn goes up by a word at least, but for the first one, which may stay. */
	while (take_go_frame(walk, &pc, &sp, &is_exact))
		;
}

/*
 * Where a function that sets the stack pointer itself was interrupted, its frame's size may be
 * wrong: without the seal only the first frame is sure.
 */
static void drop_doubtful(struct walk *walk)
{
	const struct snap_go_site *first =
		snap_go_site(walk->go, walk->start->pc, walk->start->is_exact);

	if (walk->end == SNAP_UNWIND_COMPLETE || !walk->start->is_exact || !first || !first->text ||
	    !(first->function.flags & SNAP_GO_WRITES_STACK_POINTER))
		return;
	if (walk->count > 1)
		walk->count = 1;
	walk->end = SNAP_UNWIND_FAILED;
	walk->reason = "a function that was switching stacks";
}

/* The stack from sp up, at once, if it is there. */
static void read_go_bytes(struct walk *walk, uint8_t bytes[SNAP_GO_MOST_STACK])
{
	const struct snap_go_start *start = walk->start;
	uint64_t size = start->high - start->sp;

	walk->bytes_at = start->sp;
	walk->bytes = bytes;
	if (size > SNAP_GO_MOST_STACK)
		size = SNAP_GO_MOST_STACK;
	if (snap_go_read_stack(walk->go, start->thread, start->sp, bytes, size))
		walk->byte_count = size;
}

void snap_go_unwind(struct snap_go *go, const struct snap_go_start *start,
		    struct snap_runtime_stack *ret)
{
	uint8_t bytes[SNAP_GO_MOST_STACK];
	/* Where fewer are asked for, the outermost ones are among them. */
	struct walk walk = { .go = go, .start = start, .most = SNAP_GO_MOST_FRAMES };

	*ret = (struct snap_runtime_stack){ .end = SNAP_UNWIND_FAILED };
	if (start->sp < start->low || start->sp > start->high) {
		ret->reason = start->is_unknown
				      ? "it runs, and its thread's registers are not known"
				      : "its stack pointer is unknown";
		return;
	}
	if (go->frame_count >= SNAP_GO_MOST_STACK_FRAMES)
		walk.most = SNAP_GO_FEW_FRAMES;
	read_go_bytes(&walk, bytes);
	walk_stack(&walk);
	drop_doubtful(&walk);
	ret->frames = snap_arena_memdup(go->process->arena, walk.frames,
					(walk.count ? walk.count : 1) * sizeof(walk.frames[0]));
	go->no_memory |= !ret->frames;
	ret->count = ret->frames ? walk.count : 0;
	go->frame_count += ret->count;
	ret->end = walk.end;
	ret->reason = walk.reason;
}
