/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The sampler from outside: see sampler.h. A tick in its order: the threads that exist, those that
 * have moved, those of them that can be copied while blocked, and the rest, which is stopped.
 */
#include "sample/internal.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/workers.h"
#include "bpf/running.h"
#include "stop/tracer.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
	OTHERS =
		64, /* descriptors left to the rest of the program at least, and a quarter of all */
	MOST_DESCRIPTORS = 1 << 21,
	LOOKS_ONLY_TICK = 8,
	SAMPLE_NS = 2500000, /* in such a tick: for samples of what runs to come */
	LEAST_FRESH = 16,    /* threads whose first stacks each look takes */
	FIRST_MS = 500,  /* of the first look for processes, and as much again for first stacks */
	FACTS_PART = 20, /* of the time to begin in, if that is less, for what processes are … */
	LEAST_FACTS_MS = 50, /* … but not less than this */
	ONLY_PERCENT = 30,   /* the same, of the time of the run where there is one tick */
	LEAST_PERCENT = 10,  /* and so much of it in any case */
	LOOK_PERCENT = 6,    /* for discovery: see snap_discover() */
	EXEC_NS = 1000000,
	MOST_EXECS = 6, /* of a process, that a look follows */
	EXEC_NAP_NS = 200000,
};

static long descriptor_budget(void)
{
	struct rlimit limit = { 0 };
	long most;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	most = limit.rlim_cur > MOST_DESCRIPTORS ? MOST_DESCRIPTORS : (long)limit.rlim_cur;
	return most - (most / 4 > OTHERS ? most / 4 : OTHERS);
}

static enum snap_guard_kind find_guard(const struct snap_sampler *sampler)
{
	enum snap_guard_kind kind = snap_guard_find(&sampler->procfs);

	if (kind == SNAP_GUARD_SCHEDSTAT && sampler->options->dead_counters)
		kind = SNAP_GUARD_SWITCHES;
	return sampler->options->dead_counters > 1 ? SNAP_GUARD_NONE : kind;
}

static void warn_no_guard(struct snap_sampler *sampler)
{
	if (sampler->guard_kind == SNAP_GUARD_NONE)
		snap_capture_warn(sampler->capture, "no_run_counters", 0, 0,
				  "this kernel does not count the runs of threads: a blocked "
				  "thread is looked at again when it has used processor time, "
				  "else every few seconds");
}

/* Nothing is missing then, but threads are stopped, or left out, that would not have to be. */
static void open_bpf(struct snap_sampler *sampler)
{
	int status = snap_reader_open_bpf(sampler->reader);
	char text[128];

	if (status && sampler->options->verbose)
		snap_capture_warn(sampler->capture, "no_bpf", 0, 0,
				  "threads that wait for a processor are stopped, as BPF cannot be "
				  "used: %s",
				  strerror_r(-status, text, sizeof(text)));
}

/* What the first look spends on each of asking and reading processes. */
static int64_t facts_ns(const struct snap_options *options)
{
	const int64_t least = LEAST_FACTS_MS * SNAP_NS_PER_MS, most = FIRST_MS * SNAP_NS_PER_MS;
	int64_t part = options->timeout_ns / FACTS_PART;

	if (!options->timeout_ns || part > most)
		return most;
	return part > least ? part : least;
}

static struct stacksnap_error *first_look(struct snap_sampler *sampler)
{
	/* Where there is one tick, the files of threads need not stay open. */
	const struct snap_discover_known known = {
		.descriptors = sampler->descriptors / (sampler->options->no_stop ? 1 : 4),
		.asker = sampler->asker,
		/* No process is left out of a recording, but one of thousands is read later. */
		.percent = sampler->options->no_stop ? LOOK_PERCENT : 0,
		.facts_ns = sampler->options->no_stop ? 0 : facts_ns(sampler->options),
	};

	sampler->capture = snap_capture_new();
	SNAP_TRY(snap_no_memory_unless(sampler->capture));
	sampler->last_pid = snap_procfs_last_pid(sampler->loadavg_fd);
	warn_no_guard(sampler);
	if (!sampler->options->no_bpf)
		open_bpf(sampler);
	return snap_discover_with(sampler->options, &known, sampler->capture)
		       ?: snap_sampler_add_processes(sampler, sampler->capture);
}

static struct stacksnap_error *init_sampler(struct snap_sampler *sampler)
{
	struct stacksnap_error *err = snap_procfs_open(NULL, &sampler->procfs);
	/* A recording has no use for monitors and names. */
	unsigned unused = sampler->options->no_stop ? 0 : SNAP_RUNTIME_JAVA;

	if (err)
		return err;
	sampler->loadavg_fd = snap_procfs_open_file(sampler->procfs.root_fd, "loadavg");
	sampler->guard_kind = find_guard(sampler);
	sampler->budget = (struct snap_budget_rules){
		.share = sampler->options->no_stop ? 0 : sampler->options->max_stopped,
		.horizon_ns = sampler->options->record_ns,
		.since_ns = INT64_MAX,
	};
	sampler->descriptors = descriptor_budget();
	sampler->stack_size = sampler->options->max_stack + SNAP_STACK_MARGIN + 16;
	/* Before anything large is there, of which their workers would keep a copy. */
	err = snap_reader_new(&sampler->procfs, sampler->options->max_stack, &sampler->reader);
	if (!err && !sampler->options->runtimes_given)
		snap_reader_set_runtimes(sampler->reader, sampler->options->runtimes & ~unused);
	SNAP_TRY(err ?: snap_asker_new(SNAP_WORKERS_BY_PROXY, &sampler->asker));
	sampler->stack = aligned_alloc(16, (sampler->stack_size + 15) & ~(size_t)15);
	return sampler->stack ? first_look(sampler) : snap_error_no_memory();
}

struct stacksnap_error *snap_sampler_create(const struct snap_options *options,
					    const struct snap_sampler_sink *sink,
					    struct snap_sampler **ret)
{
	_cleanup_(snap_sampler_destroyp) struct snap_sampler *sampler = calloc(1, sizeof(*sampler));
	int64_t least_ns;

	SNAP_TRY(snap_no_memory_unless(sampler));
	sampler->options = options;
	sampler->sink = sink;
	sampler->procfs.root_fd = sampler->loadavg_fd = sampler->tracer_fd = sampler->bpf_fd = -1;
	sampler->now_ns = snap_clock_ns(CLOCK_MONOTONIC);
	sampler->until_ns = sampler->now_ns + options->timeout_ns / 100 * 2 * ONLY_PERCENT;
	SNAP_TRY(init_sampler(sampler));
	snap_sampler_open_running(sampler);
	/* However long it took to find them all: some are looked at. */
	least_ns = snap_clock_ns(CLOCK_MONOTONIC) +
		   options->timeout_ns / 100 * (ONLY_PERCENT + LEAST_PERCENT);
	sampler->until_ns = SNAP_MAX(sampler->until_ns, least_ns);
	*ret = snap_take_ptr(sampler);
	return NULL;
}

void snap_sampler_destroy(struct snap_sampler *sampler)
{
	if (!sampler)
		return;
	snap_tracer_end(&sampler->tracer_fd);
	snap_close(&sampler->bpf_fd);
	snap_running_close(sampler->running);
	snap_single_destroy(sampler->single);
	snap_reader_destroy(sampler->reader);
	snap_asker_destroy(sampler->asker);
	for (size_t i = 0; i < sampler->guard_count; i++)
		snap_sampler_thread_destroy(sampler, sampler->guards[i].thread);
	for (size_t i = 0; i < sampler->process_count; i++)
		snap_sampler_process_destroy(sampler, sampler->processes[i]);
	snap_capture_destroy(sampler->capture);
	snap_procfs_close(&sampler->procfs);
	snap_close(&sampler->loadavg_fd);
	free(sampler->processes);
	free(sampler->fresh);
	free(sampler->guards);
	free(sampler->moved);
	free(sampler->dead);
	free(sampler->tids);
	free(sampler->stack);
	free(sampler->stack2);
	free(sampler->image_room);
	free(sampler->words);
	free(sampler->context);
	free(sampler);
}

struct snap_capture *snap_sampler_capture(const struct snap_sampler *sampler)
{
	return sampler->capture;
}

struct snap_capture *snap_sampler_take_capture(struct snap_sampler *sampler)
{
	return snap_take_ptr(sampler->capture);
}

/* What else tells that a thread may have moved; the text is only compared. A negative errno. */
static ssize_t read_traces(struct snap_sampler *sampler, const struct snap_sampler_thread *thread,
			   char *text)
{
	struct snap_stat stat;
	int error = snap_sampler_read_stat(sampler, thread->process, thread->shown.tid, &stat);
	uint64_t traces[3];

	if (error)
		return error;
	traces[0] = (uint64_t)stat.state;
	traces[1] = stat.run_ticks;
	traces[2] = stat.faults;
	memcpy(text, traces, sizeof(traces));
	return sizeof(traces);
}

/* The counters as a text that is only compared; a negative errno. */
static ssize_t read_guard(const struct snap_sampler *sampler, int fd, char *text, size_t size)
{
	struct snap_run_counters counters;
	int error;

	if (sampler->guard_kind == SNAP_GUARD_SCHEDSTAT)
		return snap_procfs_reread(fd, text, size);
	error = snap_guard_read(sampler->guard_kind, fd, &counters);
	memcpy(text, &counters, sizeof(counters));
	return error ? error : (ssize_t)sizeof(counters);
}

static ssize_t read_thread_guard(struct snap_sampler *sampler,
				 const struct snap_sampler_guard *guard, char *text, size_t size)
{
	const char *name = snap_guard_file(sampler->guard_kind);
	const struct snap_sampler_thread *thread = guard->thread;
	_cleanup_fd_ int fd = -1;

	if (!name)
		return read_traces(sampler, thread, text);
	if (guard->guard_fd >= 0)
		return read_guard(sampler, guard->guard_fd, text, size);
	fd = snap_procfs_task_open_file(thread->process->shown.tasks_fd, thread->shown.tid, name);
	return fd < 0 ? fd : read_guard(sampler, fd, text, size);
}

/* Without counters: it was stopped last so long ago that one more time is due. */
static bool is_stop_due(const struct snap_sampler *sampler,
			const struct snap_sampler_thread *thread)
{
	return thread->still_after_ns && sampler->now_ns >= thread->still_after_ns;
}

/*
 * A blocked thread that gets a processor moves its counters at once. What they were is remembered,
 * whatever follows.
 */
static enum snap_sight compare_counters(struct snap_sampler *sampler,
					struct snap_sampler_guard *guard)
{
	char text[2 * SNAP_GUARD_TEXT];
	ssize_t size = read_thread_guard(sampler, guard, text, sizeof(text));

	if (snap_procfs_is_gone(size))
		return SNAP_SIGHT_GONE;
	if (size > 0 && size == guard->size && !memcmp(text, guard->text, guard->size))
		return SNAP_SIGHT_STILL;
	guard->size = size > 0 && size <= SNAP_GUARD_TEXT ? (uint8_t)size : 0;
	memcpy(guard->text, text, guard->size);
	guard->thread->shown.ran_ns = sampler->ran_ns = sampler->now_ns;
	return SNAP_SIGHT_MOVED;
}

/* In an only tick what was had is not looked at again. */
static bool is_guard_done(const struct snap_sampler_guard *guard, bool only_tick)
{
	switch ((enum snap_sampler_thread_state)guard->state) {
	case SNAP_SAMPLER_THREAD_NEW:
	case SNAP_SAMPLER_THREAD_RETRY:
		return false;
	case SNAP_SAMPLER_THREAD_MOVING:
	case SNAP_SAMPLER_THREAD_SETTLED:
		return only_tick;
	case SNAP_SAMPLER_THREAD_GONE:
		break;
	}
	return true;
}

/* Has it moved? Then it is one of `moved`, for which there is room. */
static void look_for_move(struct snap_sampler *sampler, struct snap_sampler_guard *guard)
{
	const struct snap_tick_rules rules = snap_sampler_rules(sampler);
	struct snap_observation seen = { 0 };
	enum snap_tick_action action;

	if (is_guard_done(guard, rules.only_tick))
		return;
	/* Nothing is known that could be kept. */
	seen.sight = rules.only_tick ? SNAP_SIGHT_MOVED : compare_counters(sampler, guard);
	seen.is_due = is_stop_due(sampler, guard->thread);
	action = snap_tick_decide((enum snap_sampler_thread_state)guard->state, &seen, &rules);
	if (action == SNAP_TICK_KEEP) {
		sampler->tick.kept++;
	} else if (action == SNAP_TICK_END) {
		guard->thread->process->list_due = true;
		snap_sampler_thread_end(sampler, guard->thread);
	} else {
		if (guard->state == SNAP_SAMPLER_THREAD_SETTLED && seen.sight != SNAP_SIGHT_STILL)
			guard->state = SNAP_SAMPLER_THREAD_MOVING;
		sampler->moved[sampler->moved_count++] = guard->thread;
	}
}

static struct stacksnap_error *find_moved(struct snap_sampler *sampler)
{
	sampler->moved_count = 0;
	if (!snap_reserve_array(sampler->moved, sampler->moved_capacity, sampler->guard_count))
		return snap_error_no_memory();
	for (size_t i = 0; i < sampler->guard_count; i++)
		look_for_move(sampler, &sampler->guards[i]);
	return NULL;
}

/* The same of one process alone. */
static struct stacksnap_error *find_moved_of(struct snap_sampler *sampler,
					     const struct snap_sampler_process *process)
{
	sampler->moved_count = 0;
	if (!snap_reserve_array(sampler->moved, sampler->moved_capacity, process->thread_count))
		return snap_error_no_memory();
	for (size_t i = 0; i < process->thread_count; i++)
		look_for_move(sampler, &sampler->guards[process->threads[i]->guard]);
	return NULL;
}

/* The process that comes first: if samples are left out, another one each time. */
static size_t first_of_moved(struct snap_sampler *sampler)
{
	const uint64_t step = 7919;
	bool turns = sampler->left_out && sampler->moved_count;

	sampler->left_out = false;
	return turns ? sampler->looks * step % sampler->moved_count : 0;
}

/* What is new has so much time from now on: half of a period, and more in the first look. */
static void give_time(struct snap_sampler *sampler)
{
	const struct snap_options *options = sampler->options;
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);

	if (options->no_stop)
		sampler->fresh_until_ns = sampler->until_ns;
	else if (sampler->ticks == 1)
		sampler->fresh_until_ns = now + FIRST_MS * SNAP_NS_PER_MS;
	else
		sampler->fresh_until_ns = now + 1000000000 / (options->hz ? options->hz : 1) / 2;
}

/*
 * It is new, and can wait: the next look has time for it. A few are never kept waiting, however
 * long the others take.
 */
static bool must_wait(const struct snap_sampler *sampler, const struct snap_sampler_thread *thread,
		      unsigned *fresh)
{
	return snap_sampler_thread_state(sampler, thread) == SNAP_SAMPLER_THREAD_NEW &&
	       !sampler->options->no_stop && ++*fresh > LEAST_FRESH &&
	       !snap_sampler_has_time(sampler);
}

SNAP_ORDER(compare_turns, const struct snap_sampler_thread *, a, b,
	   snap_compare((*a)->turn, (*b)->turn), snap_compare((*a)->guard, (*b)->guard));

/*
 * There may be more new threads than there is time for: then one of each process comes, and another
 * one of each, so that no process waits for all threads of one that has thousands. Known ones
 * come before them.
 */
static void give_turns(struct snap_sampler *sampler)
{
	bool is_any_new = false;

	for (size_t i = 0; i < sampler->moved_count; i++) {
		struct snap_sampler_thread *thread = sampler->moved[i];
		struct snap_sampler_process *process = thread->process;

		thread->turn = 0;
		if (snap_sampler_thread_state(sampler, thread) != SNAP_SAMPLER_THREAD_NEW)
			continue;
		if (process->turn_look != sampler->looks)
			process->turns = 0;
		process->turn_look = sampler->looks;
		thread->turn = ++process->turns;
		is_any_new = true;
	}
	if (is_any_new)
		qsort(sampler->moved, sampler->moved_count, sizeof(struct snap_sampler_thread *),
		      compare_turns);
}

/* The next of them, as far as they follow each other, are located together. */
static struct stacksnap_error *look_ahead(struct snap_sampler *sampler, size_t from, size_t left)
{
	size_t count = sampler->moved_count - from;

	count = count < left ? count : left;
	return snap_sampler_read_ahead(sampler, sampler->moved + from,
				       count < SNAP_READER_MOST ? count : SNAP_READER_MOST);
}

static struct stacksnap_error *look_at_moved(struct snap_sampler *sampler)
{
	size_t first = first_of_moved(sampler), count = sampler->moved_count;
	unsigned fresh = 0;

	if (!sampler->options->no_stop)
		give_turns(sampler);
	for (size_t i = 0; i < count; i++) {
		struct snap_sampler_thread *thread = sampler->moved[(first + i) % count];

		SNAP_TRY(snap_options_check(sampler->options));
		if (must_wait(sampler, thread, &fresh)) {
			sampler->tick.waiting++;
			sampler->tick.missed++;
			continue;
		}
		SNAP_TRY(i % SNAP_READER_MOST
				 ? NULL
				 : look_ahead(sampler, (first + i) % count, count - i));
		if (snap_sampler_thread_gone(sampler, thread))
			continue;
		SNAP_TRY(snap_sampler_tick_thread(sampler, thread));
	}
	return snap_sampler_stop_requested(sampler);
}

/* What was shown of its threads was copied by another plan, or by none. */
static void take_plan(struct snap_sampler *sampler, struct snap_sampler_process *process)
{
	process->plan = process->shown.plan;
	for (size_t i = 0; i < process->thread_count; i++) {
		struct snap_sampler_thread *thread = process->threads[i];

		thread->stack_hash = 0;
		if (snap_sampler_thread_state(sampler, thread) == SNAP_SAMPLER_THREAD_SETTLED)
			snap_sampler_thread_set(sampler, thread, SNAP_SAMPLER_THREAD_MOVING);
	}
}

static struct stacksnap_error *find_threads(struct snap_sampler *sampler)
{
	for (size_t i = 0; i < sampler->process_count; i++) {
		struct snap_sampler_process *process = sampler->processes[i];

		if (process->state != SNAP_SAMPLER_PROCESS_SAMPLED)
			continue;
		if (process->plan != process->shown.plan)
			take_plan(sampler, process);
		SNAP_TRY(snap_sampler_list(sampler, process));
	}
	return snap_sampler_remove_threads(sampler);
}

/*
 * The threads that exist, those that have moved, those of them that can be copied while blocked,
 * and the rest.
 */
static struct stacksnap_error *look_once(struct snap_sampler *sampler)
{
	sampler->looks++;
	give_time(sampler);
	if (sampler->options->no_stop)
		sampler->fresh_until_ns -= sampler->options->timeout_ns / 100 * ONLY_PERCENT;
	SNAP_TRY(snap_sampler_find_processes(sampler));
	SNAP_TRY(snap_sampler_renew(sampler));
	SNAP_TRY(find_threads(sampler));
	SNAP_TRY(find_moved(sampler));
	give_time(sampler);
	return look_at_moved(sampler) ?: snap_sampler_remove_threads(sampler);
}

static bool may_follow(const struct snap_sampler *sampler,
		       const struct snap_sampler_process *process)
{
	return snap_sampler_is_in_exec(sampler, process) &&
	       (process->state != SNAP_SAMPLER_PROCESS_LOST ||
		snap_sampler_may_renew(sampler, process));
}

/* Looks at it as what it is now. */
static struct stacksnap_error *follow_exec(struct snap_sampler *sampler,
					   struct snap_sampler_process *process)
{
	struct stacksnap_error *err = NULL;

	sampler->looks++;
	if (process->state == SNAP_SAMPLER_PROCESS_LOST)
		err = snap_sampler_renew_one(sampler, process);
	if (err || process->state != SNAP_SAMPLER_PROCESS_SAMPLED)
		return err;
	if (process->plan != process->shown.plan)
		take_plan(sampler, process);
	process->list_after_ns = 0;
	SNAP_TRY(snap_sampler_list(sampler, process));
	SNAP_TRY(find_moved_of(sampler, process));
	SNAP_TRY(look_at_moved(sampler));
	return snap_sampler_remove_threads(sampler);
}

/* All of these. *left_ret: some are not had yet, and there is time for them. */
static struct stacksnap_error *follow_all(struct snap_sampler *sampler, bool *left_ret)
{
	struct stacksnap_error *err = NULL;

	*left_ret = false;
	for (size_t i = 0; i < sampler->process_count && !err && snap_sampler_has_time(sampler);
	     i++) {
		struct snap_sampler_process *process = sampler->processes[i];

		if (!may_follow(sampler, process))
			continue;
		err = follow_exec(sampler, process);
		*left_ret |= may_follow(sampler, process);
	}
	return err;
}

/*
 * A process that calls exec all the time would be in one at each look, and have no samples. So it
 * is looked at again, after all others, as often as there is time for.
 */
static struct stacksnap_error *follow_execs(struct snap_sampler *sampler)
{
	struct stacksnap_error *err = NULL;
	bool left = true;

	for (unsigned i = 0; i < MOST_EXECS && left && !err; i++) {
		if (i)
			nanosleep(&(struct timespec){ .tv_nsec = EXEC_NAP_NS }, NULL);
		err = follow_all(sampler, &left);
	}
	return err;
}

static bool is_any_in_exec(const struct snap_sampler *sampler)
{
	return snap_any(sampler->process_count, i,
			snap_sampler_is_in_exec(sampler, sampler->processes[i]));
}

/*
 * If there will be no other tick it looks until no thread is new or running, a bounded number of
 * times. A process that executes a program gets a moment for it.
 */
static struct stacksnap_error *run_tick(struct snap_sampler *sampler)
{
	unsigned looks = sampler->options->no_stop ? LOOKS_ONLY_TICK : 1;
	struct stacksnap_error *err = NULL;
	bool moved = false;

	for (unsigned i = 0; i < looks && !err; i++) {
		bool in_exec = i && is_any_in_exec(sampler);

		if (i && !moved && !in_exec)
			break;
		if (in_exec)
			nanosleep(&(struct timespec){ .tv_nsec = EXEC_NS }, NULL);
		if (sampler->running) {
			if (i == 1)
				nanosleep(&(struct timespec){ .tv_nsec = SAMPLE_NS }, NULL);
			snap_running_drain(sampler->running);
		}
		if (i)
			sampler->now_ns = snap_clock_ns(CLOCK_MONOTONIC);
		sampler->may_retry = i + 1 < looks;
		err = look_once(sampler);
		moved = sampler->moved_count;
		err = err ?: follow_execs(sampler);
	}
	if (err)
		return err;
	snap_sampler_count_in_exec(sampler);
	snap_sampler_remove_processes(sampler);
	return NULL;
}

/* An ended process is not waited for. */
static bool is_alive(const struct snap_sampler_process *process)
{
	return !snap_troubles[process->facts.trouble].ended &&
	       process->state != SNAP_SAMPLER_PROCESS_GONE;
}

static void sum_up_tick(struct snap_sampler *sampler)
{
	struct snap_sampler_tick *tick = &sampler->tick;
	size_t alive = 0, sampled = 0;

	for (size_t i = 0; i < sampler->process_count; i++) {
		enum snap_sampler_process_state state = sampler->processes[i]->state;

		alive += is_alive(sampler->processes[i]);
		sampled += state == SNAP_SAMPLER_PROCESS_SAMPLED ||
			   state == SNAP_SAMPLER_PROCESS_NEW ||
			   state == SNAP_SAMPLER_PROCESS_LOST ||
			   state == SNAP_SAMPLER_PROCESS_UNRESPONSIVE;
	}
	tick->threads = (uint32_t)sampler->guard_count;
	tick->disk = (uint32_t)sampler->disk;
	tick->run_ns = sampler->run_ns;
	tick->stood_ns = sampler->stood_ns;
	tick->waiting += (uint32_t)(sampler->fresh_count - sampler->fresh_at);
	tick->no_targets = alive == 0;
	tick->refused = alive && !sampled;
	tick->end_ns = snap_clock_ns(CLOCK_MONOTONIC);
}

struct stacksnap_error *snap_sampler_tick(struct snap_sampler *sampler,
					  struct snap_sampler_tick *ret)
{
	SNAP_TRY(snap_options_check(sampler->options));
	sampler->now_ns = snap_clock_ns(CLOCK_MONOTONIC);
	sampler->tick = (struct snap_sampler_tick){ .begin_ns = sampler->now_ns };
	sampler->request_count = 0;
	sampler->plan_ns = 0;
	sampler->ticks++;
	snap_sampler_begin_context(sampler);
	SNAP_TRY(run_tick(sampler));
	sum_up_tick(sampler);
	/* The first look is no part of the time that a recording takes. */
	if (sampler->ticks == 1)
		sampler->budget.since_ns = sampler->tick.end_ns;
	*ret = sampler->tick;
	return NULL;
}
