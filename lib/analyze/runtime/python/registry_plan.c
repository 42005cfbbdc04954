/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory of the tasks of asyncio in 3.11 to 3.13, for a plan: the way to the sets where they are
 * registered (registry.c), what each task is made of, and what it calls when it ends, as far as
 * tasks that await it (awaiters.c); the most useful first. Knows nothing of the contents.
 */
#include "analyze/runtime/python/plan.h"

enum {
	STEPS = 64,           /* at most, of all */
	MOST_SLOTS = 1 << 18, /* of a set */
	MOST_CALLBACKS = 64,
	MOST_CELLS = 12,
	POINTER = 8,
	/* what is read of objects, in bytes, and where their pointers are */
	NAME = 48, /* of the text of a name that is known */
	DICT = 48,
	DICT_KEYS = 32,
	KEYS = 40,
	MODULE = 24,
	MODULE_DICT = 16,
	SET = 48,
	SET_MASK = 32,
	SET_TABLE = 40,
	SLOT = 16,
	REFERENCE = 24,
	REFERENCED = 16,
	FUTURE = 48,
	FIRST_CALLBACK = 24,
	MORE_CALLBACKS = 40,
	LIST = 32,
	LIST_ITEMS = 24,
	COUNT = 16,
	TUPLE = 24, /* its head; then its items */
	CALLABLE = 80,
	METHOD_FUNCTION = 16,
	METHOD_OBJECT = 24,
	FUNCTION_NAME = 40,
	FUNCTION_CLOSURE = 72,
	CELL = 24,
	CELL_OBJECT = 16,
	GROUP = 12 * POINTER,
	/* attributes of tasks that are in Python, of which debug mode moves some by one */
	BEFORE_311 = 32, /* bytes before an object */
	BEFORE_312 = 24,
	CALLBACKS = 1 * POINTER,
	TASK_NAME = 2 * POINTER,
	COROUTINE = 6 * POINTER,
	ATTRIBUTES = 8 * POINTER,
	/* the same in a dict: entries with a key and a value, behind the keys' head and an index */
	IN_DICT = 32 + 16 + POINTER,
	DICT_KEYS_SIZE = IN_DICT + 10 * 2 * POINTER,
};

/* Consecutive tables that a step takes as one; `at`: where their pointers begin in a record. */
struct tables {
	uint8_t first, count;
	uint32_t at;
};

/* All tasks: the objects; or attributes of those in Python, and keys of dicts that have these. */
struct planned_tasks {
	struct tables objects;
	uint8_t dicts;
};

static uint8_t read_tables(struct snap_memory_plan *plan, struct tables from, uint32_t field,
			   int64_t add, uint32_t len)
{
	uint8_t table = snap_python_plan_read(plan, from.first, from.at + field, len);

	plan->steps[table - 1].sources = from.count;
	plan->steps[table - 1].add = add;
	return table;
}

static struct tables one_table(uint8_t table)
{
	return (struct tables){ table, 1, 0 };
}

/*
 * The objects that a field leads to, and their attributes: see snap_python_attributes(). One or two
 * steps.
 */
static struct tables plan_attributes(const struct snap_python *python,
				     struct snap_memory_plan *plan, struct tables from,
				     uint32_t field, uint32_t len)
{
	enum { INSIDE = 24, HEAD = 16, TAG = 4 };
	struct tables heads;

	switch (python->layout.minor) {
	case 11:
		heads = one_table(read_tables(plan, from, field, -BEFORE_311, BEFORE_311 + HEAD));
		return one_table(read_tables(plan, heads, 0, 0, len));
	case 12:
		heads = one_table(read_tables(plan, from, field, -BEFORE_312, BEFORE_312 + HEAD));
		/* The pointer there is one less, of which the mask leaves four less. */
		return one_table(read_tables(plan, heads, 0, TAG, len));
	default:
		return (struct tables){ read_tables(plan, from, field, 0, INSIDE + len), 1,
					INSIDE };
	}
}

/* ---- the way to the tasks ---- */

/* From pointers to sys.modules to the keys of the dict of asyncio.tasks, as far as wanted. */
static uint8_t plan_names(const struct snap_python *python, struct snap_memory_plan *plan,
			  uint8_t modules)
{
	const struct snap_python_registry *registry = &python->registry;
	const uint32_t entries[] = { registry->tasks, registry->eager, registry->python_task };
	const uint32_t name = python->layout.string.ascii + NAME;
	uint32_t key = (registry->module_words - 2) * POINTER, end = KEYS;
	struct tables at = one_table(snap_python_plan_read(plan, modules, 0, DICT));

	read_tables(plan, at, DICT_KEYS, 0, KEYS);
	at = one_table(read_tables(plan, at, DICT_KEYS, (int64_t)registry->module,
				   registry->module_words * POINTER));
	read_tables(plan, at, key, 0, name);
	at = one_table(read_tables(plan, at, key + POINTER, 0, MODULE));
	at = one_table(read_tables(plan, at, MODULE_DICT, 0, DICT));
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(entries); i++)
		if (end < entries[i] + registry->words * POINTER)
			end = entries[i] + registry->words * POINTER;
	at = one_table(read_tables(plan, at, DICT_KEYS, 0, end));
	/* All names that are there. */
	read_tables(plan, at, registry->first + (registry->words - 2) * POINTER, 0, name);
	plan->steps[plan->step_count - 1].every = registry->words * POINTER;
	return at.first;
}

static struct tables plan_slots(struct snap_memory_plan *plan, struct tables sets)
{
	return one_table(
		snap_python_plan_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_ARRAY,
								     .source = sets.first,
								     .field = SET_TABLE,
								     .count = SET_MASK,
								     .count_width = POINTER,
								     .plus = 1,
								     .len = SLOT,
								     .max = MOST_SLOTS }));
}

/* Those in Python that run eagerly are missing, and this is then known. */
static struct planned_tasks plan_registered(const struct snap_python *python,
					    struct snap_memory_plan *plan, uint8_t names)
{
	const struct snap_python_registry *registry = &python->registry;
	uint32_t value = (registry->words - 1) * POINTER;
	struct tables eager = { 0 }, slots, at;
	uint8_t dicts;

	if (registry->eager) {
		at = one_table(
			read_tables(plan, one_table(names), registry->eager + value, 0, SET));
		eager = plan_slots(plan, at);
	}
	at = plan_attributes(python, plan, one_table(names), registry->tasks + value, POINTER);
	slots = plan_slots(plan, one_table(read_tables(plan, at, 0, 0, SET)));
	at = one_table(read_tables(plan, slots, 0, 0, REFERENCE));
	plan->steps[at.first - 1].every = SLOT;
	if (registry->python_task) {
		dicts = read_tables(plan, at, REFERENCED, -BEFORE_312, POINTER);
		dicts = snap_python_plan_read(plan, dicts, 0, DICT);
		dicts = snap_python_plan_read(plan, dicts, DICT_KEYS, DICT_KEYS_SIZE);
		at = plan_attributes(python, plan, at, REFERENCED, ATTRIBUTES);
		return (struct planned_tasks){ at, dicts };
	}
	at = one_table(read_tables(plan, at, REFERENCED, 0, python->asyncio.size));
	if (eager.count) {
		at.count = 2;
		plan->steps[read_tables(plan, eager, 0, 0, python->asyncio.size) - 1].every = SLOT;
	}
	return (struct planned_tasks){ at, 0 };
}

/* ---- tasks ---- */

/*
 * A step from an attribute of tasks, and for those in Python once more, from their dicts; there it
 * takes the next attribute, too, for debug mode.
 */
static struct tables plan_twice(struct snap_memory_plan *plan, struct snap_plan_step step,
				const struct planned_tasks *tasks, uint32_t field,
				bool in_debug_mode)
{
	struct tables ret = { .count = 1 };

	step.source = tasks->objects.first;
	step.sources = tasks->objects.count;
	step.field = (uint16_t)(tasks->objects.at + field);
	step.rep = in_debug_mode ? 2 : 1;
	step.rep_step = POINTER;
	ret.first = snap_python_plan_step(plan, step);
	if (!tasks->dicts)
		return ret;
	ret.count = 2;
	step.source = tasks->dicts;
	step.sources = 1;
	step.field = (uint16_t)(IN_DICT + 2 * field);
	step.rep++; /* the index may have twice as many bytes */
	step.rep_step = 2 * POINTER;
	snap_python_plan_step(plan, step);
	return ret;
}

/* A chain of coroutines: a count in each tells where on its stack the next one is. */
static struct snap_plan_step chain_step(const struct snap_python *python, struct tables from)
{
	enum { STACK_TOP = 64, VARIABLES = 72, COUNT_WIDTH = 4 };
	const struct snap_python_layout *layout = &python->layout;
	const uint32_t frame = layout->generator.frame;

	return (struct snap_plan_step){ .op = SNAP_PLAN_WALK,
					.flags = SNAP_PLAN_SKIP_NEXT,
					.source = from.first,
					.sources = from.count,
					.field = (uint16_t)layout->object_size,
					.mask = ~3ull,
					.next = (uint16_t)(frame + VARIABLES - POINTER),
					.skip = (uint16_t)(frame + STACK_TOP),
					.skip_width = COUNT_WIDTH,
					.skip_factor = POINTER,
					.len = SNAP_PYTHON_COROUTINE,
					.max = SNAP_PYTHON_MOST_AWAITED };
}

/* Names, coroutines, what they await, and their code. */
static void plan_stacks(const struct snap_python *python, struct snap_memory_plan *plan,
			const struct planned_tasks *tasks)
{
	enum { INSTRUCTION = 8, LAST_WITH_INSTRUCTION = 12 };
	const struct snap_python_layout *layout = &python->layout;
	const struct snap_plan_step name = { .op = SNAP_PLAN_READ,
					     .mask = ~3ull,
					     .len = layout->string.ascii };
	const bool in_python = tasks->dicts;
	struct tables names, chains;
	uint8_t table;

	names = plan_twice(plan, name, tasks, in_python ? TASK_NAME : python->asyncio.name,
			   in_python);
	snap_python_plan_text(plan, layout, names.first);
	plan->steps[plan->step_count - 1].sources = names.count;
	chains = plan_twice(plan, chain_step(python, names), tasks,
			    in_python ? COROUTINE : python->asyncio.coroutine, in_python);
	/* Through objects that represent a coroutine, twice: for an asynchronous generator. */
	table = snap_python_plan_step(plan, chain_step(python, chains));
	snap_python_plan_step(plan, chain_step(python, one_table(table)));
	chains.count += 2;
	if (layout->minor <= LAST_WITH_INSTRUCTION) {
		table = read_tables(plan, chains, layout->generator.frame + layout->frame.place, 0,
				    INSTRUCTION);
		snap_python_plan_of_generators(python, &plan->steps[table - 1]);
	}
	table = (uint8_t)(plan->step_count + 1);
	snap_python_plan_code(python, plan, chains.first, layout->generator.frame);
	plan->steps[table - 1].sources = chains.count;
}

/* ---- what awaits them ---- */

/*
 * What has callbacks of futures: lists have tuples, whose first item lies where a future in C has
 * its first callback. Two steps; one more for tasks in Python.
 */
static struct tables plan_callbacks(struct snap_memory_plan *plan,
				    const struct planned_tasks *futures, bool in_python)
{
	const struct snap_plan_step list = { .op = SNAP_PLAN_READ, .mask = ~3ull, .len = LIST };
	struct tables lists =
		plan_twice(plan, list, futures, in_python ? CALLBACKS : MORE_CALLBACKS, false);
	uint8_t pairs =
		snap_python_plan_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_EACH,
								     .source = lists.first,
								     .sources = lists.count,
								     .field = LIST_ITEMS,
								     .count = COUNT,
								     .count_width = POINTER,
								     .len = TUPLE + POINTER,
								     .max = MOST_CALLBACKS });

	if (in_python)
		return one_table(pairs);
	/* The lists themselves lie between both, and do no harm. */
	return (struct tables){ futures->objects.first,
				(uint8_t)(pairs - futures->objects.first + 1), 0 };
}

/* The futures between a task and its awaiters; task groups, too. */
static struct tables plan_called(const struct snap_python *python, struct snap_memory_plan *plan,
				 struct tables holders, bool with_groups)
{
	const uint32_t name = python->layout.string.ascii + NAME;
	struct tables calls, both, objects;
	uint8_t closures;

	calls = one_table(read_tables(plan, holders, FIRST_CALLBACK, 0, CALLABLE));
	both = calls;
	read_tables(plan, calls, METHOD_FUNCTION, 0, CALLABLE);
	both.count = 2;
	read_tables(plan, both, FUNCTION_NAME, 0, name);
	if (with_groups)
		plan_attributes(python, plan, calls, METHOD_OBJECT, GROUP);
	closures = read_tables(plan, calls, FUNCTION_CLOSURE, 0, TUPLE + MOST_CELLS * POINTER);
	objects = one_table(
		snap_python_plan_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_EACH,
								     .flags = SNAP_PLAN_RELATIVE,
								     .source = closures,
								     .add = TUPLE,
								     .count = COUNT,
								     .count_width = POINTER,
								     .len = CELL,
								     .max = MOST_CELLS }));
	/* The first argument of a partial function of wait_for(), as if its tuple were a cell. */
	if (python->layout.minor == 11) {
		read_tables(plan, calls, METHOD_OBJECT, TUPLE - CELL_OBJECT, CELL);
		objects.count = 2;
	}
	if (python->registry.python_task)
		return plan_attributes(python, plan, objects, CELL_OBJECT, 2 * POINTER);
	return one_table(read_tables(plan, objects, CELL_OBJECT, 0, FUTURE));
}

void snap_python_plan_registry(const struct snap_python *python, struct snap_memory_plan *plan,
			       uint8_t interpreters)
{
	const struct snap_python_registry *registry = &python->registry;
	const bool in_python = registry->python_task;
	struct planned_tasks tasks;
	struct tables holders;
	uint8_t modules;

	if (!registry->is_wanted || !snap_memory_plan_has_room(plan, STEPS))
		return;
	/* Even alone it says that tasks are wanted. */
	modules = snap_python_plan_step(
		plan, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
					       .flags = SNAP_PLAN_RELATIVE,
					       .source = interpreters,
					       .add = python->layout.interpreter.modules,
					       .len = POINTER });
	if (!registry->tasks)
		return;
	tasks = plan_registered(python, plan, plan_names(python, plan, modules));
	holders = plan_callbacks(plan, &tasks, in_python);
	plan_stacks(python, plan, &tasks);
	/* Such a future may be one that gather() or shield() waits for in turn. */
	for (unsigned level = 0; level < 2; level++) {
		struct planned_tasks futures = { .objects = plan_called(python, plan, holders,
									level == 0) };

		holders = plan_callbacks(plan, &futures, in_python);
	}
	read_tables(plan, holders, FIRST_CALLBACK, 0, CALLABLE);
}
