/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The members of stacks and threads, in the order of the bytes: see internal.h.
 * Those that only recordings have are left out.
 */
#include "store/snapshot/internal.h"

#include <string.h>

enum {
	ID_DIGITS = 16,
	MOST_FRAMES = 1 << 24, /* of a stack */
	LEAST_STACK = 80,
	LEAST_THREAD = 33,
};

/* ---- threads ---- */

static void code_thread(struct snap_sharing *to, struct snap_member *thread,
			const struct snap_member *before)
{
	struct snap_codec *codec = &to->codec;
	int32_t cpu = thread->cpu;

	snap_code_i32(codec, &thread->tid);
	snap_code_i32(codec, &thread->ns_tid);
	snap_share_text(to, &thread->name, SNAP_MAX_NAME);
	snap_code_enumerator(codec, &thread->state, SNAP_STATE_COUNT);
	snap_code_bool(codec, &thread->kernel);
	snap_share_text(to, &thread->syscall, SNAP_MAX_NAME);
	snap_share_text(to, &thread->wchan, SNAP_MAX_NAME);
	snap_code_i32(codec, &cpu);
	snap_code_enumerator(codec, &thread->taken, SNAP_TAKEN_COUNT);
	if (snap_codec_reads(codec))
		thread->cpu = cpu;
	snap_codec_check(codec, thread->tid > 0 && thread->ns_tid >= 0, "invalid tid");
	snap_codec_check(codec, cpu >= -1, "invalid processor number");
	snap_codec_check(codec, !before || before->tid <= thread->tid, "threads not sorted");
}

static void code_threads(struct snap_sharing *to, struct snap_stack *stack)
{
	snap_code_array(&to->codec, &stack->threads, &stack->thread_count, SNAP_MAX_THREADS,
			sizeof(*stack->threads), LEAST_THREAD);
	for (size_t i = 0; i < stack->thread_count; i++)
		code_thread(to, &stack->threads[i], i ? &stack->threads[i - 1] : NULL);
	if (snap_codec_reads(&to->codec))
		stack->count = stack->thread_count;
	snap_codec_check(&to->codec, stack->thread_count, "stack without threads");
}

/* ---- stacks ---- */

static void code_list(struct snap_sharing *to, struct snap_stack *stack)
{
	bool reads = snap_codec_reads(&to->codec);
	uint64_t count = stack->frame_count, before = to->shown;
	const void *pointer = stack->frames;

	if (!snap_share_begin(to, &to->lists, &pointer, &count)) {
		if (!reads)
			return;
		stack->frames = (const struct snap_frame **)(uintptr_t)pointer;
		stack->frame_count = (size_t)count;
		return;
	}
	snap_code_array(&to->codec, &stack->frames, &stack->frame_count, MOST_FRAMES,
			sizeof(*stack->frames), sizeof(uint32_t));
	for (size_t i = 0; i < stack->frame_count; i++)
		snap_share_frame(to, &stack->frames[i]);
	if (reads)
		snap_share_end(to, &to->lists,
			       (struct snap_shared_item){ stack->frames, stack->frame_count,
							  to->shown - before });
}

static uint64_t number_of_id(const char *id)
{
	uint64_t number = 0;

	for (size_t i = 0; i < ID_DIGITS && id[i]; i++)
		number = number << 4 | (uint64_t)(id[i] <= '9' ? id[i] - '0' : id[i] - 'a' + 10);
	return number;
}

static void id_of_number(uint64_t number, char *id)
{
	for (size_t i = ID_DIGITS; i-- > 0; number >>= 4)
		id[i] = "0123456789abcdef"[number & 15];
	id[ID_DIGITS] = '\0';
}

static void code_id(struct snap_sharing *to, struct snap_stack *stack)
{
	uint64_t number = snap_codec_reads(&to->codec) ? 0 : number_of_id(stack->id);

	snap_code_u64(&to->codec, &number);
	if (snap_codec_reads(&to->codec))
		id_of_number(number, stack->id);
}

static bool are_in_order(const struct snap_stack *a, const struct snap_stack *b)
{
	return a->count > b->count || (a->count == b->count && strcmp(a->id, b->id) <= 0);
}

static void code_stack(struct snap_sharing *to, struct snap_stack *stack,
		       const struct snap_stack *before)
{
	struct snap_codec *codec = &to->codec;

	code_id(to, stack);
	snap_share_text(to, &stack->description, SNAP_MAX_NAME);
	snap_code_labels(to, &stack->labels, &stack->label_count);
	snap_code_enumerator(codec, &stack->unwind, SNAP_UNWIND_COUNT);
	snap_share_text(to, &stack->unwind_detail, SNAP_LONGEST_MESSAGE);
	snap_code_at_most(to, &stack->gap_frame, MOST_FRAMES);
	snap_code_u64(codec, &stack->gap_count);
	code_threads(to, stack);
	code_list(to, stack);
	snap_codec_check(codec, stack->description, "stack without a description");
	snap_codec_check(codec,
			 stack->gap_count ? stack->gap_frame < stack->frame_count &&
						    stack->gap_count <= INT64_MAX
					  : stack->gap_frame == 0,
			 "invalid gap");
	snap_codec_check(codec, !before || are_in_order(before, stack), "stacks not sorted");
}

void snap_code_stacks(struct snap_sharing *to, struct snap_node *node)
{
	snap_code_array(&to->codec, &node->stacks, &node->stack_count, SNAP_MAX_THREADS,
			sizeof(*node->stacks), LEAST_STACK);
	for (size_t i = 0; i < node->stack_count && !to->codec.problem; i++)
		code_stack(to, &node->stacks[i], i ? &node->stacks[i - 1] : NULL);
}
