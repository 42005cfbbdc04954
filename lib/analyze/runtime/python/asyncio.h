/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks of asyncio, for the files of this folder: where they are, which tasks await them, and what
 * is shown of each. asyncio.c finds them; up to 3.13 registry.c does, and registry_plan.c has them
 * copied. Knows nothing of the machine's stacks, nor of how tasks are grouped and shown
 * (analyze/task/).
 */
#pragma once

#include "analyze/runtime/python/python.h"

/* ---- asyncio_find.c ---- */

/* Fills python->asyncio; false: there are no tasks, or this version is not understood. */
bool snap_python_asyncio_find(struct snap_python *python);

/* ---- registry.c ---- */

/* The same for 3.11 to 3.13: python->registry, too. */
bool snap_python_registry_find(struct snap_python *python);
/* Notes where the tasks of a process that runs are registered. */
void snap_python_registry_locate(struct snap_python *python);
/* Tasks, if there are any, cannot be listed: a free-threaded interpreter's before 3.14. */
bool snap_python_registry_hides_tasks(const struct snap_python *python);
/*
 * Gives all tasks that are registered. False in *found_ret: asyncio is not there. False in
 * *whole_ret: not all of what has them is. False: no memory.
 */
typedef bool snap_python_take_task(void *context, uint64_t address);
bool snap_python_registry_tasks(struct snap_python *python, snap_python_take_task *take,
				void *context, bool *found_ret, bool *whole_ret) _must_check_;
/* The objects that are a task's coroutine and name; false: they are not there. */
bool snap_python_registry_task(const struct snap_python *python, uint64_t task,
			       uint64_t *coroutine_ret, uint64_t *name_ret);
/* An attribute of an object of a class in Python, counted in the order of their first use. */
bool snap_python_attribute(const struct snap_python *python, uint64_t object, unsigned number,
			   uint64_t *ret);

/* ---- awaiters.c ---- */

typedef bool snap_python_is_task(const void *tasks, uint64_t address);
/* The awaiter of a task in 3.11 to 3.13: of several the one with the lowest address; 0: none. */
uint64_t snap_python_awaiter(struct snap_python *python, uint64_t task,
			     snap_python_is_task *is_task, const void *tasks);

/* ---- asyncio.c ---- */

/* Fills tasks of the result; python->chains are there. */
struct stacksnap_error *snap_python_tasks(struct snap_python *python,
					  struct snap_runtime_result *result) _must_check_;

/* Where a coroutine's stack has what it awaits, seen from its top. */
static inline int snap_python_awaited_at(const struct snap_python *python)
{
	return python->layout.minor >= 15 ? -16 : -8;
}
