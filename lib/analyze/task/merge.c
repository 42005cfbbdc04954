/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Managed frames among native ones.
 *
 * A run of managed frames takes the place of the native frame that executes it. That is the
 * interpreter's loop, which is found by its position in the stack or by its name. The loop and the
 * interpreter's own calls between runs are left out, unless they are requested. If a run has no
 * place, both stacks follow each other, and the stack says so. If a task is in C code, the frames
 * of its thread come first; those of another runtime that have a place among them, too. Others of
 * that runtime have called the task.
 */
#include "analyze/runtime/place.h"
#include "analyze/task/glue.h"
#include "analyze/task/task.h"
#include "base/text.h"

#include <string.h>

/* Runs of another runtime that called a task, before they are taken for called by none. */
enum { MOST_TRIES = 64 };

static const char no_native_part[] = "not all of its frames in C are known";

/* ---- places ---- */

/* The native stack of a thread, without the kernel's frames. */
struct native {
	const struct snap_frame **frames;
	const uint64_t *sps; /* NULL: unknown */
	size_t count;
};

static bool is_function(void *context, size_t index, const char *prefix)
{
	const struct native *native = context;

	return snap_begins_with(snap_glue_name(native->frames[index]), prefix);
}

/* malloc'ed: of each run; NULL: one has no place, or there is no memory for it. */
static size_t *find_loops(const struct native *native, const struct snap_runtime_thread *managed)
{
	const struct snap_place_finder finder = { native->sps, native->count, is_function,
						  (void *)(uintptr_t)native };

	return snap_place_runs(managed, &finder);
}

/* ---- threads ---- */

/* The merged frames; how many they are. */
static size_t merge_frames(const struct snap_options *options,
			   const struct snap_runtime_thread *managed,
			   const struct snap_frame *const *managed_frames,
			   const struct native *native, const size_t *loops,
			   const struct snap_frame **to)
{
	size_t count = 0, run = 0, no_gap = 0;

	for (size_t i = 0; i < native->count; i++) {
		if (run < managed->run_count && loops[run] == i) {
			memcpy(to + count, managed_frames + managed->runs[run].first,
			       managed->runs[run].count * sizeof(*to));
			count += managed->runs[run++].count;
		}
		to[count++] = native->frames[i];
	}
	if (options->native)
		return count;
	return snap_glue_leave_out(to, count, snap_unwind_is_whole(managed->stack.end), false,
				   &no_gap);
}

/* How the managed part ended, where that was early: the rest is as whole as it was. */
static void end_managed(struct snap_raw_stack *stack, const struct snap_runtime_stack *managed)
{
	if (snap_unwind_is_whole(managed->end))
		return;
	stack->end = managed->end;
	stack->end_pc = 0;
	stack->reason = managed->reason;
}

static bool merge_thread(struct snap_analysis *analysis, struct snap_raw_process *raw,
			 struct snap_raw_thread *thread)
{
	struct snap_raw_stack stack = raw->stacks[thread->stack];
	size_t kernel = stack.kernel_count, managed_count = thread->managed->stack.count;
	struct native native = { stack.frames + kernel, thread->sps, stack.frame_count - kernel };
	_cleanup_free_ size_t *loops = find_loops(&native, thread->managed);
	const struct snap_frame **frames = snap_arena_new_array(
		snap_analysis_arena(analysis), stack.frame_count + managed_count + 1,
		const struct snap_frame *);

	if (!frames)
		return false;
	memcpy(frames, stack.frames, kernel * sizeof(*frames));
	if (loops) {
		stack.frame_count = kernel + merge_frames(analysis->options, thread->managed,
							  thread->managed_frames, &native, loops,
							  frames + kernel);
	} else {
		memcpy(frames + kernel, thread->managed_frames, managed_count * sizeof(*frames));
		memcpy(frames + kernel + managed_count, native.frames,
		       native.count * sizeof(*frames));
		stack.frame_count = kernel + managed_count + native.count;
		if (!stack.reason && managed_count && native.count)
			stack.reason = snap_place_none;
	}
	stack.frames = frames;
	end_managed(&stack, &thread->managed->stack);
	return snap_raw_stack_add(raw, &stack, &thread->stack);
}

/* ---- tasks ---- */

/*
 * How many frames of the thread stand above the function, which is known by its code and by its
 * name; SIZE_MAX: it has no such function.
 */
static size_t count_until(const struct snap_raw_stack *stack, const struct snap_runtime_task *task)
{
	for (size_t i = stack->kernel_count; i < stack->frame_count; i++) {
		const struct snap_frame *frame = stack->frames[i];

		/* What it has called returns to behind that call. */
		if (frame->address > task->native_code[0] && frame->address <= task->native_code[1])
			return i;
		/* Linkers give functions of Go suffixes: ".abi0". */
		if (snap_begins_with(snap_glue_name(frame), task->native_until))
			return i;
	}
	return SIZE_MAX;
}

/* Without names: those that are surely C, as they lie in other files than the task's function. */
static size_t count_elsewhere(const struct snap_raw_stack *stack, const char *module)
{
	for (size_t i = stack->kernel_count; i < stack->frame_count && module; i++)
		if (snap_same_text(stack->frames[i]->module, module))
			return i;
	return 0;
}

/* Go's handler loses a register of the function that crashed: it is the last one that is found. */
static size_t count_guessed(const struct snap_raw_process *raw, const struct snap_raw_stack *native,
			    const struct snap_raw_task *task, const struct snap_raw_stack *stack)
{
	if (task->task->tid == raw->process->signal.tid && !snap_unwind_is_whole(native->end))
		return native->frame_count;
	return stack->frame_count ? count_elsewhere(native, stack->frames[0]->module) : 0;
}

/*
 * The `count` frames in C that a task has called, with the frames of another runtime among them.
 * *run_ret: the first run in that runtime without a place there.
 */
static size_t merge_called(const struct snap_options *options, const struct snap_raw_thread *thread,
			   const struct snap_raw_stack *stack, size_t count,
			   const struct snap_frame **to, size_t *run_ret)
{
	size_t kernel = stack->kernel_count;
	struct snap_runtime_thread inner = { .run_count = 0 };
	struct native native;

	*run_ret = 0;
	if (count)
		memcpy(to, stack->frames, count * sizeof(*to));
	if (!thread || !thread->managed || count <= kernel)
		return count;
	/* With the next frame, which bounds the last one. */
	native = (struct native){ stack->frames + kernel, thread->sps,
				  SNAP_MIN(count + 1, stack->frame_count) - kernel };
	inner = *thread->managed;
	for (int tries = 0; inner.run_count && tries < MOST_TRIES; inner.run_count--, tries++) {
		const struct snap_runtime_run *last = &inner.runs[inner.run_count - 1];
		_cleanup_free_ size_t *loops = NULL;

		inner.stack.count = last->first + last->count;
		loops = find_loops(&native, &inner);
		if (!loops || loops[inner.run_count - 1] >= count - kernel)
			continue;
		*run_ret = inner.run_count;
		native.count = count - kernel;
		return kernel + merge_frames(options, &inner, thread->managed_frames, &native,
					     loops, to + kernel);
	}
	return count;
}

/* The frames in C of a task's thread, then its own, then those that have called it from outside. */
static bool merge_task(struct snap_analysis *analysis, struct snap_raw_process *raw,
		       struct snap_raw_task *task)
{
	struct snap_raw_stack stack = raw->stacks[task->stack];
	const struct snap_raw_thread *thread = snap_task_thread(raw, task->task->tid);
	const struct snap_raw_stack *native = thread ? &raw->stacks[thread->stack] : NULL;
	const struct snap_runtime_thread *managed = thread ? thread->managed : NULL;
	bool is_in_c = task->task->native_until, is_known = !is_in_c;
	size_t count = 0, run = 0, rest = 0;
	const struct snap_frame **frames;

	if (native && is_in_c) {
		count = count_until(native, task->task);
		is_known = count != SIZE_MAX;
		if (!is_known)
			count = count_guessed(raw, native, task, &stack);
	}
	frames = snap_arena_new_array(snap_analysis_arena(analysis),
				      stack.frame_count + count +
					      (managed ? managed->stack.count : 0) + 1,
				      const struct snap_frame *);
	if (!frames)
		return false;
	count = merge_called(analysis->options, thread, native, count, frames, &run);
	memcpy(frames + count, stack.frames, stack.frame_count * sizeof(*frames));
	count += stack.frame_count;
	if (managed && run < managed->run_count) {
		rest = managed->stack.count - managed->runs[run].first;
		memcpy(frames + count, thread->managed_frames + managed->runs[run].first,
		       rest * sizeof(*frames));
		end_managed(&stack, &managed->stack);
	}
	stack.kernel_count = native && count > stack.frame_count ? native->kernel_count : 0;
	stack.frames = frames;
	stack.frame_count = count + rest;
	if (!is_known && !stack.reason)
		stack.reason = no_native_part;
	return snap_raw_stack_add(raw, &stack, &task->stack);
}

/* By the thread that it is locked to, which runs code of another runtime. */
static bool is_called_from_outside(const struct snap_raw_process *raw,
				   const struct snap_raw_task *task)
{
	const struct snap_raw_thread *thread =
		task->task->locked ? snap_task_thread(raw, task->task->tid) : NULL;

	return thread && thread->managed;
}

struct stacksnap_error *snap_tasks_merge(struct snap_analysis *analysis,
					 struct snap_raw_process *raw)
{
	if (raw->runtime_count == 0)
		return NULL;
	for (size_t i = 0; i < raw->task_count; i++)
		if ((raw->tasks[i].task->native_until ||
		     is_called_from_outside(raw, &raw->tasks[i])) &&
		    !merge_task(analysis, raw, &raw->tasks[i]))
			return snap_error_no_memory();
	return snap_no_memory_unless(snap_all(
		raw->thread_count, i,
		!raw->threads[i].managed || merge_thread(analysis, raw, &raw->threads[i])));
}
