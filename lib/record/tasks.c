/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Looks at tasks that wait: see tasks.h. */
#include "record/tasks.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/table.h"

#include <string.h>

enum {
	STOPPED_PART = 100, /* of its time a process is stopped for its tasks one part at most … */
	TAKEN_PART = 10,    /* … and looks, with all that is done for them, take one part */
};

static const int64_t FIRST_COST_NS = 1000000;       /* of a process that was not looked at yet */
static const int64_t LONGEST_IDLE_NS = 60000000000; /* of one that has no tasks */

static int64_t period_of(const struct snap_options *options)
{
	return 1000000000000 / options->task_millihertz;
}

int64_t snap_tasks_next(const struct snap_options *options, int64_t begin_ns, int64_t end_ns,
			int64_t stopped_ns)
{
	int64_t next = begin_ns + period_of(options);
	int64_t stopped = end_ns + STOPPED_PART * stopped_ns;
	int64_t taken = end_ns + TAKEN_PART * (end_ns - begin_ns);

	next = next > stopped ? next : stopped;
	return next > taken ? next : taken;
}

void snap_task_list_deinit(struct snap_task_list *list)
{
	free(list->tasks);
	*list = (struct snap_task_list){ .count = 0 };
}

void snap_tasks_renumber(const struct snap_log *log, struct snap_task_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		list->tasks[i].number = snap_log_moved_thread(log, list->tasks[i].number);
}

struct stacksnap_error *snap_tasks_end(struct snap_log *log, struct snap_task_list *list)
{
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < list->count && !err; i++)
		err = snap_log_end_thread(log, list->tasks[i].number);
	snap_task_list_deinit(list);
	return err;
}

/* ---- one look ---- */

struct look {
	struct snap_task_looks *looks;
	const struct snap_task_owner *owner;
	struct snap_hash_table table;     /* of the list's tasks, by identity */
	struct snap_pointer_table stacks; /* of the answer -> the log's, + 1 */
};

static void look_deinit(struct look *look)
{
	snap_hash_table_deinit(&look->table);
	snap_pointer_table_deinit(&look->stacks);
}

static uint64_t hash_content(const struct snap_remote_task *task)
{
	uint64_t hash = snap_hash_text(task->name, task->labels_cut);

	hash = snap_hash_text(task->parent, hash);
	hash = snap_hash_text(task->created_by.function, hash);
	hash = snap_hash_text(task->created_by.file, hash);
	hash = snap_hash_add(task->created_by.line, hash);
	for (size_t i = 0; i < task->label_count; i++)
		hash = snap_hash_text(task->labels[i].value,
				      snap_hash_text(task->labels[i].key, hash));
	return hash;
}

/* NULL: the log does not have it. */
static struct snap_known_task *find_known(struct look *look, uint64_t identity)
{
	struct snap_task_list *list = look->owner->list;

	return snap_hash_find_in(&look->table, identity, list->tasks, at, at->identity == identity);
}

static bool list_known(struct look *look)
{
	const struct snap_task_list *list = look->owner->list;

	return snap_all(list->count, i,
			snap_hash_table_add(&look->table, list->tasks[i].identity, i));
}

/* *ret UINT32_MAX: there is no room for it. */
static struct stacksnap_error *add_to_log(const struct look *look,
					  const struct snap_remote_task *from, uint32_t *ret)
{
	struct snap_log *log = look->looks->log;
	const struct snap_entry *by = &from->created_by;
	const struct snap_log_task task = {
		.id = from->id,
		.name = from->name,
		.runtime = from->runtime,
		.parent = from->parent,
		.created_by = by->function ? by : NULL,
		.labels_cut = from->labels_cut,
	};

	*ret = UINT32_MAX;
	if (!snap_log_has_room_for_thread(log, look->owner->number)) {
		log->cuts |= SNAP_LOG_CUT_TASKS;
		snap_trace(look->looks->options->trace,
			   -log->capture->processes[look->owner->space].pid, SNAP_TRACE_RECORDED,
			   NULL);
		return NULL;
	}
	return snap_log_add_task(log, look->owner->number, look->owner->space, &task, from->labels,
				 from->label_count, ret);
}

static struct stacksnap_error *add_known(struct look *look, const struct snap_remote_task *task,
					 uint64_t identity, struct snap_known_task **ret)
{
	struct snap_task_list *list = look->owner->list;
	struct snap_known_task *known;
	struct stacksnap_error *err;
	uint32_t number;

	*ret = NULL;
	err = add_to_log(look, task, &number);
	if (err || number == UINT32_MAX)
		return err;
	if (!snap_reserve_array(list->tasks, list->capacity, list->count + 1) ||
	    !snap_hash_table_add(&look->table, identity, list->count))
		return snap_error_no_memory();
	known = &list->tasks[list->count++];
	*known = (struct snap_known_task){ .identity = identity, .number = number };
	*ret = known;
	return NULL;
}

/* The log's number of where a task stands; many stand in one place. */
static struct stacksnap_error *find_recorded_stack(struct look *look,
						   const struct snap_log_pcs *stack, uint32_t *ret)
{
	struct snap_pointer_entry *found = snap_pointer_table_get(&look->stacks, stack);
	struct stacksnap_error *err = NULL;

	SNAP_TRY(snap_no_memory_unless(found));
	*ret = (uint32_t)(uintptr_t)found->pointer - 1;
	if (!found->pointer)
		err = snap_log_stack(look->looks->log, look->owner->space, stack, ret);
	if (!err)
		found->pointer = (void *)(uintptr_t)(*ret + 1);
	return err;
}

static struct stacksnap_error *keep_task_in_stack(struct look *look,
						  const struct snap_known_task *known,
						  const struct snap_remote_task *task)
{
	struct snap_log *log = look->looks->log;
	struct snap_log_change change = { .thread = known->number,
					  .stack = SNAP_LOG_GONE,
					  .syscall = -1,
					  .state = (uint8_t)task->state,
					  .taken = SNAP_TAKEN_TOGETHER };
	struct stacksnap_error *err = NULL;

	if (task->stack)
		err = find_recorded_stack(look, task->stack, &change.stack);
	if (task->stack)
		snap_trace_task(look->looks->options->trace,
				log->capture->processes[look->owner->space].pid, task->id,
				task->stack->count, task->stack->end);
	err = err ?: snap_log_wait(log, task->wait, &change.syscall);
	return err ? err : snap_log_change(log, &change);
}

static struct stacksnap_error *take_recorded_task(struct look *look,
						  const struct snap_remote_task *task)
{
	struct snap_task_list *list = look->owner->list;
	uint64_t identity = snap_hash_text(task->id, snap_hash_text(task->runtime, 0));
	uint64_t content = hash_content(task);
	struct snap_known_task *known = find_known(look, identity);
	struct stacksnap_error *err = NULL;

	/* Ids are each task's own: of two with the same one is shown. */
	if (known && known->look == list->looks)
		return NULL;
	/* While a thread runs it there is nothing to say of one that never waited. */
	if (!known && !task->stack)
		return NULL;
	if (known && known->content != content) {
		uint32_t number;

		err = snap_log_end_thread(look->looks->log, known->number);
		err = err ?: add_to_log(look, task, &number);
		if (err || number == UINT32_MAX)
			return err;
		known->number = number;
	}
	if (!known)
		err = add_known(look, task, identity, &known);
	if (err || !known)
		return err;
	known->content = content;
	known->look = list->looks;
	return keep_task_in_stack(look, known, task);
}

/* Those that were not found: they have ended; or, where not all could be seen, that is unknown. */
static struct stacksnap_error *leave_others(struct look *look, bool is_cut)
{
	struct snap_log *log = look->looks->log;
	struct snap_task_list *list = look->owner->list;
	struct stacksnap_error *err = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < list->count && !err; i++) {
		const struct snap_known_task *known = &list->tasks[i];
		const struct snap_log_change gone = { .thread = known->number,
						      .stack = SNAP_LOG_GONE,
						      .syscall = -1 };

		if (known->look != list->looks)
			err = is_cut ? snap_log_change(log, &gone)
				     : snap_log_end_thread(log, known->number);
		if (known->look == list->looks || is_cut)
			list->tasks[kept++] = *known;
	}
	if (!err)
		list->count = kept;
	return err;
}

/* `answer` NULL: there is none. */
static struct stacksnap_error *take_task_answer(struct snap_task_looks *looks,
						const struct snap_task_owner *owner,
						const struct snap_remote_tasks *answer)
{
	_cleanup_(look_deinit) struct look look = { .looks = looks, .owner = owner };
	bool is_cut = !answer || answer->cut;
	struct stacksnap_error *err = NULL;

	owner->list->looks++;
	SNAP_TRY(snap_no_memory_unless(list_known(&look)));
	for (size_t i = 0; answer && i < answer->count && !err; i++)
		err = take_recorded_task(&look, &answer->tasks[i]);
	looks->cut += is_cut;
	return err ? err : leave_others(&look, is_cut);
}

/* ---- when ---- */

/* Those that would have been by now, but for what the last one has cost. */
static void count_left_out(struct snap_task_looks *looks, const struct snap_task_list *list,
			   int64_t now)
{
	int64_t periods = list->last_ns && !list->idle_ns
				  ? (now - list->last_ns) / period_of(looks->options)
				  : 0;

	if (periods > 1 && list->due_ns > list->last_ns + period_of(looks->options))
		looks->log->stats.task_looks_left_out += (uint64_t)periods - 1;
}

static void set_next(const struct snap_task_looks *looks, struct snap_task_list *list,
		     int64_t begin_ns, bool has_tasks)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);

	list->last_ns = begin_ns;
	list->due_ns = snap_tasks_next(looks->options, begin_ns, now, list->cost_ns);
	/* It may yet begin with tasks, but is not stopped all the time for that. */
	if (has_tasks)
		list->idle_ns = 0;
	else
		list->idle_ns = list->idle_ns ? 2 * list->idle_ns : period_of(looks->options);
	list->idle_ns = SNAP_MIN(list->idle_ns, LONGEST_IDLE_NS);
	list->due_ns = SNAP_MAX(list->due_ns, begin_ns + list->idle_ns);
}

struct stacksnap_error *snap_tasks_look(struct snap_task_looks *looks, struct snap_sampler *sampler,
					const struct snap_task_owner *owner, int64_t *stopped_ret)
{
	_cleanup_(snap_whole_release) struct snap_whole whole = { .stopped_ns = 0 };
	struct snap_task_list *list = owner->list;
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC);
	const struct snap_remote_tasks *answer = NULL;
	struct stacksnap_error *err = NULL;

	*stopped_ret = 0;
	SNAP_TRY(snap_sampler_take_whole(sampler, owner->process, owner->plan,
					 list->cost_ns ? list->cost_ns : FIRST_COST_NS, &whole));
	if (whole.is_left_out) {
		looks->log->stats.task_looks_left_out++;
		list->due_ns = begin + period_of(looks->options);
		list->last_ns = 0;
		return NULL;
	}
	count_left_out(looks, list, begin);
	looks->log->stats.task_looks++;
	*stopped_ret = list->cost_ns = whole.stopped_ns;
	if (whole.is_taken)
		err = snap_remote_list_tasks(looks->unwinder, owner->space,
					     &looks->log->capture->processes[owner->space],
					     &whole.process, &answer);
	err = err ?: take_task_answer(looks, owner, answer);
	set_next(looks, list, begin, answer && answer->has_tasks);
	return err;
}
