/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks -> stacks of the snapshot. They are grouped as threads are, by their stack and state, and
 * by the runtime's reason for a wait; in each logical process separately. Then the lines about the
 * runtimes.
 */
#include "analyze/task/task.h"

#include "analyze/group.h"
#include "base/bsearch.h"
#include "base/text.h"

#include <string.h>

struct grouping {
	struct snap_analysis *analysis;
	const struct snap_options *options;
	const struct snap_raw_process *raw;
	const struct snap_logical_set *set;
	struct snap_task *tasks;       /* one a raw task */
	size_t *stacks;                /* of each of them: the raw stack */
	uint64_t *keys;                /* of raw stacks, 0: not made yet */
	uint64_t *task_keys;           /* of tasks, wherever in a tree they stand */
	struct snap_group_item *items; /* of those that are shown */
	size_t item_count;
	bool in_tree;
};

SNAP_FREES(grouping_deinit, struct grouping, tasks, stacks, keys, task_keys, items);

static int64_t sane_time(int64_t ns)
{
	return ns > 0 && ns < INT64_MAX / 2 ? ns : 0;
}

static const char *text_if(const char *text)
{
	return text && *text ? text : NULL;
}

static struct snap_task make_task(const struct snap_process *process,
				  const struct snap_raw_task *raw)
{
	const struct snap_runtime_task *from = raw->task;

	return (struct snap_task){
		.id = from->id,
		.name = text_if(from->name),
		.state = from->state,
		.wait = text_if(from->wait),
		.since_ns = process->has_other_clocks ? 0 : sane_time(from->since_ns),
		.tid = from->tid > 0 ? from->tid : 0,
		.locked = from->locked,
		.parent = text_if(from->parent),
		.created_by = from->created_by,
		.labels = raw->labels,
		.label_count = raw->label_count,
		.labels_cut = from->labels_cut,
	};
}

static uint64_t stack_key(struct grouping *grouping, size_t stack)
{
	uint64_t *key = &grouping->keys[stack];

	if (*key == 0)
		*key = snap_group_stack_key(&grouping->raw->stacks[stack]) | 1;
	return *key;
}

static uint64_t key_of_task_item(struct grouping *grouping, size_t number)
{
	const struct snap_options *options = grouping->options;
	const struct snap_raw_task *raw = &grouping->raw->tasks[number];

	return snap_task_label_key(
		&grouping->tasks[number], raw->runtime->name, raw->task->is_system,
		options->group_by, options,
		options->group_by & SNAP_GROUP_STACK ? stack_key(grouping, raw->stack) : 0);
}

/* The same where it stands in a tree: in each logical process apart. */
static uint64_t key_in_tree(const struct grouping *grouping, size_t number)
{
	const struct snap_logical_set *set = grouping->set;
	size_t logical;

	if (!grouping->in_tree)
		return grouping->task_keys[number];
	logical = set->of_tasks[number];
	return set->keys ? set->keys[logical]
			 : snap_hash_text(set->logical[logical].id, grouping->task_keys[number]);
}

/* Items of one logical process are neighbours, and those of one group in it. */
static int compare_items(const void *left, const void *right, void *context)
{
	const struct snap_group_item *a = left, *b = right;
	const struct grouping *grouping = context;
	size_t x = 0, y = 0;

	if (grouping->in_tree) {
		x = grouping->set->of_tasks[a->number];
		y = grouping->set->of_tasks[b->number];
	}
	return snap_compare(x, y) ?: snap_group_compare_items(a, b);
}

static bool list_tasks(struct grouping *grouping)
{
	const struct snap_raw_process *raw = grouping->raw;
	size_t count = raw->task_count;

	grouping->tasks = malloc((count + 1) * sizeof(*grouping->tasks));
	grouping->stacks = malloc((count + 1) * sizeof(*grouping->stacks));
	grouping->items = malloc((count + 1) * sizeof(*grouping->items));
	grouping->task_keys = malloc((count + 1) * sizeof(*grouping->task_keys));
	grouping->keys = calloc(raw->stack_count + 1, sizeof(*grouping->keys));
	if (!grouping->tasks || !grouping->stacks || !grouping->items || !grouping->task_keys ||
	    !grouping->keys)
		return false;
	for (size_t i = 0; i < count; i++) {
		grouping->tasks[i] = make_task(raw->process, &raw->tasks[i]);
		grouping->stacks[i] = raw->tasks[i].stack;
		grouping->task_keys[i] = key_of_task_item(grouping, i);
	}
	return true;
}

/* Those that are shown, in the order of their groups. */
static void list_task_items(struct grouping *grouping, const struct snap_filter_stack *facts)
{
	bool locked = snap_any(grouping->raw->task_count, i,
			       snap_task_waits_for_lock(&grouping->tasks[i]));

	for (size_t i = 0; i < grouping->raw->task_count; i++) {
		const struct snap_raw_task *task = &grouping->raw->tasks[i];

		grouping->tasks[i].idle =
			snap_task_is_idle(&grouping->tasks[i], &facts[task->stack], locked);
		if ((grouping->options->no_system && task->task->is_system) ||
		    !snap_task_is_shown(grouping->options, &grouping->tasks[i], &facts[task->stack],
					task->runtime->name, &grouping->analysis->snapshot->idle))
			continue;
		grouping->items[grouping->item_count++] =
			(struct snap_group_item){ key_in_tree(grouping, i), i };
	}
	qsort_r(grouping->items, grouping->item_count, sizeof(*grouping->items), compare_items,
		grouping);
}

/* What the threads of tasks in a system call wait for there, if it is the same for all. */
static const struct snap_wait *common_call(const struct snap_raw_process *raw,
					   const struct snap_stack *stack)
{
	const struct snap_wait *common = NULL;

	for (size_t i = 0; i < stack->task_count; i++) {
		const struct snap_task *task = &stack->tasks[i];
		const struct snap_raw_thread *thread =
			task->state == SNAP_TASK_SYSCALL ? snap_task_thread(raw, task->tid) : NULL;
		const struct snap_wait *wait = thread ? thread->wait : NULL;

		if (!wait || (common && !snap_wait_same(common, wait)))
			return NULL;
		common = wait;
	}
	return common;
}

static bool make_task_stack(struct grouping *grouping, const struct snap_group_item *items,
			    size_t count, struct snap_stack *stack)
{
	struct snap_interner *strings = &grouping->analysis->strings;

	snap_group_show(grouping->options, grouping->raw, grouping->stacks, items, count, stack);
	stack->runtime = grouping->raw->tasks[items[0].number].runtime->name;
	stack->task_count = count;
	stack->tasks = snap_arena_new_array(strings->arena, count, struct snap_task);
	if (!stack->tasks)
		return false;
	for (size_t i = 0; i < count; i++)
		stack->tasks[i] = grouping->tasks[items[i].number];
	stack->crashed = snap_stack_has_thread(stack, grouping->raw->process->signal.tid);
	stack->wait = common_call(grouping->raw, stack);
	return snap_task_label_stack(strings, grouping->options, stack,
				     grouping->in_tree && !grouping->set->keys);
}

/* The groups of neighbouring items, sorted. `before`: stacks that are there already. */
static bool make_task_stacks(struct grouping *grouping, const struct snap_group_item *items,
			     size_t count, struct snap_stack **stacks, size_t *stack_count)
{
	struct snap_stack *all;
	size_t groups = snap_sum(count, i, i == 0 || items[i].id != items[i - 1].id);

	all = snap_arena_new_array(snap_analysis_arena(grouping->analysis), *stack_count + groups,
				   struct snap_stack);
	if (!all)
		return false;
	if (*stack_count)
		memcpy(all, *stacks, *stack_count * sizeof(*all));
	*stacks = all;
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i; end < count && items[end].id == items[i].id;)
			end++;
		if (!make_task_stack(grouping, items + i, end - i, &all[(*stack_count)++]))
			return false;
	}
	if (*stack_count)
		qsort(all, *stack_count, sizeof(*all), snap_stack_compare);
	return true;
}

static bool fill_logical(struct grouping *grouping)
{
	const struct snap_logical_set *set = grouping->set;

	for (size_t i = 0, end; i < grouping->item_count; i = end) {
		size_t number = set->of_tasks[grouping->items[i].number];
		struct snap_logical *logical = &set->logical[number];

		for (end = i; end < grouping->item_count &&
			      set->of_tasks[grouping->items[end].number] == number;)
			end++;
		if (!make_task_stacks(grouping, grouping->items + i, end - i, &logical->stacks,
				      &logical->stack_count))
			return false;
	}
	return true;
}

/* ---- runtimes ---- */

static enum snap_runtime_cut cut_of_result(const struct snap_runtime_result *result)
{
	switch (result->cut) {
	case SNAP_PLAN_CUT_TIME:
		return SNAP_RUNTIME_CUT_TIME;
	case SNAP_PLAN_CUT_MEMORY:
		return SNAP_RUNTIME_CUT_MEMORY;
	case SNAP_PLAN_CUT_RECORDS:
		return SNAP_RUNTIME_CUT_RECORDS;
	case SNAP_PLAN_WHOLE:
		break;
	}
	return result->torn ? SNAP_RUNTIME_TORN : SNAP_RUNTIME_WHOLE;
}

static bool tell_gil(struct snap_arena *arena, const struct snap_runtime_result *result,
		     struct snap_node_runtime *runtime)
{
	size_t holders = snap_sum(result->thread_count, i, result->threads[i].holds_gil);

	if (holders == 0)
		return true;
	runtime->gil = snap_arena_new_array(arena, holders, struct snap_gil);
	for (size_t i = 0; runtime->gil && i < result->thread_count; i++) {
		const struct snap_runtime_thread *thread = &result->threads[i];

		if (thread->holds_gil)
			runtime->gil[runtime->gil_count++] = (struct snap_gil){
				thread->tid, thread->interpreter < 0 ? -1 : thread->interpreter
			};
	}
	return runtime->gil;
}

/* Node writes one if it is asked to; whether it has code on a stack now, or none. */
static bool has_perf_map(const struct snap_analysis *analysis, const struct snap_raw_process *raw)
{
	const struct snap_file_request request = { .kind = SNAP_FILE_PERF_MAP,
						   .process = raw->process };
	_cleanup_fd_ int fd = -1;

	snap_error_destroy(analysis->finder->find(analysis->finder->context, &request, &fd));
	return fd >= 0;
}

/* Code that a perf map has named. */
static bool has_named_jit(const struct snap_raw_process *raw)
{
	return snap_any(raw->record_count, i,
			raw->records[i]->bits && !raw->records[i]->file &&
				!raw->records[i]->is_managed &&
				raw->records[i]->frame.entries->function);
}

/* A runtime whose functions no reader reads, by its program or library. There is room for it. */
static void tell_unread(struct snap_analysis *analysis, const struct snap_raw_process *raw,
			struct snap_node *node)
{
	static const struct {
		const char *name, *file; /* the file's name goes on with a number, or not at all */
		const char *before;      /* what stands in front of the version in the path */
	} rows[] = { { "java", "libjvm.so", "/java-" },
		     { "node", "node", "/v" },
		     { "ruby", "libruby", "libruby-" },
		     { "ruby", "ruby", "/ruby" } };

	for (size_t i = 0; i < raw->process->map_count; i++) {
		const char *path = raw->process->maps[i].path, *version;
		const char *base = path && *path == '/' ? snap_base_name(path) : "";
		size_t k = 0, length = 0;

		while (k < SNAP_ARRAY_SIZE(rows) &&
		       (!snap_begins_with(base, rows[k].file) ||
			base[strlen(rows[k].file) +
			     strspn(base + strlen(rows[k].file), "-.0123456789so")]))
			k++;
		if (k == SNAP_ARRAY_SIZE(rows) || !raw->process->maps[i].execute)
			continue;
		version = strstr(path, rows[k].before);
		if (version)
			length = strspn(version += strlen(rows[k].before), "0123456789.");
		while (length && version[length - 1] == '.')
			length--;
		node->runtimes[node->runtime_count++] = (struct snap_node_runtime){
			.name = rows[k].name,
			.version = length ? snap_intern(&analysis->strings, version, length) : NULL,
			.unread =
				analysis->options->symbols && !has_named_jit(raw) &&
				!(strcmp(rows[k].name, "node") == 0 && has_perf_map(analysis, raw)),
		};
		return;
	}
}

static bool tell_runtimes(struct snap_analysis *analysis, const struct snap_raw_process *raw,
			  struct snap_node *node)
{
	const struct snap_memory_image *image = raw->process->memory;
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;

	node->runtimes = snap_arena_new_array(snap_analysis_arena(analysis), raw->runtime_count + 1,
					      struct snap_node_runtime);
	if (!node->runtimes)
		return false;
	for (size_t i = 0; i < raw->runtime_count; i++) {
		const struct snap_runtime_result *result = raw->runtimes[i];
		struct snap_node_runtime *runtime = &node->runtimes[node->runtime_count];

		if (result->has_only_monitors)
			continue;
		node->runtime_count++;
		*runtime = (struct snap_node_runtime){
			.name = result->name,
			.version = snap_analysis_text(analysis, result->version),
			.tasks = result->task_count,
			.idle_threads = raw->idle_threads[i],
			.cut = cut_of_result(result),
		};
		/* It cannot be known for which of several one image is. */
		if (raw->runtime_count == 1 && image) {
			runtime->memory_bytes = image->bytes;
			runtime->plan_ns = sane_time(image->taken_ns);
		}
		if (!tell_gil(snap_analysis_arena(analysis), result, runtime))
			return false;
	}
	if (raw->thread_count)
		tell_unread(analysis, raw, node);
	while ((stack = snap_node_next_stack(node, &cursor)))
		for (size_t i = 0; i < node->runtime_count && stack->runtime; i++)
			if (strcmp(node->runtimes[i].name, stack->runtime) == 0)
				node->runtimes[i].shown += stack->task_count;
	node->task_count = raw->task_count;
	return true;
}

/* request_method and the like, behind the labels that the node has. */
static bool add_process_labels(struct snap_analysis *analysis, const struct snap_raw_process *raw,
			       struct snap_node *node)
{
	size_t count = node->label_count;
	struct snap_label *labels;

	for (size_t i = 0; i < raw->runtime_count; i++)
		count += raw->runtimes[i]->label_count;
	if (count == node->label_count)
		return true;
	labels = snap_arena_new_array(snap_analysis_arena(analysis), count, struct snap_label);
	if (!labels)
		return false;
	count = node->label_count;
	if (count)
		memcpy(labels, node->labels, count * sizeof(*labels));
	for (size_t i = 0; i < raw->runtime_count; i++)
		for (size_t k = 0; k < raw->runtimes[i]->label_count; k++) {
			const struct snap_label *from = &raw->runtimes[i]->labels[k];

			if (!from->key || !from->value)
				continue;
			labels[count] = *from;
			labels[count].key = snap_task_shown_key(&analysis->strings, from->key);
			if (!labels[count++].key)
				return false;
		}
	node->labels = labels;
	node->label_count = count;
	return true;
}

struct stacksnap_error *snap_tasks_group(struct snap_analysis *analysis,
					 const struct snap_raw_process *raw,
					 const struct snap_filter_stack *facts,
					 struct snap_node *node)
{
	_cleanup_(snap_logical_set_deinit) struct snap_logical_set set = { .logical = NULL };
	_cleanup_(grouping_deinit) struct grouping grouping = {
		.analysis = analysis, .options = analysis->options, .raw = raw, .set = &set
	};

	if (raw->runtime_count == 0)
		return tell_runtimes(analysis, raw, node) ? NULL : snap_error_no_memory();
	if (!list_tasks(&grouping) || !add_process_labels(analysis, raw, node))
		return snap_error_no_memory();
	/* What is grouped by no process has no tree of one either. */
	SNAP_TRY(analysis->options->together ? NULL : snap_logical_find(analysis, raw, &set));
	if (!set.logical && !analysis->options->together)
		SNAP_TRY(snap_awaits_find(analysis, raw, grouping.task_keys, &set));
	grouping.in_tree = set.logical != NULL;
	list_task_items(&grouping, facts);
	if (!grouping.in_tree) {
		if (!make_task_stacks(&grouping, grouping.items, grouping.item_count, &node->stacks,
				      &node->stack_count))
			return snap_error_no_memory();
	} else {
		SNAP_TRY(snap_no_memory_unless(fill_logical(&grouping)));
		SNAP_TRY(snap_logical_arrange(snap_analysis_arena(analysis), analysis->options,
					      set.logical, set.parents, set.count, &node->logical,
					      &node->logical_count));
	}
	return tell_runtimes(analysis, raw, node) ? NULL : snap_error_no_memory();
}
