/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Greenlets that wait (the package greenlet, which gevent and eventlet use). Nothing lists them but
 * the lists of the garbage collector, which are as long as the heap has objects. So they are looked
 * for before the stop, while the process runs, and what describes them is kept: what is shown is
 * how they stood then.
 *
 * A greenlet is an object of PyGreenlet_Type, or of a class below it, with a pointer to what its
 * version of the package keeps of it: a pointer to the object, and its innermost frame while it
 * waits. No version has a table here: these two are found by what they point to.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/python.h"
#include "analyze/runtime/symbol.h"

#include "base/text.h"

#include <stdlib.h>

enum {
	MOST_OBJECTS = 1 << 20, /* of the collector */
	MOST_GREENLETS = 10000,
	MOST_GREENLET_FRAMES = 256, /* of one, outer ones are left out */
	MOST_BASES = 8,
	KNOWN = 256, /* types, and code objects: a power of two */
	LOOK_AT_TIME = 1 << 10,
	/* struct _greenlet */
	GREENLET = 40,
	GREENLET_STATE = 32,
	MOST_STATE = 256, /* bytes of what it points to */
	/* PyGC_Head, before each object; struct gc_generation, of which there are three */
	GC_HEAD = 16,
	GENERATIONS = 3,
	GENERATION = 24,
	INTERPRETER = 8192, /* bytes in which the collector's state begins */
	TYPE_BASE = 256,    /* PyTypeObject.tp_base */
	FRAME_OBJECT = 32,  /* PyFrameObject, 3.11 on */
	FRAME_OBJECT_FRAME = 24,
};

struct types {
	uint64_t greenlet, frame;
};

/* False: there are no greenlets, or they are not understood. */
static bool find_types(const struct snap_python *python, struct types *ret)
{
	const struct snap_runtime_process *process = python->process;
	size_t count;
	struct snap_module *list = snap_modules_list(process->modules, &count);

	if (python->layout.minor < 11 || process->is_of_thread)
		return false;
	*ret = (struct types){ .greenlet = 0 };
	for (size_t i = 0; i < count && !ret->greenlet; i++)
		if (list[i].kind == SNAP_MODULE_FILE &&
		    snap_begins_with(snap_base_name(list[i].path), "_greenlet.") &&
		    snap_runtime_has_code(&list[i]))
			ret->greenlet = snap_runtime_exported(process, &list[i], "PyGreenlet_Type");
	if (ret->greenlet)
		ret->frame = snap_runtime_symbol(process, python->module, "PyFrame_Type");
	return ret->frame;
}

/* What was found of a greenlet that waits. */
struct greenlet {
	uint64_t state, state_size; /* as far as it was looked at */
	uint64_t object;            /* its innermost frame, for Python … */
	uint64_t frame;             /* … and for the interpreter */
};

/* False: it does not wait, or makes no sense. */
static bool look_at_greenlet(const struct snap_python *python, const struct types *types,
			     uint64_t address, struct greenlet *ret)
{
	const struct snap_runtime_process *process = python->process;
	uint64_t word, type;
	bool is_its_own = false;

	ret->object = 0;
	if (!snap_runtime_word(process, address + GREENLET_STATE, &ret->state))
		return false;
	for (uint64_t at = 0; at < MOST_STATE && !(is_its_own && ret->object); at += sizeof(word)) {
		if (!snap_runtime_word(process, ret->state + at, &word))
			return false;
		ret->state_size = at + sizeof(word);
		is_its_own |= word == address;
		if (!ret->object && word && word % sizeof(word) == 0 &&
		    snap_runtime_word(process, word + python->layout.object_type, &type) &&
		    type == types->frame)
			ret->object = word;
	}
	return is_its_own && ret->object &&
	       snap_runtime_word(process, ret->object + FRAME_OBJECT_FRAME, &ret->frame) &&
	       ret->frame;
}

/* ---- before the stop ---- */

struct search {
	const struct snap_python *python;
	struct types types;
	size_t objects;
	uint64_t *greenlets;
	size_t greenlet_count;
	struct {
		uint64_t address;
		bool is_greenlet;
	} known[KNOWN];
	uint64_t kept[KNOWN]; /* code */
};

static void keep(const struct search *search, uint64_t address, uint64_t size)
{
	const struct snap_runtime_process *process = search->python->process;

	process->keep_memory(process->take_context, address, size);
}

static bool is_greenlet_type(struct search *search, uint64_t type)
{
	size_t slot = (type >> 4) % KNOWN;
	uint64_t base = type;

	if (search->known[slot].address == type)
		return search->known[slot].is_greenlet;
	search->known[slot].address = type;
	for (unsigned i = 0; i < MOST_BASES && base && base != search->types.greenlet; i++)
		if (!snap_runtime_word(search->python->process, base + TYPE_BASE, &base))
			base = 0;
	return search->known[slot].is_greenlet = base == search->types.greenlet;
}

/* No more than the object has: what lies behind it may be kept, too. */
static void keep_string(const struct search *search, uint64_t object)
{
	const struct snap_python_layout *layout = &search->python->layout;
	const struct snap_runtime_process *process = search->python->process;
	uint64_t length, state;

	if (!snap_runtime_word(process, object + layout->string.length, &length) ||
	    !snap_runtime_number(process, object + layout->string.state, 4, &state) ||
	    length > SNAP_PYTHON_MOST_NAME)
		return;
	state >>= layout->string.kind_shift;
	keep(search, object,
	     state >> 4 & 1 ? layout->string.ascii + length
			    : layout->string.compact + length * (state & 7));
}

static void keep_line_table(const struct search *search, uint64_t object)
{
	const struct snap_python_layout *layout = &search->python->layout;
	uint64_t size;

	if (snap_runtime_word(search->python->process, object + layout->bytes_size, &size) &&
	    size <= SNAP_PYTHON_MOST_LINES)
		keep(search, object, layout->bytes_data + size);
}

static void keep_code(struct search *search, uint64_t code)
{
	const struct snap_python_layout *layout = &search->python->layout;
	size_t slot = (code >> 4) % KNOWN;
	uint8_t bytes[SNAP_PYTHON_RECORD];

	if (search->kept[slot] == code ||
	    !snap_runtime_read(search->python->process, code, bytes, layout->code.size))
		return;
	search->kept[slot] = code;
	keep(search, code, layout->code.size);
	keep_string(search, snap_runtime_field(bytes, layout->code.name, 8));
	keep_string(search, snap_runtime_field(bytes, layout->code.file, 8));
	keep_line_table(search, snap_runtime_field(bytes, layout->code.line_table, 8));
}

/* All of them come first, so that their number is right where there is no room for what they run. */
static void take_greenlet(struct search *search, uint64_t address)
{
	struct greenlet found;

	if (search->greenlet_count == MOST_GREENLETS ||
	    !look_at_greenlet(search->python, &search->types, address, &found))
		return;
	search->greenlets[search->greenlet_count++] = address;
	keep(search, address, GREENLET);
}

static void keep_frames(struct search *search, uint64_t address)
{
	const struct snap_python_layout *layout = &search->python->layout;
	uint8_t bytes[SNAP_PYTHON_RECORD];
	struct greenlet found;

	if (!snap_runtime_may_name(search->python->process) ||
	    !look_at_greenlet(search->python, &search->types, address, &found))
		return;
	keep(search, found.state, found.state_size);
	keep(search, found.object, FRAME_OBJECT);
	for (unsigned i = 0; found.frame && i < MOST_GREENLET_FRAMES; i++) {
		if (!snap_runtime_read(search->python->process, found.frame, bytes,
				       layout->frame.size))
			return;
		keep(search, found.frame, layout->frame.size);
		keep_code(search, snap_runtime_field(bytes, layout->frame.code, 8) & ~3ull);
		found.frame = snap_runtime_field(bytes, layout->frame.previous, 8);
	}
}

/* One ring of objects. */
static void search_generation(struct search *search, uint64_t head)
{
	const struct snap_runtime_process *process = search->python->process;
	uint64_t words[4], at; /* next, previous; count of references, type */

	if (!snap_runtime_word(process, head, &at))
		return;
	for (; at != head && ++search->objects < MOST_OBJECTS; at = words[0] & ~3ull) {
		if (!snap_runtime_read(process, at, words, sizeof(words)) ||
		    (search->objects % LOOK_AT_TIME == 0 && !snap_runtime_may_name(process)))
			return;
		if (is_greenlet_type(search, words[3]))
			take_greenlet(search, at + GC_HEAD);
	}
}

/* The three generations lie before a pointer to the first of them. */
static void search_interpreter(struct search *search, uint64_t interpreter)
{
	uint64_t words[INTERPRETER / 8];

	if (!snap_runtime_read(search->python->process, interpreter, words, sizeof(words)))
		return;
	for (size_t i = GENERATIONS * GENERATION / 8; i < INTERPRETER / 8; i++) {
		uint64_t first = interpreter + 8 * i - GENERATIONS * GENERATION;

		if (words[i] != first)
			continue;
		for (unsigned k = 0; k < GENERATIONS; k++)
			search_generation(search, first + k * GENERATION);
		return;
	}
}

void snap_python_keep_greenlets(const struct snap_python *python)
{
	const struct snap_runtime_process *process = python->process;
	struct search search = { .python = python };
	uint64_t interpreter;

	if (!process->keep_memory || !find_types(python, &search.types) ||
	    !snap_runtime_word(process, python->runtime + python->layout.runtime.interpreters,
			       &interpreter))
		return;
	search.greenlets = snap_arena_array(process->arena, MOST_GREENLETS, sizeof(uint64_t));
	if (!search.greenlets)
		return;
	search_interpreter(&search, interpreter);
	for (size_t i = 0; i < search.greenlet_count; i++)
		keep_frames(&search, search.greenlets[i]);
}

/* ---- afterwards ---- */

static const char not_kept[] = "frames of Python that were not copied";

/* `frame`: its innermost one; 0: what it runs is not known. */
static bool fill_greenlet(struct snap_python *python, uint64_t address, uint64_t frame,
			  struct snap_runtime_task *task)
{
	const struct snap_runtime_process *process = python->process;
	const struct snap_python_layout *layout = &python->layout;
	const struct snap_runtime_frame *frames[MOST_GREENLET_FRAMES];
	uint8_t bytes[SNAP_PYTHON_RECORD];

	task->id = snap_arena_printf(process->arena, "0x%llx", (unsigned long long)address);
	if (!task->id)
		return false;
	task->state = SNAP_TASK_WAITING;
	task->stack.end = frame ? SNAP_UNWIND_COMPLETE : SNAP_UNWIND_UNREADABLE;
	task->stack.reason = frame ? NULL : not_kept;
	while (frame) {
		const struct snap_runtime_frame **next = &frames[task->stack.count];

		if (task->stack.count == MOST_GREENLET_FRAMES || python->frames_left == 0) {
			task->stack.end = SNAP_UNWIND_LIMIT;
			task->stack.reason = "more frames of Python than are read";
			break;
		}
		python->frames_left--;
		*next = NULL;
		if (snap_runtime_read(process, frame, bytes, layout->frame.size)) {
			frame = snap_runtime_field(bytes, layout->frame.previous, 8);
			if (layout->frame.owner &&
			    bytes[layout->frame.owner] >= layout->frame.first_shim)
				continue;
			if (!snap_python_frame(python, bytes, next))
				return false;
		}
		if (!*next) {
			task->stack.end = SNAP_UNWIND_UNREADABLE;
			task->stack.reason = not_kept;
			break;
		}
		task->start = (*next)->entries;
		task->stack.count++;
	}
	task->stack.frames =
		snap_arena_memdup(process->arena, frames, task->stack.count * sizeof(*frames));
	return task->stack.frames;
}

static int compare_greenlets(const void *a, const void *b)
{
	const struct snap_runtime_task *x = a, *y = b;
	uint64_t left = strtoull(x->id, NULL, 0), right = strtoull(y->id, NULL, 0);

	return (left > right) - (left < right);
}

bool snap_python_greenlets(struct snap_python *python, struct snap_runtime_result *result)
{
	const struct snap_process *of = python->process->process;
	struct snap_runtime_task *tasks;
	size_t greenlets = 0;
	struct greenlet found;
	struct types types;

	if (!find_types(python, &types))
		return true;
	tasks = snap_arena_new_array(python->process->arena, result->task_count + of->piece_count,
				     struct snap_runtime_task);
	if (!tasks)
		return false;
	if (result->task_count)
		memcpy(tasks, result->tasks, result->task_count * sizeof(*tasks));
	result->tasks = tasks;
	for (size_t i = 0; i < of->piece_count; i++) {
		uint64_t address = of->pieces[i].address;

		if (of->pieces[i].size != GREENLET)
			continue;
		if (!look_at_greenlet(python, &types, address, &found))
			found.frame = 0;
		if (!fill_greenlet(python, address, found.frame, &tasks[result->task_count++]))
			return false;
		result->has_tasks = true;
		if (!found.frame || ++greenlets == MOST_GREENLETS)
			result->cut = SNAP_PLAN_CUT_RECORDS;
	}
	if (result->task_count)
		qsort(tasks, result->task_count, sizeof(*tasks), compare_greenlets);
	return true;
}
