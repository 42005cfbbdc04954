/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes -> nodes: copies what the capture says of a process, gives it its type and description,
 * and counts what is missing. Knows nothing of stacks but their number; the tree is tree.c.
 */
#include "analyze/analysis.h"
#include "analyze/classify.h"
#include "analyze/tree.h"
#include "base/escape.h"

#include <string.h>

enum { MAX_ARGS = 1 << 14, MAX_EMPTY_TAIL = 16 };

/*
 * A process that writes its title over its arguments leaves NULs behind it, which are no arguments;
 * a few may be.
 */
static size_t args_size(const struct snap_process *process)
{
	size_t size = process->args ? process->args_size : 0;

	while (size && process->args[size - 1] == '\0')
		size--;
	return size == 0 || process->args_size - size > MAX_EMPTY_TAIL ? size : process->args_size;
}

static bool copy_args(struct snap_analysis *analysis, const struct snap_process *process,
		      struct snap_node *node)
{
	struct snap_arena *arena = snap_analysis_arena(analysis);
	size_t size = args_size(process), count = 0;
	const char *bytes;

	if (size == 0)
		return true;
	bytes = snap_arena_strndup(arena, process->args, size);
	for (size_t at = 0; at < size && count < MAX_ARGS;
	     at += strnlen(process->args + at, size - at) + 1)
		count++;
	node->args = snap_arena_new_array(arena, count, const char *);
	if (!bytes || !node->args)
		return false;
	for (size_t at = 0; node->arg_count < count; at += strlen(bytes + at) + 1)
		node->args[node->arg_count++] = bytes + at;
	return true;
}

/* The command line with its arguments separated by spaces; NULL without one. */
static const char *command_line(struct snap_analysis *analysis, const struct snap_process *process)
{
	size_t size = process->args_size;
	char *text;

	while (size && process->args[size - 1] == '\0')
		size--;
	if (!process->args || size == 0)
		return NULL;
	size = snap_text_cut(process->args, size, SNAP_MAX_NAME);
	text = snap_arena_strndup(snap_analysis_arena(analysis), process->args, size);
	for (size_t i = 0; text && i < size; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	return text;
}

static const char *describe_node(struct snap_analysis *analysis, const struct snap_process *process,
				 const struct snap_node *node)
{
	const char *command = NULL;

	switch (node->type) {
	case SNAP_TYPE_KERNEL:
		return "(kernel thread)";
	case SNAP_TYPE_DEAD:
		return "(dead process)";
	case SNAP_TYPE_NONE:
		return "(unassociated)";
	case SNAP_TYPE_NORMAL:
	case SNAP_TYPE_SYSTEM:
		command = command_line(analysis, process);
		break;
	}
	if (command)
		return command;
	return node->exe ? node->exe : node->name;
}

static bool copy_ancestors(struct snap_analysis *analysis, const struct snap_process *process,
			   struct snap_node *node)
{
	node->ancestor_count = process->ancestor_count;
	if (process->ancestor_count == 0)
		return true;
	node->ancestors = snap_arena_memdup(snap_analysis_arena(analysis), process->ancestors,
					    process->ancestor_count * sizeof(*process->ancestors));
	for (size_t i = 0; node->ancestors && i < node->ancestor_count; i++)
		node->ancestors[i].name = snap_analysis_text(analysis, process->ancestors[i].name);
	return node->ancestors != NULL;
}

static bool copy_node_labels(struct snap_analysis *analysis, const struct snap_process *process,
			     struct snap_node *node)
{
	if (!process->exe_deleted)
		return true;
	node->labels = snap_arena_new(snap_analysis_arena(analysis), struct snap_label);
	if (!node->labels)
		return false;
	node->labels[node->label_count++] = (struct snap_label){ "exe_deleted", "true" };
	return true;
}

static void count_node_threads(const struct snap_raw_process *raw, struct snap_node *node)
{
	const struct snap_process *process = raw->process;

	node->threads_missed = process->threads_missed;
	if (process->trouble && process->thread_count > raw->thread_count)
		node->threads_missed += process->thread_count - raw->thread_count;
	if (node->type == SNAP_TYPE_DEAD)
		node->threads_missed = 0;
	node->thread_count = raw->thread_count + node->threads_missed;
}

static void count_missing(const struct snap_raw_process *raw, struct snap_missing *missing)
{
	const struct snap_process *process = raw->process;

	missing->processes +=
		snap_trouble_applies(snap_troubles[process->trouble].loss, process->is_target);
	if (process->trouble == SNAP_TROUBLE_NONE) {
		missing->threads += raw->not_stopped + process->threads_missed;
		missing->shown++;
	}
}

struct stacksnap_error *snap_node_create(struct snap_analysis *analysis,
					 const struct snap_raw_process *raw, struct snap_node **ret)
{
	const struct snap_process *process = raw->process;
	struct snap_node *node = snap_arena_new(snap_analysis_arena(analysis), struct snap_node);

	SNAP_TRY(snap_no_memory_unless(node));
	*node = (struct snap_node){
		.pid = process->pid,
		.ppid = process->ppid,
		.ns_pid = process->ns_pid,
		.name = snap_analysis_text(analysis, process->name),
		.type = snap_classify_process(process, raw->thread_count),
		.state = snap_state_of_letter(process->state),
		.exe = snap_analysis_text(analysis, process->exe),
		.uid = process->uid,
		.user = snap_analysis_text(analysis, process->user),
		.start_time_ns = process->start_time_ns,
		.start_ticks = process->start_ticks,
		.cgroup = snap_analysis_text(analysis, process->cgroup),
		.unit = snap_analysis_text(analysis, process->unit),
		.container = snap_analysis_text(analysis, process->container),
		.stop_duration_ns = process->stop_duration_ns,
		.usage = process->usage,
		.signal = process->signal,
		.trouble = process->trouble,
		.trouble_message = snap_analysis_text(analysis, process->trouble_message),
	};
	if (!copy_args(analysis, process, node) || !copy_ancestors(analysis, process, node) ||
	    !copy_node_labels(analysis, process, node))
		return snap_error_no_memory();
	node->description = describe_node(analysis, process, node);
	count_node_threads(raw, node);
	count_missing(raw, &analysis->snapshot->missing);
	*ret = node;
	return NULL;
}

struct stacksnap_error *snap_node_tree(struct snap_analysis *analysis, struct snap_node **nodes)
{
	const struct snap_capture *capture = analysis->capture;
	_cleanup_free_ size_t *parents = malloc((capture->process_count + 1) * sizeof(*parents));

	SNAP_TRY(snap_no_memory_unless(parents));
	for (size_t i = 0; i < capture->process_count; i++)
		parents[i] = capture->processes[i].parent;
	return snap_tree_build(analysis->snapshot, analysis->options, nodes, parents,
			       capture->process_count);
}
