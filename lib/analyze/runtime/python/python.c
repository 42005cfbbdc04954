/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * CPython 3.8 to 3.15: threads with their Python frames, tasks of asyncio. The two functions of
 * runtime.h; find.c and layout.c find what they need.
 */
#include "analyze/runtime/python/asyncio.h"

static struct stacksnap_error *probe_python(const struct snap_runtime_process *process,
					    struct snap_memory_plan *plan, bool *found_ret)
{
	struct snap_python python;

	if (!snap_python_find(process, &python))
		return NULL;
	*found_ret = true;
	if (!snap_python_layout_load(&python)) {
		python.has_asyncio = snap_python_asyncio_find(&python);
		if (python.has_asyncio && python.registry.is_used && !process->is_of_thread)
			snap_python_registry_locate(&python);
		snap_python_plan(&python, plan);
		if (process->take_name) {
			snap_python_name_threads(&python);
			snap_python_keep_greenlets(&python);
		}
	} else if (!process->is_of_thread) {
		snap_python_plan_refusal(&python, plan);
	}
	return NULL;
}

/* "CPython 3.16.0: it is newer than 3.15"; false: no memory. */
static bool refuse_python(const struct snap_python *python, const char *why,
			  struct snap_runtime_result *result)
{
	result->refused =
		snap_arena_printf(python->process->arena, "CPython %s: %s", result->version, why);
	return result->refused;
}

static struct stacksnap_error *fill_python_result(struct snap_python *python,
						  struct snap_runtime_result *result)
{
	const char *why = snap_python_layout_load(python);
	struct stacksnap_error *err = NULL;

	result->version = snap_python_version(python);
	SNAP_TRY(snap_no_memory_unless(result->version));
	if (why)
		return refuse_python(python, why, result) ? NULL : snap_error_no_memory();
	SNAP_TRY(snap_no_memory_unless(snap_python_places_create(python)));
	python->frames_left = SNAP_PYTHON_ALL_FRAMES;
	err = snap_python_threads(python, result);
	if (!err && !result->refused && snap_python_asyncio_find(python))
		err = snap_python_tasks(python, result);
	if (!err && !result->refused && !snap_python_greenlets(python, result))
		err = snap_error_no_memory();
	if (!err && !snap_python_locks(python, result))
		err = snap_error_no_memory();
	if (!err && !result->refused && snap_python_registry_hides_tasks(python))
		result->refused = "a free-threaded interpreter's tasks of asyncio are not listed "
				  "before 3.14; its threads are all here";
	snap_python_places_destroy(python);
	free(python->chains);
	if (!err && result->refused && !refuse_python(python, result->refused, result))
		err = snap_error_no_memory();
	return err;
}

static struct stacksnap_error *read_python(const struct snap_runtime_process *process,
					   struct snap_runtime_result **ret)
{
	struct snap_python python;
	struct snap_runtime_result *result;
	struct stacksnap_error *err;

	*ret = NULL;
	if (!snap_python_find(process, &python))
		return NULL;
	result = snap_arena_new(process->arena, struct snap_runtime_result);
	SNAP_TRY(snap_no_memory_unless(result));
	result->name = "cpython";
	err = fill_python_result(&python, result);
	if (!err)
		*ret = result;
	return err;
}

const struct snap_runtime snap_runtime_cpython = {
	.name = "cpython", .kind = SNAP_RUNTIME_CPYTHON, .probe = probe_python, .read = read_python
};
