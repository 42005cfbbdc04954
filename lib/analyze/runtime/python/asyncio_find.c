/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where the fields of a task of asyncio are: from 3.14 on its module describes itself, in constants
 * of a file; registry.c has a table for earlier versions. Knows nothing of tasks' contents.
 */
#include "analyze/runtime/python/asyncio.h"
#include "analyze/runtime/symbol.h"

#include "base/text.h"

#include <string.h>

enum {
	WORDS = 13, /* of the description */
	MOST_OFFSET = 4096,
};

static bool take_task_words(struct snap_python *python, const uint64_t *words)
{
	struct snap_python_asyncio *asyncio = &python->asyncio;

	if (!snap_all(WORDS, i, words[i] <= MOST_OFFSET || i == 7 || i == 8 || i == 9))
		return false;
	*asyncio = (struct snap_python_asyncio){ .name = (uint32_t)words[1],
						 .awaited_by = (uint32_t)words[2],
						 .is_task = (uint32_t)words[3],
						 .awaited_by_is_set = (uint32_t)words[4],
						 .coroutine = (uint32_t)words[5],
						 .node = (uint32_t)words[6],
						 .running_task = (uint32_t)words[11],
						 .thread_tasks = (uint32_t)words[12] };
	asyncio->size = asyncio->node + 16;
	return words[6] < words[0] && asyncio->size <= SNAP_PYTHON_RECORD &&
	       asyncio->name + 8 <= asyncio->size && asyncio->awaited_by + 8 <= asyncio->size &&
	       asyncio->is_task < asyncio->size && asyncio->awaited_by_is_set < asyncio->size &&
	       asyncio->coroutine + 8 <= asyncio->size;
}

/* Constants that lie in the file; a process may write to them, which changes nothing. */
static bool find_words(const struct snap_runtime_process *process, struct snap_module *module,
		       uint64_t *words)
{
	uint64_t address = snap_runtime_symbol(process, module, ".AsyncioDebug");
	struct snap_bytes bytes;

	if (!address)
		return false;
	bytes = snap_image_at(module->file->image, address - module->bias);
	if (bytes.size < WORDS * sizeof(*words))
		return false;
	memcpy(words, bytes.data, WORDS * sizeof(*words));
	return true;
}

bool snap_python_asyncio_find(struct snap_python *python)
{
	const struct snap_runtime_process *process = python->process;
	uint64_t words[WORDS];
	size_t count;
	struct snap_module *list = snap_modules_list(process->modules, &count);

	python->asyncio_types[0] = snap_runtime_symbol(process, python->module, "PyCoro_Type");
	python->asyncio_types[1] = snap_runtime_symbol(process, python->module, "PyGen_Type");
	python->asyncio_types[2] = snap_runtime_symbol(process, python->module, "PyAsyncGen_Type");
	if (!python->asyncio_types[0])
		return false;
	if (python->layout.generator.frame == 0)
		return snap_python_registry_find(python);
	if (find_words(process, python->module, words))
		return take_task_words(python, words);
	for (size_t i = 0; i < count; i++)
		if (list[i].kind == SNAP_MODULE_FILE &&
		    snap_begins_with(snap_base_name(list[i].path), "_asyncio") &&
		    find_words(process, &list[i], words))
			return take_task_words(python, words);
	return false;
}
