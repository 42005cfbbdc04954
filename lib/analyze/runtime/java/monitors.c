/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which thread of HotSpot waits for which monitor, and its owner: ObjectMonitor::_owner is a
 * JavaThread, or an address on the stack of the thread that had locked the object before another
 * thread came (a stack lock, which became a monitor then). Anything else, as marks of a monitor
 * that is given up or has an anonymous owner, means that the owner is not known.
 */
#include "analyze/runtime/java/java.h"
#include "analyze/runtime/memory.h"
#include "base/bsearch.h"

#include <stdlib.h>

struct java_thread {
	uint64_t address, stack_base, stack_size, pending;
	uint32_t tid; /* 0: could not be read */
};

/* All threads, by their addresses, and the same by where their stacks end. */
struct threads {
	struct java_thread *list, *by_stack;
	size_t count;
};

SNAP_FREES(threads_deinit, struct threads, list, by_stack);

SNAP_ORDER(compare_addresses, struct java_thread, a, b, snap_compare(a->address, b->address));

SNAP_ORDER(compare_stacks, struct java_thread, a, b, snap_compare(a->stack_base, b->stack_base),
	   snap_compare(a->address, b->address));

SNAP_ORDER(compare_monitors, struct snap_runtime_monitor, a, b, snap_compare(a->tid, b->tid),
	   snap_compare(a->address, b->address));

/* One that is not there is left out. */
static bool read_java_thread(const struct snap_java *java, uint64_t address,
			     struct java_thread *ret)
{
	const struct snap_runtime_process *process = java->process;
	uint64_t os_thread, tid;

	*ret = (struct java_thread){ .address = address };
	if (!snap_runtime_word(process, address + java->fields[SNAP_JAVA_OS_THREAD], &os_thread) ||
	    !snap_runtime_word(process, address + java->fields[SNAP_JAVA_PENDING], &ret->pending) ||
	    !snap_runtime_word(process, address + java->fields[SNAP_JAVA_STACK_BASE],
			       &ret->stack_base) ||
	    !snap_runtime_word(process, address + java->fields[SNAP_JAVA_STACK_SIZE],
			       &ret->stack_size) ||
	    !snap_runtime_number(process, os_thread + java->fields[SNAP_JAVA_TID], 4, &tid))
		return false;
	ret->tid = (uint32_t)tid;
	return ret->tid;
}

static struct stacksnap_error *read_threads(const struct snap_java *java, struct threads *threads)
{
	const struct snap_runtime_process *process = java->process;
	uint64_t list, count, array;

	if (!snap_runtime_word(process, java->fields[SNAP_JAVA_LIST], &list) ||
	    !snap_runtime_number(process, list + java->fields[SNAP_JAVA_LENGTH], 4, &count) ||
	    !snap_runtime_word(process, list + java->fields[SNAP_JAVA_THREADS], &array) ||
	    count > SNAP_JAVA_MOST_THREADS)
		return NULL;
	threads->list = malloc((count + 1) * sizeof(*threads->list));
	threads->by_stack = malloc((count + 1) * sizeof(*threads->by_stack));
	SNAP_TRY(snap_no_memory_unless(threads->list && threads->by_stack));
	for (uint64_t i = 0; i < count; i++) {
		uint64_t address;

		if (snap_runtime_word(process, array + i * sizeof(address), &address) &&
		    read_java_thread(java, address, &threads->list[threads->count]))
			threads->count++;
	}
	qsort(threads->list, threads->count, sizeof(*threads->list), compare_addresses);
	memcpy(threads->by_stack, threads->list, threads->count * sizeof(*threads->list));
	qsort(threads->by_stack, threads->count, sizeof(*threads->by_stack), compare_stacks);
	return NULL;
}

/* The thread that the word of an owner means; 0: it cannot be known. */
static uint32_t find_monitor_owner(const struct threads *threads, uint64_t owner)
{
	size_t at = snap_first_not(threads->count, i, threads->list[i].address < owner);

	if (at < threads->count && threads->list[at].address == owner)
		return threads->list[at].tid;
	at = snap_first_not(threads->count, i, threads->by_stack[i].stack_base <= owner);
	if (at < threads->count &&
	    threads->by_stack[at].stack_base - owner <= threads->by_stack[at].stack_size)
		return threads->by_stack[at].tid;
	return 0;
}

static void add_monitor(const struct snap_java *java, const struct threads *threads,
			const struct java_thread *thread, struct snap_runtime_result *result)
{
	struct snap_runtime_monitor monitor = { .tid = thread->tid, .address = thread->pending };
	uint64_t owner;

	if (snap_runtime_word(java->process, thread->pending + java->fields[SNAP_JAVA_OWNER],
			      &owner)) {
		monitor.is_free = owner == 0;
		monitor.owner = owner ? find_monitor_owner(threads, owner) : 0;
	}
	/* It has just got it, and waits for something else: the JVM may hold up all threads. */
	if (monitor.owner == thread->tid)
		return;
	result->monitors[result->monitor_count++] = monitor;
}

/* Of two monitors for one thread the right one cannot be known. */
static void drop_doubles(struct snap_runtime_result *result)
{
	size_t kept = 0;

	for (size_t i = 0, behind; i < result->monitor_count; i = behind) {
		for (behind = i + 1; behind < result->monitor_count &&
				     result->monitors[behind].tid == result->monitors[i].tid;)
			behind++;
		if (behind == i + 1)
			result->monitors[kept++] = result->monitors[i];
	}
	result->monitor_count = kept;
}

struct stacksnap_error *snap_java_monitors(const struct snap_java *java,
					   struct snap_runtime_result *result)
{
	_cleanup_(threads_deinit) struct threads threads = { 0 };
	struct stacksnap_error *err = read_threads(java, &threads);

	if (err || threads.count == 0)
		return err;
	result->monitors = snap_arena_new_array(java->process->arena, threads.count,
						struct snap_runtime_monitor);
	SNAP_TRY(snap_no_memory_unless(result->monitors));
	for (size_t i = 0; i < threads.count; i++)
		if (threads.list[i].pending)
			add_monitor(java, &threads, &threads.list[i], result);
	qsort(result->monitors, result->monitor_count, sizeof(*result->monitors), compare_monitors);
	drop_doubles(result);
	return NULL;
}
