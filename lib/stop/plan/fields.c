/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where the fields of a record point to: see internal.h. Pure arithmetic on numbers that an
 * adversary may have chosen; every overflow is noticed.
 */
#include "stop/plan/internal.h"

#include <string.h>

struct snap_plan_view snap_plan_view(const struct snap_plan_run *run, uint32_t table, size_t index)
{
	const struct snap_plan_record *record;

	if (table == 0)
		return (struct snap_plan_view){
			.bytes = (const uint8_t *)&run->task->threads[index],
			.size = sizeof(struct snap_plan_thread),
		};
	record = &run->records[run->tables[table].first + index];
	return (struct snap_plan_view){
		.address = record->address,
		.bytes = run->begin + record->offset,
		.size = record->size,
	};
}

bool snap_plan_number(const struct snap_plan_view *view, uint64_t offset, unsigned width,
		      uint64_t *ret)
{
	uint64_t number = 0;

	if (offset > view->size || width > view->size - offset)
		return false;
	if (width == sizeof(number)) /* almost all of them, and then without a call */
		memcpy(&number, view->bytes + offset, sizeof(number));
	else
		memcpy(&number, view->bytes + offset, width);
	*ret = number;
	return true;
}

uint64_t snap_plan_pointer(const struct snap_plan_step *step, uint64_t value, bool with_add)
{
	if (step->mask)
		value &= step->mask;
	if (value && with_add)
		value += (uint64_t)step->add;
	return value;
}

static bool is_of_thread(struct snap_plan_run *run, uint64_t value)
{
	for (size_t i = 0; value && i < run->task->thread_count && !snap_plan_is_late(run); i++) {
		const struct snap_plan_thread *thread = &run->task->threads[i];

		if (value == thread->tid || value == thread->ns_tid || value == thread->fs_base)
			return true;
	}
	return false;
}

bool snap_plan_holds(struct snap_plan_run *run, const struct snap_plan_view *view, uint64_t base)
{
	const unsigned any = SNAP_PLAN_IF_EQUAL | SNAP_PLAN_IF_NOT_EQUAL | SNAP_PLAN_IF_THREAD;
	const struct snap_plan_step *step = run->step;
	uint64_t value;

	if (!(step->flags & any))
		return true;
	if (!snap_plan_number(view, base + step->if_field, step->if_width, &value))
		return false;
	if (step->flags & SNAP_PLAN_IF_THREAD)
		return is_of_thread(run, value);
	return ((value & step->if_mask) == step->if_value) ==
	       ((step->flags & SNAP_PLAN_IF_EQUAL) != 0);
}

bool snap_plan_skip(const struct snap_plan_step *step, const struct snap_plan_view *view,
		    uint64_t base, uint64_t *ret)
{
	uint64_t number;

	*ret = 0;
	if (!step->skip_factor)
		return true;
	if (!snap_plan_number(view, base + step->skip, step->skip_width, &number))
		return false;
	/* No record is that long. */
	if (number > SNAP_PLAN_WANTED)
		return false;
	*ret = number * step->skip_factor;
	return true;
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The value of the count or size field, after all operations of the step. */
static bool read_count(const struct snap_plan_step *step, const struct snap_plan_view *view,
		       uint64_t shift, uint64_t *ret)
{
	uint64_t count;

	if (!snap_plan_number(view, shift + step->count, step->count_width, &count))
		return false;
	if (step->flags & SNAP_PLAN_SHIFT)
		count = count < 63 ? 1ull << count : UINT64_MAX;
	if (step->mul)
		count = times(count, step->mul);
	if (__builtin_add_overflow(count, (uint64_t)step->plus, &count))
		count = UINT64_MAX;
	*ret = count;
	return true;
}

static bool read_field_range(const struct snap_plan_step *step, const struct snap_plan_view *view,
			     uint64_t shift, struct snap_plan_target *ret)
{
	uint64_t base, high, low, lowest = UINT64_MAX;

	if (!snap_plan_number(view, shift + step->base, 8, &base) ||
	    !snap_plan_number(view, shift + step->high, 8, &high))
		return false;
	for (unsigned i = 0; i < step->low_count; i++)
		if (snap_plan_number(view, shift + step->low[i], 8, &low) && low >= base &&
		    low < high)
			lowest = least(lowest, low);
	if (lowest == UINT64_MAX)
		return false;
	ret->address = lowest;
	ret->size = least(high - lowest, step->cap);
	return true;
}

bool snap_plan_target(const struct snap_plan_step *step, const struct snap_plan_view *view,
		      uint64_t shift, struct snap_plan_target *ret)
{
	uint64_t value, count = 0;

	if (step->op == SNAP_PLAN_RANGE)
		return read_field_range(step, view, shift, ret);
	if (step->flags & SNAP_PLAN_RELATIVE) {
		ret->address = view->address ? view->address + (uint64_t)step->add + shift : 0;
		ret->head = 0;
	} else {
		if (!snap_plan_number(view, shift + step->field, 8, &value))
			return false;
		ret->address = snap_plan_pointer(step, value, true);
		ret->head = view->address ? view->address + shift + step->field : 0;
	}
	if (step->op == SNAP_PLAN_ARRAY || step->op == SNAP_PLAN_EACH ||
	    step->op == SNAP_PLAN_BYTES) {
		if (!read_count(step, view, shift, &count))
			return false;
	}
	if (step->op == SNAP_PLAN_BYTES)
		ret->size = least(count, step->cap);
	else if (step->op == SNAP_PLAN_EACH)
		ret->size = least(count, step->max);
	else if (step->op == SNAP_PLAN_ARRAY)
		ret->size = least(count, step->max) * step->len;
	else
		ret->size = step->len;
	return ret->address && ret->size;
}
