/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads, ticks, changes and names of a recording on disk, read and checked. See
 * internal.h; put.c writes them.
 */
#include "store/recording/internal.h"

#include <string.h>

enum { LEAST_ENTRY = 6 /* bytes */ };

/* Nothing that is seen lies so far from its start. */
static const int64_t LATEST = INT64_MAX / 4;

static void fail_memory(struct snap_log_reader *reader)
{
	reader->no_memory = true;
	snap_log_refuse(&reader->cursor, "out of memory");
}

static bool is_fine(const struct snap_log_reader *reader)
{
	return !reader->cursor.problem;
}

/* An index below a count. */
static uint32_t get_index(struct snap_log_reader *reader, size_t count, const char *problem)
{
	if (count == 0)
		snap_log_refuse(&reader->cursor, problem);
	return (uint32_t)snap_log_get_most(&reader->cursor, count ? count - 1 : 0, problem);
}

/* ---- threads ---- */

static pid_t get_tid(struct snap_log_reader *reader, pid_t from, pid_t least)
{
	int64_t step = snap_log_get_signed(&reader->cursor);

	if (step < (int64_t)least - from || step > (int64_t)INT32_MAX - from) {
		snap_log_refuse(&reader->cursor, "invalid tid");
		return least;
	}
	return (pid_t)(from + step);
}

static void take_thread(struct snap_log_reader *reader, pid_t *tid)
{
	struct snap_log *log = reader->log;
	struct snap_log_index *index = log->index;
	struct snap_log_thread thread = { 0 };
	uint32_t number = (uint32_t)log->thread_count;

	thread.process = get_index(reader, log->process_count, "invalid process reference");
	thread.tid = *tid = get_tid(reader, *tid, 1);
	thread.ns_tid = get_tid(reader, thread.tid, 0);
	thread.kernel = snap_log_get_most(&reader->cursor, 1, "invalid boolean");
	thread.name = snap_log_get_text(reader, SNAP_MAX_COMM);
	if (!is_fine(reader))
		return;
	if (!snap_grow_array(log->threads, log->thread_capacity, number) ||
	    !snap_grow_array(index->standing, index->standing_capacity, number) ||
	    !snap_grow_array(reader->changed, reader->changed_capacity, number)) {
		fail_memory(reader);
		return;
	}
	log->threads[number] = thread;
	reader->changed[number] = 0;
	index->standing[number] = (struct snap_log_standing){
		.change = { .thread = number, .stack = SNAP_LOG_GONE, .syscall = -1 }
	};
	log->thread_count++;
}

void snap_log_read_threads(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	size_t count = snap_log_get_count(&reader->cursor, 1);
	pid_t tid = 0;

	while (count-- && is_fine(reader))
		take_thread(reader, &tid);
	count = snap_log_get_count(&reader->cursor, 1);
	while (count-- && is_fine(reader)) {
		uint32_t thread = get_index(reader, log->thread_count, "invalid thread reference");
		const char *name = snap_log_get_text(reader, SNAP_MAX_COMM);

		if (is_fine(reader))
			log->threads[thread].name = name;
	}
}

/* ---- changes ---- */

static void take_standing(struct snap_log_reader *reader, struct snap_log_change *change)
{
	uint64_t how = snap_log_get_most(&reader->cursor, (uint64_t)UINT16_MAX << 6 | 63,
					 "invalid thread state");

	change->syscall = (int16_t)((how >> 6) - 1);
	change->state = how >> 2 & 15;
	change->taken = how & 3;
	if (change->syscall >= SNAP_LOG_FIRST_CALL &&
	    (size_t)(change->syscall - SNAP_LOG_FIRST_CALL) >= reader->log->call_count)
		snap_log_refuse(&reader->cursor, "invalid system call reference");
	if (change->state >= SNAP_STATE_COUNT || change->taken >= SNAP_TAKEN_COUNT)
		snap_log_refuse(&reader->cursor, "invalid thread state");
}

/* A change of a thread that was not mentioned at this tick yet; `thread`: of the one before. */
static bool take_change(struct snap_log_reader *reader, uint64_t tick, int64_t *thread,
			struct snap_log_change *change)
{
	struct snap_log *log = reader->log;
	uint64_t stack;

	if (__builtin_add_overflow(*thread, snap_log_get_signed(&reader->cursor), thread))
		snap_log_refuse(&reader->cursor, "invalid thread reference");
	stack = snap_log_get_most(&reader->cursor, log->stack_count, "invalid stack reference");
	if (!is_fine(reader))
		return false;
	if (*thread < 0 || (uint64_t)*thread >= log->thread_count) {
		snap_log_refuse(&reader->cursor, "invalid thread reference");
		return false;
	}
	*change = (struct snap_log_change){ .thread = (uint32_t)*thread,
					    .stack = SNAP_LOG_GONE,
					    .syscall = -1 };
	if (stack) {
		change->stack = (uint32_t)stack - 1;
		take_standing(reader, change);
		if (log->spaces[log->stacks[stack - 1].space].process !=
		    log->threads[*thread].process)
			snap_log_refuse(&reader->cursor, "stack of another process");
	}
	if (reader->changed[*thread] > tick)
		snap_log_refuse(&reader->cursor, "two changes of a thread in one tick");
	reader->changed[*thread] = tick + 1;
	return is_fine(reader);
}

static void keep_standing(struct snap_log *log, const struct snap_log_change *change)
{
	log->index->standing[change->thread].change = *change;
	log->index->standing[change->thread].last = log->first_change + log->change_count;
}

/* ---- before the first tick ---- */

static void take_before(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	uint64_t first_tick = snap_log_get_most(&reader->cursor, INT64_MAX, "invalid tick number");
	size_t count = snap_log_get_count(&reader->cursor, 1);
	struct snap_log_change change;
	int64_t thread = 0;

	if (!reader->has_first_tick)
		log->first_tick = first_tick;
	else if (count)
		snap_log_refuse(&reader->cursor, "unexpected initial state");
	reader->has_first_tick = true;
	if (count == 0 || !is_fine(reader))
		return;
	log->before = calloc(log->thread_count, sizeof(*log->before));
	if (!log->before) {
		fail_memory(reader);
		return;
	}
	log->before_count = log->index->before_capacity = log->thread_count;
	for (size_t i = 0; i < log->thread_count; i++)
		log->before[i] = (struct snap_log_change){ .thread = (uint32_t)i,
							   .stack = SNAP_LOG_GONE,
							   .syscall = -1 };
	/* Number 0 stands for what was before; the ticks count from 1. */
	while (count-- && take_change(reader, 0, &thread, &change)) {
		log->before[change.thread] = change;
		keep_standing(log, &change);
	}
}

/* ---- ticks ---- */

static void take_tick(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	struct snap_log_tick tick = { 0 };
	size_t count;
	int64_t thread = 0, step;

	if (__builtin_add_overflow(reader->last_step, snap_log_get_signed(&reader->cursor),
				   &step) ||
	    __builtin_add_overflow(reader->last_time, step, &tick.time_ns) ||
	    tick.time_ns > LATEST || tick.time_ns < 0 ||
	    (log->tick_count && tick.time_ns <= reader->last_time))
		snap_log_refuse(&reader->cursor, "time goes backwards");
	tick.stopped_ns = (int64_t)snap_log_get_most(&reader->cursor, (uint64_t)LATEST,
						     "invalid stop duration");
	count = snap_log_get_count(&reader->cursor, 1);
	if (!is_fine(reader))
		return;
	if (!snap_grow_array(log->ticks, log->tick_capacity, log->tick_count)) {
		fail_memory(reader);
		return;
	}
	while (count--) {
		struct snap_log_change change;

		if (!take_change(reader, log->tick_count + 1, &thread, &change))
			return;
		if (!snap_grow_array(log->changes, log->change_capacity, log->change_count)) {
			fail_memory(reader);
			return;
		}
		log->changes[log->change_count++] = change;
		keep_standing(log, &change);
	}
	tick.change_end = log->change_count;
	log->ticks[log->tick_count++] = tick;
	reader->last_time = tick.time_ns;
	reader->last_step = step;
}

void snap_log_read_ticks(struct snap_log_reader *reader)
{
	size_t count;

	take_before(reader);
	count = snap_log_get_count(&reader->cursor, 1);
	while (count-- && is_fine(reader))
		take_tick(reader);
}

/* ---- names ---- */

static void take_entry(struct snap_log_reader *reader, struct snap_entry *entry)
{
	unsigned flags;

	entry->function = snap_log_get_text(reader, SNAP_MAX_NAME);
	entry->symbol = snap_log_get_text(reader, SNAP_MAX_NAME);
	entry->file = snap_log_get_text(reader, SNAP_MAX_NAME);
	entry->line =
		(uint32_t)snap_log_get_most(&reader->cursor, UINT32_MAX, "invalid line number");
	entry->column =
		(uint32_t)snap_log_get_most(&reader->cursor, UINT32_MAX, "invalid line number");
	flags = (unsigned)snap_log_get_most(&reader->cursor, 7, "unknown flags of a function");
	entry->inlined = flags & 1;
	entry->system = flags & 2;
	entry->kernel = flags & 4;
}

static bool take_name(struct snap_log_reader *reader, const struct snap_log_frame *of)
{
	struct snap_log *log = reader->log;
	struct snap_frame frame = { .address = snap_pc_address((struct snap_pc){ of->bits }) };

	frame.module = snap_log_get_text(reader, SNAP_MAX_NAME);
	frame.build_id = snap_log_get_text(reader, SNAP_MAX_NAME);
	if (frame.build_id && frame.build_id[strspn(frame.build_id, "0123456789abcdef")])
		snap_log_refuse(&reader->cursor, "invalid build id");
	frame.has_offset = snap_log_get_most(&reader->cursor, 1, "invalid boolean");
	if (frame.has_offset)
		frame.offset = snap_log_get(&reader->cursor);
	frame.file_offset = snap_log_get(&reader->cursor);
	frame.entry_count = snap_log_get_count(&reader->cursor, LEAST_ENTRY);
	if (frame.entry_count == 0)
		snap_log_refuse(&reader->cursor, "frame without functions");
	if (!is_fine(reader))
		return false;
	frame.entries = snap_arena_new_array(&log->arena, frame.entry_count, struct snap_entry);
	if (!frame.entries || !snap_grow_array(log->names, log->name_capacity, log->name_count)) {
		fail_memory(reader);
		return false;
	}
	for (size_t i = 0; i < frame.entry_count && is_fine(reader); i++)
		take_entry(reader, &frame.entries[i]);
	log->names[log->name_count++] = frame;
	return is_fine(reader);
}

void snap_log_read_names(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	size_t count = snap_log_get_count(&reader->cursor, 1), at = 0;

	while (count-- && is_fine(reader)) {
		uint64_t step = snap_log_get(&reader->cursor);
		struct snap_log_frame *frame;

		if (step >= log->frame_count - at || log->frame_count == 0 ||
		    log->frames[at + step].name) {
			snap_log_refuse(&reader->cursor, "invalid frame reference");
			return;
		}
		at += step;
		frame = &log->frames[at];
		if (!take_name(reader, frame))
			return;
		frame->name = (uint32_t)log->name_count;
	}
}
