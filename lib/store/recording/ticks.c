/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads, ticks and their changes in a recording on disk: see internal.h. A thread changes once at a
 * tick, and its stack is one of its own process; objects of waits are in waits.c.
 */
#include "store/recording/internal.h"

/* Nothing that is seen lies so far from its start. */
static const int64_t LATEST = INT64_MAX / 4;

static const char NO_THREAD[] = "invalid thread reference";
static const char INVALID_TIME[] = "time goes backwards";

static const struct snap_log_change nowhere = { .stack = UINT32_MAX, .syscall = -1 };

/* ---- threads ---- */

static void code_tid(struct snap_log_file *file, pid_t *tid, int64_t from)
{
	int64_t number = snap_log_code_step(file, *tid, from, "invalid tid");

	snap_log_check(file, number >= 0 && number <= INT32_MAX, "invalid tid");
	*tid = (pid_t)number;
}

static void read_standing(struct snap_log_file *file, size_t index)
{
	struct snap_log_index *log_index = file->log->index;

	if (!snap_reserve_array(log_index->standing, log_index->standing_capacity, index + 1) ||
	    !snap_reserve_array(file->changed, file->changed_capacity, index + 1)) {
		snap_log_fail_memory(file);
		return;
	}
	file->changed[index] = 0;
	log_index->standing[index] = (struct snap_log_standing){ .change = nowhere };
	log_index->standing[index].change.thread = (uint32_t)index;
}

static void code_tick_thread(struct snap_log_file *file, void *element, size_t index)
{
	struct snap_log_thread *thread = element;

	snap_log_code_index(file, thread->process, file->log->process_count,
			    "invalid process reference");
	/* 0: a task, which follows. */
	code_tid(file, &thread->tid, file->last.tid);
	code_tid(file, &thread->ns_tid, thread->tid);
	snap_log_code_flag(file, &thread->kernel);
	snap_log_code_text(file, &thread->name, SNAP_MAX_COMM);
	file->last.tid = thread->tid;
	if (file->reads && thread->tid == 0)
		thread->task = (uint32_t)++file->task_threads;
	if (file->reads)
		read_standing(file, index);
	else
		file->thread_names[index] = thread->name;
}

static bool is_renamed(const struct snap_log_file *file, size_t index)
{
	return file->thread_names[index] != file->log->threads[index].name;
}

static void code_new_name(struct snap_log_file *file, size_t index)
{
	const char *name = file->reads ? NULL : file->log->threads[index].name;

	snap_log_code_index(file, index, file->log->thread_count, NO_THREAD);
	snap_log_code_text(file, &name, SNAP_MAX_COMM);
	if (!file->reads)
		file->thread_names[index] = name;
	else if (snap_log_fine(file))
		file->log->threads[index].name = name;
}

void snap_log_code_threads(struct snap_log_file *file)
{
	file->last.tid = 0;
	snap_log_code_new(file, threads, thread, code_tick_thread);
	snap_log_code_changed(file, file->log->thread_count, is_renamed, code_new_name);
}

/* ---- changes ---- */

/* State, system call and how it was copied, in one number. */
static void code_standing(struct snap_log_file *file, struct snap_log_change *change)
{
	static const char problem[] = "invalid thread state";
	uint32_t bits = (uint32_t)(uint16_t)(change->syscall + 1) << 6 |
			(uint32_t)change->state << 2 | change->taken;

	snap_log_code(file, bits, (uint32_t)UINT16_MAX << 6 | 63, problem);
	change->syscall = (int16_t)((bits >> 6) - 1);
	change->state = bits >> 2 & 15;
	change->taken = bits & 3;
	snap_log_check(file,
		       change->syscall < SNAP_LOG_FIRST_CALL ||
			       (size_t)(change->syscall - SNAP_LOG_FIRST_CALL) <
				       file->log->call_count,
		       "invalid system call reference");
	snap_log_check(file, change->state < SNAP_STATE_COUNT && change->taken < SNAP_TAKEN_COUNT,
		       problem);
}

/* A thread of the process that the stack is of, which has not changed at this tick. */
static void check_change(struct snap_log_file *file, const struct snap_log_change *change,
			 uint64_t tick)
{
	const struct snap_log *log = file->log;
	uint64_t *changed = &file->changed[change->thread];

	if (change->stack != SNAP_LOG_GONE)
		snap_log_check(file,
			       log->spaces[log->stacks[change->stack].space].process ==
				       log->threads[change->thread].process,
			       "stack of another process");
	if (log->threads[change->thread].task)
		snap_log_check(
			file,
			change->state < SNAP_TASK_STATE_COUNT &&
				(change->syscall < 0 || change->syscall >= SNAP_LOG_FIRST_CALL),
			"invalid state of a task");
	snap_log_check(file, *changed <= tick, "two changes of a thread in one tick");
	*changed = tick + 1;
}

/* A tick counts from 1; 0: what was before them. False: there is none to be read. */
static bool code_change(struct snap_log_file *file, struct snap_log_change *change, uint64_t tick)
{
	struct snap_log *log = file->log;
	uint32_t stack = change->stack + 1; /* 0: it is gone */

	file->last.thread = snap_log_code_step(file, change->thread, file->last.thread, NO_THREAD);
	snap_log_code(file, stack, log->stack_count, "invalid stack reference");
	snap_log_check(file,
		       file->last.thread >= 0 && (uint64_t)file->last.thread < log->thread_count,
		       NO_THREAD);
	if (!snap_log_fine(file))
		return false;
	if (file->reads) {
		*change = nowhere;
		change->thread = (uint32_t)file->last.thread;
		change->stack = stack - 1;
	}
	if (stack) {
		code_standing(file, change);
		snap_log_code_object_of(file, change);
	}
	if (!file->reads)
		return false;
	check_change(file, change, tick);
	log->index->standing[change->thread].change = *change;
	return snap_log_fine(file);
}

/* ---- before the first tick ---- */

static bool stood_before(const struct snap_log_file *file, size_t index)
{
	return file->log->before[index].stack != SNAP_LOG_GONE;
}

static void code_before(struct snap_log_file *file, size_t index)
{
	struct snap_log *log = file->log;
	struct snap_log_change change = file->reads ? nowhere : log->before[index];

	snap_log_check(file, !file->has_ticks, "unexpected initial state");
	if (snap_log_fine(file) && file->reads && !snap_log_make_before(log))
		snap_log_fail_memory(file);
	if (code_change(file, &change, 0))
		log->before[change.thread] = change;
}

/* ---- ticks ---- */

static void code_time(struct snap_log_file *file, int64_t *time_ns)
{
	int64_t step =
		snap_log_code_step(file, *time_ns - file->last.time, file->last.step, INVALID_TIME);

	if (file->reads) {
		if (__builtin_add_overflow(file->last.time, step, time_ns))
			*time_ns = -1;
		snap_log_check(file,
			       *time_ns >= 0 && *time_ns <= LATEST &&
				       (!file->ticks || *time_ns > file->last.time),
			       INVALID_TIME);
	}
	file->last.time = *time_ns;
	file->last.step = step;
}

static void code_tick_change(struct snap_log_file *file)
{
	struct snap_log *log = file->log;
	struct snap_log_change change =
		file->reads ? nowhere : log->changes[file->changes - log->first_change];

	file->changes++;
	if (!code_change(file, &change, file->ticks + 1))
		return;
	if (!snap_reserve_array(log->changes, log->change_capacity, log->change_count + 1)) {
		snap_log_fail_memory(file);
		return;
	}
	log->changes[log->change_count++] = change;
	log->index->standing[change.thread].last = file->changes;
}

static void code_tick(struct snap_log_file *file)
{
	struct snap_log *log = file->log;
	struct snap_log_tick tick = { 0 };
	size_t count;

	if (!file->reads)
		tick = log->ticks[file->ticks - log->first_tick];
	code_time(file, &tick.time_ns);
	snap_log_code(file, tick.stopped_ns, (uint64_t)LATEST, "invalid stop duration");
	count = snap_log_code_count(file, (size_t)(tick.change_end - file->changes), 1);
	file->last.thread = 0;
	while (count-- && snap_log_fine(file))
		code_tick_change(file);
	snap_log_code_owner_changes(file, &tick);
	snap_log_code_wakes(file, &tick);
	if (file->reads && snap_log_fine(file)) {
		tick.change_end = file->changes;
		if (snap_reserve_array(log->ticks, log->tick_capacity, log->tick_count + 1))
			log->ticks[log->tick_count++] = tick;
		else
			snap_log_fail_memory(file);
	}
	file->ticks++;
}

void snap_log_code_ticks(struct snap_log_file *file)
{
	struct snap_log *log = file->log;
	uint64_t first_tick = log->first_tick;
	size_t count;

	snap_log_code(file, first_tick, INT64_MAX, "invalid tick number");
	if (file->reads && !file->has_ticks)
		log->first_tick = first_tick;
	file->last.thread = 0;
	snap_log_code_changed(file, file->has_ticks ? 0 : log->before_count, stood_before,
			      code_before);
	snap_log_code_owners_before(file);
	snap_log_code_ran_before(file);
	file->has_ticks = true;
	count = snap_log_code_count(file, file->reads ? 0 : snap_log_tick_at(log) - file->ticks, 1);
	while (count-- && snap_log_fine(file))
		code_tick(file);
}
