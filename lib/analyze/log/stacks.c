/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stacks of a log -> stacks of a recording: with names, as the options request them, and one stack
 * for all that are the same place in a process. See internal.h.
 */
#include "analyze/group.h"
#include "analyze/log/internal.h"
#include "analyze/task/glue.h"
#include "base/buffer.h"
#include "model/stack_cut.h"
#include "model/task_label.h"

#include <inttypes.h>
#include <string.h>

/*
 * What a frame of a stack may cost of the memory that a recording has: its place here, and what
 * renderers make of it. Stacks are not cut to less than the least.
 */
enum { BYTES_OF_FRAME = 128, LEAST_FRAMES = 4, MOST_FRAMES = 1 << 24 };

static uint32_t process_of(const struct snap_log_analysis *of, uint32_t stack)
{
	return of->log->spaces[of->log->stacks[stack].space].process;
}

/* ---- frames ---- */

/* Where files are mapped in a space, by its mappings alone: nothing is opened, nor are its pieces. */
static struct snap_modules *modules_of(struct snap_log_analysis *of, uint32_t space)
{
	struct snap_process *process;

	if (of->modules[space])
		return of->modules[space];
	process = snap_arena_memdup(&of->analysis.scratch, &of->log->capture->processes[space],
				    sizeof(*process));
	if (!process)
		return NULL;
	process->piece_count = 0;
	return snap_error_ignore(
		       snap_modules_create(of->analysis.set, process, &of->modules[space]))
		       ? NULL
		       : of->modules[space];
}

static bool copy_entry(struct snap_log_analysis *of, struct snap_entry *entry)
{
	struct snap_analysis *analysis = &of->analysis;
	const struct snap_options *options = of->options;

	if (!options->lines || !options->symbols) {
		entry->file = NULL;
		entry->line = entry->column = 0;
	}
	if (!options->symbols && !entry->language)
		entry->function = entry->symbol = NULL;
	if (options->raw_names && entry->symbol)
		entry->function = entry->symbol;
	entry->symbol = snap_analysis_text(analysis, entry->symbol);
	entry->function = snap_analysis_text(analysis, entry->function);
	entry->file = snap_analysis_text(analysis, entry->file);
	entry->language = snap_analysis_text(analysis, entry->language);
	return true;
}

static bool copy_entries(struct snap_log_analysis *of, const struct snap_frame *name,
			 struct snap_frame *frame)
{
	static const struct snap_entry nothing;
	const struct snap_entry *first = name ? name->entries : &nothing, *from = first;
	size_t count = name ? name->entry_count : 1;

	/* Without inlined functions the real one is left, at the line where the thread is. */
	if (!of->options->inlines || (!of->options->symbols && !first->language)) {
		from += count - 1;
		count = 1;
	}
	frame->entries =
		snap_arena_memdup(snap_analysis_arena(&of->analysis), from, count * sizeof(*from));
	if (!frame->entries)
		return false;
	frame->entry_count = count;
	if (from != first) {
		frame->entries->file = first->file;
		frame->entries->line = first->line;
		frame->entries->column = first->column;
	}
	return snap_all(count, i, copy_entry(of, &frame->entries[i]));
}

/* Of machine code of a managed language the mapping says which file it is in. */
static void place_managed(struct snap_log_analysis *of, uint32_t space,
			  struct snap_frame_record *record)
{
	const struct snap_process *process = &of->log->capture->processes[space];
	const struct snap_map *map;

	record->lookup = record->frame.address;
	map = record->lookup ? snap_process_map(process, record->lookup) : NULL;
	if (map && map->execute && map->path)
		record->frame.module = snap_analysis_text(&of->analysis, map->path);
}

static struct snap_frame_record *record_of(struct snap_log_analysis *of, uint32_t index)
{
	const struct snap_log_frame *frame = &of->log->frames[index];
	const struct snap_frame *name = frame->name ? &of->log->names[frame->name - 1] : NULL;
	struct snap_frame_record *record = of->records[index];
	struct snap_modules *modules;

	if (record)
		return record;
	record = snap_arena_new(snap_analysis_arena(&of->analysis), struct snap_frame_record);
	if (!record)
		return NULL;
	if (name) {
		record->frame = *name;
		record->frame.module = snap_analysis_text(&of->analysis, name->module);
		record->frame.build_id = snap_analysis_text(&of->analysis, name->build_id);
	}
	record->is_managed = frame->is_managed;
	if (frame->is_managed)
		place_managed(of, frame->space, record);
	else
		snap_frame_record_set_pc(record, (struct snap_pc){ frame->bits });
	if (!copy_entries(of, name, &record->frame))
		return NULL;
	/* Then grouping goes by where the module begins. */
	if (record->frame.module && !record->frame.has_offset) {
		modules = modules_of(of, frame->space);
		record->module = modules ? snap_modules_find(modules, record->lookup) : NULL;
	}
	of->records[index] = record;
	return record;
}

/* ---- how it ended ---- */

/* Where the file that is mapped at an address begins, by a frame of the stack that lies in it. */
static bool find_bias(const struct snap_log_analysis *of, const struct snap_log_stack *stack,
		      const char *path, uint64_t *bias_ret)
{
	for (uint32_t i = stack->frame_count; i-- > 0;) {
		const struct snap_frame_record *record =
			of->records[of->log->frame_ids[stack->frame_start + i]];

		if (!record->is_managed && record->frame.has_offset && record->frame.module &&
		    strcmp(record->frame.module, path) == 0) {
			*bias_ret = record->lookup - record->frame.offset;
			return true;
		}
	}
	return false;
}

static const char *end_detail(struct snap_log_analysis *of, const struct snap_log_stack *stack,
			      const struct snap_raw_stack *raw)
{
	const struct snap_process *process = &of->log->capture->processes[stack->space];
	const struct snap_map *map = raw->end_pc ? snap_process_map(process, raw->end_pc) : NULL;
	uint64_t bias = 0;

	if (!raw->reason)
		return NULL;
	if (!map || !map->path || !find_bias(of, stack, map->path, &bias))
		return snap_stack_end_detail(&of->analysis, raw, NULL, 0);
	return snap_stack_end_detail(&of->analysis, raw, map->path, bias);
}

/* ---- stacks ---- */

bool snap_log_raw_stack(struct snap_log_analysis *of, uint32_t stack, struct snap_raw_stack *ret)
{
	const struct snap_log_stack *from = &of->log->stacks[stack];

	if (!snap_reserve_array(of->frames, of->frame_capacity, from->frame_count + (size_t)1))
		return false;
	*ret = (struct snap_raw_stack){
		.frames = of->frames,
		.frame_count = from->frame_count,
		.end = from->end,
		.end_pc = from->end_pc,
		.gap_frame = from->gap_count ? from->gap_after : 0,
		.gap_count = from->gap_count,
		.reason = from->reason ? of->log->reasons[from->reason - 1] : NULL,
	};
	for (uint32_t i = 0; i < from->frame_count; i++) {
		struct snap_frame_record *record =
			record_of(of, of->log->frame_ids[from->frame_start + i]);

		if (!record)
			return false;
		of->frames[i] = &record->frame;
	}
	if (!of->options->native && !from->shows_all)
		ret->frame_count = snap_glue_leave_out(ret->frames, ret->frame_count,
						       snap_unwind_is_whole(from->end),
						       ret->gap_count > 0, &ret->gap_frame);
	snap_stack_classify_end(ret);
	return true;
}

/* ---- labels ---- */

/* Labels of a stack of the log. NULL: none. */
static const struct snap_log_labels *labels_of(const struct snap_log_analysis *of, uint32_t stack)
{
	uint32_t labels = of->log->stacks[stack].labels;

	return labels ? &of->log->label_sets[labels - 1] : NULL;
}

/* The same place with other labels is another stack. */
static uint64_t add_labels_to_key(uint64_t key, const struct snap_log_labels *set)
{
	for (size_t i = 0; set && i < set->count; i++)
		key = snap_hash_text(set->labels[i].value, snap_hash_text(set->labels[i].key, key));
	return key;
}

/* Those that tell the tasks of a stack apart, in the order of their keys. */
static bool fill_group_labels(struct snap_log_analysis *of, const struct snap_task *task,
			      struct snap_recorded_stack *stack)
{
	const struct snap_options *options = of->options;

	stack->labels = snap_arena_new_array(snap_analysis_arena(&of->analysis),
					     options->group_label_count, struct snap_label);
	for (size_t i = 0; stack->labels && i < options->group_label_count; i++) {
		const char *own = options->group_labels[i];
		const char *value = snap_task_label(task->labels, task->label_count, own);
		const char *key = value ? snap_task_shown_key(&of->analysis.strings, own) : NULL;

		if (key)
			stack->labels[stack->label_count++] = (struct snap_label){ key, value };
	}
	if (stack->labels)
		stack->label_count = snap_task_sort_labels(stack->labels, stack->label_count);
	return stack->labels;
}

static bool fill_log_labels(struct snap_log_analysis *of, const struct snap_log_labels *set,
			    struct snap_recorded_stack *stack)
{
	struct snap_analysis *analysis = &of->analysis;

	if (!set)
		return true;
	stack->labels =
		snap_arena_new_array(snap_analysis_arena(analysis), set->count, struct snap_label);
	for (size_t i = 0; stack->labels && i < set->count; i++) {
		const char *key = snap_analysis_text(analysis, set->labels[i].key);
		const char *value = snap_analysis_text(analysis, set->labels[i].value);

		if (key)
			stack->labels[stack->label_count++] =
				(struct snap_label){ key, value ? value : "" };
	}
	return stack->labels;
}

/* ---- as a recording has them ---- */

struct snap_log_named_stack *snap_log_name_stack(struct snap_log_analysis *of, uint32_t stack)
{
	struct snap_log_named_stack *named = &of->named_stacks[stack];
	struct snap_raw_stack raw;

	if (named->named)
		return named;
	if (!snap_log_raw_stack(of, stack, &raw))
		return NULL;
	named->named = true;
	named->end = raw.end;
	named->doubt = snap_frames_doubt(raw.frames, raw.frame_count);
	named->filter = snap_filter_check_stack(of->options, raw.frames, raw.frame_count);
	named->filter.frames = NULL; /* the next stack's */
	named->filter.frame_count = 0;
	named->key = add_labels_to_key(snap_group_stack_key(&raw), labels_of(of, stack));
	/* Nothing else of such a stack is to be seen. */
	if (raw.end == SNAP_UNWIND_NOT_STOPPED && raw.reason)
		named->key = snap_hash_text(raw.reason, named->key);
	return named;
}

static bool add_shown(struct snap_log_analysis *of, const struct snap_log_shown *shown,
		      uint64_t hash)
{
	if (!snap_reserve_array(of->shown, of->shown_capacity, of->shown_count + 1) ||
	    !snap_hash_table_add(&of->shown_table, hash, of->shown_count))
		return false;
	of->shown[of->shown_count++] = *shown;
	return true;
}

/* The number of a stack that is shown, which is new or known by its key. */
static bool find_shown(struct snap_log_analysis *of, const struct snap_log_shown *new,
		       uint32_t *ret)
{
	uint32_t stack = new->original;
	uint64_t hash = snap_hash_add(new->key, new->process);
	struct snap_probe probe = snap_hash_table_probe(&of->shown_table, hash);
	struct snap_log_shown *known;
	size_t found = of->shown_count;

	while (found == of->shown_count && snap_probe_next(&probe))
		if (of->shown[probe.number].key == new->key &&
		    of->shown[probe.number].process == new->process)
			found = probe.number;
	if (found == of->shown_count && !add_shown(of, new, hash))
		return false;
	/* The same stack, found with less trust: as in a snapshot, that is what is shown. */
	known = &of->shown[found];
	if (of->named_stacks[stack].doubt > of->named_stacks[known->source].doubt)
		known->source = stack;
	if (known->original > stack)
		known->original = stack;
	*ret = (uint32_t)found;
	return true;
}

bool snap_log_show_stack(struct snap_log_analysis *of, uint32_t stack, uint32_t *ret)
{
	struct snap_log_named_stack *named = &of->named_stacks[stack];
	const struct snap_log_shown new = {
		.key = named->key,
		.process = process_of(of, stack),
		.original = stack,
		.source = stack,
	};

	if (named->recorded) {
		*ret = named->recorded - 1;
		return true;
	}
	if (!find_shown(of, &new, ret))
		return false;
	named->recorded = *ret + 1;
	return true;
}

bool snap_log_show_task(struct snap_log_analysis *of, uint32_t stack, const struct snap_task *task,
			uint32_t *ret)
{
	const struct snap_options *options = of->options;
	struct snap_log_shown new = {
		.key = of->named_stacks[stack].key,
		.process = process_of(of, stack),
		.original = stack,
		.source = stack,
		.task = task,
	};
	bool differs = false;

	for (size_t i = 0; i < options->group_label_count; i++) {
		const char *value =
			snap_task_label(task->labels, task->label_count, options->group_labels[i]);

		new.key = snap_hash_text(value, new.key);
		differs = differs || value;
	}
	return differs ? find_shown(of, &new, ret) : snap_log_show_stack(of, stack, ret);
}

/* ---- as the recording has them ---- */

static uint64_t count_frames(const struct snap_log_analysis *of,
			     const struct snap_log_shown *const *shown, size_t count, size_t most)
{
	uint64_t frames = 0;

	for (size_t i = 0; i < count; i++) {
		size_t own = of->log->stacks[shown[i]->source].frame_count;

		frames += own < most ? own : most;
	}
	return frames;
}

/* How many frames a stack may have; SIZE_MAX: any number. */
static size_t find_most_frames(const struct snap_log_analysis *of,
			       const struct snap_log_shown *const *shown, size_t count)
{
	uint64_t limit = of->options->max_memory / BYTES_OF_FRAME;
	size_t low = LEAST_FRAMES, high = MOST_FRAMES;

	if (!of->options->max_memory || of->options->frames_given ||
	    count_frames(of, shown, count, SIZE_MAX) <= limit)
		return SIZE_MAX;
	while (low < high) {
		size_t middle = high - (high - low) / 2;

		if (count_frames(of, shown, count, middle) <= limit)
			low = middle;
		else
			high = middle - 1;
	}
	snap_snapshot_warn(of->analysis.snapshot, "report_limited", 0, 0,
			   "there are %zu different stacks: they are cut to %zu frames "
			   "(-n COUNT sets the number)",
			   count, low);
	return low;
}

static bool fill_log_stack(struct snap_log_analysis *of, const struct snap_log_shown *shown,
			   size_t most, struct snap_recorded_stack *stack)
{
	struct snap_arena *arena = snap_analysis_arena(&of->analysis);
	struct snap_stack_cut cut;
	struct snap_raw_stack raw;

	if (!snap_log_raw_stack(of, shown->source, &raw))
		return false;
	cut = snap_stack_cut_to(most, raw.frame_count, raw.gap_frame, raw.gap_count);
	*stack = (struct snap_recorded_stack){
		.description = snap_group_describe(raw.frames, raw.frame_count),
		.frames = snap_arena_new_array(arena, cut.head + cut.tail + 1,
					       const struct snap_frame *),
		.unwind = raw.end,
		.unwind_detail = end_detail(of, &of->log->stacks[shown->source], &raw),
		.gap_frame = raw.gap_frame,
		.gap_count = raw.gap_count,
	};
	if (!stack->frames)
		return false;
	stack->frame_count = snap_stack_cut_copy(&cut, raw.frames, raw.frame_count, stack->frames,
						 &stack->gap_frame, &stack->gap_count);
	snprintf(stack->id, sizeof(stack->id), "%016" PRIx64, shown->key);
	return shown->task ? fill_group_labels(of, shown->task, stack)
			   : fill_log_labels(of, labels_of(of, shown->source), stack);
}

bool snap_log_fill_stacks(struct snap_log_analysis *of, const struct snap_log_shown *const *shown,
			  size_t count, struct snap_recorded_stack *ret)
{
	size_t most = find_most_frames(of, shown, count);

	return snap_all(count, i, fill_log_stack(of, shown[i], most, &ret[i]));
}
