/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Checks a plan: see memory_plan.h. */
#include "model/memory_plan.h"

#include "base/cleanup.h"

static bool is_width(unsigned width)
{
	return width == 1 || width == 2 || width == 4 || width == 8;
}

static bool needs_count(const struct snap_plan_step *step)
{
	return step->op == SNAP_PLAN_ARRAY || step->op == SNAP_PLAN_EACH ||
	       step->op == SNAP_PLAN_BYTES;
}

static bool has_length(const struct snap_plan_step *step)
{
	return step->op == SNAP_PLAN_READ || step->op == SNAP_PLAN_WALK ||
	       step->op == SNAP_PLAN_ARRAY || step->op == SNAP_PLAN_EACH;
}

/* The last one of its tables, counted from its first one. */
static uint32_t last_source(const struct snap_plan_step *step)
{
	return step->sources ? step->sources - 1u : 0;
}

static bool check_step(const struct snap_plan_step *step, uint32_t index)
{
	const unsigned all = SNAP_PLAN_IF_EQUAL | SNAP_PLAN_IF_NOT_EQUAL | SNAP_PLAN_IF_THREAD;
	unsigned conditions = step->flags & all;

	if (step->op >= SNAP_PLAN_OP_COUNT || (step->flags & ~SNAP_PLAN_FLAGS) ||
	    (conditions & (conditions - 1)))
		return false;
	if (step->source != SNAP_PLAN_LITERAL && step->source + last_source(step) > index)
		return false;
	/* Without a record there is no field: a literal can only be read, or be a list's first. */
	if (step->source == SNAP_PLAN_LITERAL && step->op != SNAP_PLAN_READ &&
	    step->op != SNAP_PLAN_WALK)
		return false;
	if (step->source == SNAP_PLAN_LITERAL && last_source(step))
		return false;
	if ((step->flags & SNAP_PLAN_SKIP_NEXT) &&
	    (step->op != SNAP_PLAN_WALK || (step->flags & SNAP_PLAN_INSIDE)))
		return false;
	if (conditions && !is_width(step->if_width))
		return false;
	if (needs_count(step) && !is_width(step->count_width))
		return false;
	if (step->skip_factor && !is_width(step->skip_width))
		return false;
	if (has_length(step) && (step->len == 0 || step->len > SNAP_PLAN_MOST_BYTES))
		return false;
	if ((step->op == SNAP_PLAN_BYTES || step->op == SNAP_PLAN_RANGE) &&
	    (step->cap == 0 || step->cap > SNAP_PLAN_MOST_BYTES))
		return false;
	if (step->op == SNAP_PLAN_RANGE && step->low_count != 1 && step->low_count != 2)
		return false;
	return step->rep <= SNAP_PLAN_MOST_REP && (step->every == 0 || step->every >= 8);
}

bool snap_memory_plan_check(const struct snap_memory_plan *plan)
{
	if (plan->step_count > SNAP_PLAN_MOST_STEPS)
		return false;
	return snap_all(plan->step_count, i, check_step(&plan->steps[i], i));
}

bool snap_memory_plan_has_room(struct snap_memory_plan *plan, uint32_t steps)
{
	bool has_room = plan->step_count + steps <= SNAP_PLAN_MOST_STEPS;

	plan->has_gaps |= !has_room;
	return has_room;
}
