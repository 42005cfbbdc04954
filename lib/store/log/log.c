/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Logs: creation, processes, threads, ticks and changes. See log.h; spaces are in space.c,
 * stacks in stack.c, objects of waits in object.c, the end of a ring in forget.c.
 */
#include "base/buffer.h"
#include "store/log/index.h"

#include <assert.h>
#include <string.h>

enum { MOST_PROCESSES = 1 << 24, MOST_THREADS = 1 << 28 };

static struct stacksnap_error *too_many_items(const char *what)
{
	return snap_error_format(SNAP_ERROR_OTHER, "the recording has too many %s", what);
}

static bool make_index(struct snap_log *log, size_t spaces)
{
	struct snap_log_index *index = calloc(1, sizeof(*index));

	log->index = index;
	if (!index)
		return false;
	index->space_capacity = spaces;
	index->spaces = calloc(spaces, sizeof(*index->spaces));
	log->spaces = calloc(spaces, sizeof(*log->spaces));
	log->capture = snap_capture_new();
	if (!index->spaces || !log->spaces || !log->capture)
		return false;
	log->capture->processes = calloc(spaces, sizeof(*log->capture->processes));
	return log->capture->processes;
}

struct stacksnap_error *snap_log_new(size_t spaces, struct snap_log **ret)
{
	_cleanup_(snap_log_destroyp) struct snap_log *log = calloc(1, sizeof(*log));

	SNAP_TRY(snap_no_memory_unless(log));
	snap_arena_init(&log->arena);
	snap_interner_init(&log->strings, &log->arena);
	log->end = SNAP_END_UNFINISHED;
	SNAP_TRY(snap_no_memory_unless(make_index(log, spaces ? spaces : 1)));
	*ret = snap_take_ptr(log);
	return NULL;
}

static bool copy_log_text(struct snap_arena *arena, const char **text)
{
	if (*text)
		*text = snap_arena_strdup(arena, *text);
	return *text;
}

struct stacksnap_error *snap_log_create(const struct snap_host *host, int64_t time_ns,
					int64_t period_ns, bool cpu_only, struct snap_log **ret)
{
	_cleanup_(snap_log_destroyp) struct snap_log *log = NULL;
	struct snap_arena *arena;

	SNAP_TRY(snap_log_new(SNAP_LOG_MAX_SPACES, &log));
	arena = &log->capture->arena;
	log->capture->host = *host;
	log->capture->live = calloc(SNAP_LOG_MAX_SPACES, sizeof(*log->capture->live));
	if (!log->capture->live ||
	    (!copy_log_text(arena, &log->capture->host.name) && host->name) ||
	    (!copy_log_text(arena, &log->capture->host.kernel) && host->kernel) ||
	    (!copy_log_text(arena, &log->capture->host.arch) && host->arch) ||
	    (!copy_log_text(arena, &log->capture->host.boot_id) && host->boot_id))
		return snap_error_no_memory();
	log->capture->time_ns = time_ns;
	log->time_ns = time_ns;
	log->period_ns = period_ns;
	log->cpu_only = cpu_only;
	*ret = snap_take_ptr(log);
	return NULL;
}

static void destroy_index(struct snap_log *log)
{
	struct snap_log_index *index = log->index;

	if (!index)
		return;
	for (size_t i = 0; log->capture && i < log->capture->process_count; i++)
		if (index->spaces[i].version)
			snap_log_space_drop(log, (uint32_t)i);
	if (log->ticks)
		free(log->ticks - index->tick_gap);
	if (log->changes)
		free(log->changes - index->change_gap);
	if (log->owners)
		free(log->owners - index->hold_gap);
	if (log->wakes)
		free(log->wakes - index->wake_gap);
	free(index->spaces);
	snap_hash_table_deinit(&index->frames);
	snap_hash_table_deinit(&index->stacks);
	snap_hash_table_deinit(&index->label_sets);
	snap_hash_table_deinit(&index->words);
	snap_hash_table_deinit(&index->objects);
	snap_hash_table_deinit(&index->sockets);
	snap_hash_table_deinit(&index->explained);
	free(index->standing);
	free(index->held);
	free(index->awake);
	free(index->socket_stamps);
	free(index->pieces);
	free(index->piece_bytes);
	free(index->ids);
	free(index->accounts);
	free(index->process_moves.to);
	free(index->space_moves.to);
	free(index->thread_moves.to);
	free(index->stack_moves.to);
	free(index->object_moves.to);
	free(index);
}

void snap_log_destroy(struct snap_log *log)
{
	if (!log)
		return;
	destroy_index(log);
	if (log->capture)
		free(log->capture->processes);
	snap_capture_destroy(log->capture);
	free(log->spaces);
	free(log->processes);
	free(log->threads);
	free(log->tasks);
	free(log->frames);
	free(log->frame_ids);
	free(log->stacks);
	free(log->reasons);
	free(log->label_sets);
	free(log->calls);
	free(log->words);
	free(log->objects);
	free(log->owners_before);
	free(log->ran_before);
	free(log->sockets);
	free(log->explained);
	free(log->names);
	free(log->before);
	snap_interner_deinit(&log->strings);
	snap_arena_deinit(&log->arena);
	free(log);
}

struct stacksnap_error *snap_log_add_process(struct snap_log *log, pid_t pid, uint64_t start_ticks,
					     uint32_t parent, uint32_t before, bool is_target,
					     uint32_t *ret)
{
	assert(parent == UINT32_MAX || parent < log->process_count);
	assert(before == UINT32_MAX || before < log->process_count);
	if (log->process_count >= MOST_PROCESSES)
		return too_many_items("processes");
	if (!snap_reserve_array(log->processes, log->process_capacity, log->process_count + 1) ||
	    !snap_log_open_account(log, (uint32_t)log->process_count, before))
		return snap_error_no_memory();
	log->processes[log->process_count] = (struct snap_log_process){
		.pid = pid,
		.start_ticks = start_ticks,
		.parent = parent,
		.space = UINT32_MAX,
		.first_tick = snap_log_tick_at(log),
		.last_tick = UINT64_MAX,
		.is_target = is_target,
	};
	if (before != UINT32_MAX) {
		snap_log_end_process(log, before);
		log->processes[before].execed = true;
	}
	*ret = (uint32_t)log->process_count++;
	return NULL;
}

void snap_log_end_process(struct snap_log *log, uint32_t process)
{
	struct snap_log_process *ended;
	uint64_t tick = snap_log_tick_at(log);

	assert(process < log->process_count);
	ended = &log->processes[process];
	if (ended->last_tick == UINT64_MAX)
		ended->last_tick = tick > ended->first_tick ? tick - 1 : tick;
}

struct stacksnap_error *snap_log_add_thread(struct snap_log *log, uint32_t process, pid_t tid,
					    pid_t ns_tid, const char *name, bool kernel,
					    uint32_t *ret)
{
	struct snap_log_index *index = log->index;
	struct snap_log_thread thread = { process, tid, ns_tid, name, kernel, 0 };
	uint32_t number = (uint32_t)log->thread_count;

	assert(process < log->process_count);
	if (log->thread_count >= MOST_THREADS)
		return too_many_items("threads");
	if (!snap_intern_text(&log->strings, &thread.name, SNAP_MAX_COMM) ||
	    !snap_reserve_array(log->threads, log->thread_capacity, log->thread_count + 1) ||
	    !snap_reserve_array(index->standing, index->standing_capacity, log->thread_count + 1))
		return snap_error_no_memory();
	log->threads[number] = thread;
	index->standing[number] = (struct snap_log_standing){
		.change = { .thread = number, .stack = SNAP_LOG_GONE, .syscall = -1 },
		.begin = snap_log_tick_at(log),
	};
	log->thread_count++;
	snap_log_charge_thread(log, process);
	*ret = number;
	return NULL;
}

struct stacksnap_error *snap_log_rename_thread(struct snap_log *log, uint32_t thread,
					       const char *name)
{
	assert(thread < log->thread_count);
	SNAP_TRY(snap_no_memory_unless(snap_intern_text(&log->strings, &name, SNAP_MAX_COMM)));
	log->threads[thread].name = name;
	snap_log_charge_name(log, log->threads[thread].process);
	return NULL;
}

void snap_log_set_limit(struct snap_log *log, uint64_t bytes)
{
	assert(log->process_count == 0);
	log->max_bytes = bytes;
}

bool snap_log_grow_behind_gap(void *pointer_to_array, size_t *gap, size_t *capacity, size_t count,
			      size_t size)
{
	size_t whole = *capacity + *gap;
	char *base;

	if (count < *capacity)
		return true;
	memcpy(&base, pointer_to_array, sizeof(base));
	if (base)
		base -= *gap * size;
	/* A gap as large as the rest is used again; else the memory of both grows. */
	if ((*gap == 0 || *gap < count) &&
	    !snap_array_reserve(&base, &whole, count + *gap + 1, size, SIZE_MAX))
		return false;
	if (*gap)
		memmove(base, base + *gap * size, count * size);
	memcpy(pointer_to_array, &base, sizeof(base));
	*gap = 0;
	*capacity = whole;
	return true;
}

struct stacksnap_error *snap_log_begin_tick(struct snap_log *log, int64_t time_ns)
{
	struct snap_log_index *index = log->index;
	struct snap_log_tick *tick;

	if (!snap_log_grow_behind_gap(&log->ticks, &index->tick_gap, &log->tick_capacity,
				      log->tick_count, sizeof(*log->ticks)))
		return snap_error_no_memory();
	tick = &log->ticks[log->tick_count];
	/* Time grows strictly, whatever a clock says. */
	if (log->tick_count && time_ns <= tick[-1].time_ns)
		time_ns = tick[-1].time_ns + 1;
	*tick = (struct snap_log_tick){ .time_ns = time_ns,
					.change_end = log->first_change + log->change_count,
					.owner_end = log->first_owner + log->owner_count,
					.wake_end = log->first_wake + log->wake_count };
	log->tick_count++;
	index->in_tick = true;
	return NULL;
}

static bool same_standing(const struct snap_log_change *a, const struct snap_log_change *b)
{
	/* Only the first sample says how it was taken. */
	return a->stack == b->stack &&
	       (a->stack == SNAP_LOG_GONE ||
		(a->syscall == b->syscall && a->state == b->state && a->object == b->object));
}

/* A process that has gone on as another program waits for nothing of the old one. */
static bool is_own_object(const struct snap_log *log, const struct snap_log_change *change)
{
	uint32_t space = log->objects[change->object - 1].space;

	return log->spaces[space].process == log->threads[change->thread].process;
}

struct stacksnap_error *snap_log_change(struct snap_log *log, const struct snap_log_change *asked)
{
	struct snap_log_index *index = log->index;
	struct snap_log_change change = *asked;
	struct snap_log_standing *standing;
	uint64_t begin;

	assert(index->in_tick && change.thread < log->thread_count);
	assert(change.stack == SNAP_LOG_GONE || change.stack < log->stack_count);
	assert(change.object <= log->object_count);
	assert(change.state < SNAP_STATE_COUNT && change.taken < SNAP_TAKEN_COUNT);
	standing = &index->standing[change.thread];
	if (change.stack == SNAP_LOG_GONE)
		change = (struct snap_log_change){ .thread = change.thread,
						   .stack = SNAP_LOG_GONE,
						   .syscall = -1 };
	else if (change.object && !is_own_object(log, &change))
		change.object = 0;
	if (same_standing(&standing->change, &change))
		return NULL;
	begin = log->tick_count > 1 ? log->ticks[log->tick_count - 2].change_end
				    : log->first_change;
	if (standing->last > begin) {
		/*
		 * The thread was seen before in this tick: the later change replaces the earlier.
		 */
		log->changes[standing->last - 1 - log->first_change] = change;
		standing->change = change;
		return NULL;
	}
	if (!snap_log_grow_behind_gap(&log->changes, &index->change_gap, &log->change_capacity,
				      log->change_count, sizeof(*log->changes)))
		return snap_error_no_memory();
	log->changes[log->change_count++] = change;
	log->ticks[log->tick_count - 1].change_end++;
	standing->change = change;
	standing->last = log->first_change + log->change_count;
	return NULL;
}

struct stacksnap_error *snap_log_end_thread(struct snap_log *log, uint32_t thread)
{
	struct snap_log_change gone = { .thread = thread, .stack = SNAP_LOG_GONE, .syscall = -1 };

	assert(thread < log->thread_count);
	log->index->standing[thread].ended = true;
	return snap_log_change(log, &gone);
}

void snap_log_end_tick(struct snap_log *log, int64_t stopped_ns)
{
	assert(log->index->in_tick);
	snap_log_settle_wakes(log);
	log->ticks[log->tick_count - 1].stopped_ns = stopped_ns;
	log->index->in_tick = false;
}

const struct snap_log_change *snap_log_standing(const struct snap_log *log, uint32_t thread)
{
	assert(thread < log->thread_count);
	return &log->index->standing[thread].change;
}
