/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks of asyncio in 3.11 to 3.13, which does not describe itself. They are found by the name of
 * their type, among all objects that the garbage collector lists. That takes all of the heap, so it
 * is done only where the heap is small and a thread runs a loop (loops.c). Knows nothing of the
 * contents of a task.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/asyncio.h"
#include "analyze/runtime/symbol.h"

#include "base/bytes.h"
#include "base/text.h"

enum {
	FIRST_MINOR = 11,
	GENERATIONS = 3,
	GENERATION = 24, /* bytes of the head of a list */
	GC_HEAD = 16,    /* bytes before an object: next, previous */
	MOST_OBJECTS = 1 << 22,
	MOST_BASES = 8,
	TYPE_NAME = 24,
	TYPE_BASE = 256,
	STACK = 8 << 20, /* bytes of a thread's stack, mostly with a page that is not its own */
};

static const uint64_t MOST_MAPPED = 128 << 20;
static const char task_name[] = "_asyncio.Task", future_name[] = "_asyncio.Future";

struct heap_row {
	uint32_t coroutine, generator_frame, generator_state, lists, thread_dict, thread_loop;
};

/* clang-format off */
static const struct heap_row rows[] = { /* 3.11 … */
	{ 136, 80, 75, 672, 128, 0 },
	{ 136, 72, 67, 136, 112, 0 },
	{ 120, 72, 67, 7424, 0, 304 },
};
/* clang-format on */

/* ---- what is known beforehand ---- */

/* The module's constants lie in its file: where the name of the type is; 0: nowhere. */
static uint64_t address_of_name(struct snap_module *module, const char *name)
{
	struct snap_bytes constants = snap_image_section(module->file->image, ".rodata");
	const uint8_t *found;
	uint64_t vaddr;

	if (!constants.data || !snap_image_section_address(module->file->image, ".rodata", &vaddr))
		return 0;
	found = memmem(constants.data, constants.size, name, strlen(name) + 1);
	return found ? module->bias + vaddr + (uint64_t)(found - constants.data) : 0;
}

/* Whether so little is mapped that all of it may be copied; stacks do not count. */
static bool is_small(const struct snap_process *process)
{
	uint64_t mapped = 0;

	for (size_t i = 0; i < process->map_count; i++) {
		const struct snap_map *map = &process->maps[i];
		uint64_t size = map->end - map->start;

		if (map->write && !map->shared && !map->inode && size != STACK &&
		    size != STACK - SNAP_PAGE)
			mapped += size;
	}
	return mapped <= MOST_MAPPED;
}

/* Where the data of a module begin that it may write; 0: it has none. */
static uint64_t address_of_data(const struct snap_process *process,
				const struct snap_module *module)
{
	const struct snap_map *maps = &process->maps[module->first_map];

	for (size_t i = 0; i < module->map_count; i++)
		if (maps[i].write && maps[i].inode)
			return maps[i].start;
	return 0;
}

static void find_types(struct snap_python *python)
{
	const struct snap_runtime_process *process = python->process;

	python->heap.function_type =
		snap_runtime_symbol(process, python->module, "PyFunction_Type");
	python->heap.method_type = snap_runtime_symbol(process, python->module, "PyMethod_Type");
	python->heap.builtin_type =
		snap_runtime_symbol(process, python->module, "PyCFunction_Type");
	python->heap.none = snap_runtime_symbol(process, python->module, "_Py_NoneStruct");
}

static bool is_asyncio(const struct snap_module *module)
{
	return module->kind == SNAP_MODULE_FILE &&
	       snap_begins_with(snap_base_name(module->path), "_asyncio");
}

bool snap_python_heap_hides_tasks(const struct snap_python *python)
{
	size_t count;
	const struct snap_module *list = snap_modules_list(python->process->modules, &count);

	if (!python->layout.is_free_threaded ||
	    python->layout.minor >= FIRST_MINOR + SNAP_ARRAY_SIZE(rows))
		return false;
	for (size_t i = 0; i < count; i++)
		if (is_asyncio(&list[i]))
			return true;
	return false;
}

bool snap_python_heap_find(struct snap_python *python)
{
	const struct snap_runtime_process *process = python->process;
	struct snap_python_layout *layout = &python->layout;
	const struct heap_row *row;
	size_t count;
	struct snap_module *list = snap_modules_list(process->modules, &count);

	if (layout->minor < FIRST_MINOR || layout->minor >= FIRST_MINOR + SNAP_ARRAY_SIZE(rows) ||
	    layout->is_free_threaded)
		return false;
	row = &rows[layout->minor - FIRST_MINOR];
	for (size_t i = 0; i < count; i++) {
		if (!is_asyncio(&list[i]) || !snap_module_open(process->set, &list[i]))
			continue;
		python->heap.task_name = address_of_name(&list[i], task_name);
		if (!python->heap.task_name)
			continue;
		python->heap.future_name = address_of_name(&list[i], future_name);
		find_types(python);
		python->heap.module = &list[i];
		python->heap.is_large = !is_small(process->process);
		python->heap.lists = row->lists;
		python->heap.thread_dict = row->thread_dict;
		python->heap.thread_loop = row->thread_loop;
		python->heap.data = address_of_data(process->process, &list[i]);
		python->asyncio = (struct snap_python_asyncio){ .coroutine = row->coroutine,
								.name = row->coroutine + 8,
								.size = row->coroutine + 16 };
		layout->generator.frame = row->generator_frame;
		layout->generator.state = row->generator_state;
		if (layout->interpreter.size < row->lists + GENERATIONS * GENERATION)
			layout->interpreter.size = row->lists + GENERATIONS * GENERATION;
		return true;
	}
	return false;
}

/* ---- types ---- */

enum answer { NOT_ASKED, NO, YES, UNKNOWN };

/* Whether that was to be copied, and was not; the data of other modules never are. */
static enum answer when_missing(const struct snap_python *python, uint64_t address)
{
	const struct snap_process *process = python->process->process;
	const struct snap_module *own[] = { python->module, python->heap.module };
	const struct snap_map *map = snap_process_map(process, address);

	if (!map || !map->write || map->shared)
		return NO;
	for (size_t i = 0; map->inode && i < SNAP_ARRAY_SIZE(own); i++)
		if ((size_t)(map - process->maps) - own[i]->first_map < own[i]->map_count)
			return UNKNOWN;
	return map->inode ? NO : UNKNOWN;
}

/* A name, and where the module has it: copies of it lie elsewhere. */
static enum answer has_type_name(const struct snap_python *python, uint64_t type, uint64_t address,
				 const char *wanted)
{
	size_t size = strlen(wanted) + 1;
	char text[32];
	uint64_t name;

	if (!snap_runtime_word(python->process, type + TYPE_NAME, &name))
		return when_missing(python, type + TYPE_NAME);
	if (name && name == address)
		return YES;
	for (size_t i = 0; i < size; i++) {
		if (!snap_runtime_read(python->process, name + i, &text[i], 1))
			return when_missing(python, name + i);
		if (text[i] != wanted[i])
			return NO;
	}
	return YES;
}

/* Whether a type, or what it is derived from, has that name. */
static enum answer is_type(const struct snap_python *python, uint64_t type, uint64_t address,
			   const char *name)
{
	enum answer answer = NO;

	for (size_t i = 0; i < MOST_BASES && type && answer == NO; i++) {
		answer = has_type_name(python, type, address, name);
		if (answer == NO && !snap_runtime_word(python->process, type + TYPE_BASE, &type))
			return when_missing(python, type + TYPE_BASE);
	}
	return answer;
}

bool snap_python_heap_is_future(const struct snap_python *python, uint64_t type)
{
	return is_type(python, type, python->heap.future_name, future_name) == YES;
}

/* The same, remembered; NOT_ASKED: there is no memory. */
static enum answer is_task(struct snap_python *python, struct snap_pointer_table *types,
			   uint64_t type)
{
	struct snap_pointer_entry *entry =
		snap_pointer_table_get(types, (const void *)(uintptr_t)type);

	if (!entry)
		return NOT_ASKED;
	if (entry->number == NOT_ASKED)
		entry->number = is_type(python, type, python->heap.task_name, task_name);
	return entry->number;
}

/* ---- lists ---- */

/* One list of the collector's. False: no memory. */
static bool read_heap_list(struct snap_python *python, struct snap_pointer_table *types,
			   uint64_t head, snap_python_take_task *take, void *context, bool *whole)
{
	uint64_t address;
	enum answer answer;

	if (!snap_runtime_word(python->process, head, &address)) {
		*whole = false;
		return true;
	}
	address &= ~3ull;
	for (size_t i = 0; address != head; i++) {
		uint64_t words[4]; /* next, previous; references, type */

		if (!address || i == MOST_OBJECTS ||
		    !snap_runtime_read(python->process, address, words, sizeof(words))) {
			*whole = false;
			return true;
		}
		answer = is_task(python, types, words[3]);
		if (answer == NOT_ASKED || (answer == YES && !take(context, address + GC_HEAD)))
			return false;
		if (answer == UNKNOWN)
			*whole = false;
		address = words[0] & ~3ull;
	}
	return true;
}

/*
 * Where the lists begin in an interpreter's state, each with a first element whose previous one is
 * the list itself; later releases of 3.13 have them 4 bytes earlier. 0: nowhere.
 */
static uint64_t find_lists(const struct snap_python *python, uint64_t interpreter)
{
	for (uint64_t earlier = 0; earlier <= 4; earlier += 4) {
		uint64_t lists = interpreter + python->heap.lists - earlier, next, previous;
		size_t k;

		for (k = 0; k < GENERATIONS; k++)
			if (!snap_runtime_word(python->process, lists + k * GENERATION, &next) ||
			    !snap_runtime_word(python->process, (next & ~3ull) + 8, &previous) ||
			    (previous & ~3ull) != lists + k * GENERATION)
				break;
		if (k == GENERATIONS)
			return lists;
	}
	return 0;
}

/*
 * Whether the heap was to be copied: with it goes all that the module may write, of which the sign
 * may be what is missing.
 */
static bool was_wanted(const struct snap_python *python)
{
	const struct snap_runtime_memory *memory = python->process->memory;
	const struct snap_map *map = snap_process_map(python->process->process, python->heap.data);
	uint64_t word, start, size;

	if (!python->heap.data || snap_runtime_word(python->process, python->heap.data, &word))
		return true;
	return map && memory->next &&
	       memory->next(memory->context, python->heap.data, &start, &size) && start < map->end;
}

bool snap_python_heap_tasks(struct snap_python *python, snap_python_take_task *take, void *context,
			    bool *whole)
{
	const struct snap_python_layout *layout = &python->layout;
	struct snap_pointer_table types = { .count = 0 };
	uint64_t interpreter, lists;
	bool fits = true;

	*whole = true;
	if (!was_wanted(python))
		return true;
	*whole = snap_runtime_word(python->process, python->runtime + layout->runtime.interpreters,
				   &interpreter);
	for (size_t i = 0; fits && *whole && interpreter && i < SNAP_PYTHON_MOST_INTERPRETERS;
	     i++) {
		lists = find_lists(python, interpreter);
		*whole = lists != 0;
		for (size_t k = 0; fits && *whole && k < GENERATIONS; k++)
			fits = read_heap_list(python, &types, lists + k * GENERATION, take, context,
					      whole);
		if (!snap_runtime_word(python->process, interpreter + layout->interpreter.next,
				       &interpreter))
			*whole = false;
	}
	snap_pointer_table_deinit(&types);
	return fits;
}
