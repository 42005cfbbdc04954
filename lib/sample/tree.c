/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who belongs to the tree. New processes are looked for when the kernel has given away a pid, at a
 * bounded rate; each look is a discovery that reads labels of new processes alone, so that nothing
 * of it stays but the new processes.
 */
#include "sample/internal.h"

#include <errno.h>
#include <string.h>

enum {
	LEAST_MS = 100, /* between two looks */
	SHARE = 20,     /* of the time at most one part in so many is spent on them */
	AGAIN_MS = 1000,
};

static int64_t ms(int64_t count)
{
	return count * SNAP_NS_PER_MS;
}

/* The first process that is not before (pid, start time). */
static size_t lower_bound(const struct snap_sampler *sampler, pid_t pid, uint64_t start_ticks)
{
	size_t low = 0, high = sampler->process_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct snap_process *process = &sampler->processes[middle]->facts;

		if (process->pid < pid ||
		    (process->pid == pid && process->start_ticks < start_ticks))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct snap_sampler_process *find_process(const struct snap_sampler *sampler, pid_t pid,
						 uint64_t start_ticks)
{
	size_t at = lower_bound(sampler, pid, start_ticks);
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
	sampler->descriptors += (process->mem_fd >= 0) + (process->tasks_fd >= 0);
	snap_close(&process->mem_fd);
	snap_close(&process->tasks_fd);
	snap_arena_deinit(&process->arena);
	snap_arena_deinit(&process->space);
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
	process->mem_fd = process->tasks_fd = -1;
	process->shown.facts = &process->facts;
	process->shown.live = &process->live;
	snap_arena_init(&process->arena);
	snap_arena_init(&process->space);
	return process;
}

static struct snap_error *insert_process(struct snap_sampler *sampler,
					 struct snap_sampler_process *process)
{
	size_t at = lower_bound(sampler, process->facts.pid, process->facts.start_ticks);

	if (!snap_grow_array(sampler->processes, sampler->process_capacity, sampler->process_count))
		return snap_error_no_memory();
	memmove(sampler->processes + at + 1, sampler->processes + at,
		(sampler->process_count - at) * sizeof(*sampler->processes));
	sampler->processes[at] = process;
	sampler->process_count++;
	return NULL;
}

static struct snap_error *add_process(struct snap_sampler *sampler,
				      const struct snap_capture *capture, size_t index)
{
	const struct snap_process *facts = &capture->processes[index];
	struct snap_sampler_process *process = new_process(), *parent = NULL;
	struct snap_error *err;

	if (!process)
		return snap_error_no_memory();
	err = snap_facts_copy(&process->arena, facts, &process->facts);
	if (!err)
		err = insert_process(sampler, process);
	if (err) {
		snap_sampler_process_destroy(sampler, process);
		return err;
	}
	if (capture->live)
		snap_sampler_process_take_live(sampler, &capture->live[index], &process->live);
	if (facts->parent < capture->process_count) {
		const struct snap_process *above = &capture->processes[facts->parent];

		parent = find_process(sampler, above->pid, above->start_ticks);
	}
	process->shown.parent = parent ? &parent->shown : NULL;
	return NULL;
}

struct snap_error *snap_sampler_add_processes(struct snap_sampler *sampler,
					      struct snap_capture *capture)
{
	bool first = capture == sampler->capture;

	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];
		struct snap_error *err;

		if (find_process(sampler, process->pid, process->start_ticks))
			continue;
		/* What went by between two looks was never there. */
		if (!first && (process->vanished || process->trouble == SNAP_TROUBLE_ZOMBIE))
			continue;
		err = add_process(sampler, capture, i);
		if (err)
			return err;
	}
	return NULL;
}

static const struct snap_process *known_process(void *context, pid_t pid, uint64_t start_ticks)
{
	const struct snap_sampler_process *process = find_process(context, pid, start_ticks);

	return process ? &process->facts : NULL;
}

static struct snap_error *discover_new_processes(struct snap_sampler *sampler)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	const struct snap_discover_known known = {
		.find = known_process,
		.context = sampler,
		.descriptors = sampler->descriptors > 0 ? sampler->descriptors / 2 : 0,
	};
	struct snap_error *err;

	if (!capture)
		return snap_error_no_memory();
	err = snap_discover_with(sampler->options, &known, capture);
	/* What the system has too little of just now does not end a recording. */
	if (err && snap_error_code(err) == SNAP_ERROR_OS) {
		snap_error_destroy(err);
		sampler->refresh_due = true;
		return NULL;
	}
	return err ? err : snap_sampler_add_processes(sampler, capture);
}

static bool may_grow(const struct snap_options *options)
{
	for (size_t i = 0; i < options->target_count; i++)
		if (options->targets[i].kind != SNAP_TARGET_PID)
			return true;
	return options->children;
}

/*
 * Another program in a process that was there may be a target by its name, and its pid is old: so
 * there is one more look some time after the last new pid.
 */
static bool is_refresh_due(struct snap_sampler *sampler)
{
	pid_t pid = snap_procfs_last_pid(sampler->loadavg_fd);

	if (!may_grow(sampler->options))
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
	return sampler->refresh_due && sampler->now_ns >= sampler->refresh_after_ns;
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

		if (process->sampled || !process->announced || process->lost)
			continue;
		fd = snap_sampler_process_directory(sampler, process);
		if (fd == -ESRCH)
			process->gone = true;
	}
}

static struct snap_error *announce_process(struct snap_sampler *sampler,
					   struct snap_sampler_process *process)
{
	const struct snap_sampler_sink *sink = sampler->sink;
	struct snap_error *err = snap_sampler_process_open(sampler, process);

	if (err)
		return err;
	/* It went before anybody heard of it, unless somebody named it. */
	if (process->gone && !process->facts.is_target)
		return NULL;
	process->announced = true;
	if (process->facts.trouble == SNAP_TROUBLE_NO_SUCH_PROCESS || process->facts.vanished)
		process->gone = true;
	return sink->program(sink->context, &process->shown, false);
}

static bool is_parent_known(const struct snap_sampled_process *parent)
{
	const struct snap_sampler_process *process = (const void *)parent;

	return !process || process->announced;
}

/* Mostly a parent's pid is below its child's, and one round does. */
static struct snap_error *announce_processes(struct snap_sampler *sampler)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < sampler->process_count; i++) {
			struct snap_sampler_process *process = sampler->processes[i];
			struct snap_error *err;

			if (process->announced || process->gone ||
			    !is_parent_known(process->shown.parent))
				continue;
			err = announce_process(sampler, process);
			if (err)
				return err;
			more = true;
		}
	}
	return NULL;
}

struct snap_error *snap_sampler_find_processes(struct snap_sampler *sampler)
{
	struct snap_error *err = NULL;

	check_troubled_processes(sampler);
	if (is_refresh_due(sampler)) {
		int64_t begin = snap_clock_ns(CLOCK_MONOTONIC);

		sampler->refresh_due = false;
		err = discover_new_processes(sampler);
		sampler->refresh_after_ns = snap_sampler_after(begin, ms(LEAST_MS), SHARE);
	}
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

		if (!process->gone)
			continue;
		/* Its pid may be somebody else's, who got it without the last one having moved. */
		sampler->refresh_due = true;
		if (process->announced)
			sink->ended(sink->context, &process->shown);
		detach_children(sampler, process);
	}
	for (size_t i = 0; i < sampler->process_count; i++) {
		if (sampler->processes[i]->gone)
			snap_sampler_process_destroy(sampler, sampler->processes[i]);
		else
			sampler->processes[kept++] = sampler->processes[i];
	}
	sampler->process_count = kept;
}
