/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A process as grouping sees it, made by hand: named frames, stacks of them, threads in them. No
 * registers, no modules, no files.
 */
#pragma once

#include "analyze/analysis.h"
#include "analyze/filter.h"
#include "analyze/group.h"
#include "analyze/label.h"

#include <string.h>

enum { RAW_MAX = 64, RAW_DEPTH = 8 };

struct raw_process {
	struct snap_arena arena;
	struct snap_interner strings;
	struct snap_options options;
	struct snap_process process;
	struct snap_thread threads[RAW_MAX];
	struct snap_raw_thread raw_threads[RAW_MAX];
	struct snap_raw_stack stacks[RAW_MAX];
	struct snap_frame_record records[RAW_MAX];
	struct snap_entry entries[RAW_MAX];
	const struct snap_frame *frames[RAW_MAX][RAW_DEPTH];
	size_t record_count;
	struct snap_raw_process raw;
	struct snap_node node;
};

static inline void raw_init(struct raw_process *made)
{
	memset(made, 0, sizeof(*made));
	snap_arena_init(&made->arena);
	snap_interner_init(&made->strings, &made->arena);
	made->options.group_by = SNAP_GROUP_STACK | SNAP_GROUP_STATE;
	made->raw.process = &made->process;
	made->raw.stacks = made->stacks;
	made->raw.threads = made->raw_threads;
}

static inline void raw_deinit(struct raw_process *made)
{
	snap_interner_deinit(&made->strings);
	snap_arena_deinit(&made->arena);
}

/* A frame at an address; the same function and line may stand at several. */
static inline struct snap_frame_record *raw_frame(struct raw_process *made, uint64_t address,
						  const char *function, uint32_t line, bool system)
{
	struct snap_frame_record *record = &made->records[made->record_count];
	struct snap_entry *entry = &made->entries[made->record_count++];

	*entry = (struct snap_entry){ function, function, NULL,   line,  0,
				      false,    false,    system, false, NULL };
	record->bits = address;
	record->lookup = address;
	record->frame = (struct snap_frame){ .address = address,
					     .offset = address & 0xffff,
					     .module = "/bin/app",
					     .build_id = "abcd",
					     .has_offset = true,
					     .entries = entry,
					     .entry_count = 1 };
	return record;
}

/* A stack of the frames, innermost first, up to NULL; its index. */
static inline size_t raw_stack(struct raw_process *made, struct snap_frame_record *const *frames)
{
	size_t index = made->raw.stack_count++;
	struct snap_raw_stack *stack = &made->stacks[index];

	*stack = (struct snap_raw_stack){ .frames = made->frames[index] };
	for (; *frames; frames++)
		made->frames[index][stack->frame_count++] = &(*frames)->frame;
	return index;
}
#define RAW_STACK(made, ...) \
	raw_stack(made, (struct snap_frame_record *const[]){ __VA_ARGS__, NULL })

static inline struct snap_thread *raw_thread(struct raw_process *made, pid_t tid, const char *name,
					     char state, size_t stack)
{
	size_t index = made->raw.thread_count++;
	struct snap_thread *thread = &made->threads[index];

	*thread = (struct snap_thread){
		.tid = tid, .name = name, .state = state, .cpu = -1, .result = SNAP_THREAD_COPIED
	};
	made->raw_threads[index] = (struct snap_raw_thread){ .thread = thread, .stack = stack };
	return thread;
}

/* Labels, filters and groups the threads, as the analysis does. */
static inline const struct snap_node *raw_group(struct raw_process *made)
{
	struct snap_member members[RAW_MAX];
	bool shown[RAW_MAX];

	made->node = (struct snap_node){ 0 };
	for (size_t i = 0; i < made->raw.thread_count; i++) {
		const struct snap_raw_thread *thread = &made->raw_threads[i];
		const struct snap_raw_stack *stack = &made->stacks[thread->stack];
		struct snap_filter_stack look =
			snap_filter_check_stack(&made->options, stack->frames, stack->frame_count);

		assert_true(snap_label_member(&made->strings, &made->raw, thread->thread, stack,
					      &members[i]));
		members[i].idle = snap_filter_is_idle(NULL, 0, &members[i], &look);
		shown[i] = snap_filter_check_thread(&made->options, &members[i], &look) ==
			   SNAP_FILTER_SHOWS;
	}
	assert_null(snap_group_threads(&made->strings, &made->options, &made->raw, members, shown,
				       &made->node));
	return &made->node;
}

static inline const char *raw_label(const struct snap_stack *stack, const char *key)
{
	for (size_t i = 0; i < stack->label_count; i++)
		if (strcmp(stack->labels[i].key, key) == 0)
			return stack->labels[i].value;
	return NULL;
}
