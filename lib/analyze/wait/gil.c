/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * CPython's global interpreter lock: a condition of glibc with a timeout, on which take_gil()
 * waits. It lies behind the words that name the last holder of the lock and say whether it is held.
 * Layout: struct _gil_runtime_state of Include/internal/pycore_gil.h, 3.8 to 3.14.
 */
#include "analyze/wait/futex.h"
#include "base/text.h"

#include <string.h>

enum {
	MOST_INTERVAL = 100000000, /* microseconds */
	STATE_WORDS = 64,          /* of a PyThreadState: the thread's pthread_t is among them */
	MOST_FRAMES = 64,
	ALIGNMENT = 64, /* of struct pthread */
};

/* Before the condition. */
struct gil {
	uint64_t interval, last_holder;
	uint32_t locked, padding;
	uint64_t switches;
};

static bool is_python(const char *path)
{
	const char *base = path ? snap_base_name(path) : "";

	return snap_begins_with(base, "python") || snap_begins_with(base, "libpython");
}

/* Whether one of so many functions that have called the C library is in a file of Python. */
static bool is_below_python(const struct snap_futex *futex, size_t depth)
{
	const struct snap_raw_stack *stack = snap_waiter_stack(futex->waiter);

	for (size_t i = futex->names.outside;
	     i < stack->frame_count && i < futex->names.outside + depth; i++)
		if (is_python(stack->frames[i]->module))
			return true;
	return false;
}

/* Inlined into PyEval_RestoreThread and others in optimized builds: data tell as well. */
static bool is_below_take_gil(const struct snap_futex *futex)
{
	const struct snap_raw_stack *stack = snap_waiter_stack(futex->waiter);
	const struct snap_frame *frame;

	if (futex->names.outside >= stack->frame_count)
		return false;
	frame = stack->frames[futex->names.outside];
	return snap_any(frame->entry_count, i,
			frame->entries[i].symbol &&
				snap_begins_with(frame->entries[i].symbol, "take_gil"));
}

/* The thread that the runtime's own data say has it; NULL: not known, or of several locks. */
static struct snap_waiter *holder_of_runtime(struct snap_futex *futex)
{
	const struct snap_raw_process *raw = futex->waiter->raw;
	struct snap_waiter *found = NULL;

	for (size_t i = 0; i < raw->runtime_count; i++) {
		const struct snap_runtime_result *runtime = raw->runtimes[i];

		if (strcmp(runtime->name, "cpython") != 0)
			continue;
		for (size_t k = 0; k < runtime->thread_count; k++) {
			if (!runtime->threads[k].holds_gil)
				continue;
			if (found)
				return NULL;
			found = snap_waiter_by_tid(futex->waits, runtime->threads[k].tid);
		}
	}
	return found;
}

/*
 * A word of a PyThreadState. A thread that was copied by itself has states of all threads with it:
 * whose each of them is stays the same.
 */
static bool read_gil_state(const struct snap_futex *futex, uint64_t address, uint64_t *word_ret)
{
	const struct snap_memory_image *image = futex->waiter->thread->thread->memory;

	return snap_futex_read(futex, address, word_ret, sizeof(*word_ret)) ||
	       (image && snap_memory_image_read(image, address, word_ret, sizeof(*word_ret)));
}

/*
 * Without a stop the first thread's pthread_t is not known. Behind it stands the number
 * that the kernel knows a thread by (3.11 and later).
 */
static struct snap_waiter *holder_by_number(struct snap_futex *futex, uint64_t pointer,
					    uint64_t number)
{
	const struct snap_process *process = snap_waiter_process(futex->waiter);
	struct snap_waiter *thread;

	if (!pointer || pointer % ALIGNMENT || !snap_process_map(process, pointer))
		return NULL;
	thread = snap_waiter_by_ns_tid(futex->waits, futex->waiter->process, number);
	return thread && thread->thread->thread->tid == process->pid && !thread->call.thread_pointer
		       ? thread
		       : NULL;
}

/* The thread whose pthread_t stands in the state of the last holder. */
static struct snap_waiter *holder_of_words(struct snap_futex *futex, const struct gil *gil)
{
	uint64_t last = 0, word;

	for (int i = 0;
	     i < STATE_WORDS && read_gil_state(futex, gil->last_holder + (uint64_t)i * 8, &word);
	     i++) {
		struct snap_waiter *thread =
			snap_waiter_by_thread_pointer(futex->waits, futex->waiter->process, word);

		if (!thread)
			thread = holder_by_number(futex, last, word);
		if (thread)
			return thread;
		last = word;
	}
	return NULL;
}

struct stacksnap_error *snap_gil_explain(struct snap_futex *futex)
{
	struct snap_wait *wait = futex->waiter->wait;
	struct snap_waiter *holder = NULL;
	struct gil gil;

	/* Its own locks are semaphores; those of multiprocessing are called from another file. */
	if (wait && wait->kind == SNAP_WAIT_SEMAPHORE && is_below_python(futex, 1))
		snap_python_lock_explain(futex);
	if (!wait || wait->kind != SNAP_WAIT_CONDITION ||
	    (!wait->timed && futex->waits->has_times) || !is_below_python(futex, MOST_FRAMES) ||
	    !snap_futex_read(futex, wait->address - sizeof(gil), &gil, sizeof(gil)) ||
	    gil.interval == 0 || gil.interval > MOST_INTERVAL || gil.locked > 1 ||
	    (gil.last_holder &&
	     !snap_process_map(snap_waiter_process(futex->waiter), gil.last_holder)))
		return NULL;
	if (!is_below_take_gil(futex)) {
		if (gil.locked != 1 || gil.last_holder == 0)
			return NULL;
		wait->confidence = SNAP_WAIT_IS_LIKELY;
	}
	wait->kind = SNAP_WAIT_GIL;
	wait->mutex = 0;
	wait->mutex_free = false;
	wait->waiters = -1;
	/* The timeout only makes it ask for the lock again: nothing ends the wait. */
	wait->timed = false;
	wait->remaining_ns = -1;
	/*
	 * These are of the moment of the wait; what the runtime said is, if all were stopped at
	 * once.
	 */
	if (gil.locked == 1 && !snap_taken_at_once(futex->waiter->thread->thread->taken))
		holder = holder_of_words(futex, &gil);
	if (!holder)
		holder = holder_of_runtime(futex);
	if (!holder && gil.locked == 1)
		holder = holder_of_words(futex, &gil);
	if (holder && holder != futex->waiter && gil.locked == 1)
		snap_futex_own(futex, wait, holder);
	else
		wait->owner_lack = gil.locked == 1 ? SNAP_OWNER_UNREADABLE : SNAP_OWNER_CHANGING;
	return NULL;
}
