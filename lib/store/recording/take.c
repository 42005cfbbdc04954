/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes and stacks of a recording on disk, read and checked: nobody behind this has to doubt a
 * number. See internal.h; put.c writes them.
 */
#include "store/capture/model.h"
#include "store/recording/internal.h"

#include <string.h>

/* The least that these take in the file. */
enum { LEAST_MAP = 8, LEAST_PIECE = 2 };

static const char no_such_process[] = "invalid process reference";

/* Room for one more; without memory the chunk ends here. */
#define make_room(reader, array, capacity, count) \
	(snap_grow_array(array, capacity, count) || (fail_memory(reader), false))

static void fail_memory(struct snap_log_reader *reader)
{
	reader->no_memory = true;
	snap_log_refuse(&reader->cursor, "out of memory");
}

static bool is_fine(const struct snap_log_reader *reader)
{
	return !reader->cursor.problem;
}

static uint64_t get(struct snap_log_reader *reader)
{
	return snap_log_get(&reader->cursor);
}

static uint64_t get_most(struct snap_log_reader *reader, uint64_t most, const char *problem)
{
	return snap_log_get_most(&reader->cursor, most, problem);
}

/* An index below a count. */
static uint32_t get_index(struct snap_log_reader *reader, size_t count, const char *problem)
{
	if (count == 0)
		snap_log_refuse(&reader->cursor, problem);
	return (uint32_t)get_most(reader, count ? count - 1 : 0, problem);
}

static bool get_flag(struct snap_log_reader *reader)
{
	return get_most(reader, 1, "invalid boolean");
}

/* ---- processes and spaces ---- */

static void take_process(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	struct snap_log_process process = { .space = UINT32_MAX, .last_tick = UINT64_MAX };
	uint64_t parent, flags;

	process.pid = (pid_t)get_most(reader, INT32_MAX, "invalid pid");
	process.start_ticks = get(reader);
	parent = get_most(reader, log->process_count, "process before its parent");
	process.parent = parent ? (uint32_t)parent - 1 : UINT32_MAX;
	process.first_tick = get_most(reader, INT64_MAX, "process starts too late");
	flags = get_most(reader, 3, "unknown flags of a process");
	process.is_target = flags & 1;
	process.told.known = flags & 2;
	if (process.told.known) {
		process.told.type = (enum snap_process_type)get_most(reader, SNAP_TYPE_NONE,
								     "unknown type of a process");
		process.told.description = snap_log_get_text(reader, SNAP_MAX_NAME);
		process.told.thread_count =
			(size_t)get_most(reader, SNAP_MAX_THREADS, "too many threads in a process");
	}
	if (is_fine(reader) && process.pid == 0)
		snap_log_refuse(&reader->cursor, "invalid pid");
	if (is_fine(reader) &&
	    make_room(reader, log->processes, log->process_capacity, log->process_count))
		log->processes[log->process_count++] = process;
}

/* Texts stay in the bytes of the file. */
static bool take_facts(struct snap_log_reader *reader, struct snap_arena *arena,
		       struct snap_process *facts)
{
	struct snap_capture capture = { .processes = facts, .process_count = 1 };
	struct snap_codec codec = { .mode = SNAP_CODEC_READ,
				    .version = SNAP_LOG_FACTS_VERSION,
				    .arena = arena };

	codec.size = snap_log_get_count(&reader->cursor, 1);
	codec.bytes = reader->cursor.at;
	if (!is_fine(reader))
		return false;
	reader->cursor.at += codec.size;
	snap_code_process(&codec, &capture, 0);
	snap_codec_check(&codec, codec.position == codec.size, "process record too long");
	snap_codec_check(&codec,
			 facts->map_count + facts->piece_count + facts->thread_count +
					 facts->embedded_count ==
				 0,
			 "unexpected data in a process");
	if (snap_codec_lacks_memory(&codec))
		fail_memory(reader);
	else if (codec.problem)
		snap_log_refuse(&reader->cursor, codec.problem);
	facts->parent = SIZE_MAX;
	return is_fine(reader);
}

static void take_map(struct snap_log_reader *reader, struct snap_map *map, uint64_t *at)
{
	uint64_t start, size;
	unsigned flags;

	start = get_most(reader, UINT64_MAX - *at, "mappings not sorted") + *at;
	size = get_most(reader, UINT64_MAX - start, "mapping too long");
	*map = (struct snap_map){ .start = start, .end = start + size };
	map->offset = get(reader);
	map->inode = get(reader);
	map->dev_major = (uint32_t)get_most(reader, UINT32_MAX, "invalid device number");
	map->dev_minor = (uint32_t)get_most(reader, UINT32_MAX, "invalid device number");
	flags = (unsigned)get_most(reader, 31, "unknown flags of a mapping");
	map->read = flags & 1;
	map->write = flags & 2;
	map->execute = flags & 4;
	map->shared = flags & 8;
	map->deleted = flags & 16;
	map->path = snap_log_get_text(reader, SNAP_MAX_PATH);
	if (size == 0)
		snap_log_refuse(&reader->cursor, "empty mapping");
	*at = map->end;
}

static void take_piece(struct snap_log_reader *reader, struct snap_piece *piece, uint64_t *at)
{
	uint64_t address = get_most(reader, UINT64_MAX - *at, "memory ranges not sorted") + *at;
	struct snap_log_text text = snap_log_get_bytes(reader);

	if (!text.bytes || text.length > UINT64_MAX - address)
		snap_log_refuse(&reader->cursor, "invalid memory range");
	*piece = (struct snap_piece){ address, (const uint8_t *)text.bytes, text.length };
	*at = address + text.length;
}

static void take_memory(struct snap_log_reader *reader, struct snap_log_inside *inside,
			struct snap_process *process)
{
	size_t map_count, piece_count;
	uint64_t at = 0;

	free(inside->maps);
	free(inside->pieces);
	inside->pieces = NULL;
	map_count = snap_log_get_count(&reader->cursor, LEAST_MAP);
	if (map_count > SNAP_MAX_MAPS)
		snap_log_refuse(&reader->cursor, "too many mappings in a process");
	inside->maps = process->maps = calloc(map_count + 1, sizeof(*process->maps));
	if (!process->maps)
		fail_memory(reader);
	for (size_t i = 0; i < map_count && is_fine(reader); i++)
		take_map(reader, &process->maps[process->map_count++], &at);
	piece_count = snap_log_get_count(&reader->cursor, LEAST_PIECE);
	if (piece_count > SNAP_MAX_MAPS)
		snap_log_refuse(&reader->cursor, "too many memory ranges in a process");
	inside->pieces = process->pieces = calloc(piece_count + 1, sizeof(*process->pieces));
	if (!process->pieces)
		fail_memory(reader);
	at = 0;
	for (size_t i = 0; i < piece_count && is_fine(reader); i++)
		take_piece(reader, &process->pieces[process->piece_count++], &at);
}

static void take_space(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	struct snap_process facts = { 0 };
	_cleanup_(snap_error_destroyp) struct snap_error *err = NULL;
	uint32_t space = (uint32_t)get_most(reader, log->capture->process_count,
					    "invalid address space reference");
	uint32_t process = get_index(reader, log->process_count, no_such_process);

	if (is_fine(reader) && space == log->capture->process_count) {
		if (space == log->index->space_capacity)
			err = snap_log_grow_spaces(log);
		if (!err)
			err = snap_log_space_add(log, process, &space);
		if (err && snap_error_code(err) == SNAP_ERROR_NO_MEMORY)
			fail_memory(reader);
		else if (err)
			snap_log_refuse(&reader->cursor, "too many address spaces");
	}
	if (!is_fine(reader) || !take_facts(reader, &log->spaces[space].arena, &facts))
		return;
	if (log->spaces[space].process != process)
		snap_log_refuse(&reader->cursor, "address space of two processes");
	take_memory(reader, &log->index->insides[space], &facts);
	log->capture->processes[space] = facts;
}

static void take_process_state(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	uint32_t index = get_index(reader, log->process_count, no_such_process);
	uint64_t space =
		get_most(reader, log->capture->process_count, "invalid address space reference");
	uint64_t last = get(reader) - 1;
	bool execed = get_flag(reader);
	struct snap_log_process *process;

	if (!is_fine(reader))
		return;
	process = &log->processes[index];
	if (space && log->spaces[space - 1].process != index)
		snap_log_refuse(&reader->cursor, "address space of two processes");
	if (last < process->first_tick)
		snap_log_refuse(&reader->cursor, "process ends before it starts");
	process->space = space ? (uint32_t)space - 1 : UINT32_MAX;
	process->last_tick = last;
	process->execed = execed;
}

void snap_log_read_processes(struct snap_log_reader *reader)
{
	size_t count = snap_log_get_count(&reader->cursor, 1);

	while (count-- && is_fine(reader))
		take_process(reader);
	count = snap_log_get_count(&reader->cursor, 1);
	while (count-- && is_fine(reader))
		take_space(reader);
	count = snap_log_get_count(&reader->cursor, 1);
	while (count-- && is_fine(reader))
		take_process_state(reader);
}

/* ---- stacks ---- */

static void take_calls(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	size_t count = snap_log_get_count(&reader->cursor, 2);

	while (count-- && is_fine(reader)) {
		struct snap_log_call call;

		call.syscall = snap_log_get_text(reader, SNAP_MAX_NAME);
		call.wchan = snap_log_get_text(reader, SNAP_MAX_NAME);
		if (make_room(reader, log->calls, log->call_capacity, log->call_count))
			log->calls[log->call_count++] = call;
	}
	if (log->call_count > INT16_MAX - SNAP_LOG_FIRST_CALL + 1)
		snap_log_refuse(&reader->cursor, "too many system calls");
}

static void take_frames(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	size_t count = snap_log_get_count(&reader->cursor, 1);
	uint64_t address = 0, head, step;
	int64_t space = 0;

	while (count-- && is_fine(reader)) {
		head = get(reader);
		step = head >> 1;
		if (__builtin_add_overflow(
			    space, (int64_t)((step >> 1) ^ (step & 1 ? UINT64_MAX : 0)), &space))
			space = -1;
		address += (uint64_t)snap_log_get_signed(&reader->cursor);
		if (space < 0 || (uint64_t)space >= log->capture->process_count || address >> 63 ||
		    log->frame_count >= SNAP_LOG_MAX_FRAMES) {
			snap_log_refuse(&reader->cursor, "invalid frame address");
			return;
		}
		if (!make_room(reader, log->frames, log->frame_capacity, log->frame_count))
			return;
		log->frames[log->frame_count++] =
			(struct snap_log_frame){ .bits = address | head << 63,
						 .space = (uint32_t)space };
	}
}

/* The frames of a stack: its own ones, outermost first, then those it has of the one before. */
static void take_stack_frames(struct snap_log_reader *reader, struct snap_log_stack *stack)
{
	struct snap_log *log = reader->log;
	const struct snap_log_stack *before = log->stack_count ? stack - 1 : NULL;
	size_t shared = (size_t)get_most(reader, before ? before->frame_count : 0,
					 "too many shared frames in a stack");
	size_t own = snap_log_get_count(&reader->cursor, 1);
	int64_t id = 0;

	if (shared > SNAP_LOG_MOST_SHARED || own > UINT32_MAX - SNAP_LOG_MOST_SHARED)
		snap_log_refuse(&reader->cursor, "too many shared frames in a stack");
	if (!is_fine(reader))
		return;
	while (log->frame_id_capacity < log->frame_id_count + shared + own)
		if (!make_room(reader, log->frame_ids, log->frame_id_capacity,
			       log->frame_id_capacity))
			return;
	stack->frame_start = log->frame_id_count;
	stack->frame_count = (uint32_t)(shared + own);
	for (size_t i = own; i-- > 0;) {
		if (__builtin_add_overflow(id, snap_log_get_signed(&reader->cursor), &id) ||
		    !is_fine(reader) || id < 0 || (uint64_t)id >= log->frame_count ||
		    log->frames[id].space != stack->space) {
			snap_log_refuse(&reader->cursor, "invalid frame reference");
			return;
		}
		log->frame_ids[stack->frame_start + i] = (uint32_t)id;
	}
	if (shared && before->space != stack->space)
		snap_log_refuse(&reader->cursor, "frame of two address spaces");
	if (shared)
		memcpy(log->frame_ids + stack->frame_start + own,
		       log->frame_ids + before->frame_start + before->frame_count - shared,
		       shared * sizeof(*log->frame_ids));
	log->frame_id_count += stack->frame_count;
}

static void take_stack(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	unsigned head = (unsigned)get_most(reader, SNAP_LOG_END_BITS | SNAP_LOG_MORE_BIT,
					   "unknown flags of a stack");
	struct snap_log_stack *stack;

	if (!make_room(reader, log->stacks, log->stack_capacity, log->stack_count))
		return;
	stack = &log->stacks[log->stack_count];
	*stack = (struct snap_log_stack){ .end = head & SNAP_LOG_END_BITS };
	stack->space =
		get_index(reader, log->capture->process_count, "invalid address space reference");
	if (head & SNAP_LOG_MORE_BIT) {
		stack->end_pc = get(reader);
		stack->gap_count = get(reader);
		stack->gap_after = (uint32_t)get_most(reader, UINT32_MAX, "invalid gap");
		stack->reason = (uint32_t)get_most(reader, log->reason_count, "invalid reason");
	}
	if (stack->end >= SNAP_UNWIND_COUNT || log->stack_count >= SNAP_LOG_MAX_STACKS)
		snap_log_refuse(&reader->cursor, "unknown end of a stack");
	take_stack_frames(reader, stack);
	if (stack->gap_after && stack->gap_after >= stack->frame_count)
		snap_log_refuse(&reader->cursor, "invalid gap");
	if (is_fine(reader))
		log->stack_count++;
}

void snap_log_read_stacks(struct snap_log_reader *reader)
{
	struct snap_log *log = reader->log;
	size_t count = snap_log_get_count(&reader->cursor, 1);

	while (count-- && is_fine(reader)) {
		const char *reason = snap_log_get_text(reader, SNAP_MAX_NAME);

		if (!reason)
			snap_log_refuse(&reader->cursor, "empty reason");
		else if (make_room(reader, log->reasons, log->reason_capacity, log->reason_count))
			log->reasons[log->reason_count++] = reason;
	}
	take_calls(reader);
	take_frames(reader);
	count = snap_log_get_count(&reader->cursor, 1);
	while (count-- && is_fine(reader))
		take_stack(reader);
}
