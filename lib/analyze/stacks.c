/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads -> distinct stacks: unwinds every copied thread once and compares stacks by their raw
 * program counters, so a thousand threads in one place cost one symbolization. A stack has pointers
 * to frames that all stacks of the process share: a million frames of one recursion are eight bytes
 * each. Knows nothing of names.
 */
#include "analyze/analysis.h"
#include "analyze/classify.h"
#include "analyze/group.h"
#include "analyze/runtime/runtimes.h"
#include "analyze/task/task.h"
#include "base/buffer.h"
#include "base/table.h"
#include "model/stack_cut.h"

#include <string.h>

/*
 * Of thousands of deep stacks that differ the report shows a few frames each. Unwinding them all
 * would take the time of other processes' names.
 */
enum { MOST_FRAMES = 500000, FEW_FRAMES = 16 };

struct stack_builder {
	struct snap_analysis *analysis;
	struct snap_raw_process *raw;
	struct snap_hash_table records, stacks; /* of raw->records by bits, of raw->stacks */
	const struct snap_frame **frames;       /* of the current thread */
	size_t frame_capacity;
	size_t frames_left; /* that may still be unwound */
};

static void stack_builder_deinit(struct stack_builder *builder)
{
	snap_hash_table_deinit(&builder->records);
	snap_hash_table_deinit(&builder->stacks);
	free(builder->frames);
}

bool snap_frame_record_add(struct snap_raw_process *raw, struct snap_frame_record *record)
{
	return snap_append(raw->records, raw->record_count, raw->record_capacity, record);
}

/* The record of a program counter, made when it is first seen; NULL without memory. */
static struct snap_frame_record *record_of_pc(struct stack_builder *builder, struct snap_pc pc)
{
	struct snap_raw_process *raw = builder->raw;
	struct snap_probe probe = snap_hash_table_probe(&builder->records, snap_hash_mix(pc.bits));
	struct snap_frame_record *record;

	while (snap_probe_next(&probe))
		if (raw->records[probe.number]->bits == pc.bits)
			return raw->records[probe.number];
	record = snap_arena_new(snap_analysis_arena(builder->analysis), struct snap_frame_record);
	if (!record || !snap_frame_record_add(raw, record) ||
	    !snap_hash_table_add(&builder->records, snap_hash_mix(pc.bits), raw->record_count - 1))
		return NULL;
	snap_frame_record_set_pc(record, pc);
	return record;
}

/*
 * A line of /proc/PID/task/TID/stack: "[<0>] symbol+0x12/0x34 [module]" (the address is 0 unless
 * the reader may see kernel pointers). False: not such a line.
 */
static bool parse_kernel_line(const char *line, size_t length, struct snap_interner *strings,
			      struct snap_entry *entry, const char **module_ret)
{
	const char *end = line + length, *name, *plus, *bracket;

	name = memchr(line, ']', length);
	if (line[0] != '[' || !name || end - name < 3 || name[1] != ' ')
		return false;
	name += 2;
	bracket = memchr(name, ' ', (size_t)(end - name));
	plus = memchr(name, '+', (size_t)(end - name));
	if (!plus || (bracket && bracket < plus))
		plus = bracket ? bracket : end;
	if (plus == name || plus - name >= SNAP_MAX_NAME)
		return false;
	entry->function = entry->symbol = snap_intern(strings, name, (size_t)(plus - name));
	entry->kernel = true;
	*module_ret = NULL;
	if (bracket && bracket + 2 < end && bracket[1] == '[' && end[-1] == ']')
		*module_ret = snap_intern(strings, bracket + 1, (size_t)(end - bracket - 1));
	return entry->function != NULL;
}

/* Kernel frames are shared too; few, so they are searched one by one. NULL without memory. */
static struct snap_frame_record *
record_of_kernel(struct stack_builder *builder, const struct snap_entry *entry, const char *module)
{
	struct snap_arena *arena = snap_analysis_arena(builder->analysis);
	struct snap_raw_process *raw = builder->raw;
	struct snap_frame_record *record;

	for (size_t i = 0; i < raw->record_count; i++) {
		record = raw->records[i];
		if (record->bits == 0 && record->frame.entries &&
		    record->frame.entries->symbol == entry->symbol &&
		    record->frame.module == module)
			return record;
	}
	record = snap_arena_new(arena, struct snap_frame_record);
	if (!record)
		return NULL;
	record->frame.module = module;
	record->frame.entry_count = 1;
	record->frame.entries = snap_arena_memdup(arena, entry, sizeof(*entry));
	/* It is listed with the others; its bits are 0, which no program counter has. */
	return record->frame.entries && snap_frame_record_add(raw, record) ? record : NULL;
}

static bool push_frame(struct stack_builder *builder, size_t *count, const struct snap_frame *frame)
{
	if (!frame || !snap_reserve_array(builder->frames, builder->frame_capacity, *count + 1))
		return false;
	builder->frames[(*count)++] = frame;
	return true;
}

static bool push_kernel_frames(struct stack_builder *builder, const char *text, size_t *count)
{
	enum { MAX_KERNEL_FRAMES = 256 };

	while (text && *text && *count < MAX_KERNEL_FRAMES) {
		size_t length = strcspn(text, "\n");
		struct snap_entry entry = { 0 };
		const char *module;

		if (parse_kernel_line(text, length, &builder->analysis->strings, &entry, &module)) {
			struct snap_frame_record *record =
				record_of_kernel(builder, &entry, module);

			if (!push_frame(builder, count, record ? &record->frame : NULL))
				return false;
		}
		text += length + (text[length] == '\n');
	}
	return true;
}

static bool same_stack(const struct snap_raw_stack *a, const struct snap_raw_stack *b)
{
	return a->hash == b->hash && a->frame_count == b->frame_count && a->end == b->end &&
	       a->end_pc == b->end_pc && a->reason == b->reason && a->gap_frame == b->gap_frame &&
	       a->gap_count == b->gap_count &&
	       memcmp(a->frames, b->frames, a->frame_count * sizeof(struct snap_frame *)) == 0;
}

bool snap_raw_stack_add(struct snap_raw_process *raw, const struct snap_raw_stack *stack,
			size_t *ret)
{
	if (!snap_reserve_array(raw->stacks, raw->stack_capacity, raw->stack_count + 1))
		return false;
	raw->stacks[raw->stack_count] = *stack;
	raw->stacks[raw->stack_count].doubt = snap_frames_doubt(stack->frames, stack->frame_count);
	*ret = raw->stack_count++;
	return true;
}

/* The index of the stack, which is added, with a copy of its frames, when it is new. */
static bool intern_stack(struct stack_builder *builder, struct snap_raw_stack *stack, size_t *ret)
{
	struct snap_raw_process *raw = builder->raw;
	size_t bytes = stack->frame_count * sizeof(struct snap_frame *);

	stack->hash = snap_hash_bytes(stack->frames, bytes, stack->end * 31u + stack->gap_count);
	if (snap_hash_got(&builder->stacks, stack->hash, i, same_stack(&raw->stacks[i], stack),
			  ret))
		return true;
	stack->frames =
		snap_arena_memdup(snap_analysis_arena(builder->analysis), stack->frames, bytes);
	return stack->frames &&
	       snap_hash_table_add(&builder->stacks, stack->hash, raw->stack_count) &&
	       snap_raw_stack_add(raw, stack, ret);
}

/* A thread of a runtime is unwound wholly, as other frames will stand between its own. */
static bool unwind_thread(struct stack_builder *builder, struct snap_raw_thread *raw,
			  struct snap_pcs *pcs)
{
	struct snap_unwinder *unwinder = builder->analysis->unwinder;

	if (!raw->managed) {
		uint64_t walked;

		if (builder->frames_left)
			snap_unwind_for_filters(unwinder, raw->thread, pcs);
		else
			snap_unwind_inner(unwinder, raw->thread, FEW_FRAMES, pcs);
		walked = pcs->count + pcs->gap_count;
		builder->frames_left -= SNAP_MIN(walked, builder->frames_left);
		return !pcs->no_memory;
	}
	snap_unwind_whole(unwinder, raw->thread, pcs);
	if (pcs->sps)
		raw->sps = snap_arena_memdup(&builder->analysis->scratch, pcs->sps,
					     pcs->count * sizeof(*pcs->sps));
	return !pcs->no_memory && (raw->sps || !pcs->sps);
}

static bool collect_thread(struct stack_builder *builder, struct snap_raw_thread *raw)
{
	const struct snap_thread *thread = raw->thread;
	struct snap_raw_stack stack = { .end = SNAP_UNWIND_NOT_STOPPED };
	struct snap_pcs pcs = { 0 };
	size_t count = 0;

	if (!push_kernel_frames(builder, thread->kernel_stack, &count))
		return false;
	stack.kernel_count = count;
	if (thread->result == SNAP_THREAD_COPIED) {
		if (!unwind_thread(builder, raw, &pcs))
			return false;
		stack.end = pcs.end;
		stack.end_pc = pcs.end_pc;
		stack.reason = pcs.reason;
		stack.gap_count = pcs.gap_count;
		stack.gap_frame = pcs.gap_count ? count + pcs.gap_after : 0;
	}
	if (count && snap_classify_kernel_thread(thread))
		stack.end = SNAP_UNWIND_COMPLETE;
	for (size_t i = 0; i < pcs.count; i++) {
		/* Neighbours in a recursion are mostly the same. */
		struct snap_frame_record *record;

		if (i && pcs.pcs[i].bits == pcs.pcs[i - 1].bits) {
			if (!push_frame(builder, &count, builder->frames[count - 1]))
				return false;
			continue;
		}
		record = record_of_pc(builder, pcs.pcs[i]);
		if (!push_frame(builder, &count, record ? &record->frame : NULL))
			return false;
	}
	stack.frames = builder->frames;
	stack.frame_count = count;
	return intern_stack(builder, &stack, &raw->stack);
}

/*
 * A thread is shown if it was there at the moment of the stop: not one that had gone. Of a process
 * that could not be stopped at all, only what the kernel says (--kernel) can be shown.
 */
static bool is_thread_shown(const struct snap_process *process, const struct snap_thread *thread)
{
	return thread->result != SNAP_THREAD_VANISHED &&
	       (thread->result == SNAP_THREAD_COPIED || !process->trouble ||
		thread->kernel_stack != NULL);
}

struct stacksnap_error *snap_raw_process_map(struct snap_analysis *analysis,
					     struct snap_raw_process *raw)
{
	const struct snap_process *process = raw->process;

	for (size_t i = 0; i < process->map_count && !raw->has_libc; i++)
		raw->has_libc = snap_classify_is_libc(process->maps[i].path);
	return snap_modules_create(analysis->set, process, &raw->modules);
}

static struct stacksnap_error *enter_process(struct snap_analysis *analysis,
					     struct snap_raw_process *raw)
{
	const struct snap_process *process = raw->process;
	bool copied = false;

	for (size_t i = 0; i < process->thread_count && !copied; i++)
		copied = process->threads[i].result == SNAP_THREAD_COPIED;
	if (!copied)
		return NULL;
	SNAP_TRY(snap_raw_process_map(analysis, raw));
	return snap_unwinder_enter(analysis->unwinder, process, raw->modules);
}

static struct snap_stack_cut raw_stack_cut(const struct snap_raw_stack *stack, size_t most)
{
	return snap_stack_cut_to(most, stack->frame_count, stack->gap_frame, stack->gap_count);
}

/* A gap behind the last frame is none. */
static void end_stack_early(struct snap_raw_stack *stack, size_t count)
{
	if (count == stack->frame_count)
		return;
	stack->frame_count = count;
	if (stack->gap_frame + 1 >= count)
		stack->gap_count = stack->gap_frame = 0;
	stack->end = SNAP_UNWIND_LIMIT;
	stack->end_pc = 0;
	stack->reason = "the frame limit was reached";
}

void snap_raw_stack_limit(const struct snap_options *options, struct snap_raw_stack *stack,
			  size_t keep)
{
	size_t most = options->max_frames;
	struct snap_stack_cut cut;

	if (!most || stack->frame_count <= most)
		return;
	if (most == 1) {
		end_stack_early(stack, 1);
		return;
	}
	cut = raw_stack_cut(stack, most);
	/* There is one gap in a stack: behind it are `keep` and its callers, and the rest goes. */
	if (keep >= cut.head && keep < stack->frame_count - cut.tail) {
		bool is_inner = stack->gap_count && keep <= stack->gap_frame;
		size_t end = is_inner ? stack->gap_frame + 1 : stack->frame_count;

		end_stack_early(stack, SNAP_MIN(keep + most / 2, end));
		cut = raw_stack_cut(stack, most);
	}
	stack->frame_count =
		snap_stack_cut_copy(&cut, stack->frames, stack->frame_count, stack->frames,
				    &stack->gap_frame, &stack->gap_count);
}

struct stacksnap_error *snap_stacks_collect(struct snap_analysis *analysis,
					    struct snap_raw_process *raw)
{
	_cleanup_(stack_builder_deinit) struct stack_builder builder = {
		.analysis = analysis,
		.raw = raw,
		.frames_left = snap_options_any_size(analysis->options) ? SIZE_MAX : MOST_FRAMES,
	};
	const struct snap_process *process = raw->process;

	raw->threads = snap_arena_new_array(&analysis->scratch, process->thread_count + 1,
					    struct snap_raw_thread);
	if (!raw->threads || !snap_reserve_array(builder.frames, builder.frame_capacity, 1))
		return snap_error_no_memory();
	SNAP_TRY(enter_process(analysis, raw));
	SNAP_TRY(snap_runtimes_read(analysis, raw));
	for (size_t i = 0; i < process->thread_count; i++) {
		const struct snap_thread *thread = &process->threads[i];
		struct snap_raw_thread *shown = &raw->threads[raw->thread_count];

		SNAP_TRY(snap_options_check(analysis->options));
		if (!is_thread_shown(process, thread))
			continue;
		shown->thread = thread;
		snap_task_find_thread(raw, shown);
		SNAP_TRY(snap_no_memory_unless(collect_thread(&builder, shown)));
		raw->thread_count++;
		raw->not_stopped += thread->result != SNAP_THREAD_COPIED &&
				    snap_thread_is_missing(SNAP_UNWIND_NOT_STOPPED,
							   snap_state_of_letter(thread->state),
							   snap_classify_kernel_thread(thread));
	}
	return snap_tasks_collect(analysis, raw);
}
