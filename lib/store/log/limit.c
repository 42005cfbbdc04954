/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The limit of a log: the cost of its elements, and which of them there is room for. See log.h.
 *
 * The cost of an element is its memory in the log, and in the recording and the report that are made of
 * the log at the end, which exist at the same time. Stacks, frames and threads together get half of the
 * limit, processes and their mappings a quarter, waits an eighth, wakes a sixteenth; ticks, changes and
 * owner changes get the rest. A process that uses much is restricted first, so that it loses its own
 * stacks and not those of others. Knows nothing of how elements are left out.
 */
#include "store/log/index.h"

#include <assert.h>
#include <string.h>

enum {
	COST_STACK = 1024,
	COST_FRAME_OF_STACK = 12, /* its number here, a pointer in the recording */
	COST_FRAME = 512,         /* a distinct one, with its name */
	COST_THREAD = 512,
	COST_TASK = 1024, /* beside the thread's, with its place in the report */
	COST_NAME = 64,   /* another name of a thread */
	COST_LABELS = 128,
	COST_LABEL = 64, /* beside its texts, which the log and the report have */
	COST_PROCESS = 2048,
	COST_TICK = 64,
	COST_OBJECT = 384, /* with its place in the report */
	COST_DESCRIPTOR = 160,
	COST_WORDS = 96,
	COST_PIECE = 32, /* beside its bytes */
	COST_SOCKET = 192,
	COST_EXPLAINED = 64,
	COST_WAIT = 1024, /* beside its texts */
	COST_HOLD = 48,
	COST_WAKE = 16,       /* with its place in the recording */
	WAKES_PART = 16,      /* of the limit */
	COST_CHANGE = 64,     /* a run of the recording is one or two changes */
	MOST_LEFT_OUT = 1024, /* ticks for each one that is kept */
};

static uint64_t stack_cost(size_t frames)
{
	return COST_STACK + frames * (uint64_t)COST_FRAME_OF_STACK;
}

/* ---- accounts ---- */

static struct snap_log_account *account_of(const struct snap_log *log, uint32_t process)
{
	assert(process < log->index->account_count);
	return &log->index->accounts[process];
}

bool snap_log_open_account(struct snap_log *log, uint32_t process, uint32_t before)
{
	struct snap_log_index *index = log->index;

	if (!log->max_bytes)
		return true;
	if (!snap_reserve_array(index->accounts, index->account_capacity, process + (size_t)1))
		return false;
	index->account_count = process + (size_t)1;
	/* A process that goes on as another program keeps its cost. */
	index->accounts[process] =
		before == UINT32_MAX ? (struct snap_log_account){ 0 } : index->accounts[before];
	return true;
}

static void charge_things(struct snap_log *log, uint32_t process, uint64_t cost)
{
	if (!log->max_bytes)
		return;
	account_of(log, process)->things += cost;
	log->index->things += cost;
}

static uint64_t text_cost(const char *text)
{
	return text ? 2 * (strlen(text) + 1) : 0;
}

void snap_log_charge_frame(struct snap_log *log, uint32_t frame)
{
	const struct snap_log_frame *charged = &log->frames[frame];
	uint64_t cost = COST_FRAME;

	if (!log->max_bytes)
		return;
	if (charged->is_managed) {
		const struct snap_frame *name = &log->names[charged->name - 1];

		for (size_t i = 0; i < name->entry_count; i++)
			cost += sizeof(*name->entries) + text_cost(name->entries[i].function) +
				text_cost(name->entries[i].symbol) +
				text_cost(name->entries[i].file);
	}
	charge_things(log, log->spaces[charged->space].process, cost);
}

void snap_log_charge_labels(struct snap_log *log, uint32_t set)
{
	const struct snap_log_labels *charged = &log->label_sets[set];
	uint64_t cost = COST_LABELS;

	if (!log->max_bytes)
		return;
	for (size_t i = 0; i < charged->count; i++)
		cost += COST_LABEL + text_cost(charged->labels[i].key) +
			text_cost(charged->labels[i].value);
	charge_things(log, log->spaces[charged->space].process, cost);
}

void snap_log_charge_stack(struct snap_log *log, uint32_t space, size_t frames)
{
	charge_things(log, log->spaces[space].process, stack_cost(frames));
}

void snap_log_charge_thread(struct snap_log *log, uint32_t process)
{
	charge_things(log, process, COST_THREAD);
}

void snap_log_charge_task(struct snap_log *log, uint32_t thread)
{
	const struct snap_log_task *task = &log->tasks[log->threads[thread].task - 1];
	const struct snap_entry *by = task->created_by;

	charge_things(log, log->threads[thread].process,
		      COST_TASK + text_cost(task->id) + text_cost(task->name) +
			      text_cost(task->parent) + text_cost(by ? by->function : NULL) +
			      text_cost(by ? by->file : NULL));
}

void snap_log_charge_name(struct snap_log *log, uint32_t process)
{
	charge_things(log, process, COST_NAME);
}

void snap_log_charge_space(struct snap_log *log, uint32_t space)
{
	struct snap_log_index *index = log->index;
	struct snap_log_space_index *owned = &index->spaces[space];
	uint64_t bytes = log->spaces[space].arena.total +
			 log->capture->processes[space].map_count * sizeof(struct snap_map) +
			 owned->blob_count * (sizeof(struct snap_piece) + sizeof(void *));

	if (log->max_bytes && bytes > owned->bytes)
		account_of(log, log->spaces[space].process)->spaces += bytes - owned->bytes;
	index->space_bytes += bytes - owned->bytes;
	owned->bytes = bytes;
}

static void charge_wait(struct snap_log *log, uint32_t space, uint64_t cost)
{
	if (!log->max_bytes)
		return;
	account_of(log, log->spaces[space].process)->waits += cost;
	log->index->waits += cost;
}

void snap_log_charge_object(struct snap_log *log, uint32_t object)
{
	const struct snap_log_object *charged = &log->objects[object];
	uint64_t cost = COST_OBJECT;

	for (uint32_t i = 0; log->max_bytes && i < charged->descriptor_count; i++)
		cost += COST_DESCRIPTOR + text_cost(charged->descriptors[i].link);
	charge_wait(log, charged->space, cost);
}

void snap_log_charge_wait_bytes(struct snap_log *log, uint32_t words)
{
	const struct snap_log_wait_bytes *charged = &log->words[words];
	uint64_t cost = COST_WORDS;

	for (uint32_t i = 0; log->max_bytes && i < charged->piece_count; i++)
		cost += COST_PIECE + charged->pieces[i].size;
	charge_wait(log, charged->space, cost);
}

void snap_log_charge_socket(struct snap_log *log)
{
	log->index->waits += log->max_bytes ? COST_SOCKET : 0;
}

void snap_log_charge_explained(struct snap_log *log, uint32_t explained)
{
	const struct snap_wait *wait = log->explained[explained].wait;
	uint64_t cost = COST_EXPLAINED;

	if (!log->max_bytes)
		return;
	if (wait)
		cost += COST_WAIT + text_cost(wait->symbol) + text_cost(wait->module) +
			text_cost(wait->path) + wait->fds_count * 2 * sizeof(*wait->fds) +
			wait->peer_count * sizeof(*wait->peers);
	charge_wait(log, log->objects[log->explained[explained].object].space, cost);
}

static void count_costs_of_waits(struct snap_log *log)
{
	log->index->waits = 0;
	for (size_t i = 0; i < log->words_count; i++)
		snap_log_charge_wait_bytes(log, (uint32_t)i);
	for (size_t i = 0; i < log->object_count; i++)
		snap_log_charge_object(log, (uint32_t)i);
	for (size_t i = 0; i < log->socket_count; i++)
		snap_log_charge_socket(log);
	for (size_t i = 0; i < log->explained_count; i++)
		snap_log_charge_explained(log, (uint32_t)i);
}

/* After a renumbering. */
void snap_log_count_costs(struct snap_log *log)
{
	struct snap_log_index *index = log->index;

	if (!log->max_bytes)
		return;
	index->things = 0;
	index->account_count = log->process_count;
	if (log->process_count)
		memset(index->accounts, 0, log->process_count * sizeof(*index->accounts));
	for (size_t i = 0; i < log->thread_count; i++) {
		snap_log_charge_thread(log, log->threads[i].process);
		if (log->threads[i].task)
			snap_log_charge_task(log, (uint32_t)i);
	}
	for (size_t i = 0; i < log->frame_count; i++)
		snap_log_charge_frame(log, (uint32_t)i);
	for (size_t i = 0; i < log->label_set_count; i++)
		snap_log_charge_labels(log, (uint32_t)i);
	for (size_t i = 0; i < log->stack_count; i++)
		snap_log_charge_stack(log, log->stacks[i].space, log->stacks[i].frame_count);
	for (size_t i = 0; i < log->capture->process_count; i++)
		if (index->spaces[i].version)
			account_of(log, log->spaces[i].process)->spaces += index->spaces[i].bytes;
	count_costs_of_waits(log);
}

/* ---- room ---- */

/*
 * How much of its next stacks a process may have, by the use of all processes and its own use. A single
 * process ends at three eighths of the limit; the last sixteenth of a half is for the small ones.
 */
static enum snap_log_detail detail_for(uint64_t all, uint64_t own, uint64_t limit)
{
	if (all >= limit / 2 || own > limit / 8 * 3 || (all >= limit / 16 * 7 && own > limit / 256))
		return SNAP_LOG_NOTHING;
	if (own > limit / 16 * 5 || (all >= limit / 8 * 3 && own > limit / 64))
		return SNAP_LOG_FEWEST;
	if (own > limit / 4 || (all >= limit / 4 && own > limit / 32))
		return SNAP_LOG_FEW;
	return SNAP_LOG_ALL;
}

enum snap_log_detail snap_log_stack_detail(const struct snap_log *log, uint32_t space,
					   size_t frames)
{
	enum snap_log_detail detail;

	if (!log->max_bytes)
		return SNAP_LOG_ALL;
	detail = detail_for(log->index->things, account_of(log, log->spaces[space].process)->things,
			    log->max_bytes);
	/* One stack may be as long as its memory is. */
	if (detail == SNAP_LOG_ALL &&
	    frames * (uint64_t)(COST_FRAME + COST_FRAME_OF_STACK) > log->max_bytes / 16)
		return SNAP_LOG_FEW;
	return detail;
}

bool snap_log_has_room_for_thread(const struct snap_log *log, uint32_t process)
{
	return !log->max_bytes || detail_for(log->index->things, account_of(log, process)->things,
					     log->max_bytes) != SNAP_LOG_NOTHING;
}

/* A single process ends at three quarters of the room; the rest is for the small ones. */
static bool has_room_for_wait(const struct snap_log *log, uint32_t space, uint64_t most)
{
	uint64_t own;

	if (!log->max_bytes)
		return true;
	own = account_of(log, log->spaces[space].process)->waits;
	return log->index->waits < most && own < most / 4 * 3 &&
	       (log->index->waits < most / 4 * 3 || own < most / 16);
}

bool snap_log_has_room_for_object(const struct snap_log *log, uint32_t space)
{
	return has_room_for_wait(log, space, log->max_bytes / 8);
}

bool snap_log_has_room_for_socket(const struct snap_log *log)
{
	return !log->max_bytes || log->index->waits < log->max_bytes / 8;
}

/* Comes last, when all objects are there. */
bool snap_log_has_room_for_explained(const struct snap_log *log, uint32_t space)
{
	return has_room_for_wait(log, space, log->max_bytes / 16 * 3);
}

/* They make the longest waits exact, and no more: samples come before them. */
bool snap_log_has_room_for_wake(const struct snap_log *log)
{
	return !log->max_bytes ||
	       log->wake_count * (uint64_t)COST_WAKE < log->max_bytes / WAKES_PART;
}

static uint64_t cost_of_spaces(const struct snap_log *log)
{
	return log->index->space_bytes + log->index->blob_bytes +
	       log->process_count * (uint64_t)COST_PROCESS;
}

bool snap_log_has_room_for_process(const struct snap_log *log)
{
	return !log->max_bytes || cost_of_spaces(log) < log->max_bytes / 4;
}

bool snap_log_has_room_for_maps(const struct snap_log *log, uint32_t process)
{
	return snap_log_has_room_for_process(log) &&
	       (!log->max_bytes || account_of(log, process)->spaces < log->max_bytes / 8);
}

uint64_t snap_log_cost(const struct snap_log *log)
{
	return log->index->things + log->index->waits + cost_of_spaces(log) + log->arena.total +
	       log->capture->arena.total + log->tick_count * (uint64_t)COST_TICK +
	       log->change_count * (uint64_t)COST_CHANGE + log->owner_count * (uint64_t)COST_HOLD +
	       log->wake_count * (uint64_t)COST_WAKE;
}

bool snap_log_is_full(const struct snap_log *log)
{
	return log->max_bytes && snap_log_cost(log) >= log->max_bytes;
}

/*
 * While a quarter is free all ticks are kept; then every second one until an eighth is, and so on: the
 * room that is left lasts twice as long each time.
 */
unsigned snap_log_ticks_to_leave_out(struct snap_log *log)
{
	uint64_t cost = log->max_bytes ? snap_log_cost(log) : 0, limit = log->max_bytes;
	uint64_t left = cost < limit ? limit - cost : 0;
	unsigned one_of = 1;

	while (one_of < MOST_LEFT_OUT && left < limit / 4 / one_of)
		one_of *= 2;
	if (one_of > 1)
		log->cuts |= SNAP_LOG_CUT_TICKS;
	return one_of - 1;
}

bool snap_log_ring_is_tight(const struct snap_log *log)
{
	return log->max_bytes && (log->index->things >= log->max_bytes / 4 ||
				  snap_log_cost(log) >= log->max_bytes / 4 * 3);
}
