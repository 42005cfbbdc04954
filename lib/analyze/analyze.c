/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The flow of the analysis: collect, name, group, view. Each step is a file of its own, see
 * analysis.h; this file knows their order and the owners of memory.
 */
#include "analyze/analyze.h"

#include "analyze/analysis.h"
#include "analyze/classify.h"
#include "analyze/filter.h"
#include "analyze/group.h"
#include "analyze/label.h"
#include "analyze/runtime/runtimes.h"
#include "analyze/task/task.h"
#include "analyze/wait/wait.h"
#include "base/escape.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

const char *snap_analysis_text(struct snap_analysis *analysis, const char *text)
{
	if (!text || !*text)
		return NULL;
	return snap_intern(&analysis->strings, text,
			   snap_text_cut(text, strnlen(text, SNAP_MAX_NAME + 4), SNAP_MAX_NAME));
}

struct stacksnap_error *snap_analysis_init(struct snap_analysis *analysis,
					   const struct snap_capture *capture,
					   const struct snap_options *options,
					   const struct snap_file_finder *finder)
{
	*analysis = (struct snap_analysis){ .capture = capture,
					    .options = options,
					    .finder = finder,
					    .snapshot = snap_snapshot_new() };
	SNAP_TRY(snap_no_memory_unless(analysis->snapshot));
	snap_interner_init(&analysis->strings, &analysis->snapshot->arena);
	analysis->processes = snap_arena_new_array(&analysis->scratch, capture->process_count + 1,
						   struct snap_raw_process);
	SNAP_TRY(snap_no_memory_unless(analysis->processes));
	for (size_t i = 0; i < capture->process_count; i++)
		analysis->processes[i].process = &capture->processes[i];
	SNAP_TRY(snap_module_set_create(finder, &analysis->scratch, &analysis->set));
	return snap_symbolizer_create(finder, options, &analysis->snapshot->arena,
				      &analysis->symbolizer);
}

void snap_analysis_deinit(struct snap_analysis *analysis)
{
	for (size_t i = 0; analysis->processes && i < analysis->capture->process_count; i++) {
		free(analysis->processes[i].records);
		free(analysis->processes[i].stacks);
	}
	snap_symbolizer_destroy(analysis->symbolizer);
	snap_unwinder_destroy(analysis->unwinder);
	snap_module_set_destroy(analysis->set);
	snap_interner_deinit(&analysis->strings);
	snap_arena_deinit(&analysis->scratch);
	snap_snapshot_destroy(analysis->snapshot);
}

bool snap_analysis_host(struct snap_analysis *analysis, struct snap_host *ret)
{
	const struct snap_host *from = &analysis->capture->host;

	*ret = *from;
	ret->name = snap_analysis_text(analysis, from->name);
	ret->kernel = snap_analysis_text(analysis, from->kernel);
	ret->arch = snap_analysis_text(analysis, from->arch);
	ret->boot_id = snap_analysis_text(analysis, from->boot_id);
	return !ret->name == !from->name && !ret->kernel == !from->kernel &&
	       !ret->arch == !from->arch && !ret->boot_id == !from->boot_id;
}

/* How the threads were taken, before filters. */
static void note_instants(const struct snap_capture *capture, struct snap_snapshot *snapshot)
{
	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		for (size_t k = 0; k < process->thread_count; k++) {
			const struct snap_thread *thread = &process->threads[k];

			snapshot->many_instants |=
				!capture->stop_rounds && !snap_taken_at_once(thread->taken);
			snapshot->threads_late += thread->taken == SNAP_TAKEN_UNSTOPPED;
			snapshot->threads_stopped += process->stop_duration_ns &&
						     thread->result == SNAP_THREAD_COPIED &&
						     snap_taken_stops(thread->taken);
		}
	}
	snapshot->stop_rounds = capture->stop_rounds;
}

static bool copy_head(struct snap_analysis *analysis)
{
	const struct snap_capture *capture = analysis->capture;
	struct snap_snapshot *snapshot = analysis->snapshot;

	if (!snap_analysis_host(analysis, &snapshot->host))
		return false;
	snapshot->time_ns = capture->time_ns;
	if (capture->waits && capture->waits->monotonic_ns > 0)
		snapshot->monotonic_ns = capture->waits->monotonic_ns;
	snapshot->duration_ns = capture->duration_ns;
	snapshot->stop_duration_ns = capture->stop_duration_ns;
	snapshot->stop_skew_ns = capture->stop_skew_ns;
	note_instants(capture, snapshot);
	for (size_t i = 0; i < capture->warning_count; i++) {
		const struct snap_warning *warning = &capture->warnings[i];

		snap_snapshot_warn(snapshot, snap_analysis_text(analysis, warning->code),
				   warning->pid, warning->tid, "%s", warning->message);
		snapshot->missing.modules += snap_warning_costs_names(warning->code);
	}
	return true;
}

void snap_stack_classify_end(struct snap_raw_stack *stack)
{
	enum snap_trust guessed = SNAP_TRUST_CFI;
	const struct snap_frame *last;

	if (stack->end != SNAP_UNWIND_NO_CFI || stack->frame_count <= stack->kernel_count)
		return;
	last = stack->frames[stack->frame_count - 1];
	if (!snap_classify_outermost_function(last->entries[last->entry_count - 1].symbol))
		return;
	for (size_t i = stack->kernel_count; i < stack->frame_count; i++) {
		enum snap_trust trust = stack->frames[i]->trust;

		if (trust > guessed && trust != SNAP_TRUST_UNCONFIRMED)
			guessed = trust;
	}
	stack->end = snap_unwind_whole_by(guessed);
	stack->reason = NULL;
}

const char *snap_stack_end_detail(struct snap_analysis *analysis,
				  const struct snap_raw_stack *stack, const char *path,
				  uint64_t bias)
{
	struct snap_arena *arena = snap_analysis_arena(analysis);

	if (!stack->end_pc)
		return snap_analysis_text(analysis, stack->reason);
	if (!path)
		return snap_arena_printf(arena, "0x%" PRIx64 ": %s", stack->end_pc, stack->reason);
	return snap_arena_printf(arena, "%s+0x%" PRIx64 ": %s", snap_base_name(path),
				 stack->end_pc - bias, stack->reason);
}

static const char *end_detail(struct snap_analysis *analysis, const struct snap_raw_process *raw,
			      const struct snap_raw_stack *stack)
{
	struct snap_module *module = NULL;

	if (!stack->reason)
		return NULL;
	if (stack->end_pc && raw->modules)
		module = snap_modules_find(raw->modules, stack->end_pc);
	/* The file may be missing: where it was mapped is known from its captured head, too. */
	if (module)
		(void)snap_module_open(analysis->set, module);
	if (!module || !module->has_bias)
		return snap_stack_end_detail(analysis, stack, NULL, 0);
	return snap_stack_end_detail(analysis, stack, module->path, module->bias);
}

/* What --no-idle hides, by the groups in which it would stand. */
static struct stacksnap_error *count_idle(struct snap_analysis *analysis,
					  struct snap_raw_process *raw,
					  const struct snap_member *members, const bool *idle)
{
	struct snap_node hidden = { .pid = raw->process->pid };
	struct stacksnap_error *err;
	struct snap_options usual;

	if (!analysis->options->no_idle)
		return NULL;
	/* As those of a document, whose groups are the usual ones. */
	usual = *analysis->options;
	usual.group_by = SNAP_GROUP_USUAL;
	err = snap_group_threads(&analysis->strings, &usual, raw, members, idle, &hidden);
	for (size_t i = 0; !err && i < hidden.stack_count; i++)
		if (!snap_filter_count_idle(&analysis->strings, &analysis->snapshot->idle,
					    hidden.pid, &hidden.stacks[i], hidden.stacks[i].threads,
					    hidden.stacks[i].thread_count))
			return snap_error_no_memory();
	return err;
}

/* Labels and filters the threads of a process, and groups those that are shown. */
static struct stacksnap_error *group_process(struct snap_analysis *analysis,
					     struct snap_raw_process *raw,
					     const struct snap_filter_needed *needed,
					     struct snap_node *node)
{
	_cleanup_free_ struct snap_member *members =
		malloc((raw->thread_count + 1) * sizeof(*members));
	_cleanup_free_ struct snap_filter_stack *facts =
		malloc((raw->stack_count + 1) * sizeof(*facts));
	_cleanup_free_ bool *shown = calloc(raw->thread_count + 1, sizeof(*shown));
	_cleanup_free_ bool *idle = calloc(raw->thread_count + 1, sizeof(*idle));
	struct stacksnap_error *err;

	SNAP_TRY(snap_no_memory_unless(members && facts && shown && idle));
	for (size_t i = 0; i < raw->stack_count; i++) {
		/* A frame that was guessed counts where -n hides it, too. */
		snap_stack_classify_end(&raw->stacks[i]);
		facts[i] = snap_filter_check_stack(analysis->options, raw->stacks[i].frames,
						   raw->stacks[i].frame_count);
	}
	for (size_t i = 0; i < raw->thread_count; i++) {
		const struct snap_raw_thread *thread = &raw->threads[i];
		enum snap_filter_verdict verdict;

		if (!snap_label_member(&analysis->strings, raw, thread->thread,
				       &raw->stacks[thread->stack], &members[i]))
			return snap_error_no_memory();
		members[i].wait = thread->wait;
		members[i].idle = snap_filter_is_idle(needed, raw->process->pid, &members[i],
						      &facts[thread->stack]);
		verdict = snap_filter_check_thread(analysis->options, &members[i],
						   &facts[thread->stack]);
		shown[i] = !thread->is_hidden && verdict == SNAP_FILTER_SHOWS;
		idle[i] = !thread->is_hidden && verdict == SNAP_FILTER_IDLE;
	}
	for (size_t i = 0; i < raw->stack_count; i++) {
		snap_raw_stack_limit(analysis->options, &raw->stacks[i], facts[i].match);
		raw->stacks[i].detail = end_detail(analysis, raw, &raw->stacks[i]);
	}
	err = count_idle(analysis, raw, members, idle);
	err = err
		      ?: snap_group_threads(&analysis->strings, analysis->options, raw, members,
					    shown, node);
	err = err ?: snap_tasks_group(analysis, raw, facts, node);
	if (!err)
		snap_filter_rank(needed, node);
	return err;
}

/* False without memory. */
static bool find_needed_threads(const struct snap_analysis *analysis,
				struct snap_filter_needed *needed)
{
	for (size_t i = 0; i < analysis->capture->process_count; i++) {
		const struct snap_raw_process *raw = &analysis->processes[i];

		for (size_t k = 0; k < raw->thread_count; k++) {
			const struct snap_raw_stack *stack = &raw->stacks[raw->threads[k].stack];

			if (!snap_filter_needed_add(
				    needed, raw->process->pid, raw->threads[k].thread->tid,
				    raw->threads[k].wait, stack->frames, stack->frame_count))
				return false;
		}
	}
	return snap_filter_needed_sort(needed);
}

static struct stacksnap_error *make_snapshot_nodes(struct snap_analysis *analysis)
{
	size_t count = analysis->capture->process_count;
	struct snap_node **nodes =
		snap_arena_new_array(&analysis->scratch, count + 1, struct snap_node *);
	_cleanup_(snap_filter_needed_deinit) struct snap_filter_needed needed = { .count = 0 };

	SNAP_TRY(snap_no_memory_unless(nodes && find_needed_threads(analysis, &needed)));
	for (size_t i = 0; i < count; i++) {
		SNAP_TRY(snap_options_check(analysis->options));
		SNAP_TRY(snap_node_create(analysis, &analysis->processes[i], &nodes[i]));
		SNAP_TRY(group_process(analysis, &analysis->processes[i], &needed, nodes[i]));
	}
	SNAP_TRY(snap_waits_place(analysis, nodes));
	SNAP_TRY(snap_report_limit(analysis, nodes));
	return snap_node_tree(analysis, nodes);
}

struct stacksnap_error *snap_analyze(const struct snap_capture *capture,
				     const struct snap_options *options,
				     const struct snap_file_finder *finder,
				     struct snap_snapshot **ret)
{
	return snap_analyze_with(capture, options, finder, snap_runtimes, ret);
}

struct stacksnap_error *snap_analyze_with(const struct snap_capture *capture,
					  const struct snap_options *options,
					  const struct snap_file_finder *finder,
					  const struct snap_runtime *const *runtimes,
					  struct snap_snapshot **ret)
{
	_cleanup_(snap_analysis_deinit) struct snap_analysis analysis = { 0 };
	struct stacksnap_error *err = NULL;

	SNAP_TRY(snap_analysis_init(&analysis, capture, options, finder));
	SNAP_TRY(snap_unwinder_create(analysis.set, options, &analysis.unwinder));
	analysis.runtimes = runtimes;
	SNAP_TRY(snap_no_memory_unless(copy_head(&analysis)));
	for (size_t i = 0; i < capture->process_count; i++)
		SNAP_TRY(snap_stacks_collect(&analysis, &analysis.processes[i]));
	err = snap_frames_name(&analysis);
	/* By the stacks as they are: merging leaves out what an interpreter does for itself. */
	err = err ?: snap_waits_find(&analysis);
	err = err ?: snap_tails_find(&analysis);
	for (size_t i = 0; i < capture->process_count && !err; i++)
		err = snap_tasks_merge(&analysis, &analysis.processes[i]);
	if (err)
		return err;
	err = make_snapshot_nodes(&analysis);
	/* A name without memory for it would be missing silently. */
	if (!err && analysis.strings.incomplete)
		err = snap_error_no_memory();
	if (err)
		return err;
	*ret = snap_take_ptr(analysis.snapshot);
	return NULL;
}
