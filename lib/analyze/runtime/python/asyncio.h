/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks of asyncio, for the files of this folder: where they are, which tasks await them, and what
 * is shown of each. asyncio.c finds them; up to 3.13 heap.c does, and loops.c decides whether there
 * can be any. Knows nothing of the machine's stacks, nor of how tasks are grouped and shown
 * (analyze/task/).
 */
#pragma once

#include "analyze/runtime/python/python.h"

/* ---- asyncio_find.c ---- */

/* Fills python->asyncio; false: there are no tasks, or this version is not understood. */
bool snap_python_asyncio_find(struct snap_python *python);

/* ---- heap.c ---- */

/* The same for 3.11 to 3.13: python->heap, too. */
bool snap_python_heap_find(struct snap_python *python);
/*
 * Tasks, if there are any, cannot be listed: up to 3.13 they are found among what the collector of
 * garbage knows, and a free-threaded interpreter's knows no lists.
 */
bool snap_python_heap_hides_tasks(const struct snap_python *python);
/* Whether objects of a type are futures, which tasks may be, too. */
bool snap_python_heap_is_future(const struct snap_python *python, uint64_t type);
/*
 * Gives all tasks, none if the heap was not to be copied; false in *whole_ret: not all of it is
 * there. False: no memory.
 */
typedef bool snap_python_take_task(void *context, uint64_t address);
bool snap_python_heap_tasks(struct snap_python *python, snap_python_take_task *take, void *context,
			    bool *whole_ret) _must_check_;

/* ---- loops.c ---- */

/* Whether a thread of a process that runs has an event loop; true if that cannot be known. */
bool snap_python_may_run_loop(const struct snap_python *python);

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
