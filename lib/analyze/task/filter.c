/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Filters of tasks. The words are those of threads (filter.h), and the states are the tasks' own. A
 * task is also idle if it waits as one for work does. In a snapshot that was read without filters,
 * tasks are removed from their stacks, and the tree of logical processes is made again.
 */
#include "analyze/task/task.h"

#include "base/text.h"

#include <string.h>

/* What runtimes say of tasks that wait for work, or for an answer: stacksnap(1). */
static bool may_wait_for_work(const char *wait)
{
	static const char *const reasons[] = {
		"IO wait",           "chan receive", "chan receive (nil chan)", "select",
		"select (no cases)", "sleep",        "sync.Cond.Wait",
	};

	return wait && snap_any(SNAP_ARRAY_SIZE(reasons), i, strcmp(reasons[i], wait) == 0);
}

/* "main.serve.func1" is made by a function, often to call another one. */
static bool is_closure(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && snap_begins_with(dot, ".func");
}

/*
 * Whether the function that it began with waits itself, as a worker for its next job does, or in
 * accept. What waits further inside may wait for an answer, or for one of a pool.
 */
bool snap_task_waits_at_its_root(const struct snap_frame **frames, size_t count)
{
	static const char *const between[] = { "time.Sleep", "sync.(*Cond).Wait",
					       "sync.runtime_notifyListWait" };
	bool elsewhere = false;
	size_t own = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < frames[i]->entry_count; k++) {
			const struct snap_entry *entry = &frames[i]->entries[k];
			const char *name = entry->function ? entry->function : "";

			if (strcmp(name, "net.(*netFD).accept") == 0)
				return true;
			if (!entry->system)
				own += !own || !is_closure(name);
			else if (!snap_begins_with(name, "runtime."))
				elsewhere |= !snap_any(SNAP_ARRAY_SIZE(between), n,
						       strcmp(between[n], name) == 0);
		}
	return own < 2 && !elsewhere;
}

bool snap_task_waits_for_lock(const struct snap_task *task)
{
	static const char *const reasons[] = { "semacquire", "sync.Mutex.Lock", "sync.RWMutex.Lock",
					       "sync.RWMutex.RLock" };

	return task->wait &&
	       snap_any(SNAP_ARRAY_SIZE(reasons), i, strcmp(reasons[i], task->wait) == 0);
}

/* By its name, its id, or a value that the program labelled it with. */
static bool is_chosen_task(const regex_t *regex, const struct snap_task *task)
{
	return snap_filter_chooses(regex, task->name ? task->name : "", task->id) ||
	       snap_any(task->label_count, i,
			snap_filter_chooses(regex, task->labels[i].value, NULL));
}

bool snap_task_is_idle(const struct snap_task *task, const struct snap_filter_stack *stack,
		       bool locked)
{
	if (locked && snap_same_text(task->wait, "sleep"))
		return false;
	return task->state == SNAP_TASK_WAITING && !snap_task_waits_for_lock(task) &&
	       (stack->idle || (stack->at_root && may_wait_for_work(task->wait)));
}

bool snap_task_is_shown(const struct snap_options *options, const struct snap_task *task,
			const struct snap_filter_stack *stack, const char *runtime,
			struct snap_idle *idle)
{
	if (options->states && !(options->states & SNAP_TASK_STATE_BIT(task->state)))
		return false;
	if (options->thread_regex && !is_chosen_task(options->thread_regex, task))
		return false;
	if (!stack->matches || !options->no_idle || !task->idle)
		return stack->matches;
	idle->runtime = idle->tasks++ && !snap_same_text(idle->runtime, runtime) ? NULL : runtime;
	return false;
}

/* False without memory. */
static bool filter_stack(struct snap_interner *strings, const struct snap_options *options,
			 struct snap_stack *stack, bool in_tree, bool unsaid,
			 struct snap_idle *idle)
{
	struct snap_filter_stack facts =
		snap_filter_check_stack(options, stack->frames, stack->frame_count);
	size_t kept = 0;

	for (size_t i = 0; i < stack->task_count; i++) {
		struct snap_task *task = &stack->tasks[i];

		task->idle = task->idle || (unsaid && snap_task_is_idle(task, &facts, false));
		if (snap_task_is_shown(options, task, &facts, stack->runtime, idle))
			stack->tasks[kept++] = *task;
	}
	if (kept == stack->task_count)
		return true;
	stack->count = stack->task_count = kept;
	/* What they have in common is found among sorted labels, as they are in our documents. */
	for (size_t i = 0; i < kept; i++)
		stack->tasks[i].label_count =
			snap_task_sort_labels(stack->tasks[i].labels, stack->tasks[i].label_count);
	return kept == 0 || snap_task_label_stack(strings, options, stack, in_tree);
}

static bool filter_stacks(struct snap_interner *strings, const struct snap_options *options,
			  struct snap_stack *stacks, size_t *count, bool in_tree, bool unsaid,
			  struct snap_idle *idle)
{
	size_t kept = 0;

	for (size_t i = 0; i < *count; i++) {
		if (stacks[i].runtime &&
		    !filter_stack(strings, options, &stacks[i], in_tree, unsaid, idle))
			return false;
		if (stacks[i].count)
			stacks[kept++] = stacks[i];
	}
	*count = kept;
	if (kept)
		qsort(stacks, kept, sizeof(*stacks), snap_stack_compare);
	return true;
}

/* The parent of each: the last one before it that is one level higher. False without memory. */
static bool find_task_parents(const struct snap_node *node, size_t *parents)
{
	/* The last one at each level so far: a level is at most its number. */
	_cleanup_free_ size_t *levels = malloc((node->logical_count + 1) * sizeof(*levels));

	for (size_t i = 0; levels && i < node->logical_count; i++) {
		uint32_t depth = node->logical[i].depth;

		parents[i] = depth ? levels[depth - 1] : SIZE_MAX;
		levels[depth] = i;
	}
	return levels;
}

/* Of a tree without levels, as --flat leaves it, those that stay do so where they are. */
static bool filter_flat(const struct snap_options *options, struct snap_node *node)
{
	size_t kept = 0;

	if (snap_any(node->logical_count, i, node->logical[i].depth))
		return false;
	for (size_t i = 0; i < node->logical_count; i++)
		if (node->logical[i].stack_count &&
		    !snap_logical_is_hidden(options, &node->logical[i]))
			node->logical[kept++] = node->logical[i];
	node->logical_count = kept;
	return true;
}

static struct stacksnap_error *filter_logical(struct snap_interner *strings,
					      const struct snap_options *options,
					      struct snap_node *node, bool unsaid,
					      struct snap_idle *idle)
{
	_cleanup_free_ size_t *parents = malloc((node->logical_count + 1) * sizeof(*parents));

	if (node->logical_count == 0)
		return NULL;
	SNAP_TRY(snap_no_memory_unless(parents && find_task_parents(node, parents)));
	for (size_t i = 0; i < node->logical_count; i++)
		if (!filter_stacks(strings, options, node->logical[i].stacks,
				   &node->logical[i].stack_count,
				   node->logical[i].type != SNAP_LOGICAL_TASK, unsaid, idle))
			return snap_error_no_memory();
	if (filter_flat(options, node))
		return NULL;
	return snap_logical_arrange(strings->arena, options, node->logical, parents,
				    node->logical_count, &node->logical, &node->logical_count);
}

struct stacksnap_error *snap_task_filter_node(struct snap_interner *strings,
					      const struct snap_options *options,
					      struct snap_node *node, bool unsaid,
					      struct snap_idle *idle)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;

	if (node->runtime_count == 0 && node->logical_count == 0)
		return NULL;
	if (!filter_stacks(strings, options, node->stacks, &node->stack_count, false, unsaid, idle))
		return snap_error_no_memory();
	SNAP_TRY(filter_logical(strings, options, node, unsaid, idle));
	for (size_t i = 0; i < node->runtime_count; i++)
		node->runtimes[i].shown = 0;
	while ((stack = snap_node_next_stack(node, &cursor)))
		for (size_t i = 0; i < node->runtime_count && stack->runtime; i++)
			if (snap_same_text(node->runtimes[i].name, stack->runtime))
				node->runtimes[i].shown += stack->task_count;
	return NULL;
}
