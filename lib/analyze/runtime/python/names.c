/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the module `threading` calls its threads: in each interpreter's sys.modules, its dict
 * `_active` has an object of each thread, with the attributes _name and _native_id. The process runs
 * meanwhile, so what makes no sense has no name. Knows nothing of the states of threads.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/dicts.h"

#include "base/text.h"

enum {
	MOST_INTERPRETERS = 64,
	MOST_LOOKED_AT = 1 << 16, /* entries of dicts */
};

/* A positive int of one digit; 0: it is none. */
static uint32_t small_number(const struct snap_python *python, uint64_t address)
{
	const struct snap_python_layout *layout = &python->layout;
	const unsigned sign_bits = layout->minor >= 12 ? 3 : 0;
	uint64_t type, tag, digit;

	if (!address || !snap_runtime_word(python->process, address + layout->object_type, &type) ||
	    type != python->int_type ||
	    !snap_runtime_word(python->process, address + (layout->int_tag ?: 16), &tag) ||
	    !snap_runtime_number(python->process, address + (layout->int_digits ?: 24), 4, &digit))
		return 0;
	return tag == 1ull << sign_bits ? (uint32_t)digit : 0;
}

/* ---- threads ---- */

/* A thread that another language has made is called Dummy-1, which says less than its comm. */
static void name_python_thread(struct snap_python_walk *walk, uint64_t object)
{
	const struct snap_runtime_process *process = walk->python->process;
	struct snap_python_dict attributes;
	const char *name;
	uint32_t tid;

	if (!object || !snap_python_object_open(walk, object, &attributes) ||
	    !snap_python_string(walk->python,
				snap_python_dict_find(walk, &attributes, "_name", NULL), &name) ||
	    !name || snap_begins_with(name, "Dummy-"))
		return;
	tid = small_number(walk->python,
			   snap_python_dict_find(walk, &attributes, "_native_id", NULL));
	if (tid)
		process->take_name(process->take_context, tid, name);
}

static void name_threads_of(struct snap_python_walk *walk, uint64_t interpreter)
{
	struct snap_python_dict dict;
	uint64_t address, key;

	if (!snap_python_modules_open(walk, interpreter, &dict) ||
	    !snap_python_module_open(walk, snap_python_dict_find(walk, &dict, "threading", NULL),
				     &dict))
		return;
	address = snap_python_dict_find(walk, &dict, "_active", NULL);
	if (!address || !snap_python_dict_open(walk, address, &dict))
		return;
	for (uint64_t i = 0; snap_python_dict_entry(walk, &dict, i, &key, &address); i++)
		name_python_thread(walk, address);
}

void snap_python_name_threads(const struct snap_python *python)
{
	const struct snap_python_layout *layout = &python->layout;
	struct snap_python_walk walk = { .python = python, .left = MOST_LOOKED_AT };
	uint64_t address;

	if (!snap_runtime_word(python->process, python->runtime + layout->runtime.interpreters,
			       &address))
		return;
	for (size_t i = 0; address && i < MOST_INTERPRETERS; i++) {
		name_threads_of(&walk, address);
		if (!snap_runtime_word(python->process, address + layout->interpreter.next,
				       &address))
			return;
	}
}
