/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Plans for single threads, and what they copied: see thread_plans.h. */
#include "capture/thread_plans.h"

#include "base/buffer.h"
#include "capture/join.h"

struct snap_planned_process {
	struct snap_memory_plan *plan;    /* NULL: none */
	struct snap_joined_image *joined; /* in the shared memory; NULL: nothing was copied */
};

void snap_thread_plans_deinit(struct snap_thread_plans *plans)
{
	for (size_t i = 0; i < plans->count; i++)
		free(plans->processes[i].plan);
	free(plans->processes);
}

static bool reserve_thread_plan(struct snap_thread_plans *plans, size_t index)
{
	if (!snap_reserve_array_zeroed(plans->processes, plans->capacity, index + 1))
		return false;
	plans->count = index < plans->count ? plans->count : index + 1;
	return true;
}

struct stacksnap_error *snap_thread_plans_ask(struct snap_thread_plans *plans,
					      struct snap_capture *capture, size_t index,
					      struct snap_sampled_process *process)
{
	const struct snap_stop_hook *hook = plans->hook;
	struct snap_planned_process *planned;
	struct snap_memory_plan plan = { .step_count = 0 };
	struct stacksnap_error *err;
	bool found = false;

	process->plan = NULL;
	if (!hook || !hook->probe || !process->runtimes)
		return NULL;
	SNAP_TRY(snap_no_memory_unless(reserve_thread_plan(plans, index)));
	err = hook->probe(hook->context, plans->options, capture, index, &plan, &found);
	if (err || !found || !snap_memory_plan_check(&plan))
		return err;
	planned = &plans->processes[index];
	planned->plan = planned->plan ?: malloc(sizeof(plan));
	SNAP_TRY(snap_no_memory_unless(planned->plan));
	*planned->plan = plan;
	process->plan = planned->plan;
	return NULL;
}

const struct snap_memory_image *snap_thread_plans_keep(struct snap_thread_plans *plans,
						       struct snap_shared_memory *shared,
						       size_t index,
						       const struct snap_memory_image *image)
{
	struct snap_planned_process *planned;

	if (!image || index >= plans->count)
		return NULL;
	planned = &plans->processes[index];
	if (!planned->joined)
		planned->joined = snap_region_alloc(&shared->records, sizeof(*planned->joined));
	if (!planned->joined)
		return NULL;
	planned->joined->most = plans->options->runtime_memory;
	return snap_join_image(planned->joined, shared, image);
}

struct snap_memory_image *snap_thread_plans_image(const struct snap_thread_plans *plans,
						  size_t index)
{
	return index < plans->count && plans->processes[index].joined
		       ? &plans->processes[index].joined->image
		       : NULL;
}
