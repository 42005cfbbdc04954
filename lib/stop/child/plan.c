/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory of managed runtimes. Before the first SEIZE the parent is asked for plans, for
 * processes that look as if they had a runtime. In the pause, once all stacks are copied, a worker
 * executes the plans, one process after the other. Other processes cost nothing here.
 */
#include "base/bytes.h"
#include "base/clock.h"
#include "stop/child/internal.h"
#include "stop/plan/of_thread.h"

#include <errno.h>
#include <stdlib.h>

enum {
	PLAN_NS = 100000000, /* for one call that sleeps, whatever the budget */
	GRACE_NS = 1000000,  /* after its budget: usually the worker ends by itself */
	LEAST_NS = 1000000,  /* for a process, as long as there is time */
	COST_CLASSES = 24,
	PLAN_BYTES = 1 << 18,   /* expected for a process … */
	PYTHON_BYTES = 1 << 21, /* … for one that may have a thousand tasks … */
	GO_PART = 3,            /* … and for one whose stacks are on its heap, that part of it */
	PLANS_BYTES = 1 << 25,
	STATM_TEXT = 128,
};

/* The time for all processes of a snapshot, as a multiple of the budget of one. */
static const int64_t SNAPSHOT_TIMES = 10, SNAPSHOT_PARTS = 3;

/* ---- before the stop ---- */

static bool ask_for_plans(const struct snap_tracer *tracer)
{
	uint64_t value = SNAP_TRACER_PROBE;
	ssize_t got;

	if (write(tracer->ask_fd, &value, sizeof(value)) < 0)
		return false;
	do {
		got = read(tracer->answer_fd, &value, sizeof(value));
	} while (got < 0 && errno == EINTR);
	return got == sizeof(value);
}

/* The pages of a process that are in memory and of no file; 0: unknown. */
static uint64_t count_pages(const struct snap_tracer *tracer, uint32_t process)
{
	char text[STATM_TEXT] = "", *at = text;
	uint64_t resident, shared;

	if (tracer->task_fds[process] >= 0)
		snap_procfs_task_read(tracer->task_fds[process],
				      tracer->stop->processes[process].pid, "statm", text,
				      sizeof(text));
	/* In pages: the size, the part in memory, and of this the part of files. */
	strtoull(at, &at, 10);
	resident = strtoull(at, &at, 10);
	shared = strtoull(at, &at, 10);
	return resident > shared ? resident - shared : 0;
}

/*
 * The memory to make present beforehand: adding it page by page in the pause takes a third of the
 * time of a large image.
 */
static uint64_t expect_of(const struct snap_traced *traced, uint64_t pages)
{
	return (traced->runtimes & SNAP_RUNTIME_CPYTHON ? PYTHON_BYTES : PLAN_BYTES) +
	       (traced->runtimes & SNAP_RUNTIME_GO ? pages * SNAP_PAGE / GO_PART : 0);
}

/* Twice as many pages are one class more. */
static unsigned class_of(uint64_t pages)
{
	unsigned order = pages ? 64 - (unsigned)__builtin_clzll(pages) : 0;

	return order < COST_CLASSES ? order : COST_CLASSES - 1;
}

/*
 * Orders the processes with plans, those with little memory first: they are executed in that order.
 */
static void order_plans(struct snap_tracer *tracer)
{
	const struct snap_stop *stop = tracer->stop;
	uint32_t places[COST_CLASSES + 1] = { 0 };
	uint64_t *pages = snap_region_new_array(&tracer->scratch, stop->process_count, uint64_t);

	tracer->planned = snap_region_new_array(&tracer->scratch, stop->process_count, uint32_t);
	for (uint32_t i = 0; pages && tracer->planned && i < stop->process_count; i++) {
		pages[i] = stop->processes[i].plan ? count_pages(tracer, i) : 0;
		if (!stop->processes[i].plan)
			continue;
		tracer->plan_bytes += expect_of(&stop->processes[i], pages[i]);
		tracer->planned_count++;
		places[class_of(pages[i]) + 1]++;
	}
	for (unsigned k = 0; k < COST_CLASSES; k++)
		places[k + 1] += places[k];
	for (uint32_t i = 0; pages && tracer->planned && i < stop->process_count; i++)
		if (stop->processes[i].plan)
			tracer->planned[places[class_of(pages[i])]++] = i;
}

/* The answer has taken time: threads were born, and memory was mapped. */
static void list_again(struct snap_tracer *tracer, uint32_t process)
{
	int tasks = tracer->task_fds[process];
	ssize_t count = tasks < 0 ? 0 : snap_procfs_list(tasks, tracer->tids, SNAP_MAX_THREADS);

	if (count > SNAP_MAX_THREADS)
		count = SNAP_MAX_THREADS;
	for (ssize_t i = 0; i < count; i++)
		snap_tracer_add(tracer, process, tracer->tids[i]);
}

void snap_tracer_probe(struct snap_tracer *tracer)
{
	struct snap_stop *stop = tracer->stop;
	bool any = false;

	/* With seized threads we must not wait so long. */
	if (!tracer->may_probe || tracer->prepared)
		return;
	for (uint32_t i = 0; i < stop->process_count; i++)
		any |= stop->processes[i].runtimes != 0;
	if (!any || !ask_for_plans(tracer))
		return;
	tracer->may_probe = false;
	order_plans(tracer);
	for (uint32_t i = 0; i < stop->process_count; i++) {
		tracer->maps_wanted[i] = stop->processes[i].runtimes != 0;
		list_again(tracer, i);
	}
	if (tracer->plan_bytes > PLANS_BYTES)
		tracer->plan_bytes = PLANS_BYTES;
	snap_tracer_read_maps(tracer, SNAP_STOP_PATIENCE_MS * SNAP_NS_PER_MS,
			      snap_clock_ns(CLOCK_MONOTONIC) +
				      SNAP_STOP_PATIENCE_MS * SNAP_NS_PER_MS);
}

/* ---- in the pause ---- */

/* Lists the stopped threads of a process; false: there are none, or no memory. */
static bool list_planned_threads(struct snap_tracer *tracer, struct snap_plan_list *list)
{
	const struct snap_traced *traced = &tracer->stop->processes[list->process];
	struct snap_plan_thread *threads = snap_region_new_array(
		&tracer->lists, traced->thread_count, struct snap_plan_thread);
	size_t count = 0;

	for (size_t i = 0; threads && i < traced->thread_count; i++) {
		const struct snap_thread *thread = &traced->threads[i];

		if (thread->result != SNAP_THREAD_COPIED || !thread->registers_size)
			continue;
		threads[count++] = snap_thread_plan_of(thread->tid, thread->ns_tid,
						       thread->registers, thread->registers_size);
		list->tid = thread->tid;
	}
	list->task.threads = threads;
	list->task.thread_count = count;
	return count;
}

/* The share of a process in the time and memory for all. */
struct share {
	int64_t now_ns, until_ns;
	uint64_t bytes;
};

/* Notes that no step of a plan was done, for want of time. */
static void note_not_done(const struct snap_memory_plan *plan, struct snap_memory_image *image)
{
	image->step_count = plan->step_count;
	for (uint32_t i = 0; i < plan->step_count && i < SNAP_PLAN_MOST_STEPS; i++)
		image->steps[i].cut = SNAP_PLAN_CUT_TIME;
}

/* The work for one process; NULL: memory is used up. */
static struct snap_plan_list *make_list(struct snap_tracer *tracer, uint32_t process,
					const struct share *share)
{
	const struct snap_traced *traced = &tracer->stop->processes[process];
	struct snap_plan_list *list = snap_region_alloc(&tracer->lists, sizeof(*list));

	if (!list)
		return NULL;
	*list = (struct snap_plan_list){
		.reader = tracer->reader,
		.process = process,
		.task = {
			.plan = traced->plan,
			.maps = traced->maps,
			.map_count = traced->map_count,
			.budget = snap_stop_reader_plan_budget(tracer->options),
		},
		.room = tracer->memory->stacks,
	};
	list->task.budget.until_ns = share->until_ns;
	if (share->bytes < list->task.budget.bytes)
		list->task.budget.bytes = share->bytes;
	/* Until the worker notes something else. */
	note_not_done(traced->plan, &list->image);
	return list_planned_threads(tracer, list) ? list : NULL;
}

/*
 * Takes what is complete, even from a late worker: the room that it may still write to is taken
 * already, and it adds pieces behind the present ones.
 */
static void take_image(struct snap_tracer *tracer, const struct snap_plan_list *list)
{
	struct snap_traced *traced = &tracer->stop->processes[list->process];
	struct snap_region *stacks = &tracer->memory->stacks;
	size_t count = __atomic_load_n(&list->image.piece_count, __ATOMIC_ACQUIRE);
	struct snap_memory_image *image =
		snap_region_alloc(&tracer->memory->records, sizeof(*image));
	struct snap_region room = list->room;

	if (room.next < stacks->next || room.end > stacks->end || room.next > room.end || !image)
		return;
	*image = list->image;
	image->pieces =
		(struct snap_memory_piece *)(void *)(stacks->end - (uintptr_t)stacks->end % 8) -
		count;
	image->piece_count = count;
	traced->memory = image;
	stacks->next = (uint8_t *)(((uintptr_t)room.next + 15) & ~(uintptr_t)15);
	stacks->end = room.end;
}

static void execute_process_plan(struct snap_tracer *tracer, uint32_t process,
				 const struct share *share)
{
	struct snap_plan_list *list = make_list(tracer, process, share);
	int64_t end_ns = share->until_ns + GRACE_NS, asleep_ns = end_ns - share->now_ns;
	struct snap_work work = {
		.run = snap_stop_reader_execute_plan,
		.context = list,
		.count = 1,
		.marks = snap_region_alloc(&tracer->lists, 1),
		.patience_ns = PLAN_NS,
		.until_ns = tracer->copy_until_ns,
		.here = tracer->first,
	};

	if (!list || !work.marks)
		return;
	/* For a worker that sleeps no sign of life counts later than that. */
	work.asleep_ns = snap_tracer_patience(tracer, asleep_ns < PLAN_NS ? asleep_ns : PLAN_NS);
	list->last_sign_ns = end_ns - work.asleep_ns;
	work.signs = &list->sign;
	if (!snap_workers_run(&tracer->pool, &work))
		tracer->stop->processes[process].stalled = true;
	take_image(tracer, list);
}

/* Notes processes without an image. */
static void note_missing(struct snap_tracer *tracer, struct snap_traced *traced)
{
	if (traced->memory)
		return;
	traced->memory =
		snap_region_new_array(&tracer->memory->records, 1, struct snap_memory_image);
	if (traced->memory)
		note_not_done(traced->plan, traced->memory);
}

/*
 * A slow process, or one that does not answer, can use its share of the time and memory, and what
 * those before it have left. Processes with little to copy come first.
 */
void snap_tracer_execute_plans(struct snap_tracer *tracer)
{
	int64_t each = tracer->options->runtime_budget_ns;
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC), now = begin;
	int64_t last =
		begin + each * SNAPSHOT_TIMES / SNAPSHOT_PARTS - (int64_t)tracer->memory->plans_ns;

	if (last > tracer->copy_until_ns)
		last = tracer->copy_until_ns;
	for (uint32_t i = 0; i < tracer->planned_count; i++) {
		struct snap_traced *traced = &tracer->stop->processes[tracer->planned[i]];
		uint32_t left = tracer->planned_count - i;
		int64_t part = last > now ? (last - now) / left : 0;
		struct share share = { .now_ns = now,
				       .bytes = snap_region_room(&tracer->memory->stacks) / left };

		/* An exec has made it another program. */
		if (traced->execed)
			continue;
		part = part < LEAST_NS ? LEAST_NS : part;
		share.until_ns = now + (part < each ? part : each);
		share.until_ns = share.until_ns < last ? share.until_ns : last;
		if (!traced->stalled && now < last)
			execute_process_plan(tracer, tracer->planned[i], &share);
		note_missing(tracer, traced);
		now = snap_clock_ns(CLOCK_MONOTONIC);
	}
	tracer->memory->plans_ns += (uint64_t)(now - begin);
}
