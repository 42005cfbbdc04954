/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stacks of a log -> stacks of a recording: with names, as the options want them, and once for all
 * that are the same place in a process. See internal.h.
 */
#include "analyze/group.h"
#include "analyze/log/internal.h"
#include "base/buffer.h"

#include <inttypes.h>
#include <string.h>

static uint32_t process_of(const struct snap_log_analysis *of, uint32_t stack)
{
	return of->log->spaces[of->log->stacks[stack].space].process;
}

/* ---- frames ---- */

/* Where files are mapped in a space, by its mappings alone: nothing is opened. */
static struct snap_modules *modules_of(struct snap_log_analysis *of, uint32_t space)
{
	const struct snap_process *process = &of->log->capture->processes[space];

	if (!of->modules[space] &&
	    snap_error_ignore(snap_modules_create(of->analysis.set, process, &of->modules[space])))
		return NULL;
	return of->modules[space];
}

static bool copy_entry(struct snap_log_analysis *of, struct snap_entry *entry)
{
	struct snap_analysis *analysis = &of->analysis;
	const struct snap_options *options = of->options;

	if (!options->lines || !options->symbols) {
		entry->file = NULL;
		entry->line = entry->column = 0;
	}
	if (!options->symbols)
		entry->function = entry->symbol = NULL;
	if (options->raw_names && entry->symbol)
		entry->function = entry->symbol;
	entry->symbol = snap_analysis_text(analysis, entry->symbol);
	entry->function = snap_analysis_text(analysis, entry->function);
	entry->file = snap_analysis_text(analysis, entry->file);
	return true;
}

static bool copy_entries(struct snap_log_analysis *of, const struct snap_frame *name,
			 struct snap_frame *frame)
{
	static const struct snap_entry nothing;
	const struct snap_entry *first = name ? name->entries : &nothing, *from = first;
	size_t count = name ? name->entry_count : 1;

	/* Without inlined functions the real one is left, at the line where the thread is. */
	if (!of->options->inlines || !of->options->symbols) {
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
	for (size_t i = 0; i < count; i++)
		if (!copy_entry(of, &frame->entries[i]))
			return false;
	return true;
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

		if (record->frame.has_offset && record->frame.module &&
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

struct snap_log_named_stack *snap_log_name_stack(struct snap_log_analysis *of, uint32_t stack)
{
	const struct snap_log_stack *from = &of->log->stacks[stack];
	struct snap_log_named_stack *named = &of->named_stacks[stack];
	struct snap_raw_stack raw = {
		.frame_count = from->frame_count,
		.end = from->end,
		.end_pc = from->end_pc,
		.gap_frame = from->gap_count ? from->gap_after : 0,
		.gap_count = from->gap_count,
	};

	if (named->raw.frames)
		return named;
	raw.frames = snap_arena_new_array(snap_analysis_arena(&of->analysis),
					  from->frame_count + (size_t)1, const struct snap_frame *);
	if (!raw.frames)
		return NULL;
	for (uint32_t i = 0; i < from->frame_count; i++) {
		struct snap_frame_record *record =
			record_of(of, of->log->frame_ids[from->frame_start + i]);

		if (!record)
			return NULL;
		raw.frames[i] = &record->frame;
	}
	if (from->reason)
		raw.reason = of->log->reasons[from->reason - 1];
	raw.doubt = snap_group_doubt(raw.frames, raw.frame_count);
	snap_stack_judge_end(&raw);
	raw.detail = end_detail(of, from, &raw);
	named->raw = raw;
	named->filter = snap_filter_check_stack(of->options, raw.frames, raw.frame_count);
	named->key = snap_group_stack_key(&raw);
	return named;
}

static void fill_stack(struct snap_recorded_stack *stack, const struct snap_raw_stack *raw)
{
	stack->frames = raw->frames;
	stack->frame_count = raw->frame_count;
	stack->unwind = raw->end;
	stack->unwind_detail = raw->detail;
	stack->gap_frame = raw->gap_frame;
	stack->gap_count = raw->gap_count;
}

static bool add_stack(struct snap_log_analysis *of, const struct snap_log_named_stack *named,
		      uint64_t hash, uint32_t process)
{
	struct snap_log_shown *added;

	if (!snap_reserve_array(of->shown, of->shown_capacity, of->shown_count + 1) ||
	    !snap_hash_table_add(&of->shown_table, hash, of->shown_count))
		return false;
	added = &of->shown[of->shown_count++];
	*added = (struct snap_log_shown){
		.stack = { .process = process,
			   .description =
				   snap_group_describe(named->raw.frames, named->raw.frame_count) },
		.key = named->key,
		.original = UINT32_MAX,
	};
	fill_stack(&added->stack, &named->raw);
	snprintf(added->stack.id, sizeof(added->stack.id), "%016" PRIx64, named->key);
	return true;
}

bool snap_log_show_stack(struct snap_log_analysis *of, uint32_t stack, uint32_t *ret)
{
	struct snap_log_named_stack *named = &of->named_stacks[stack];
	uint32_t process = process_of(of, stack);
	uint64_t hash = snap_hash_add(named->key, process);
	struct snap_probe probe = snap_hash_table_probe(&of->shown_table, hash);
	struct snap_recorded_stack *known;
	size_t found = of->shown_count;

	if (named->recorded) {
		*ret = named->recorded - 1;
		return true;
	}
	while (found == of->shown_count && snap_probe_next(&probe))
		if (of->shown[probe.number].key == named->key &&
		    of->shown[probe.number].stack.process == process)
			found = probe.number;
	if (found == of->shown_count && !add_stack(of, named, hash, process))
		return false;
	/* The same stack, found with less trust: as in a snapshot, that is what is shown. */
	known = &of->shown[found].stack;
	if (named->raw.doubt > snap_group_doubt(known->frames, known->frame_count))
		fill_stack(known, &named->raw);
	if (of->shown[found].original > stack)
		of->shown[found].original = stack;
	*ret = (uint32_t)found;
	named->recorded = *ret + 1;
	return true;
}
