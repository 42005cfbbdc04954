/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The awaiter of a task of asyncio in 3.11 to 3.13, whose tasks do not note it. It is found by the
 * functions that are called when the task ends. Such a function is a method of the awaiting task,
 * or belongs to an object between both: a task group, or the future of gather(), wait(), wait_for()
 * or shield(). Later versions note the same tasks. Knows nothing of coroutines.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/asyncio.h"

#include "base/text.h"

enum {
	/* of futures and tasks */
	FIRST_CALLBACK = 24,
	MORE_CALLBACKS = 40,  /* a list of tuples */
	PYTHON_CALLBACKS = 1, /* the second attribute of those in Python: all callbacks */
	/* of objects that may be called */
	METHOD_FUNCTION = 16,
	METHOD_OBJECT = 24,
	BUILTIN_OBJECT = 24,
	PARTIAL_FUNCTION = 16,
	PARTIAL_ARGUMENTS = 24,
	FUNCTION_NAME = 40,
	FUNCTION_CLOSURE = 72,
	CELL = 16, /* in a cell: the object */
	ITEMS = 24,
	COUNT = 16,
	/* limits */
	MOST_CALLBACKS = 64,  /* of a future */
	MOST_OBJECTS = 12,    /* in a closure, of the attributes of an object */
	MOST_FUTURES = 32,    /* between a task and its awaiter */
	MOST_STEPS = 4096,    /* of one task */
	ALL_STEPS = 10000000, /* of all */
};

/* One task's awaiters are looked for. */
struct search {
	struct snap_python *python;
	snap_python_is_task *is_task;
	const void *tasks;
	uint64_t found; /* the lowest address */
	uint64_t futures[MOST_FUTURES];
	size_t future_count, done; /* futures[done] and on are to be looked at */
	size_t steps;
};

static uint64_t registered_word_at(struct search *search, uint64_t address)
{
	uint64_t word;

	if (search->steps++ >= MOST_STEPS)
		return 0;
	return address && snap_runtime_word(search->python->process, address, &word) ? word : 0;
}

static uint64_t attribute_of_object(struct search *search, uint64_t object, unsigned number)
{
	uint64_t word;

	if (search->steps++ >= MOST_STEPS || !object)
		return 0;
	return snap_python_attribute(search->python, object, number, &word) ? word : 0;
}

static uint64_t type_of(struct search *search, uint64_t object)
{
	return registered_word_at(search, object ? object + search->python->layout.object_type : 0);
}

static void take_awaiter(struct search *search, uint64_t object)
{
	if (search->is_task(search->tasks, object) && (!search->found || object < search->found))
		search->found = object;
}

/*
 * What may be a future, no task, whose own awaiter waits for this task, too. Other objects have no
 * method of a task where a future has what it calls.
 */
static void take_future(struct search *search, uint64_t object)
{
	if (!object || search->future_count == MOST_FUTURES ||
	    search->is_task(search->tasks, object))
		return;
	for (size_t i = 0; i < search->future_count; i++)
		if (search->futures[i] == object)
			return;
	search->futures[search->future_count++] = object;
}

/* ---- what is called ---- */

static bool is_callback_called(struct search *search, uint64_t function, const char *const *names)
{
	const char *name = NULL;

	if (type_of(search, function) != search->python->registry.function_type ||
	    !snap_python_string(search->python,
				registered_word_at(search, function + FUNCTION_NAME), &name))
		return false;
	for (; name && *names; names++)
		if (strcmp(name, *names) == 0)
			return true;
	return false;
}

static uint64_t count_of(struct search *search, uint64_t sequence, uint64_t most)
{
	uint64_t count = registered_word_at(search, sequence ? sequence + COUNT : 0);

	return count < most ? count : most;
}

/* The futures among the objects of a tuple, which lie in cells or not. */
static void take_tuple(struct search *search, uint64_t tuple, bool in_cells)
{
	uint64_t count = count_of(search, tuple, MOST_OBJECTS);

	for (uint64_t i = 0; i < count; i++) {
		uint64_t object = registered_word_at(search, tuple + ITEMS + 8 * i);

		take_future(search, in_cells && object ? registered_word_at(search, object + CELL)
						       : object);
	}
}

/* A task group knows the task that made it, by the only attribute that is a task. */
static void take_group(struct search *search, uint64_t group)
{
	for (unsigned i = 0; i < MOST_OBJECTS; i++)
		take_awaiter(search, attribute_of_object(search, group, i));
}

static void take_callback(struct search *search, uint64_t callback)
{
	static const char *const of_groups[] = { "TaskGroup._on_task_done", NULL };
	static const char *const closures[] = { "gather.<locals>._done_callback",
						"shield.<locals>._inner_done_callback",
						"_wait.<locals>._on_completion", NULL };
	static const char *const of_timeouts[] = { "_release_waiter", NULL };
	const struct snap_python *python = search->python;
	uint64_t type = type_of(search, callback);

	if (type == 0)
		return;
	if (type == python->registry.builtin_type) {
		take_awaiter(search, registered_word_at(search, callback + BUILTIN_OBJECT));
	} else if (type == python->registry.method_type) {
		uint64_t function = registered_word_at(search, callback + METHOD_FUNCTION);
		uint64_t object = registered_word_at(search, callback + METHOD_OBJECT);

		if (is_callback_called(search, function, of_groups))
			take_group(search, object);
		else /* __wakeup of a task that is in Python */
			take_awaiter(search, object);
	} else if (type == python->registry.function_type) {
		if (is_callback_called(search, callback, closures))
			take_tuple(search, registered_word_at(search, callback + FUNCTION_CLOSURE),
				   true);
	} else if (is_callback_called(search,
				      registered_word_at(search, callback + PARTIAL_FUNCTION),
				      of_timeouts)) {
		take_tuple(search, registered_word_at(search, callback + PARTIAL_ARGUMENTS), false);
	}
}

static void take_callbacks(struct search *search, uint64_t future)
{
	uint64_t list, items, count;

	if (search->python->registry.is_in_python) {
		list = attribute_of_object(search, future, PYTHON_CALLBACKS);
	} else {
		take_callback(search, registered_word_at(search, future + FIRST_CALLBACK));
		list = registered_word_at(search, future + MORE_CALLBACKS);
	}
	count = count_of(search, list, MOST_CALLBACKS);
	items = count ? registered_word_at(search, list + ITEMS) : 0;
	for (uint64_t i = 0; items && i < count; i++) {
		uint64_t pair = registered_word_at(search, items + 8 * i);

		take_callback(search, registered_word_at(search, pair ? pair + ITEMS : 0));
	}
}

uint64_t snap_python_awaiter(struct snap_python *python, uint64_t task,
			     snap_python_is_task *is_task, const void *tasks)
{
	struct search search = { .python = python, .is_task = is_task, .tasks = tasks };

	if (python->registry.steps >= ALL_STEPS)
		return 0;
	take_callbacks(&search, task);
	while (search.done < search.future_count)
		take_callbacks(&search, search.futures[search.done++]);
	python->registry.steps += search.steps;
	return search.found;
}
