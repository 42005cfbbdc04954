/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * HotSpot, as of JDK 17: names of threads, the monitors that they wait for, and their owners. The
 * two functions of runtime.h. A HotSpot whose table is not understood is ignored.
 */
#include "analyze/runtime/java/java.h"

static struct stacksnap_error *probe_java(const struct snap_runtime_process *process,
					  struct snap_memory_plan *plan, bool *found_ret)
{
	/* The owner of a monitor may be another thread than the one that is copied. */
	bool has_plan = !process->is_of_thread && process->options->explain != SNAP_EXPLAIN_NO;
	struct snap_java java;

	if (!(has_plan || process->take_name) || !snap_java_find(process, &java))
		return NULL;
	if (process->take_name)
		snap_java_name_threads(&java);
	*found_ret = has_plan && snap_java_read_layout(&java);
	if (*found_ret)
		snap_java_plan(&java, plan);
	return NULL;
}

static struct stacksnap_error *read_java(const struct snap_runtime_process *process,
					 struct snap_runtime_result **ret)
{
	struct snap_java java;
	struct snap_runtime_result *result;

	*ret = NULL;
	if (process->is_of_thread || process->options->explain == SNAP_EXPLAIN_NO ||
	    !snap_java_find(process, &java) || !snap_java_read_layout(&java))
		return NULL;
	result = snap_arena_new(process->arena, struct snap_runtime_result);
	SNAP_TRY(snap_no_memory_unless(result));
	result->name = "java";
	result->has_only_monitors = true;
	SNAP_TRY(snap_java_monitors(&java, result));
	*ret = result;
	return NULL;
}

const struct snap_runtime snap_runtime_java = { .name = "java",
						.kind = SNAP_RUNTIME_JAVA,
						.lacks = SNAP_LACK_JAVA_LOCKS,
						.probe = probe_java,
						.read = read_java };
