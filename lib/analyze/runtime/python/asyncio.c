/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks of asyncio with their chains of awaits. From 3.14 on each thread has a list; registry.c finds
 * those of earlier versions. Knows nothing of event loops.
 */
#include "analyze/runtime/python/asyncio.h"
#include "analyze/runtime/memory.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/text.h"

enum {
	MOST_TASKS = 1 << 20,
	MOST_AWAITED = 1 << 12,  /* coroutines that await each other */
	MOST_AWAITERS = 1 << 12, /* slots of a set that are looked at */
	SLOT = 16,               /* of a set: the object, its hash */
	DIGIT_BITS = 30,
	LV_SIGN_BITS = 3,
};

static const char coroutines_not_copied[] = "coroutines that were not copied";

/* What a generator's frame is doing. */
enum doing { CREATED, SUSPENDED, AWAITS, EXECUTES, ENDED };

/* A task as it is found, before it is one of the result. */
struct task {
	uint64_t address;
	const struct snap_python_chain *thread; /* NULL: unknown */
};

struct reading {
	struct snap_python *python;
	struct task *tasks; /* sorted */
	size_t count, capacity;
	const struct snap_runtime_frame **frames; /* of one task, outermost first */
	size_t frame_count, frame_capacity;
};

/* ---- coroutines ---- */

static bool has_type_of_generator(const struct snap_python *python, uint64_t type)
{
	return snap_any(SNAP_ARRAY_SIZE(python->asyncio_types), i,
			type && type == python->asyncio_types[i]);
}

/* Whether there was memory to be copied at an address, which may be any number. */
static bool is_missing_at(const struct snap_python *python, uint64_t address)
{
	const struct snap_map *map = snap_process_map(python->process->process, address);

	return address % sizeof(uint64_t) == 0 && map && map->read && map->write;
}

/*
 * The coroutine that an object is, or represents; 0 in *ret: none. False: what would tell was not
 * copied.
 */
static bool coroutine_of(const struct snap_python *python, uint64_t address, uint64_t *ret)
{
	const struct snap_python_layout *layout = &python->layout;
	uint64_t type, wrapped;

	*ret = 0;
	if (!address)
		return true;
	if (!snap_runtime_word(python->process, address + layout->object_type, &type))
		return false;
	if (has_type_of_generator(python, type)) {
		*ret = address;
		return true;
	}
	if (!snap_runtime_word(python->process, address + layout->object_size, &wrapped))
		return !is_missing_at(python, address + layout->object_size);
	if (!wrapped)
		return true;
	if (!snap_runtime_word(python->process, wrapped + layout->object_type, &type))
		return !is_missing_at(python, wrapped + layout->object_type);
	if (has_type_of_generator(python, type))
		*ret = wrapped;
	return true;
}

static enum doing doing_of(const struct snap_python *python, int8_t state)
{
	/* from the least number on; up to 3.12 it may await something while it is suspended */
	static const enum doing old[] = { CREATED, AWAITS, EXECUTES };
	static const enum doing negative[] = { CREATED, SUSPENDED, AWAITS, EXECUTES };
	static const enum doing states[] = { CREATED, SUSPENDED, AWAITS, AWAITS, EXECUTES };

	if (python->layout.minor >= 15)
		return state >= 0 && (size_t)state < SNAP_ARRAY_SIZE(states) ? states[state]
									     : ENDED;
	if (python->layout.minor >= 13)
		return state >= -3 && state <= 0 ? negative[state + 3] : ENDED;
	return state >= -2 && state <= 0 ? old[state + 2] : ENDED;
}

/*
 * Up to 3.12 the next instruction says whether a suspended coroutine awaits: RESUME, 2 or 3. False:
 * it was not copied.
 */
static bool does_await(const struct snap_python *python, const uint8_t *frame, bool *ret)
{
	enum { NEXT_ARGUMENT = 3, YIELD_FROM = 2, AWAIT = 3 };
	uint64_t place = snap_runtime_field(frame, python->layout.frame.place, 8), argument;

	*ret = true;
	if (python->layout.minor >= 13)
		return true;
	if (!snap_runtime_number(python->process, place + NEXT_ARGUMENT, 1, &argument))
		return false;
	*ret = argument == YIELD_FROM || argument == AWAIT;
	return true;
}

/*
 * What a coroutine waits for lies on its stack; up to 3.13 it knows how high that is. 0 in *ret:
 * nothing. False: that was not copied.
 */
static bool awaited_by_frame(const struct snap_python *python, uint64_t address,
			     const uint8_t *frame, uint64_t *ret)
{
	enum { STACK_TOP = 64, VARIABLES = 72, MOST_HIGH = 1 << 20 };
	uint64_t at;
	bool awaits;

	*ret = 0;
	if (!does_await(python, frame, &awaits))
		return false;
	if (!awaits)
		return true;
	if (python->registry.is_used) {
		at = snap_runtime_field(frame, STACK_TOP, 4);
		if (at == 0 || at > MOST_HIGH)
			return true;
		at = address + VARIABLES + 8 * (at - 1);
	} else {
		at = snap_runtime_field(frame, python->layout.frame_stack_pointer, 8) +
		     (uint64_t)snap_python_awaited_at(python);
	}
	if (!snap_runtime_word(python->process, at, ret))
		return false;
	*ret &= ~3ull;
	return true;
}

/*
 * The frames of a coroutine that does not run, and of all that it awaits, outermost first; *doing
 * is that of the innermost. False: no memory.
 */
static bool follow_awaits(struct reading *reading, uint64_t coroutine, enum doing *doing,
			  const char **reason)
{
	struct snap_python *python = reading->python;
	const struct snap_python_layout *layout = &python->layout;
	uint8_t bytes[2 * SNAP_PYTHON_RECORD];
	const struct snap_runtime_frame *frame;
	uint64_t awaited;

	for (size_t i = 0; coroutine; i++) {
		if (i == MOST_AWAITED || python->frames_left == 0 ||
		    !snap_runtime_read(python->process, coroutine, bytes,
				       layout->generator.frame + layout->frame.size)) {
			*reason = coroutines_not_copied;
			return true;
		}
		python->frames_left--;
		*doing = doing_of(python, (int8_t)bytes[layout->generator.state]);
		if (*doing == ENDED)
			return true;
		if (!snap_python_frame(python, bytes + layout->generator.frame, &frame))
			return false;
		if (!frame) {
			*reason = "a coroutine makes no sense";
			return true;
		}
		if (!snap_reserve_array(reading->frames, reading->frame_capacity,
					reading->frame_count + 1))
			return false;
		reading->frames[reading->frame_count++] = frame;
		if (*doing != AWAITS)
			return true;
		if (!awaited_by_frame(python, coroutine + layout->generator.frame,
				      bytes + layout->generator.frame, &awaited) ||
		    !coroutine_of(python, awaited, &coroutine)) {
			*reason = coroutines_not_copied;
			return true;
		}
		if (!awaited)
			*doing = SUSPENDED;
	}
	return true;
}

/* ---- a task ---- */

/* get_name(): a str, or a number until its first use. False: no memory. */
static bool name_of_asyncio_task(const struct snap_python *python, uint64_t address,
				 const char **ret)
{
	const struct snap_python_layout *layout = &python->layout;
	uint64_t tag, digit, high = 0;

	if (!snap_python_string(python, address, ret))
		return false;
	if (*ret || !python->int_type || !layout->int_tag ||
	    !snap_runtime_word(python->process, address + layout->object_type, &tag) ||
	    tag != python->int_type ||
	    !snap_runtime_word(python->process, address + layout->int_tag, &tag) ||
	    !snap_runtime_number(python->process, address + layout->int_digits, 4, &digit))
		return true;
	if (tag >> LV_SIGN_BITS > 1 &&
	    !snap_runtime_number(python->process, address + layout->int_digits + 4, 4, &high))
		return true;
	*ret = snap_arena_printf(python->process->arena, "Task-%llu",
				 (unsigned long long)(high << DIGIT_BITS | digit));
	return *ret;
}

static const char *id_of(const struct snap_python *python, uint64_t address)
{
	char text[32];
	int length = snprintf(text, sizeof(text), "0x%llx", (unsigned long long)address);

	return snap_intern(python->process->strings, text, (size_t)length);
}

static bool is_task_address(const void *context, uint64_t address)
{
	const struct reading *reading = context;
	size_t at = snap_first_not(reading->count, i, reading->tasks[i].address < address);

	return at < reading->count && reading->tasks[at].address == address;
}

/* The first of the tasks in a set that await a task; 0: none. */
static uint64_t first_awaiter(const struct reading *reading, uint64_t set)
{
	const struct snap_runtime_process *process = reading->python->process;
	const struct snap_python_layout *layout = &reading->python->layout;
	uint64_t table, mask, key, first = 0;

	if (!snap_runtime_word(process, set + layout->set_table, &table) ||
	    !snap_runtime_word(process, set + layout->set_mask, &mask))
		return 0;
	for (uint64_t i = 0; i <= mask && i < MOST_AWAITERS; i++)
		if (snap_runtime_word(process, table + i * SLOT, &key) &&
		    is_task_address(reading, key) && (!first || key < first))
			first = key;
	return first;
}

static bool fill_parent(const struct reading *reading, uint64_t address, const uint8_t *record,
			struct snap_runtime_task *task)
{
	const struct snap_python_asyncio *asyncio = &reading->python->asyncio;
	uint64_t awaiter =
		asyncio->awaited_by ? snap_runtime_field(record, asyncio->awaited_by, 8) : 0;

	if (reading->python->registry.is_used)
		awaiter = snap_python_awaiter(reading->python, address, is_task_address, reading);
	else if (awaiter && record[asyncio->awaited_by_is_set])
		awaiter = first_awaiter(reading, awaiter);
	if (!awaiter || !is_task_address(reading, awaiter))
		return true;
	task->parent = id_of(reading->python, awaiter);
	return task->parent;
}

/*
 * A task that runs: how many frames its thread has down to its coroutine, which may be more than
 * are shown; 0: it does not run there.
 */
static size_t frames_down_to(struct snap_python *python, const struct snap_python_chain *thread,
			     uint64_t coroutine)
{
	const struct snap_python_layout *layout = &python->layout;
	uint64_t address = thread->innermost, wanted = coroutine + layout->generator.frame;
	uint8_t frame[SNAP_PYTHON_RECORD];
	size_t count = 0;

	for (size_t i = 0; address && i < SNAP_PYTHON_MOST_FRAMES && python->frames_left; i++) {
		python->frames_left--;
		if (!snap_runtime_read(python->process, address, frame, layout->frame.size))
			return 0;
		count += !layout->frame.owner ||
			 frame[layout->frame.owner] < layout->frame.first_shim;
		if (address == wanted)
			return count;
		address = snap_runtime_field(frame, layout->frame.previous, 8);
	}
	return 0;
}

static bool fill_asyncio_stack(struct reading *reading, enum doing doing, const char *reason,
			       struct snap_runtime_task *task)
{
	const struct snap_runtime_frame **frames;
	size_t count = reading->frame_count;

	if (doing == EXECUTES)
		task->state = SNAP_TASK_RUNNING;
	else if (doing == AWAITS)
		task->state = reason ? SNAP_TASK_UNKNOWN : SNAP_TASK_WAITING;
	else
		task->state = SNAP_TASK_RUNNABLE;
	task->stack.end = reason ? SNAP_UNWIND_UNREADABLE : SNAP_UNWIND_COMPLETE;
	task->stack.reason = reason;
	if (count == 0) {
		task->state = SNAP_TASK_UNKNOWN;
		return true;
	}
	task->start = reading->frames[0]->entries;
	frames = snap_arena_array(reading->python->process->arena, count, sizeof(*frames));
	if (!frames)
		return false;
	for (size_t i = 0; i < count; i++)
		frames[i] = reading->frames[reading->frame_count - 1 - i];
	task->stack.frames = frames;
	task->stack.count = count;
	return true;
}

/* Whether it runs; its frames are then those of its thread. */
static bool fill_running(const struct reading *reading, const struct task *found,
			 uint64_t coroutine, struct snap_runtime_task *task)
{
	struct snap_python *python = reading->python;
	const struct snap_python_chain *thread = found->thread;
	uint64_t running = 0, state;
	size_t count = 0;

	if (thread) {
		snap_runtime_word(python->process, thread->address + python->asyncio.running_task,
				  &running);
		if (running == found->address)
			count = frames_down_to(python, thread, coroutine);
	} else if (snap_runtime_number(python->process, coroutine + python->layout.generator.state,
				       1, &state) &&
		   doing_of(python, (int8_t)state) == EXECUTES) {
		for (size_t i = 0; i < python->chain_count && !count; i++) {
			thread = &python->chains[i];
			count = frames_down_to(python, thread, coroutine);
		}
	}
	if (!count || !thread->stack.count)
		return false;
	task->state = SNAP_TASK_RUNNING;
	task->tid = thread->tid;
	task->stack = thread->stack;
	if (count > thread->stack.count)
		return true;
	task->stack.count = count;
	task->stack.end = SNAP_UNWIND_COMPLETE;
	task->stack.reason = NULL;
	task->start = task->stack.frames[count - 1]->entries;
	return true;
}

static bool fill_task(struct reading *reading, const struct task *found,
		      struct snap_runtime_task *task)
{
	struct snap_python *python = reading->python;
	uint8_t record[SNAP_PYTHON_RECORD] = { 0 };
	enum doing doing = ENDED;
	const char *reason = NULL;
	uint64_t coroutine, name;

	if (python->registry.is_used) {
		if (!snap_python_registry_task(python, found->address, &coroutine, &name))
			return true;
	} else {
		if (!snap_runtime_read(python->process, found->address, record,
				       python->asyncio.size))
			return true;
		coroutine = snap_runtime_field(record, python->asyncio.coroutine, 8);
		name = snap_runtime_field(record, python->asyncio.name, 8);
	}
	task->id = id_of(python, found->address);
	if (!coroutine_of(python, coroutine, &coroutine))
		reason = coroutines_not_copied;
	if (!task->id || !name_of_asyncio_task(python, name, &task->name) ||
	    !fill_parent(reading, found->address, record, task))
		return false;
	if (fill_running(reading, found, coroutine, task))
		return true;
	reading->frame_count = 0;
	if (!follow_awaits(reading, coroutine, &doing, &reason))
		return false;
	if (doing == EXECUTES && !reason)
		reason = "frames of Python that were not copied";
	return fill_asyncio_stack(reading, doing, reason, task);
}

/* ---- lists ---- */

/* The task that the current thread runs, as it says itself. */
static bool find_running_task(struct reading *reading, const struct snap_python_chain *thread)
{
	uint64_t address;

	if (!snap_runtime_word(reading->python->process,
			       thread->address + reading->python->asyncio.running_task, &address) ||
	    !address)
		return true;
	if (!snap_reserve_array(reading->tasks, reading->capacity, reading->count + 1))
		return false;
	reading->tasks[reading->count++] = (struct task){ address, thread };
	return true;
}

/* The tasks of one thread: a ring through its state. */
static bool find_tasks(struct reading *reading, const struct snap_python_chain *thread, bool *torn)
{
	struct snap_python *python = reading->python;
	const struct snap_python_asyncio *asyncio = &python->asyncio;
	uint64_t head = thread->address + asyncio->thread_tasks, node;
	uint8_t record[SNAP_PYTHON_RECORD];

	if (python->process->is_of_thread)
		return find_running_task(reading, thread);
	if (!snap_runtime_word(python->process, head, &node)) {
		*torn = true;
		return true;
	}
	while (node && node != head) {
		uint64_t address = node - asyncio->node;

		if (reading->count == MOST_TASKS ||
		    !snap_runtime_read(python->process, address, record, asyncio->size)) {
			*torn = true;
			return true;
		}
		node = snap_runtime_field(record, asyncio->node, 8);
		if (record[asyncio->is_task] == 0)
			continue;
		if (!snap_reserve_array(reading->tasks, reading->capacity, reading->count + 1))
			return false;
		reading->tasks[reading->count++] = (struct task){ address, thread };
	}
	return true;
}

SNAP_ORDER(compare_tasks, struct task, a, b, snap_compare(a->address, b->address));

/* Sorts them; one that lists name twice is one. */
static void sort_tasks(struct reading *reading)
{
	size_t kept = 0;

	if (reading->count)
		qsort(reading->tasks, reading->count, sizeof(*reading->tasks), compare_tasks);
	for (size_t i = 0; i < reading->count; i++)
		if (i == 0 || reading->tasks[i].address != reading->tasks[i - 1].address)
			reading->tasks[kept++] = reading->tasks[i];
	reading->count = kept;
}

static bool take_asyncio_task(void *context, uint64_t address)
{
	struct reading *reading = context;

	if (reading->count == MOST_TASKS)
		return true;
	if (!snap_reserve_array(reading->tasks, reading->capacity, reading->count + 1))
		return false;
	reading->tasks[reading->count++] = (struct task){ address, NULL };
	return true;
}

static bool find_all(struct reading *reading, struct snap_runtime_result *result)
{
	bool found, whole;

	result->has_tasks = result->parents_await = true;
	/* Which of them a thread runs, it does not say. */
	if (reading->python->registry.is_used && reading->python->process->is_of_thread)
		return true;
	if (reading->python->registry.is_used) {
		if (!snap_python_registry_tasks(reading->python, take_asyncio_task, reading, &found,
						&whole))
			return false;
		result->has_tasks = result->parents_await = found || !whole;
		if (!whole)
			result->cut = SNAP_PLAN_CUT_MEMORY;
		return true;
	}
	return snap_all(reading->python->chain_count, i,
			find_tasks(reading, &reading->python->chains[i], &result->torn));
}

/*
 * Where nothing lists them, those that have ended are found as well: nothing is missing of them,
 * and yet they have no frames.
 */
static bool has_asyncio_task_ended(const struct snap_python *python,
				   const struct snap_runtime_task *task)
{
	return python->registry.is_used && task->stack.count == 0 && !task->stack.reason;
}

/* It may be one, and is not shown, or not all of it is. */
static bool is_missing(const struct snap_runtime_task *task)
{
	return !task->id || (task->stack.count == 0 && task->stack.reason);
}

static bool fill_tasks(struct reading *reading, struct snap_runtime_result *result)
{
	if (!find_all(reading, result))
		return false;
	sort_tasks(reading);
	result->tasks = snap_arena_new_array(reading->python->process->arena, reading->count + 1,
					     struct snap_runtime_task);
	if (!result->tasks)
		return false;
	for (size_t i = 0; i < reading->count; i++) {
		struct snap_runtime_task *task = &result->tasks[result->task_count];

		if (!fill_task(reading, &reading->tasks[i], task))
			return false;
		if (is_missing(task))
			result->cut = SNAP_PLAN_CUT_MEMORY;
		if (task->id && !has_asyncio_task_ended(reading->python, task))
			result->task_count++;
		else
			*task = (struct snap_runtime_task){ .id = NULL };
	}
	return true;
}

struct stacksnap_error *snap_python_tasks(struct snap_python *python,
					  struct snap_runtime_result *result)
{
	struct reading reading = { .python = python };
	bool fits;

	fits = fill_tasks(&reading, result);
	free(reading.tasks);
	free(reading.frames);
	return fits ? NULL : snap_error_no_memory();
}
