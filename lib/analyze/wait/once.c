/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds the thread that runs what others wait for to be run once. Such objects have no owner. For
 * pthread_once() and its like the object's address is on the stack of the thread that is inside.
 * For the initialiser of a static variable the thread is in the function that has the variable.
 * Only a thread that is in such a function itself counts, and only if there is no other one.
 */
#include "analyze/wait/futex.h"

#include <string.h>

/* Frames that are compared, of all threads: there may be as many objects as threads. */
enum { MOST_COMPARED = 1 << 22 };

/* Whether a frame of the C library is such a function; its caller may have to tell. NO_MEMORY. */
static struct stacksnap_error *is_once(struct snap_wait_analysis *waits,
				       const struct snap_waiter *waiter,
				       const struct snap_raw_stack *stack, size_t i, bool *ret)
{
	const struct snap_frame *frame = stack->frames[i];
	const char *name = frame->entries[frame->entry_count - 1].symbol;
	struct stacksnap_error *err;

	*ret = false;
	if (!snap_wait_frame_is_libc(waiter, frame))
		return NULL;
	if (name || i + 1 == stack->frame_count ||
	    snap_wait_frame_is_libc(waiter, stack->frames[i + 1])) {
		*ret = name && snap_futex_name_of(name, strlen(name)) == SNAP_NAME_ONCE;
		return NULL;
	}
	err = snap_wait_find_callee(waits, waiter, stack->frames[i + 1]->address, &name);
	*ret = !err && name && snap_futex_name_of(name, strlen(name)) == SNAP_NAME_ONCE;
	return err;
}

static struct stacksnap_error *stands_in_once(struct snap_wait_analysis *waits,
					      const struct snap_waiter *waiter, bool *ret)
{
	const struct snap_raw_stack *stack = snap_waiter_stack(waiter);
	struct snap_wait_stack_names *seen;
	struct stacksnap_error *err = NULL;

	*ret = false;
	if (!stack)
		return NULL;
	seen = snap_waiter_stack_names(waits, waiter);
	*ret = seen->is_in_once == SNAP_ANSWER_YES;
	if (seen->is_in_once != SNAP_ANSWER_UNKNOWN)
		return NULL;
	for (size_t i = stack->kernel_count; i < stack->frame_count && !*ret && !err; i++)
		err = is_once(waits, waiter, stack, i, ret);
	seen->is_in_once = *ret ? SNAP_ANSWER_YES : SNAP_ANSWER_NO;
	return err;
}

static bool has_word(const struct snap_waiter *waiter, uint64_t address)
{
	const struct snap_thread *thread = waiter->thread->thread;
	uint64_t at = waiter->call.known ? waiter->call.sp : thread->stack_address;

	if (!thread->stack || at < thread->stack_address)
		return false;
	for (at = (at - thread->stack_address + 7) & ~7ull; at + 8 <= thread->stack_size; at += 8)
		if (memcmp(thread->stack + at, &address, sizeof(address)) == 0)
			return true;
	return false;
}

/* The frame of the function that has the static variable which is initialised; NULL: not known. */
static const struct snap_frame *frame_of_static(const struct snap_waiter *waiter)
{
	const struct snap_raw_stack *stack = snap_waiter_stack(waiter);

	for (size_t i = 0; stack && i + 1 < stack->frame_count; i++) {
		const struct snap_frame *frame = stack->frames[i];
		const char *name = frame->entries[frame->entry_count - 1].symbol;

		if (name && strcmp(name, "__cxa_guard_acquire") == 0)
			return stack->frames[i + 1];
	}
	return NULL;
}

static bool is_same_function(const struct snap_frame *a, const struct snap_frame *b)
{
	const char *left = a->entries[a->entry_count - 1].symbol;
	const char *right = b->entries[b->entry_count - 1].symbol;

	return left && right && strcmp(left, right) == 0 && a->module && b->module &&
	       strcmp(a->module, b->module) == 0;
}

/* Beyond the place where it would wait itself. */
static bool runs_static_function(const struct snap_waiter *one, const struct snap_frame *function,
				 size_t *left)
{
	const struct snap_raw_stack *stack = snap_waiter_stack(one);

	for (size_t i = stack ? stack->kernel_count : 0; stack && i < stack->frame_count && *left;
	     i++, --*left)
		if (stack->frames[i]->address != function->address &&
		    is_same_function(stack->frames[i], function))
			return true;
	return false;
}

/* `function`: that of a static variable; NULL: the object is of another kind. */
static struct stacksnap_error *is_runner(struct snap_wait_analysis *waits,
					 const struct snap_waiter *waiter, struct snap_waiter *one,
					 const struct snap_frame *function, size_t *left, bool *ret)
{
	struct stacksnap_error *err;

	if (function) {
		*ret = runs_static_function(one, function, left);
		return NULL;
	}
	err = stands_in_once(waits, one, ret);
	*ret = !err && *ret && has_word(one, waiter->wait->address);
	return err;
}

/* NULL in *ret: none, or several. */
static struct stacksnap_error *find_runner(struct snap_wait_analysis *waits,
					   const struct snap_waiter *waiter, size_t *left,
					   struct snap_waiter **ret)
{
	bool is_static = waiter->wait->kind == SNAP_WAIT_STATIC_INIT;
	const struct snap_frame *function = is_static ? frame_of_static(waiter) : NULL;
	struct snap_waiter *found = NULL;

	*ret = NULL;
	if (is_static && !function)
		return NULL;
	for (size_t i = waits->first[waiter->process]; i < waits->first[waiter->process + 1]; i++) {
		struct snap_waiter *one = &waits->waiters[i];
		bool inside;

		if (one->object == waiter->object)
			continue;
		SNAP_TRY(is_runner(waits, waiter, one, function, left, &inside));
		if (!inside)
			continue;
		if (found)
			return NULL;
		found = one;
	}
	/* Another one may be among those that were not looked at. */
	*ret = function && !*left ? NULL : found;
	return NULL;
}

struct stacksnap_error *snap_wait_find_runners(struct snap_wait_analysis *waits)
{
	struct snap_waiter *runner = NULL;
	size_t left = MOST_COMPARED;
	uint64_t object = 0; /* whose runner that is */

	for (size_t i = 0; i < waits->waiter_count; i++) {
		struct snap_waiter *waiter = &waits->waiters[i];
		struct snap_futex futex = { .waits = waits, .waiter = waiter };

		if (!waiter->wait || waiter->wait->has_owner ||
		    (waiter->wait->kind != SNAP_WAIT_ONCE &&
		     waiter->wait->kind != SNAP_WAIT_STATIC_INIT))
			continue;
		if (waiter->object != object) {
			SNAP_TRY(find_runner(waits, waiter, &left, &runner));
			object = waiter->object;
		}
		if (!runner)
			continue;
		snap_futex_own(&futex, waiter->wait, runner);
		/* The function may have another static variable, and be inlined elsewhere. */
		if (waiter->wait->kind == SNAP_WAIT_STATIC_INIT &&
		    waiter->wait->confidence > SNAP_WAIT_IS_LIKELY)
			waiter->wait->confidence = SNAP_WAIT_IS_LIKELY;
	}
	return NULL;
}
