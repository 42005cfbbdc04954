/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Plans of a recording: see plans.h. */
#include "record/plans.h"

#include "analyze/runtime/runtimes.h"
#include "base/clock.h"
#include "roles/runtime_probe/probe.h"
#include "roles/unwinder/unwinder.h"

#include <string.h>

enum { SHARE = 10 /* of the time one part in so many at most */ };

static const int64_t FIRST_WAIT_NS = 50000000;      /* a younger process may leave at once */
static const int64_t LONGEST_WAIT_NS = 60000000000; /* between two times for one process */
static const int64_t FIRST_LOOK_NS = 500000000;     /* for all processes that are there then */
static const int64_t ADVANCE_NS = 1000000000;       /* beyond its share */
static const int64_t IDLE_NS = 5000000000;          /* then the probe is ended */

void snap_plans_init(struct snap_plans *plans, const struct snap_options *options,
		     struct snap_log *log, struct snap_remote_unwinder *unwinder)
{
	*plans = (struct snap_plans){ .options = options, .log = log, .unwinder = unwinder };
}

void snap_plans_deinit(struct snap_plans *plans)
{
	snap_runtime_probe_destroy(snap_take_ptr(plans->probe));
}

/* ---- those that wait ---- */

static void remove_waiting(struct snap_plans *plans, struct snap_planned *planned)
{
	if (plans->asked == planned)
		snap_plans_pause(plans);
	if (!planned->waits)
		return;
	*(planned->previous ? &planned->previous->next : &plans->first) = planned->next;
	*(planned->next ? &planned->next->previous : &plans->last) = planned->previous;
	planned->next = planned->previous = NULL;
	planned->waits = false;
}

/* Each time it waits longer: a process that maps files all the time is not asked about all the time. */
static void append_waiting(struct snap_plans *plans, struct snap_planned *planned)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);

	if (planned->waits)
		return;
	if (planned->after_ns <= now) {
		planned->wait_ns = planned->wait_ns ? 2 * planned->wait_ns : FIRST_WAIT_NS;
		planned->wait_ns = SNAP_MIN(planned->wait_ns, LONGEST_WAIT_NS);
		planned->after_ns = now + planned->wait_ns;
	}
	planned->waits = true;
	planned->previous = plans->last;
	*(plans->last ? &plans->last->next : &plans->first) = planned;
	plans->last = planned;
}

static void drop_plan(struct snap_planned *planned)
{
	if (planned->process)
		planned->process->plan = NULL;
	free(planned->plan);
	free(planned->task_plan);
	planned->plan = planned->task_plan = NULL;
	planned->is_known = false;
}

/* Without memory there is none. */
static struct snap_memory_plan *copy_plan(const struct snap_memory_plan *plan)
{
	struct snap_memory_plan *kept = plan ? malloc(sizeof(*kept)) : NULL;

	if (kept)
		*kept = *plan;
	return kept;
}

/* The new one lies elsewhere than the old one. */
static void set_plan(struct snap_planned *planned, const struct snap_memory_plan *plan)
{
	struct snap_memory_plan *kept = copy_plan(plan);

	drop_plan(planned);
	planned->plan = kept;
	planned->process->plan = kept;
	planned->is_known = true;
}

/* ---- asking ---- */

static bool begin_asking(struct snap_plans *plans, struct snap_planned *planned)
{
	struct stacksnap_error *err = NULL;

	if (!plans->probe && !plans->failed)
		err = snap_runtime_probe_create(plans->options, snap_runtimes, true, &plans->probe);
	plans->failed |= err != NULL;
	snap_error_destroy(err);
	if (plans->failed || planned->space == UINT32_MAX ||
	    !snap_runtime_probe_begin(plans->probe, plans->log->capture, planned->space, true))
		return false;
	plans->asked = planned;
	plans->asked_for_tasks = false;
	return true;
}

/* PHP has no tasks. */
static void ask_for_tasks(struct snap_plans *plans, struct snap_planned *planned)
{
	const unsigned with_tasks = SNAP_RUNTIME_GO | SNAP_RUNTIME_CPYTHON;

	if (!plans->options->task_millihertz || plans->options->cpu_only ||
	    !(planned->process->runtimes & with_tasks) ||
	    !snap_runtime_probe_begin(plans->probe, plans->log->capture, planned->space, false))
		return;
	plans->asked = planned;
	plans->asked_for_tasks = true;
}

/* What describes code that was made at run time becomes known of the space. */
static struct stacksnap_error *take_images(struct snap_plans *plans, uint32_t space)
{
	_cleanup_(snap_arena_deinit) struct snap_arena arena = { 0 };
	struct snap_process *process = &plans->log->capture->processes[space];
	struct snap_process images = { .pid = process->pid, .start_ticks = process->start_ticks };

	SNAP_TRY(snap_no_memory_unless(snap_runtime_probe_images(plans->probe, &arena, &images)));
	if (!images.piece_count)
		return NULL;
	if (plans->unwinder)
		snap_remote_unwinder_leave(plans->unwinder, space);
	return snap_log_add_pieces(plans->log, space, images.pieces, images.piece_count);
}

/* Takes an answer; afterwards no process is being asked about, or the next one is. */
static void take_plan_answer(struct snap_plans *plans, struct snap_planned *planned,
			     const struct snap_memory_plan *plan)
{
	plans->asked = NULL;
	if (plans->asked_for_tasks) {
		free(planned->task_plan);
		planned->task_plan = copy_plan(plan);
		return;
	}
	if (plan || planned->plan)
		set_plan(planned, plan);
	planned->is_known = true;
	if (plan)
		ask_for_tasks(plans, planned);
}

/* *done_ret: no process is being asked about any more. */
static struct stacksnap_error *await_answer(struct snap_plans *plans, int64_t until_ns,
					    bool *done_ret)
{
	struct stacksnap_error *err = NULL;
	bool answered = true;

	while (!err && answered && plans->asked) {
		struct snap_memory_plan plan = { .step_count = 0 };
		bool found;

		err = snap_runtime_probe_go_on(plans->probe, until_ns, &plan, &found, &answered);
		if (!err && answered && !plans->asked_for_tasks)
			err = take_images(plans, plans->asked->space);
		if (err)
			plans->asked = NULL;
		else if (answered)
			take_plan_answer(plans, plans->asked, found ? &plan : NULL);
	}
	*done_ret = !plans->asked;
	return err;
}

void snap_plans_pause(struct snap_plans *plans)
{
	struct snap_planned *planned = plans->asked;

	if (!planned)
		return;
	snap_runtime_probe_leave(plans->probe);
	plans->asked = NULL;
	append_waiting(plans, planned);
}

/* The process whose turn it is; NULL: none, or others used up the time. */
static struct snap_planned *next_waiting(const struct snap_plans *plans, int64_t now)
{
	if (!plans->first || plans->spent_ns > (now - plans->begin_ns) / SHARE + ADVANCE_NS)
		return NULL;
	for (struct snap_planned *planned = plans->first; planned; planned = planned->next)
		if (planned->after_ns <= now)
			return planned;
	return NULL;
}

static struct stacksnap_error *ask_in_turn(struct snap_plans *plans, int64_t until_ns)
{
	struct stacksnap_error *err = NULL;
	bool done = true;
	int64_t now;

	while (!err && done && (now = snap_clock_ns(CLOCK_MONOTONIC)) < until_ns) {
		if (!plans->asked) {
			struct snap_planned *planned = next_waiting(plans, now);

			if (!planned)
				return NULL;
			remove_waiting(plans, planned);
			if (!begin_asking(plans, planned))
				continue;
		}
		err = await_answer(plans, until_ns, &done);
		plans->idle_ns = snap_clock_ns(CLOCK_MONOTONIC) + IDLE_NS;
	}
	return err;
}

struct stacksnap_error *snap_plans_work(struct snap_plans *plans, int64_t until_ns)
{
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC);
	struct stacksnap_error *err;

	plans->has_begun = true;
	if (!plans->asked && !plans->first) {
		if (plans->idle_ns && begin > plans->idle_ns) {
			snap_runtime_probe_leave(plans->probe);
			plans->idle_ns = 0;
		}
		return NULL;
	}
	err = ask_in_turn(plans, until_ns);
	plans->spent_ns += snap_clock_ns(CLOCK_MONOTONIC) - begin;
	return err;
}

/* ---- mappings ---- */

/* Whether a mapping is one by which stacks are unwound and named. */
static bool matters(const struct snap_map *map)
{
	return map->execute || (map->path && map->inode);
}

static bool is_same_map(const struct snap_map *a, const struct snap_map *b)
{
	const char *path = a->path ? a->path : "", *other = b->path ? b->path : "";

	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && a->execute == b->execute && a->read == b->read &&
	       strcmp(path, other) == 0;
}

bool snap_space_knows(const struct snap_process *space, const struct snap_process *facts)
{
	size_t at = 0;

	for (size_t i = 0; i < facts->map_count; i++) {
		const struct snap_map *map = &facts->maps[i];

		if (!matters(map))
			continue;
		while (at < space->map_count && space->maps[at].start < map->start)
			at++;
		if (at == space->map_count || !is_same_map(&space->maps[at], map))
			return false;
	}
	return true;
}

/* ---- processes come and go ---- */

/* A child that has mapped what its parent has, and no more. */
static bool has_plan_of(const struct snap_plans *plans, const struct snap_planned *planned,
			const struct snap_planned *parent)
{
	const struct snap_process *processes = plans->log->capture->processes;
	const struct snap_process *own, *other;

	if (!parent || !parent->is_known || parent->space == UINT32_MAX)
		return false;
	own = &processes[planned->space];
	other = &processes[parent->space];
	return own->uid == other->uid && snap_space_knows(own, other) &&
	       snap_space_knows(other, own);
}

struct stacksnap_error *snap_plans_mapped(struct snap_plans *plans, struct snap_planned *planned,
					  struct snap_sampled_process *process, uint32_t space,
					  const struct snap_planned *parent, bool exec)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC), until;
	struct stacksnap_error *err;
	bool done;

	if (!plans->begin_ns)
		plans->begin_ns = now;
	until = plans->begin_ns + FIRST_LOOK_NS;

	planned->process = process;
	remove_waiting(plans, planned);
	planned->space = space;
	planned->is_known = false;
	if (exec || !process->runtimes)
		drop_plan(planned);
	if (space == UINT32_MAX || !process->runtimes)
		return NULL;
	if (has_plan_of(plans, planned, parent)) {
		set_plan(planned, parent->plan);
		planned->task_plan = copy_plan(parent->task_plan);
		return NULL;
	}
	if (plans->has_begun || now > until || !begin_asking(plans, planned)) {
		append_waiting(plans, planned);
		return NULL;
	}
	err = await_answer(plans, until, &done);
	if (!err && !done)
		snap_plans_pause(plans);
	return err;
}

void snap_plans_ended(struct snap_plans *plans, struct snap_planned *planned)
{
	remove_waiting(plans, planned);
	drop_plan(planned);
	planned->process = NULL;
}
