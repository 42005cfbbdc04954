/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Interpreters and their lists of threads: which of these are threads of the kernel, and which one
 * holds the lock. A thread in several interpreters has one stack, with the innermost one first.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/python.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "model/arch/registers.h"

enum { GIL_LOCKED = 1 };

/* A number that Python knows a thread by, and the thread's. */
struct thread_key {
	uint64_t key;
	pid_t tid;
};

struct reading {
	struct snap_python *python;
	struct snap_runtime_result *result;
	struct thread_key *by_base, *by_tid, *by_stack; /* sorted; by_stack: where they begin */
	size_t base_count, tid_count, stack_count;
	uint64_t gil_holder;  /* address of a PyThreadState; 0: none */
	int64_t interpreter;  /* the number of the current one; -1: unknown */
	size_t seen, matched; /* PyThreadStates, in all interpreters; of a thread that is there */
};

/* ---- threads of the kernel ---- */

SNAP_ORDER(compare_keys, struct thread_key, a, b, snap_compare(a->key, b->key));

/*
 * pthread_self() is the thread pointer on x86-64; on others it lies below that, as far as the C
 * library's struct pthread is large. What gettid() says is of the innermost pid namespace.
 */
static bool index_threads(struct reading *reading)
{
	const struct snap_process *process = reading->python->process->process;
	struct snap_arena *arena = reading->python->process->arena;
	bool is_x86 = process->arch == SNAP_ARCH_X86_64;

	reading->by_base = snap_arena_new_array(arena, process->thread_count, struct thread_key);
	reading->by_tid = snap_arena_new_array(arena, process->thread_count, struct thread_key);
	reading->by_stack = snap_arena_new_array(arena, process->thread_count, struct thread_key);
	if (!reading->by_base || !reading->by_tid || !reading->by_stack)
		return false;
	for (size_t i = 0; i < process->thread_count; i++) {
		const struct snap_thread *thread = &process->threads[i];
		struct snap_known_registers known;
		pid_t own = thread->ns_tid ? thread->ns_tid : thread->tid;

		reading->by_tid[reading->tid_count++] =
			(struct thread_key){ (uint64_t)own, thread->tid };
		if (thread->stack_size)
			reading->by_stack[reading->stack_count++] =
				(struct thread_key){ thread->stack_address, thread->tid };
		if (is_x86 && snap_registers_of(process->arch, thread, &known))
			reading->by_base[reading->base_count++] =
				(struct thread_key){ known.thread_pointer, thread->tid };
	}
	qsort(reading->by_base, reading->base_count, sizeof(struct thread_key), compare_keys);
	qsort(reading->by_tid, reading->tid_count, sizeof(struct thread_key), compare_keys);
	qsort(reading->by_stack, reading->stack_count, sizeof(struct thread_key), compare_keys);
	return true;
}

static pid_t find_key(const struct thread_key *keys, size_t count, uint64_t key)
{
	size_t at = snap_first_not(count, i, keys[i].key < key);

	return key && at < count && keys[at].key == key ? keys[at].tid : 0;
}

/* A child of fork() may still have its parent's tid noted: the thread pointer tells better. */
static pid_t tid_of(const struct reading *reading, const uint8_t *state)
{
	const struct snap_python_layout *layout = &reading->python->layout;
	pid_t tid = find_key(reading->by_base, reading->base_count,
			     snap_runtime_field(state, layout->thread.thread_id, 8));

	if (tid || !layout->thread.native_id)
		return tid;
	return find_key(reading->by_tid, reading->tid_count,
			snap_runtime_field(state, layout->thread.native_id, 8));
}

/*
 * The thread that runs another interpreter may not be the one that made it, whose ids it has: what
 * it runs lies on its stack. 0: not known.
 */
static pid_t tid_of_stack(const struct reading *reading, const struct snap_python_chain *chain)
{
	const struct snap_process *process = reading->python->process->process;
	uint64_t anchor = chain->run_count ? chain->runs[0].anchor : 0;
	size_t next = snap_first_not(reading->stack_count, i, reading->by_stack[i].key <= anchor);
	const struct snap_map *map;

	if (!anchor || !next)
		return 0;
	map = snap_process_map(process, anchor);
	return map && reading->by_stack[next - 1].key >= map->start
		       ? reading->by_stack[next - 1].tid
		       : 0;
}

/* ---- the lists ---- */

static uint64_t holder_at(const struct reading *reading, uint64_t gil, uint32_t holder,
			  uint32_t locked)
{
	const struct snap_runtime_process *process = reading->python->process;
	uint64_t is_locked, thread;

	if (!snap_runtime_number(process, gil + locked, 4, &is_locked) ||
	    !snap_runtime_word(process, gil + holder, &thread))
		return 0;
	return is_locked == GIL_LOCKED ? thread : 0;
}

/* The holder of the lock that the threads of an interpreter share; 0: none. */
static uint64_t gil_holder(const struct reading *reading, uint64_t interpreter)
{
	const struct snap_python_layout *layout = &reading->python->layout;
	const struct snap_runtime_process *process = reading->python->process;
	uint64_t gil, enabled;

	if (layout->interpreter.gil == 0)
		return holder_at(reading, reading->python->runtime, layout->runtime.gil_holder,
				 layout->runtime.gil_locked);
	if (!snap_runtime_word(process, interpreter + layout->interpreter.gil, &gil) || gil == 0)
		return 0;
	if (layout->is_free_threaded &&
	    (!snap_runtime_number(process, gil + layout->interpreter.gil_enabled, 4, &enabled) ||
	     enabled == 0))
		return 0;
	return holder_at(reading, gil, layout->interpreter.gil_holder,
			 layout->interpreter.gil_locked);
}

static struct stacksnap_error *read_python_thread(struct reading *reading, uint64_t address,
						  const uint8_t *state)
{
	struct snap_python_chain chain = { .address = address,
					   .order = reading->python->chain_count };
	pid_t tid;

	SNAP_TRY(snap_python_chain_read(reading->python, state, &chain));
	tid = tid_of_stack(reading, &chain);
	chain.tid = tid ? tid : tid_of(reading, state);
	reading->matched += chain.tid != 0;
	chain.holds_gil = address == reading->gil_holder;
	chain.interpreter = reading->interpreter;
	if (chain.tid &&
	    (chain.stack.end == SNAP_UNWIND_UNREADABLE || chain.stack.end == SNAP_UNWIND_FAILED))
		reading->result->torn = true;
	if (!snap_reserve_array(reading->python->chains, reading->python->chain_capacity,
				reading->python->chain_count + 1))
		return snap_error_no_memory();
	reading->python->chains[reading->python->chain_count++] = chain;
	return NULL;
}

static bool is_cancelled(const struct reading *reading)
{
	const volatile int *cancel = reading->python->process->options->cancel;

	return cancel && *cancel;
}

/* Interpreters are counted from 0 on, which is the main one. */
static int64_t number_of(const struct snap_runtime_process *process, uint64_t address)
{
	uint64_t number;

	return snap_runtime_word(process, address, &number) && number <= INT32_MAX ? (int64_t)number
										   : -1;
}

static struct stacksnap_error *read_thread_list(struct reading *reading, uint64_t interpreter)
{
	const struct snap_python_layout *layout = &reading->python->layout;
	const struct snap_runtime_process *process = reading->python->process;
	uint8_t state[SNAP_PYTHON_RECORD];
	uint64_t address;

	if (!snap_runtime_word(process, interpreter + layout->interpreter.threads, &address)) {
		reading->result->torn = true;
		return NULL;
	}
	reading->gil_holder = gil_holder(reading, interpreter);
	reading->interpreter = number_of(process, interpreter + layout->interpreter.number);
	while (address) {
		if (is_cancelled(reading))
			return snap_error_cancelled();
		if (reading->seen++ >= SNAP_PYTHON_MOST_THREADS ||
		    !snap_runtime_read(process, address, state, layout->thread.size) ||
		    snap_runtime_field(state, layout->thread.interpreter, 8) != interpreter) {
			reading->result->torn = true;
			return NULL;
		}
		SNAP_TRY(read_python_thread(reading, address, state));
		address = snap_runtime_field(state, layout->thread.next, 8);
	}
	return NULL;
}

/* False in *there_ret: there is none. */
static struct stacksnap_error *read_interpreters(struct reading *reading, bool *there_ret)
{
	const struct snap_python_layout *layout = &reading->python->layout;
	const struct snap_runtime_process *process = reading->python->process;
	uint64_t address;

	*there_ret =
		snap_runtime_word(process, reading->python->runtime + layout->runtime.interpreters,
				  &address) &&
		address;
	if (!*there_ret)
		return NULL;
	for (size_t i = 0; address && i < SNAP_PYTHON_MOST_INTERPRETERS; i++) {
		SNAP_TRY(read_thread_list(reading, address));
		if (!snap_runtime_word(process, address + layout->interpreter.next, &address)) {
			reading->result->torn = true;
			return NULL;
		}
	}
	return NULL;
}

/* ---- stacks of the kernel's threads ---- */

static uint64_t anchor_of(const struct snap_python_chain *chain)
{
	return chain->run_count ? chain->runs[0].anchor : 0;
}

/*
 * By thread; of one thread what runs innermost first: its loop lies lowest on the machine's stack.
 * Where that is unknown, interpreters that were made last come first, as they do in their list.
 */
static int compare_chains(const void *left, const void *right)
{
	const struct snap_python_chain *a = left, *b = right;

	if (a->tid == b->tid && anchor_of(a) && anchor_of(b) && anchor_of(a) != anchor_of(b))
		return snap_compare(anchor_of(a), anchor_of(b));
	return snap_compare(a->tid, b->tid) ?: snap_compare(a->order, b->order);
}

/* Appends a chain to what the thread has already. */
static bool append_chain(struct snap_arena *arena, const struct snap_python_chain *chain,
			 struct snap_runtime_thread *thread)
{
	size_t frame_count = thread->stack.count + chain->stack.count;
	size_t run_count = thread->run_count + chain->run_count;
	const struct snap_runtime_frame **frames;
	struct snap_runtime_run *runs;

	if (chain->holds_gil && !thread->holds_gil) {
		thread->holds_gil = true;
		thread->interpreter = chain->interpreter;
	}
	if (chain->stack.count == 0)
		return true;
	if (thread->stack.count == 0) {
		thread->stack = chain->stack;
		thread->runs = chain->runs;
		thread->run_count = chain->run_count;
		return true;
	}
	frames = snap_arena_array(arena, frame_count, sizeof(*frames));
	runs = snap_arena_new_array(arena, run_count, struct snap_runtime_run);
	if (!frames || !runs)
		return false;
	memcpy(frames, thread->stack.frames, thread->stack.count * sizeof(*frames));
	memcpy(frames + thread->stack.count, chain->stack.frames,
	       chain->stack.count * sizeof(*frames));
	memcpy(runs, thread->runs, thread->run_count * sizeof(*runs));
	memcpy(runs + thread->run_count, chain->runs, chain->run_count * sizeof(*runs));
	for (size_t i = thread->run_count; i < run_count; i++)
		runs[i].first += thread->stack.count;
	if (thread->stack.end == SNAP_UNWIND_COMPLETE) {
		thread->stack.end = chain->stack.end;
		thread->stack.reason = chain->stack.reason;
	}
	thread->stack.frames = frames;
	thread->stack.count = frame_count;
	thread->runs = runs;
	thread->run_count = run_count;
	return true;
}

static bool fill_threads(struct reading *reading)
{
	struct snap_runtime_result *result = reading->result;
	struct snap_arena *arena = reading->python->process->arena;

	if (reading->python->chain_count == 0)
		return true;
	qsort(reading->python->chains, reading->python->chain_count,
	      sizeof(*reading->python->chains), compare_chains);
	result->threads = snap_arena_new_array(arena, reading->python->chain_count,
					       struct snap_runtime_thread);
	if (!result->threads)
		return false;
	for (size_t i = 0, same = 0; i < reading->python->chain_count; i++) {
		const struct snap_python_chain *chain = &reading->python->chains[i];
		struct snap_runtime_thread *last =
			result->thread_count ? &result->threads[result->thread_count - 1] : NULL;

		if (!chain->tid || (chain->stack.count == 0 && !chain->holds_gil))
			continue;
		if (last && last->tid == chain->tid) {
			if (same++ < SNAP_PYTHON_MOST_CHAINS && !append_chain(arena, chain, last))
				return false;
			continue;
		}
		same = 0;
		result->threads[result->thread_count++] =
			(struct snap_runtime_thread){ .tid = chain->tid,
						      .stack = chain->stack,
						      .runs = chain->runs,
						      .run_count = chain->run_count,
						      .loop_function = "_PyEval_EvalFrameDefault",
						      .holds_gil = chain->holds_gil,
						      .interpreter = chain->interpreter };
	}
	return true;
}

/* Whether there was something to read, and nothing of it made sense. */
static bool is_nonsense(const struct reading *reading)
{
	size_t whole = snap_sum(reading->python->chain_count, i,
				reading->python->chains[i].stack.count > 0);

	return reading->matched == 0 || (whole == 0 && reading->result->torn);
}

struct stacksnap_error *snap_python_threads(struct snap_python *python,
					    struct snap_runtime_result *result)
{
	struct reading reading = { .python = python, .result = result };
	struct stacksnap_error *err;
	bool there;

	SNAP_TRY(snap_no_memory_unless(index_threads(&reading)));
	err = read_interpreters(&reading, &there);
	if (!err && !there)
		result->refused = snap_runtime_why(python->process,
						   "no interpreter is there: it starts, or ends");
	else if (!err && is_nonsense(&reading))
		result->refused =
			snap_runtime_why(python->process, "its threads are not understood");
	else if (!err && !fill_threads(&reading))
		err = snap_error_no_memory();
	return err;
}
