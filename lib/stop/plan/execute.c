/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Executes a plan step by step, from table to table: see execute.h. A step requests records
 * (fields.c says where), and fetch.c reads many of them at a time.
 */
#include "stop/plan/execute.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "stop/plan/internal.h"

#include <string.h>

enum {
	FEW = 1 << 10,          /* slots of a new table */
	READY_BYTES = 64 << 10, /* of each array are made present beforehand … */
	READY_PART = 32,        /* … and that part of an image */
};

/* ---- memory for notes ---- */

static size_t power_above(uint64_t number)
{
	size_t power = FEW;

	while (power < number)
		power *= 2;
	return power;
}

static void *carve(struct snap_region *work, size_t size)
{
	uint8_t *start = work->next;

	/* With a NULL region this only counts, and NULL is no pointer to add to. */
	work->next = (uint8_t *)((uintptr_t)start + snap_round_up(size, SNAP_PAGE));
	return start;
}

/* Lays out the work memory, and returns its size. */
static size_t lay_out(struct snap_plan_run *run, const struct snap_plan_budget *budget,
		      struct snap_region work)
{
	const uint8_t *begin = work.next;

	run->most_records = budget->records;
	run->most_seen = power_above(2 * budget->records);
	run->most_pages = power_above(2 * budget->records);
	run->records = carve(&work, budget->records * sizeof(*run->records));
	run->requests = carve(&work, SNAP_PLAN_REQUESTS * sizeof(*run->requests));
	run->spare = carve(&work, SNAP_PLAN_REQUESTS * sizeof(*run->spare));
	run->lists = carve(&work, budget->records * sizeof(*run->lists));
	run->seen = carve(&work, 2 * run->most_seen * sizeof(*run->seen));
	run->pages = carve(&work, run->most_pages * sizeof(*run->pages));
	run->seen_size = run->page_size = FEW;
	return (uintptr_t)work.next - (uintptr_t)begin;
}

size_t snap_plan_work_bytes(const struct snap_plan_budget *budget)
{
	struct snap_plan_run run;

	return lay_out(&run, budget, (struct snap_region){ NULL, NULL });
}

void snap_plan_get_ready(struct snap_region work, const struct snap_plan_budget *budget,
			 uint64_t bytes)
{
	const size_t each = READY_BYTES + bytes / READY_PART;
	struct snap_plan_run run;
	uint8_t *end = work.next + lay_out(&run, budget, work);
	void *const arrays[] = { run.records, run.requests, run.spare,
				 run.lists,   run.seen,     run.pages };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(arrays); i++) {
		struct snap_region region = { arrays[i], end };

		snap_region_prefault(&region, each);
	}
}

/* ---- records of a step ---- */

/* Handles one target of a step. */
typedef void take_target(struct snap_plan_run *run, const struct snap_plan_view *view,
			 const struct snap_plan_target *target);

static void take_request(struct snap_plan_run *run, const struct snap_plan_view *view _unused_,
			 const struct snap_plan_target *target)
{
	snap_plan_request(run, target->address, target->size, 0);
}

static void take_array(struct snap_plan_run *run, const struct snap_plan_view *view _unused_,
		       const struct snap_plan_target *target)
{
	snap_plan_request(run, target->address, target->size * 8, 0);
}

static void take_list(struct snap_plan_run *run, const struct snap_plan_view *view,
		      const struct snap_plan_target *target)
{
	if (run->list_count == run->most_records) {
		run->full = true;
		return;
	}
	run->lists[run->list_count++] = (struct snap_plan_chain){
		.next = target->address,
		.head = target->head,
		.owner = view->address,
		.left = run->step->max,
	};
}

/* Takes the fields of one record, shifted by `base`, `rep` times. */
static void take_fields(struct snap_plan_run *run, const struct snap_plan_view *view, uint64_t base,
			take_target *take)
{
	const struct snap_plan_step *step = run->step;
	uint32_t times = step->rep ? step->rep : 1;
	struct snap_plan_target target;
	uint64_t skipped = 0;

	if (!snap_plan_holds(run, view, base) ||
	    (!(step->flags & SNAP_PLAN_SKIP_NEXT) && !snap_plan_skip(step, view, base, &skipped)))
		return;
	for (uint32_t i = 0; i < times && !snap_plan_is_over(run); i++)
		if (snap_plan_target(step, view, base + skipped + (uint64_t)i * step->rep_step,
				     &target))
			take(run, view, &target);
}

static void take_record(struct snap_plan_run *run, const struct snap_plan_view *view,
			take_target *take)
{
	uint64_t base = 0;

	do {
		take_fields(run, view, base, take);
		base += run->step->every;
	} while (run->step->every && base < view->size && !snap_plan_is_over(run));
}

static void take_table(struct snap_plan_run *run, uint32_t table, take_target *take)
{
	for (size_t i = 0; i < run->tables[table].count && !snap_plan_is_over(run); i++) {
		struct snap_plan_view view = snap_plan_view(run, table, i);

		take_record(run, &view, take);
	}
}

static void take_source(struct snap_plan_run *run, take_target *take)
{
	const struct snap_plan_step *step = run->step;
	const struct snap_plan_view nothing = { 0, NULL, 0 };
	const struct snap_plan_target literal = {
		.address = snap_plan_pointer(step, step->address, true),
		.size = step->len,
	};

	if (step->source == SNAP_PLAN_LITERAL) {
		take(run, &nothing, &literal);
		return;
	}
	take_table(run, step->source, take);
	for (uint32_t i = 1; i < step->sources; i++)
		take_table(run, step->source + i, take);
}

/* ---- the ops that take more than that ---- */

/*
 * Requests the elements of the arrays that were just read; the arrays are no records of the step.
 */
static void make_each(struct snap_plan_run *run, struct snap_plan_table *table)
{
	size_t first = run->record_count, end;

	take_source(run, take_array);
	snap_plan_fetch(run);
	end = run->record_count;
	run->image->steps[run->step - run->task->plan->steps] =
		(struct snap_plan_result){ .records = 0 };
	table->first = end;
	run->generation++;
	run->seen_count = 0;
	for (size_t i = first; i < end; i++) {
		const struct snap_plan_record *array = &run->records[i];
		struct snap_plan_view view = { array->address, run->begin + array->offset,
					       array->size };
		uint64_t value;

		for (uint64_t at = 0; snap_plan_number(&view, at, 8, &value); at += 8) {
			if (snap_plan_is_over(run))
				return;
			snap_plan_request(run, snap_plan_pointer(run->step, value, false),
					  run->step->len, 0);
		}
	}
	snap_plan_fetch(run);
}

/* Follows all lists together, one element of each at a time. */
static void make_walk(struct snap_plan_run *run)
{
	run->list_count = 0;
	take_source(run, take_list);
	while (run->list_count && !snap_plan_is_over(run)) {
		size_t count = run->list_count, kept = 0;

		for (size_t i = 0; i < count && !snap_plan_is_over(run); i++) {
			struct snap_plan_chain *list = &run->lists[kept];

			*list = run->lists[i];
			if (!list->next || !list->left || list->next == list->head ||
			    list->next == list->owner)
				continue;
			list->left--;
			if (snap_plan_request(run, list->next, run->step->len, (uint32_t)kept))
				kept++;
		}
		run->list_count = kept;
		snap_plan_fetch(run);
	}
}

static void make_table(struct snap_plan_run *run, struct snap_plan_table *table)
{
	switch ((enum snap_plan_op)run->step->op) {
	case SNAP_PLAN_READ:
	case SNAP_PLAN_ARRAY:
	case SNAP_PLAN_BYTES:
	case SNAP_PLAN_RANGE:
		take_source(run, take_request);
		break;
	case SNAP_PLAN_EACH:
		make_each(run, table);
		break;
	case SNAP_PLAN_WALK:
		make_walk(run);
		break;
	case SNAP_PLAN_OP_COUNT:
		break;
	}
	snap_plan_fetch(run);
	if (run->full && !run->cut)
		run->cut = SNAP_PLAN_CUT_RECORDS;
}

void snap_plan_execute(const struct snap_plan_task *task, struct snap_region *room,
		       struct snap_memory_image *image)
{
	int64_t begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	struct snap_plan_run run = { .task = task, .room = room, .image = image };
	uint64_t most = task->budget.bytes;

	*image = (struct snap_memory_image){ .step_count = task->plan->step_count };
	/* Until the steps are done: the process that executes them may be ended at any moment. */
	for (uint32_t i = 0; i < task->plan->step_count; i++)
		image->steps[i].cut = SNAP_PLAN_CUT_TIME;
	lay_out(&run, &task->budget, task->work);
	memset(run.seen, 0, run.seen_size * sizeof(*run.seen));
	memset(run.pages, 0, run.page_size * sizeof(*run.pages));
	room->end -= (uintptr_t)room->end % sizeof(uint64_t);
	run.begin = run.present = room->next;
	run.after = (struct snap_memory_piece *)(void *)room->end;
	run.most_bytes = most < SNAP_PLAN_WANTED ? most : SNAP_PLAN_WANTED - 1;
	run.tables[0].count = task->thread_count;
	for (uint32_t i = 0; i < task->plan->step_count; i++) {
		struct snap_plan_table *table = &run.tables[i + 1];

		run.step = &task->plan->steps[i];
		run.generation = 2 * i;
		run.seen_count = 0;
		table->first = run.record_count;
		if (!snap_plan_look_at_clock(&run))
			make_table(&run, table);
		table->count = run.record_count - table->first;
		image->steps[i].cut = run.cut;
		if (i + 1 == task->plan->step_count && task->plan->has_gaps && !run.cut)
			image->steps[i].cut = SNAP_PLAN_CUT_MEMORY;
	}
	image->taken_ns = snap_clock_ns(CLOCK_MONOTONIC) - begin_ns;
}
