/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Objects of _thread.RLock that threads wait for. To 3.13 the function that waits on a semaphore
 * has the address of the object in a register, and pthread_self() in another one, which those that
 * it calls save on the stack. So a thread without the latter among the innermost words waits for
 * no RLock, and nothing is read for it. From 3.14 on a thread parks on a semaphore of its stack,
 * and before that is the address of the lock, which is in the object.
 * Layout: rlockobject of Modules/_threadmodule.c, 3.8 to 3.15, with the GIL.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/plan.h"

#include "model/arch/registers.h"

enum {
	WORD = 8,
	FIRST_PARKING = 14, /* the minor version */
	/* Where the stack has the object: 0xb8 to 0x110 with glibc 2.36, 3.8 to 3.13. */
	STACK_FIRST = 0x60,
	STACK_BYTES = 0xe0,
	NEAR = 6 * WORD, /* registers that a function saves are next to each other */
	MOST_LOOKED_AT = 4096,
	STEPS = 5,
};

struct rlock {
	uint64_t refcount, type;
	uint64_t lock;         /* to 3.13 the address of a semaphore, then a PyMutex */
	uint64_t owner, count; /* pthread_self(); from 3.14 on one less than before */
};

enum { TYPE_NAME = 24, LOCK_IN_OBJECT = offsetof(struct rlock, lock) };

static const char type_name[] = "_thread.RLock";

/*
 * Objects and what pthread_self() returns are in memory of mmap(2), which is in the upper part of
 * the address space. A word of another form is no address of either, and is not followed. How
 * pthread_self() ends in its page depends on the size of thread-local data alone: it is the same
 * for all threads but the first one, and has bits in common with that.
 */
static const uint64_t FORM_MASK = 0xffff80000000000f | 1ull << 46, FORM = 1ull << 46;
static const uint64_t END_MASK = 0xfff;

/* An object that is in use has none of these in its refcount; one that is free has a pointer. */
static const uint64_t NO_REFCOUNT = 0x0000ffffc0000000;

/* Where pthread_self() is not the thread pointer, an owner would not be found. */
static bool are_locks_known(const struct snap_python *python)
{
	const struct snap_runtime_process *process = python->process;

	return !python->layout.is_free_threaded && !process->is_of_thread &&
	       process->process->arch == SNAP_ARCH_X86_64 &&
	       process->options->explain != SNAP_EXPLAIN_NO;
}

static bool parks(const struct snap_python *python)
{
	return python->layout.minor >= FIRST_PARKING;
}

/* ---- before the stop ---- */

/* What pthread_self() of all threads of the first interpreter have in common. False: there is none. */
static bool find_ends(const struct snap_python *python, uint64_t *mask, uint64_t *value)
{
	const struct snap_runtime_process *process = python->process;
	const struct snap_python_layout *layout = &python->layout;
	uint64_t address, id;

	*mask = *value = 0;
	if (!snap_runtime_word(process, python->runtime + layout->runtime.interpreters, &address) ||
	    !snap_runtime_word(process, address + layout->interpreter.threads, &address))
		return false;
	for (size_t i = 0; address && i < MOST_LOOKED_AT && snap_runtime_may_name(process); i++) {
		if (!snap_runtime_word(process, address + layout->thread.thread_id, &id) ||
		    !snap_runtime_word(process, address + layout->thread.next, &address))
			break;
		if ((id & FORM_MASK) != FORM)
			continue;
		if (!*mask) {
			*value = id;
			*mask = FORM_MASK | END_MASK;
		}
		*mask &= ~(*value ^ id) | FORM_MASK;
	}
	*value &= *mask;
	return *mask;
}

static uint8_t read_if(struct snap_memory_plan *plan, struct snap_plan_step step, uint64_t mask,
		       uint64_t value)
{
	step.op = SNAP_PLAN_READ;
	step.flags |= SNAP_PLAN_IF_EQUAL;
	step.if_width = WORD;
	step.if_mask = mask;
	step.if_value = value;
	return snap_python_plan_step(plan, step);
}

/* Reads the words that may be addresses of objects, for a step that reads these. False: none. */
static bool plan_words(const struct snap_python *python, struct snap_memory_plan *plan,
		       struct snap_plan_step *objects)
{
	struct snap_plan_step words = { .op = SNAP_PLAN_READ };
	uint64_t mask, value;

	if (parks(python)) {
		words.field = offsetof(struct snap_plan_thread, rdi);
		words.add = -WORD;
		words.len = WORD;
		objects->source = snap_python_plan_step(plan, words);
		objects->add = -LOCK_IN_OBJECT;
		return true;
	}
	if (!find_ends(python, &mask, &value))
		return false;
	words.field = offsetof(struct snap_plan_thread, rsp);
	words.add = STACK_FIRST;
	words.len = STACK_BYTES;
	words.source = snap_python_plan_step(plan, words);
	words.flags = SNAP_PLAN_RELATIVE;
	words.every = objects->every = WORD;
	words.add = -NEAR;
	words.len = 2 * NEAR;
	objects->source = read_if(plan, words, mask, value);
	return true;
}

void snap_python_plan_locks(const struct snap_python *python, struct snap_memory_plan *plan)
{
	struct snap_plan_step objects = { .len = sizeof(struct rlock) };
	struct snap_plan_step types = { .field = offsetof(struct rlock, type),
					.if_field = offsetof(struct rlock, owner),
					.len = TYPE_NAME + WORD };

	if (!are_locks_known(python) || !snap_memory_plan_has_room(plan, STEPS) ||
	    !plan_words(python, plan, &objects))
		return;
	types.source = read_if(plan, objects, FORM_MASK, FORM);
	types.source = read_if(plan, types, FORM_MASK, FORM);
	types.field = TYPE_NAME;
	types.len = sizeof(type_name);
	types.flags = 0;
	types.op = SNAP_PLAN_READ;
	snap_python_plan_step(plan, types);
}

/* ---- after it ---- */

/* Whether an RLock with this lock lies at the address. */
static bool read_rlock(const struct snap_python *python, uint64_t address, uint64_t lock,
		       struct rlock *ret)
{
	const struct snap_runtime_process *process = python->process;
	char text[sizeof(type_name)];
	uint64_t name;

	return (address & FORM_MASK) == FORM &&
	       snap_runtime_read(process, address, ret, sizeof(*ret)) &&
	       (parks(python) || ret->lock == lock) && (ret->refcount & NO_REFCOUNT) == 0 &&
	       (uint32_t)ret->refcount != 0 && ret->count <= INT32_MAX &&
	       snap_runtime_word(process, ret->type + TYPE_NAME, &name) &&
	       snap_runtime_read(process, name, text, sizeof(text)) &&
	       memcmp(text, type_name, sizeof(text)) == 0;
}

/* False: the thread waits for none. */
static bool find_rlock(const struct snap_python *python, const struct snap_thread *thread,
		       struct snap_runtime_lock *ret)
{
	const struct snap_runtime_process *process = python->process;
	struct snap_known_registers known;
	uint64_t address = 0, lock;
	struct rlock rlock;
	bool found = false;

	if (!snap_registers_of(process->process->arch, thread, &known) || known.call < 0)
		return false;
	lock = known.arguments[0];
	if (parks(python)) {
		found = snap_runtime_word(process, lock - WORD, &address);
		address -= LOCK_IN_OBJECT;
		found = found && read_rlock(python, address, lock, &rlock);
	}
	for (uint64_t at = 0; !parks(python) && !found && at < STACK_BYTES; at += WORD)
		found = snap_runtime_word(process, known.sp + STACK_FIRST + at, &address) &&
			read_rlock(python, address, lock, &rlock);
	if (found)
		*ret = (struct snap_runtime_lock){ thread->tid, address, rlock.owner };
	return found;
}

bool snap_python_locks(const struct snap_python *python, struct snap_runtime_result *result)
{
	const struct snap_process *process = python->process->process;

	if (!are_locks_known(python))
		return true;
	result->locks = snap_arena_new_array(python->process->arena, process->thread_count + 1,
					     struct snap_runtime_lock);
	for (size_t i = 0; result->locks && i < process->thread_count; i++)
		result->lock_count += find_rlock(python, &process->threads[i],
						 &result->locks[result->lock_count]);
	return result->locks;
}
