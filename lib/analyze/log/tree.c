/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes, threads and stacks of a log -> those of a recording, in their final order: those that
 * exist in the slice and are shown, their parents, and counts of the missing ones. See internal.h.
 */
#include "analyze/log/internal.h"
#include "base/bsearch.h"

#include <string.h>

/* In place of a process's number in the recording: it is not shown. */
static const uint32_t HIDDEN = UINT32_MAX;

struct tree {
	struct snap_log_analysis *of;
	struct snap_raw_process *raws; /* of each process of the log: counts of its threads */
	struct snap_node **nodes;      /* NULL: not there in the slice */
	uint32_t *shown;               /* its number in the recording, HIDDEN */
	uint32_t *successors;          /* what it went on as, by exec; HIDDEN: none */
	uint32_t *nearest;             /* the first shown one of itself and its ancestors */
	bool *has_tracks;
	size_t *task_counts; /* of tasks that waited, before filters */
};

static void log_tree_deinit(struct tree *tree)
{
	free(tree->raws);
	free(tree->nodes);
	free(tree->shown);
	free(tree->successors);
	free(tree->nearest);
	free(tree->has_tracks);
	free(tree->task_counts);
}

static bool tree_init(struct tree *tree)
{
	size_t count = tree->of->log->process_count + 1;

	tree->raws = calloc(count, sizeof(*tree->raws));
	tree->nodes = calloc(count, sizeof(struct snap_node *));
	tree->shown = malloc(count * sizeof(*tree->shown));
	tree->successors = malloc(count * sizeof(*tree->successors));
	tree->nearest = malloc(count * sizeof(*tree->nearest));
	tree->has_tracks = calloc(count, sizeof(*tree->has_tracks));
	tree->task_counts = calloc(count, sizeof(*tree->task_counts));
	if (!tree->raws || !tree->nodes || !tree->shown || !tree->successors || !tree->nearest ||
	    !tree->has_tracks || !tree->task_counts)
		return false;
	memset(tree->shown, 0xff, count * sizeof(*tree->shown));
	memset(tree->successors, 0xff, count * sizeof(*tree->successors));
	return true;
}

/* ---- nodes ---- */

static uint64_t tick_number(const struct snap_log_analysis *of, size_t index)
{
	return of->log->first_tick + index;
}

static bool is_process_in_slice(const struct snap_log_analysis *of,
				const struct snap_log_process *process)
{
	return of->end > of->first && process->first_tick < tick_number(of, of->end) &&
	       process->last_tick >= tick_number(of, of->first);
}

static void count_log_threads(struct tree *tree)
{
	const struct snap_log *log = tree->of->log;

	for (size_t i = 0; i < log->thread_count; i++) {
		const struct snap_log_line *line = &tree->of->lines[i];
		const struct snap_log_thread *thread = &log->threads[i];

		if (!line->sampled)
			continue;
		if (thread->task)
			tree->task_counts[thread->process]++;
		else
			tree->raws[thread->process].thread_count++;
		/*
		 * A process that came and went before it could be read is no loss of the recording.
		 */
		if (!line->readable && line->stays)
			tree->raws[thread->process].not_stopped++;
		if (line->run_count)
			tree->has_tracks[thread->process] = true;
	}
}

/* What is known of a process that was never mapped. */
static const struct snap_process *bare_facts(struct snap_log_analysis *of,
					     const struct snap_log_process *process)
{
	struct snap_process *facts = snap_arena_new(&of->analysis.scratch, struct snap_process);

	if (facts)
		*facts = (struct snap_process){ .pid = process->pid,
						.start_ticks = process->start_ticks,
						.uid = (uid_t)-1,
						.is_target = process->is_target,
						.parent = SIZE_MAX };
	return facts;
}

static struct stacksnap_error *make_log_node(struct tree *tree, size_t index)
{
	struct snap_log_analysis *of = tree->of;
	const struct snap_log_process *process = &of->log->processes[index];
	struct snap_raw_process *raw = &tree->raws[index];

	raw->process = process->space == UINT32_MAX ? bare_facts(of, process)
						    : &of->log->capture->processes[process->space];
	SNAP_TRY(snap_no_memory_unless(raw->process));
	SNAP_TRY(snap_node_create(&of->analysis, raw, &tree->nodes[index]));
	tree->nodes[index]->task_count = tree->task_counts[index];
	if (!process->reported.known)
		return NULL;
	tree->nodes[index]->type = process->reported.type;
	tree->nodes[index]->description =
		snap_analysis_text(&of->analysis, process->reported.description);
	tree->nodes[index]->thread_count = process->reported.thread_count;
	return NULL;
}

/* Processes with samples; and those that could not be read, unless filters ask for threads. */
static bool is_node_shown(const struct tree *tree, size_t index)
{
	const struct snap_options *options = tree->of->options;
	const struct snap_node *node = tree->nodes[index];

	if (!node || snap_filter_hides_type(options, node))
		return false;
	return tree->has_tracks[index] || (node->trouble && !snap_filter_is_empty(options, node));
}

static struct stacksnap_error *make_log_nodes(struct tree *tree)
{
	struct snap_log_analysis *of = tree->of;
	struct snap_recording *recording = of->recording;

	count_log_threads(tree);
	for (size_t i = 0; i < of->log->process_count; i++) {
		struct stacksnap_error *err = NULL;

		if (tree->raws[i].thread_count || is_process_in_slice(of, &of->log->processes[i]))
			err = make_log_node(tree, i);
		if (err)
			return err;
		if (is_node_shown(tree, i))
			tree->shown[i] = (uint32_t)recording->process_count++;
	}
	recording->missing = of->analysis.snapshot->missing;
	return NULL;
}

/* ---- parents and children ---- */

static int by_identity(const void *left, const void *right, void *context)
{
	const struct snap_log_process *processes = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const struct snap_log_process *x = &processes[a], *y = &processes[b];

	return snap_compare(x->pid, y->pid) ?:
	       snap_compare(x->start_ticks, y->start_ticks) ?: snap_compare(a, b);
}

/* The programs of one process follow each other. */
static bool find_successors(struct tree *tree)
{
	const struct snap_log *log = tree->of->log;
	_cleanup_free_ uint32_t *order = malloc((log->process_count + 1) * sizeof(*order));

	if (!order)
		return false;
	for (size_t i = 0; i < log->process_count; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, log->process_count, sizeof(*order), by_identity, log->processes);
	for (size_t i = 0; i + 1 < log->process_count; i++) {
		const struct snap_log_process *a = &log->processes[order[i]];
		const struct snap_log_process *b = &log->processes[order[i + 1]];

		if (a->execed && a->pid == b->pid && a->start_ticks == b->start_ticks)
			tree->successors[order[i]] = order[i + 1];
	}
	return true;
}

/*
 * The nearest one above that is shown. A parent that ended by exec before the slice is there as the
 * program that it became, unless that one came after the child in the list.
 */
static size_t shown_parent(const struct tree *tree, uint32_t child)
{
	uint32_t parent = tree->of->log->processes[child].parent;
	uint32_t next = parent == UINT32_MAX ? HIDDEN : tree->successors[parent];

	if (parent == UINT32_MAX)
		return SIZE_MAX;
	if (tree->shown[parent] == HIDDEN && next != HIDDEN && next < child &&
	    tree->shown[next] != HIDDEN)
		return tree->shown[next];
	return tree->nearest[parent] == HIDDEN ? SIZE_MAX : tree->nearest[parent];
}

/* Parents come first, so each has its answer when its children ask. */
static void find_nearest(struct tree *tree)
{
	const struct snap_log *log = tree->of->log;

	for (size_t i = 0; i < log->process_count; i++) {
		uint32_t parent = log->processes[i].parent;

		tree->nearest[i] = tree->shown[i];
		if (tree->shown[i] == HIDDEN && parent != UINT32_MAX)
			tree->nearest[i] = tree->nearest[parent];
	}
}

static void fill_process(const struct tree *tree, uint32_t index,
			 struct snap_recorded_process *recorded)
{
	const struct snap_log_analysis *of = tree->of;
	const struct snap_log_process *process = &of->log->processes[index];
	uint64_t first = tick_number(of, of->first), last = tick_number(of, of->end) - 1;

	*recorded = (struct snap_recorded_process){
		.node = tree->nodes[index],
		.parent = of->options->flat ? SIZE_MAX : shown_parent(tree, index),
		.last = (uint32_t)(last - first),
	};
	if (process->first_tick > first)
		recorded->first =
			(uint32_t)((process->first_tick < last ? process->first_tick : last) -
				   first);
	if (process->last_tick < last) {
		recorded->last =
			(uint32_t)(process->last_tick < first ? 0 : process->last_tick - first);
		recorded->ended = true;
		recorded->execed = process->execed;
	}
}

/* An exec leaves two with the same pid. */
SNAP_ORDER(by_parent_and_pid, const struct snap_recorded_process *, a, b,
	   snap_compare((*a)->parent, (*b)->parent), snap_compare((*a)->node->pid, (*b)->node->pid),
	   snap_compare(*a, *b));

/* Hands each run of siblings in one list to its parent. */
static bool link_children(struct snap_log_analysis *of)
{
	struct snap_recorded_process *processes = of->recording->processes;
	size_t count = of->recording->process_count;
	struct snap_node **list = snap_arena_new_array(snap_analysis_arena(&of->analysis),
						       count + 1, struct snap_node *);
	_cleanup_free_ struct snap_recorded_process **order =
		malloc((count + 1) * sizeof(struct snap_recorded_process *));

	if (!list || !order)
		return false;
	for (size_t i = 0; i < count; i++)
		order[i] = &processes[i];
	qsort(order, count, sizeof(struct snap_recorded_process *), by_parent_and_pid);
	for (size_t i = 0; i < count; i++) {
		size_t parent = order[i]->parent;
		struct snap_node *node = parent == SIZE_MAX ? NULL : processes[parent].node;

		list[i] = order[i]->node;
		if (node && node->child_count++ == 0)
			node->children = &list[i];
	}
	return true;
}

static bool make_processes(struct tree *tree)
{
	struct snap_log_analysis *of = tree->of;
	struct snap_recording *recording = of->recording;

	recording->processes =
		snap_arena_new_array(snap_analysis_arena(&of->analysis),
				     recording->process_count + 1, struct snap_recorded_process);
	if (!recording->processes || !find_successors(tree))
		return false;
	find_nearest(tree);
	for (size_t i = 0; i < of->log->process_count; i++)
		if (tree->shown[i] != HIDDEN)
			fill_process(tree, (uint32_t)i, &recording->processes[tree->shown[i]]);
	return link_children(of);
}

/* ---- tracks ---- */

/* A tid may have been given twice; and a task may have become another one. */
SNAP_ORDER(by_process_and_tid, struct snap_track, a, b, snap_compare(a->process, b->process),
	   snap_compare(a->tid, b->tid),
	   a->task && b->task ? snap_task_compare_ids(a->task->id, b->task->id) : 0,
	   snap_compare(a->runs->first, b->runs->first));

static bool has_track(const struct tree *tree, size_t thread)
{
	return tree->of->lines[thread].run_count &&
	       tree->shown[tree->of->log->threads[thread].process] != HIDDEN;
}

/* Behind all threads; false without memory. */
static bool make_task(struct snap_log_analysis *of, uint32_t thread, struct snap_track *track)
{
	const struct snap_log_task *from = &of->log->tasks[of->log->threads[thread].task - 1];
	const struct snap_run *last = &track->runs[track->run_count - 1];
	struct snap_task *task = snap_log_task(of, thread);

	if (!task)
		return false;
	task->state = last->task_state;
	task->wait = last->wchan;
	track->task = task;
	track->runtime = snap_analysis_text(&of->analysis, from->runtime);
	track->name = task->name ? task->name : track->runtime;
	track->tid = SNAP_TASK_FIRST_TID;
	return track->runtime;
}

/* They are sorted: each task gets a number that no thread has. */
static void number_tasks(struct snap_recording *recording)
{
	pid_t next = SNAP_TASK_FIRST_TID;

	for (size_t i = 0; i < recording->track_count; i++)
		if (recording->tracks[i].task)
			recording->tracks[i].tid = next++;
}

static bool make_tracks(const struct tree *tree)
{
	struct snap_log_analysis *of = tree->of;
	struct snap_recording *recording = of->recording;
	size_t count = snap_sum(of->log->thread_count, i, has_track(tree, i));

	recording->tracks = snap_arena_new_array(snap_analysis_arena(&of->analysis), count + 1,
						 struct snap_track);
	if (!recording->tracks)
		return false;
	for (size_t i = 0; i < of->log->thread_count; i++) {
		const struct snap_log_thread *thread = &of->log->threads[i];

		if (!has_track(tree, i))
			continue;
		recording->tracks[recording->track_count++] = (struct snap_track){
			.process = tree->shown[thread->process],
			.tid = thread->tid,
			.ns_tid = thread->ns_tid,
			.name = snap_analysis_text(&of->analysis, thread->name),
			.kernel = thread->kernel,
			.runs = of->lines[i].runs,
			.run_count = of->lines[i].run_count,
			.wakes = of->lines[i].wakes,
			.wake_count = of->lines[i].wake_count,
		};
		if (thread->task &&
		    !make_task(of, (uint32_t)i, &recording->tracks[recording->track_count - 1]))
			return false;
	}
	qsort(recording->tracks, count, sizeof(*recording->tracks), by_process_and_tid);
	number_tasks(recording);
	return true;
}

/* ---- stacks ---- */

/* A stack that is shown, before it has its number. */
struct numbered {
	uint32_t process, original, index; /* index: in of->shown */
};

SNAP_ORDER(by_process_and_original, struct numbered, a, b, snap_compare(a->process, b->process),
	   snap_compare(a->original, b->original));

/* Process by process, in the order of the log, without those of processes that are not shown. */
static bool make_log_stacks(const struct tree *tree)
{
	struct snap_log_analysis *of = tree->of;
	struct snap_recording *recording = of->recording;
	_cleanup_free_ uint32_t *numbers = malloc((of->shown_count + 1) * sizeof(*numbers));
	_cleanup_free_ struct numbered *order = malloc((of->shown_count + 1) * sizeof(*order));
	_cleanup_free_ const struct snap_log_shown **shown =
		malloc((of->shown_count + 1) * sizeof(struct snap_log_shown *));
	size_t count = 0;

	recording->stacks = snap_arena_new_array(snap_analysis_arena(&of->analysis),
						 of->shown_count + 1, struct snap_recorded_stack);
	if (!recording->stacks || !numbers || !order || !shown)
		return false;
	for (size_t i = 0; i < of->shown_count; i++) {
		uint32_t process = tree->shown[of->shown[i].process];

		if (process != HIDDEN)
			order[count++] =
				(struct numbered){ process, of->shown[i].original, (uint32_t)i };
	}
	qsort(order, count, sizeof(*order), by_process_and_original);
	recording->stack_count = count;
	for (size_t i = 0; i < count; i++) {
		numbers[order[i].index] = (uint32_t)i;
		shown[i] = &of->shown[order[i].index];
	}
	if (!snap_log_fill_stacks(of, shown, count, recording->stacks))
		return false;
	for (size_t i = 0; i < count; i++)
		recording->stacks[i].process = order[i].process;
	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++) {
			struct snap_run *run = &recording->tracks[i].runs[k];

			run->stack = numbers[run->stack];
		}
	return true;
}

struct stacksnap_error *snap_log_make_tree(struct snap_log_analysis *of)
{
	_cleanup_(log_tree_deinit) struct tree tree = { .of = of };

	SNAP_TRY(snap_no_memory_unless(tree_init(&tree)));
	SNAP_TRY(make_log_nodes(&tree));
	if (!make_processes(&tree) || !make_tracks(&tree) || !make_log_stacks(&tree))
		return snap_error_no_memory();
	return snap_log_make_waits(of, tree.shown);
}
