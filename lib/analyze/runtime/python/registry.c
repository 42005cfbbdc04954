/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where asyncio registers its tasks in 3.11 to 3.13, which do not list them in C: in sets that the
 * module asyncio.tasks has. Most are in a WeakSet, whose first attribute is a set of weak
 * references; those that run their first steps eagerly, in a plain set. Before the stop it is noted
 * where the module and the sets are among the entries of their dicts, for the plan; afterwards they
 * are looked for by their names. Knows nothing of coroutines, nor of what awaits a task.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/asyncio.h"
#include "analyze/runtime/python/dicts.h"
#include "analyze/runtime/symbol.h"

#include "base/text.h"

enum {
	FIRST_MINOR = 11,
	MOST_ENTRIES = 1 << 17, /* of dicts */
	MOST_SLOTS = 1 << 20,   /* of a set */
	MOST_KEYS = 32 << 10,   /* bytes of the keys of a module's dict */
	SET_MASK = 32,
	SET_TABLE = 40,
	REFERENCED = 16, /* in a weak reference: the object */
	DUMMY = -1,      /* the hash of what was removed */
};

struct registry_row {
	uint32_t coroutine, generator_frame, generator_state;
	const char *tasks, *eager;
};

static const struct registry_row rows[] = {
	/* 3.11 … */
	{ 136, 80, 75, "_all_tasks", NULL },
	{ 136, 72, 67, "_scheduled_tasks", "_eager_tasks" },
	{ 120, 72, 67, "_scheduled_tasks", "_eager_tasks" },
};

/* The sets of one interpreter; 0: there is none, or it is not to be found. */
struct registry {
	bool has_modules;
	struct snap_python_dict modules, names;
	uint64_t module, tasks, eager;
	uint64_t task_type, python_task_type; /* the type of new tasks; that in Python */
	uint64_t module_number, tasks_number, eager_number, type_number;
};

static const struct registry_row *row_of_registry(const struct snap_python *python)
{
	return &rows[python->layout.minor - FIRST_MINOR];
}

bool snap_python_registry_find(struct snap_python *python)
{
	const struct snap_runtime_process *process = python->process;
	struct snap_python_layout *layout = &python->layout;
	const struct registry_row *row;

	if (layout->minor < FIRST_MINOR || layout->minor >= FIRST_MINOR + SNAP_ARRAY_SIZE(rows) ||
	    layout->is_free_threaded)
		return false;
	row = row_of_registry(python);
	python->asyncio = (struct snap_python_asyncio){ .coroutine = row->coroutine,
							.name = row->coroutine + 8,
							.size = row->coroutine + 16 };
	layout->generator.frame = row->generator_frame;
	layout->generator.state = row->generator_state;
	python->registry = (struct snap_python_registry){
		.is_used = true,
		.function_type = snap_runtime_symbol(process, python->module, "PyFunction_Type"),
		.method_type = snap_runtime_symbol(process, python->module, "PyMethod_Type"),
		.builtin_type = snap_runtime_symbol(process, python->module, "PyCFunction_Type"),
		.set_type = snap_runtime_symbol(process, python->module, "PySet_Type"),
		.none = snap_runtime_symbol(process, python->module, "_Py_NoneStruct"),
	};
	return true;
}

bool snap_python_registry_hides_tasks(const struct snap_python *python)
{
	size_t count;
	const struct snap_module *list = snap_modules_list(python->process->modules, &count);

	if (!python->layout.is_free_threaded ||
	    python->layout.minor >= FIRST_MINOR + SNAP_ARRAY_SIZE(rows))
		return false;
	return snap_any(count, i,
			list[i].kind == SNAP_MODULE_FILE &&
				snap_begins_with(snap_base_name(list[i].path), "_asyncio"));
}

/* False: the interpreter has no such module, or it cannot be read. */
static bool open_registry(struct snap_python_walk *walk, uint64_t interpreter, struct registry *ret)
{
	const struct registry_row *row = row_of_registry(walk->python);

	*ret = (struct registry){ .module = 0 };
	ret->has_modules = snap_python_modules_open(walk, interpreter, &ret->modules);
	if (!ret->has_modules)
		return false;
	ret->module =
		snap_python_dict_find(walk, &ret->modules, "asyncio.tasks", &ret->module_number);
	if (!snap_python_module_open(walk, ret->module, &ret->names))
		return false;
	ret->tasks = snap_python_dict_find(walk, &ret->names, row->tasks, &ret->tasks_number);
	if (row->eager)
		ret->eager =
			snap_python_dict_find(walk, &ret->names, row->eager, &ret->eager_number);
	ret->task_type = snap_python_dict_find(walk, &ret->names, "Task", NULL);
	ret->python_task_type =
		snap_python_dict_find(walk, &ret->names, "_PyTask", &ret->type_number);
	return ret->tasks;
}

/* ---- before the stop ---- */

/* Where an entry is, from the beginning of its dict's keys on; 0: too far away. */
static uint32_t place_of_entry(const struct snap_python_dict *dict, uint64_t number)
{
	uint64_t place = dict->entries - dict->keys + number * dict->words * 8;

	return place < MOST_KEYS ? (uint32_t)place : 0;
}

void snap_python_registry_locate(struct snap_python *python)
{
	const struct snap_python_layout *layout = &python->layout;
	struct snap_python_walk walk = { .python = python, .left = MOST_ENTRIES };
	struct snap_python_registry *noted = &python->registry;
	struct registry found;
	uint64_t interpreter;

	if (!snap_runtime_word(python->process, python->runtime + layout->runtime.interpreters,
			       &interpreter))
		return;
	for (size_t i = 0; interpreter && i < SNAP_PYTHON_MOST_INTERPRETERS; i++) {
		bool is_open = open_registry(&walk, interpreter, &found);

		noted->is_wanted |= !found.has_modules || found.module || walk.has_gaps;
		if (is_open) {
			noted->module = found.modules.entries - found.modules.keys +
					found.module_number * found.modules.words * 8;
			noted->module_words = (uint32_t)found.modules.words;
			noted->words = (uint32_t)found.names.words;
			noted->first = place_of_entry(&found.names, 0);
			noted->tasks = place_of_entry(&found.names, found.tasks_number);
			if (found.eager)
				noted->eager = place_of_entry(&found.names, found.eager_number);
			if (found.task_type && found.task_type == found.python_task_type)
				noted->python_task =
					place_of_entry(&found.names, found.type_number);
			return;
		}
		if (!snap_runtime_word(python->process, interpreter + layout->interpreter.next,
				       &interpreter))
			return;
	}
}

/* ---- objects ---- */

/* Where the values of its attributes lie in an array; 0: they are in a dict. */
static uint64_t values_of_object(const struct snap_python *python, uint64_t object)
{
	enum { VALID = 3 << 3 }; /* bits before this flag */
	uint64_t word = 0;

	switch (python->layout.minor) {
	case 11:
		snap_runtime_word(python->process, object - 32, &word);
		return word;
	case 12:
		snap_runtime_word(python->process, object - 24, &word);
		return word & 1 ? word + 1 : 0;
	default:
		snap_runtime_word(python->process, object + 16, &word);
		return word >> VALID & 0xff ? object + 24 : 0;
	}
}

bool snap_python_attribute(const struct snap_python *python, uint64_t object, unsigned number,
			   uint64_t *ret)
{
	const struct snap_python_walk walk = { .python = python };
	uint64_t at = values_of_object(python, object);
	struct snap_python_dict dict;

	if (!at) {
		if (!snap_runtime_word(python->process, object - 24, &at) ||
		    !snap_python_dict_open(&walk, at, &dict) || number >= dict.count)
			return false;
		if (!dict.values)
			return snap_runtime_word(python->process,
						 dict.entries + ((number + 1) * dict.words - 1) * 8,
						 ret);
		at = dict.values;
	}
	return snap_runtime_word(python->process, at + number * 8, ret);
}

static bool is_python_task(const struct snap_python *python, uint64_t task)
{
	uint64_t type;

	return python->registry.python_type &&
	       snap_runtime_word(python->process, task + python->layout.object_type, &type) &&
	       type == python->registry.python_type;
}

bool snap_python_registry_task(const struct snap_python *python, uint64_t task,
			       uint64_t *coroutine_ret, uint64_t *name_ret)
{
	enum { NAME = 2, COROUTINE = 6 }; /* their attributes, in debug mode one more is before */
	const struct snap_runtime_process *process = python->process;
	uint64_t name, coroutine;
	const char *text;
	unsigned debug;

	if (!is_python_task(python, task))
		return snap_runtime_word(process, task + python->asyncio.coroutine,
					 coroutine_ret) &&
		       snap_runtime_word(process, task + python->asyncio.name, name_ret);
	for (debug = 0; debug < 2; debug++) {
		if (!snap_python_attribute(python, task, NAME + debug, &name) ||
		    !snap_python_attribute(python, task, COROUTINE + debug, &coroutine))
			return false;
		if (!snap_python_string(python, name, &text))
			return false;
		if (text)
			break;
	}
	*name_ret = name;
	*coroutine_ret = coroutine;
	return true;
}

/* ---- sets ---- */

/* All tasks of a set, to which it has weak references or not. False: no memory. */
static bool take_set(struct snap_python *python, uint64_t set, bool is_weak,
		     snap_python_take_task *take, void *context, bool *whole)
{
	const struct snap_runtime_process *process = python->process;
	uint64_t type, mask, table, slot[2]; /* the object, its hash */

	if (!snap_runtime_word(process, set + python->layout.object_type, &type) ||
	    type != python->registry.set_type ||
	    !snap_runtime_word(process, set + SET_MASK, &mask) ||
	    !snap_runtime_word(process, set + SET_TABLE, &table)) {
		*whole = false;
		return true;
	}
	for (uint64_t i = 0; i <= mask; i++) {
		if (i == MOST_SLOTS ||
		    !snap_runtime_read(process, table + i * sizeof(slot), slot, sizeof(slot))) {
			*whole = false;
			return true;
		}
		if (!slot[0] || (int64_t)slot[1] == DUMMY)
			continue;
		if (is_weak && !snap_runtime_word(process, slot[0] + REFERENCED, &slot[0])) {
			*whole = false;
			continue;
		}
		if (!slot[0] || slot[0] == python->registry.none)
			continue;
		python->registry.is_in_python |= is_python_task(python, slot[0]);
		if (!take(context, slot[0]))
			return false;
	}
	return true;
}

/* The set that a WeakSet is made of, its first attribute. */
static bool take_weak_set(struct snap_python *python, uint64_t object, snap_python_take_task *take,
			  void *context, bool *whole)
{
	uint64_t set;

	if (snap_python_attribute(python, object, 0, &set))
		return take_set(python, set, true, take, context, whole);
	*whole = false;
	return true;
}

/*
 * Without sys.modules: whether it was to be copied, as the pointer to it is there, which a plan
 * copies for this alone; or there was no more room for that.
 */
static bool was_wanted(const struct snap_python *python, uint64_t interpreter)
{
	const uint32_t field = python->layout.interpreter.modules;
	uint64_t modules;

	return snap_runtime_why(python->process, NULL) ||
	       (field >= python->layout.interpreter.size &&
		snap_runtime_word(python->process, interpreter + field, &modules) && modules);
}

bool snap_python_registry_tasks(struct snap_python *python, snap_python_take_task *take,
				void *context, bool *found_ret, bool *whole_ret)
{
	const struct snap_python_layout *layout = &python->layout;
	struct snap_python_walk walk = { .python = python, .left = MOST_ENTRIES };
	struct registry found;
	uint64_t interpreter;

	*found_ret = false;
	*whole_ret = true;
	if (!snap_runtime_word(python->process, python->runtime + layout->runtime.interpreters,
			       &interpreter))
		return true;
	for (size_t i = 0; interpreter && i < SNAP_PYTHON_MOST_INTERPRETERS; i++) {
		walk.has_gaps = false;
		if (open_registry(&walk, interpreter, &found)) {
			*found_ret = true;
			python->registry.python_type = found.python_task_type;
			if (!take_weak_set(python, found.tasks, take, context, whole_ret) ||
			    (found.eager &&
			     !take_set(python, found.eager, false, take, context, whole_ret)))
				return false;
		} else if (found.has_modules ? found.module || walk.has_gaps
					     : was_wanted(python, interpreter)) {
			*whole_ret = false;
		}
		if (!snap_runtime_word(python->process, interpreter + layout->interpreter.next,
				       &interpreter))
			return true;
	}
	return true;
}
