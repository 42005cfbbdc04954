/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which processes belong to the tree. New processes are looked for when the kernel has given away a
 * pid, at a bounded rate; each look is a discovery that reads labels of new processes alone, so
 * that nothing of it stays but the new processes.
 */
#include "sample/internal.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <errno.h>
#include <string.h>

enum {
	LEAST_MS = 100,   /* between two looks */
	SHARE = 20,       /* of the time at most one part in so many is spent on them */
	RETRY_SHARE = 10, /* the same of asking those again that did not respond */
	AGAIN_MS = 1000,
	LESS_PATIENCE = 10, /* percent, where some have not answered before */
	LEAST_FIRST = 8,    /* processes that the first tick looks at */
	FACTS_MS = 100,     /* for what new processes are, in one look for them */
};

static int64_t ms(int64_t count)
{
	return count * SNAP_NS_PER_MS;
}

void snap_sampler_process_drop_live(struct snap_sampler *sampler, struct snap_live *live)
{
	sampler->descriptors += snap_live_count(live);
	snap_live_close(live);
}

void snap_sampler_process_take_live(struct snap_sampler *sampler, struct snap_live *from,
				    struct snap_live *ret)
{
	*ret = *from;
	*from = (struct snap_live){ -1, -1, -1, -1, -1 };
	sampler->descriptors -= snap_live_count(ret);
}

int snap_sampler_process_directory(const struct snap_sampler *sampler,
				   struct snap_sampler_process *process)
{
	_cleanup_fd_ int fd = snap_procfs_open_process(&sampler->procfs, process->facts.pid);
	struct snap_stat stat;
	int error = fd < 0 ? fd : snap_sampler_read_stat(sampler, process, 0, &stat);

	if (error)
		return error == -ENOENT ? -ESRCH : error;
	return stat.start_ticks == process->facts.start_ticks ? snap_take_fd(&fd) : -ESRCH;
}

/* The first process that is not before (pid, start time). */
static size_t find_position(const struct snap_sampler *sampler, pid_t pid, uint64_t start_ticks)
{
	struct snap_sampler_process **processes = sampler->processes;

	return snap_first_not(sampler->process_count, i,
			      processes[i]->facts.pid < pid ||
				      (processes[i]->facts.pid == pid &&
				       processes[i]->facts.start_ticks < start_ticks));
}

struct snap_sampler_process *snap_sampler_process_find(const struct snap_sampler *sampler,
						       pid_t pid, uint64_t start_ticks)
{
	size_t at = find_position(sampler, pid, start_ticks);
	struct snap_sampler_process *process =
		at < sampler->process_count ? sampler->processes[at] : NULL;

	return process && process->facts.pid == pid && process->facts.start_ticks == start_ticks
		       ? process
		       : NULL;
}

void snap_sampler_process_destroy(struct snap_sampler *sampler,
				  struct snap_sampler_process *process)
{
	snap_sampler_process_drop_live(sampler, &process->live);
	sampler->descriptors += process->shown.tasks_fd >= 0;
	snap_close(&process->shown.tasks_fd);
	snap_sampler_process_reported(process);
	snap_arena_deinit(&process->arena);
	snap_sampler_space_put(sampler, process->space);
	free(process->threads);
	free(process->trouble_text);
	free(process);
}

static struct snap_sampler_process *new_process(void)
{
	struct snap_sampler_process *process = calloc(1, sizeof(*process));

	if (!process)
		return NULL;
	process->live = (struct snap_live){ -1, -1, -1, -1, -1 };
	process->shown.tasks_fd = -1;
	process->shown.facts = &process->facts;
	process->shown.live = &process->live;
	snap_arena_init(&process->arena);
	snap_arena_init(&process->pieces);
	return process;
}

static struct stacksnap_error *insert_process(struct snap_sampler *sampler,
					      struct snap_sampler_process *process)
{
	size_t at = find_position(sampler, process->facts.pid, process->facts.start_ticks);

	SNAP_TRY(snap_no_memory_unless(snap_reserve_array(
		sampler->processes, sampler->process_capacity, sampler->process_count + 1)));
	memmove(sampler->processes + at + 1, sampler->processes + at,
		(sampler->process_count - at) * sizeof(*sampler->processes));
	sampler->processes[at] = process;
	sampler->process_count++;
	return NULL;
}

/*
 * The order when there is no time for all: processes with few ancestors and few elder siblings come
 * first, so that neither thousands of children nor a long row of generations keep others waiting.
 */
static void rank_process(struct snap_sampler *sampler, struct snap_sampler_process *process,
			 struct snap_sampler_process *parent)
{
	process->rank = parent ? parent->rank + 1 + parent->children++ : sampler->roots++;
}

SNAP_ORDER(compare_ranks, const struct snap_sampler_process *, a, b,
	   snap_compare((*a)->rank, (*b)->rank), snap_compare((*a)->facts.pid, (*b)->facts.pid));

static struct stacksnap_error *add_sampled_process(struct snap_sampler *sampler,
						   const struct snap_capture *capture, size_t index)
{
	const struct snap_process *facts = &capture->processes[index];
	struct snap_sampler_process *process = new_process(), *parent = NULL;
	struct stacksnap_error *err;

	SNAP_TRY(snap_no_memory_unless(process));
	err = snap_facts_copy(&process->arena, facts, &process->facts);
	if (!err &&
	    !snap_reserve_array(sampler->fresh, sampler->fresh_capacity, sampler->fresh_count + 1))
		err = snap_error_no_memory();
	err = err ?: insert_process(sampler, process);
	if (err) {
		snap_sampler_process_destroy(sampler, process);
		return err;
	}
	if (capture->live)
		snap_sampler_process_take_live(sampler, &capture->live[index], &process->live);
	if (facts->parent < capture->process_count) {
		const struct snap_process *above = &capture->processes[facts->parent];

		parent = snap_sampler_process_find(sampler, above->pid, above->start_ticks);
	}
	process->shown.parent = parent ? &parent->shown : NULL;
	rank_process(sampler, process, parent);
	sampler->fresh[sampler->fresh_count++] = process;
	process->shown.index = capture == sampler->capture ? index : SIZE_MAX;
	return NULL;
}

/* Those that did not answer are asked again with each discovery, while all others wait. */
static void note_silence(struct snap_sampler *sampler, const struct snap_capture *capture)
{
	for (size_t i = 0; i < capture->process_count; i++)
		if (capture->processes[i].trouble == SNAP_TROUBLE_NOT_RESPONDING)
			snap_asker_set_patience(sampler->asker, LESS_PATIENCE);
}

struct stacksnap_error *snap_sampler_add_processes(struct snap_sampler *sampler,
						   struct snap_capture *capture)
{
	bool first = capture == sampler->capture;

	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		if (snap_sampler_process_find(sampler, process->pid, process->start_ticks))
			continue;
		/* What went by between two looks was never there. */
		if (!first && (process->vanished || process->trouble == SNAP_TROUBLE_ZOMBIE))
			continue;
		SNAP_TRY(add_sampled_process(sampler, capture, i));
	}
	note_silence(sampler, capture);
	qsort(sampler->fresh + sampler->fresh_at, sampler->fresh_count - sampler->fresh_at,
	      sizeof(*sampler->fresh), compare_ranks);
	return NULL;
}

static const struct snap_process *known_process(void *context, pid_t pid, uint64_t start_ticks)
{
	const struct snap_sampler_process *process =
		snap_sampler_process_find(context, pid, start_ticks);

	return process ? &process->facts : NULL;
}

static struct stacksnap_error *discover_new_processes(struct snap_sampler *sampler)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	const struct snap_discover_known known = {
		.find = known_process,
		.context = sampler,
		.descriptors = sampler->descriptors > 0 ? sampler->descriptors / 2 : 0,
		.asker = sampler->asker,
		.facts_ns = sampler->options->no_stop ? 0 : ms(FACTS_MS),
	};
	struct stacksnap_error *err;

	SNAP_TRY(snap_no_memory_unless(capture));
	err = snap_discover_with(sampler->options, &known, capture);
	/* What the system has too little of just now does not end a recording. */
	if (err && snap_error_code(err) == SNAP_ERROR_OS) {
		snap_error_destroy(err);
		sampler->refresh_due = true;
		return NULL;
	}
	return err ? err : snap_sampler_add_processes(sampler, capture);
}

/*
 * No process of the tree has run since the last discovery, as far as the last tick knows: so none
 * has a new child, although the kernel gave away a pid. The next tick sees what runs between two
 * ticks; finding a child one tick later matters to a watch alone, which looks all day.
 */
static bool is_at_rest(const struct snap_sampler *sampler)
{
	const struct snap_options *options = sampler->options;

	if (!options->never_stop || sampler->guard_kind == SNAP_GUARD_NONE ||
	    sampler->ran_ns >= sampler->refreshed_ns || snap_options_look_for_targets(options))
		return false;
	return snap_all(sampler->process_count, i,
			sampler->processes[i]->state == SNAP_SAMPLER_PROCESS_SAMPLED);
}

/*
 * Another program in a process that was there may be a target by its name, and its pid is old: so
 * there is one more look some time after the last new pid.
 */
static bool is_refresh_due(struct snap_sampler *sampler)
{
	pid_t pid = snap_procfs_last_pid(sampler->loadavg_fd);

	/* In an only tick the discovery that it begins with is not old, and its time has an end. */
	if (!(sampler->options->children || snap_options_look_for_targets(sampler->options)) ||
	    (sampler->options->no_stop && (sampler->looks == 1 || !snap_sampler_has_time(sampler))))
		return false;
	if (pid == 0 || pid != sampler->last_pid)
		sampler->refresh_due = true;
	if (sampler->refresh_again_ns && sampler->now_ns >= sampler->refresh_again_ns) {
		sampler->refresh_due = true;
		sampler->refresh_again_ns = 0;
	} else if (pid != sampler->last_pid) {
		sampler->refresh_again_ns = sampler->now_ns + ms(AGAIN_MS);
	}
	sampler->last_pid = pid;
	return sampler->refresh_due && sampler->now_ns >= sampler->refresh_after_ns &&
	       !is_at_rest(sampler);
}

/* Processes that have no threads to tell: have they ended? */
static void check_troubled_processes(struct snap_sampler *sampler)
{
	if (sampler->now_ns < sampler->troubled_ns)
		return;
	sampler->troubled_ns = sampler->now_ns + ms(AGAIN_MS);
	for (size_t i = 0; i < sampler->process_count; i++) {
		struct snap_sampler_process *process = sampler->processes[i];
		_cleanup_fd_ int fd = -1;

		if (process->state != SNAP_SAMPLER_PROCESS_UNREADABLE &&
		    process->state != SNAP_SAMPLER_PROCESS_UNRESPONSIVE)
			continue;
		fd = snap_sampler_process_directory(sampler, process);
		if (fd == -ESRCH)
			process->state = SNAP_SAMPLER_PROCESS_GONE;
	}
}

/*
 * Those that did not respond are asked again, as many as a part of the time permits: there may be
 * dozens, and others are to be sampled. The report says to the end that they did not respond: what
 * is missing is missing.
 */
static struct stacksnap_error *retry_stalled_processes(struct snap_sampler *sampler)
{
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < sampler->process_count && !err; i++) {
		struct snap_sampler_process *process = sampler->processes[i];
		int64_t begin;

		if (process->hold_due && process->state == SNAP_SAMPLER_PROCESS_SAMPLED)
			err = snap_sampler_process_stalled(sampler, process, "reading its state");
		process->hold_due = false;
		if (err)
			return err;
		if (process->state != SNAP_SAMPLER_PROCESS_UNRESPONSIVE ||
		    sampler->options->no_stop || sampler->now_ns < process->unresponsive_until_ns)
			continue;
		begin = snap_clock_ns(CLOCK_MONOTONIC);
		if (begin < sampler->retry_after_ns)
			continue;
		err = snap_sampler_process_reopen(sampler, process);
		sampler->retry_after_ns = snap_sampler_after(sampler, begin, 0, RETRY_SHARE);
	}
	return err;
}

/*
 * Reads the facts for which discovery had no time; a process that cannot be read because the system
 * lacks a resource keeps the trouble.
 */
static struct stacksnap_error *read_late(struct snap_sampler *sampler,
					 struct snap_sampler_process *process)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	_cleanup_(snap_arena_deinit) struct snap_arena old;
	bool is_target = process->facts.is_target;
	struct stacksnap_error *err;

	snap_arena_init(&old);
	SNAP_TRY(snap_no_memory_unless(capture));
	err = snap_discover_one(sampler->options, &process->facts,
				sampler->descriptors > 0 ? sampler->descriptors / 2 : 0,
				sampler->asker, capture);
	if (err && snap_error_code(err) == SNAP_ERROR_OS) {
		snap_error_destroy(err);
		return NULL;
	}
	if (err)
		return err;
	old = process->arena;
	snap_arena_init(&process->arena);
	err = snap_facts_copy(&process->arena, &capture->processes[0], &process->facts);
	process->facts.is_target = is_target;
	snap_sampler_process_take_live(sampler, &capture->live[0], &process->live);
	return err;
}

static struct stacksnap_error *announce_process(struct snap_sampler *sampler,
						struct snap_sampler_process *process)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	struct stacksnap_error *err = NULL;

	if (process->facts.trouble == SNAP_TROUBLE_OUT_OF_TIME && !sampler->options->no_stop)
		err = read_late(sampler, process);
	if (!err && process->facts.vanished)
		process->state = SNAP_SAMPLER_PROCESS_GONE;
	else if (!err)
		err = snap_sampler_process_open(sampler, process);
	if (err)
		return err;
	/* It ended before it was reported, unless it was named as a target. */
	if (process->state == SNAP_SAMPLER_PROCESS_GONE && !process->facts.is_target)
		return NULL;
	process->announced = process->was_announced = true;
	if (process->facts.trouble == SNAP_TROUBLE_NO_SUCH_PROCESS || process->facts.vanished)
		process->state = SNAP_SAMPLER_PROCESS_GONE;
	err = sink->program(sink->context, &process->shown, false);
	snap_sampler_process_reported(process);
	return err;
}

static bool is_parent_known(const struct snap_sampled_process *parent)
{
	const struct snap_sampler_process *process = (const void *)parent;

	return !process || process->announced;
}

/*
 * As many as there is time for, one at least, and some in the first tick, which may be the last
 * one; parents come before their children by their rank.
 */
static struct stacksnap_error *announce_processes(struct snap_sampler *sampler)
{
	size_t begun = 0, waiting = 0, i = sampler->fresh_at;
	size_t least = sampler->ticks == 1 ? LEAST_FIRST : 1;
	struct stacksnap_error *err = NULL;

	for (;
	     i < sampler->fresh_count && !err && (begun < least || snap_sampler_has_time(sampler));
	     i++) {
		struct snap_sampler_process *process = sampler->fresh[i];

		/* Its parent ended before it was reported: it will be a root. */
		if (!is_parent_known(process->shown.parent)) {
			sampler->fresh[sampler->fresh_at + waiting++] = process;
			continue;
		}
		err = announce_process(sampler, process);
		if (!err && process->state == SNAP_SAMPLER_PROCESS_SAMPLED)
			err = snap_sampler_list(sampler, process);
		begun++;
	}
	/* Those that wait stand in front, those that had no time behind them. */
	memmove(sampler->fresh + i - waiting, sampler->fresh + sampler->fresh_at,
		waiting * sizeof(*sampler->fresh));
	sampler->fresh_at = i - waiting;
	if (sampler->fresh_at == sampler->fresh_count)
		sampler->fresh_at = sampler->fresh_count = 0;
	return err;
}

struct stacksnap_error *snap_sampler_find_processes(struct snap_sampler *sampler)
{
	struct stacksnap_error *err = NULL;

	check_troubled_processes(sampler);
	if (is_refresh_due(sampler)) {
		int64_t begin = snap_clock_ns(CLOCK_MONOTONIC);

		sampler->refresh_due = false;
		sampler->refreshed_ns = sampler->now_ns;
		err = discover_new_processes(sampler);
		sampler->refresh_after_ns = snap_sampler_after(sampler, begin, ms(LEAST_MS), SHARE);
		/* Those that are known already have their time, however many there were to find. */
		if (!sampler->options->no_stop)
			sampler->fresh_until_ns += snap_clock_ns(CLOCK_MONOTONIC) - begin;
	}
	err = err ?: retry_stalled_processes(sampler);
	return err ? err : announce_processes(sampler);
}

void snap_sampler_end_threads(struct snap_sampler *sampler, struct snap_sampler_process *process)
{
	for (size_t i = 0; i < process->thread_count; i++)
		snap_sampler_thread_end(sampler, process->threads[i]);
}

/* Children that outlive it are roots from now on. */
static void detach_children(struct snap_sampler *sampler, const struct snap_sampler_process *parent)
{
	for (size_t i = 0; i < sampler->process_count; i++)
		if (sampler->processes[i]->shown.parent == &parent->shown)
			sampler->processes[i]->shown.parent = NULL;
}

void snap_sampler_remove_processes(struct snap_sampler *sampler)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	size_t kept = 0;

	for (size_t i = 0; i < sampler->process_count; i++) {
		struct snap_sampler_process *process = sampler->processes[i];

		if (process->state != SNAP_SAMPLER_PROCESS_GONE)
			continue;
		/* Another process may have got its pid without the last pid having moved. */
		sampler->refresh_due = true;
		if (process->announced)
			sink->ended(sink->context, &process->shown);
		detach_children(sampler, process);
	}
	for (size_t i = 0; i < sampler->process_count; i++) {
		if (sampler->processes[i]->state == SNAP_SAMPLER_PROCESS_GONE)
			snap_sampler_process_destroy(sampler, sampler->processes[i]);
		else
			sampler->processes[kept++] = sampler->processes[i];
	}
	sampler->process_count = kept;
}
