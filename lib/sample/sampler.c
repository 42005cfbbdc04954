/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The sampler from outside: see sampler.h. A tick in its order: who is there, who has moved, what
 * of these can be copied as they are blocked, and the rest, which is stopped.
 */
#include "sample/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

enum {
	OTHERS = 64, /* descriptors left to everybody else at least, and a quarter of all */
	MOST_DESCRIPTORS = 1 << 21,
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

static struct snap_error *first_look(struct snap_sampler *sampler)
{
	const struct snap_discover_known known = { .descriptors = sampler->descriptors / 4 };
	struct snap_error *err;

	sampler->capture = snap_capture_new();
	if (!sampler->capture)
		return snap_error_no_memory();
	sampler->last_pid = snap_procfs_last_pid(sampler->loadavg_fd);
	err = snap_discover_with(sampler->options, &known, sampler->capture);
	return err ? err : snap_sampler_add_processes(sampler, sampler->capture);
}

static struct snap_error *init_sampler(struct snap_sampler *sampler)
{
	struct snap_error *err = snap_procfs_open(NULL, &sampler->procfs);

	if (err)
		return err;
	sampler->loadavg_fd = snap_procfs_open_file(sampler->procfs.root_fd, "loadavg");
	sampler->guard_kind = snap_guard_find(&sampler->procfs);
	sampler->descriptors = descriptor_budget();
	sampler->stack_size = sampler->options->max_stack + SNAP_STACK_MARGIN + 16;
	sampler->stack = aligned_alloc(16, (sampler->stack_size + 15) & ~(size_t)15);
	if (!sampler->stack)
		return snap_error_no_memory();
	return first_look(sampler);
}

struct snap_error *snap_sampler_create(const struct snap_options *options,
				       const struct snap_sampler_sink *sink,
				       struct snap_sampler **ret)
{
	_cleanup_(snap_sampler_destroyp) struct snap_sampler *sampler = calloc(1, sizeof(*sampler));
	struct snap_error *err;

	if (!sampler)
		return snap_error_no_memory();
	sampler->options = options;
	sampler->sink = sink;
	sampler->procfs.root_fd = sampler->loadavg_fd = -1;
	sampler->now_ns = snap_clock_ns(CLOCK_MONOTONIC);
	err = init_sampler(sampler);
	if (err)
		return err;
	*ret = snap_take_ptr(sampler);
	return NULL;
}

void snap_sampler_destroy(struct snap_sampler *sampler)
{
	if (!sampler)
		return;
	snap_single_destroy(sampler->single);
	for (size_t i = 0; i < sampler->guard_count; i++)
		snap_sampler_thread_destroy(sampler, sampler->guards[i].thread);
	for (size_t i = 0; i < sampler->process_count; i++)
		snap_sampler_process_destroy(sampler, sampler->processes[i]);
	snap_capture_destroy(sampler->capture);
	snap_procfs_close(&sampler->procfs);
	snap_close(&sampler->loadavg_fd);
	free(sampler->processes);
	free(sampler->guards);
	free(sampler->moved);
	free(sampler->dead);
	free(sampler->tids);
	free(sampler->stack);
	free(sampler);
}

const struct snap_capture *snap_sampler_capture(const struct snap_sampler *sampler)
{
	return sampler->capture;
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

	if (guard->guard_fd >= 0)
		return read_guard(sampler, guard->guard_fd, text, size);
	/* Without counters there is only the question whether it is still there. */
	fd = snap_procfs_task_open_file(thread->process->tasks_fd, thread->shown.tid,
					name ? name : "stat");
	if (fd < 0)
		return fd;
	return name ? read_guard(sampler, fd, text, size) : 0;
}

/*
 * A blocked thread that gets a processor moves its counters at once. One that runs moves them only
 * now and then, so nothing follows from counters that did not.
 */
static bool has_moved(struct snap_sampler *sampler, struct snap_sampler_guard *guard)
{
	char text[2 * SNAP_GUARD_TEXT];
	ssize_t size = read_thread_guard(sampler, guard, text, sizeof(text));

	if (snap_procfs_is_gone(size)) {
		guard->thread->process->list_due = true;
		snap_sampler_thread_end(sampler, guard->thread);
		return false;
	}
	if (size > 0 && size == guard->size && guard->settled &&
	    !memcmp(text, guard->text, guard->size))
		return false;
	guard->settled = false;
	guard->size = size > 0 && size <= SNAP_GUARD_TEXT ? (uint8_t)size : 0;
	memcpy(guard->text, text, guard->size);
	return true;
}

static struct snap_error *find_moved(struct snap_sampler *sampler)
{
	sampler->moved_count = 0;
	while (sampler->moved_capacity < sampler->guard_count)
		if (!snap_grow_array(sampler->moved, sampler->moved_capacity,
				     sampler->moved_capacity))
			return snap_error_no_memory();
	for (size_t i = 0; i < sampler->guard_count; i++) {
		struct snap_sampler_guard *guard = &sampler->guards[i];

		if (guard->thread->gone)
			continue;
		if (has_moved(sampler, guard))
			sampler->moved[sampler->moved_count++] = guard->thread;
		else
			sampler->tick.kept += !guard->thread->gone;
	}
	return NULL;
}

static struct snap_error *look_at_moved(struct snap_sampler *sampler)
{
	for (size_t i = 0; i < sampler->moved_count; i++) {
		struct snap_sampler_thread *thread = sampler->moved[i];
		struct snap_error *err;

		if (snap_options_cancelled(sampler->options))
			return snap_error_cancelled();
		if (thread->gone)
			continue;
		err = snap_sampler_look(sampler, thread);
		if (err)
			return err;
	}
	return snap_sampler_stop(sampler);
}

static struct snap_error *find_threads(struct snap_sampler *sampler)
{
	for (size_t i = 0; i < sampler->process_count; i++) {
		struct snap_sampler_process *process = sampler->processes[i];
		struct snap_error *err;

		if (!process->sampled || process->gone || process->lost)
			continue;
		err = snap_sampler_list(sampler, process);
		if (err)
			return err;
	}
	return snap_sampler_remove_threads(sampler);
}

static struct snap_error *run_tick(struct snap_sampler *sampler)
{
	struct snap_error *err;

	err = snap_sampler_find_processes(sampler);
	if (err)
		return err;
	err = snap_sampler_renew(sampler);
	if (err)
		return err;
	err = find_threads(sampler);
	if (err)
		return err;
	err = find_moved(sampler);
	if (err)
		return err;
	err = look_at_moved(sampler);
	if (err)
		return err;
	err = snap_sampler_remove_threads(sampler);
	if (err)
		return err;
	snap_sampler_remove_processes(sampler);
	return NULL;
}

/* What has ended is nobody to wait for. */
static bool is_alive(const struct snap_sampler_process *process)
{
	return !snap_troubles[process->facts.trouble].ended && !process->gone;
}

static void sum_up_tick(struct snap_sampler *sampler)
{
	struct snap_sampler_tick *tick = &sampler->tick;
	size_t alive = 0, sampled = 0;

	for (size_t i = 0; i < sampler->process_count; i++) {
		alive += is_alive(sampler->processes[i]);
		sampled += sampler->processes[i]->sampled;
	}
	tick->threads = (uint32_t)sampler->guard_count;
	tick->disk = (uint32_t)sampler->disk;
	tick->run_ns = sampler->run_ns;
	tick->no_targets = alive == 0;
	tick->refused = alive && !sampled;
	tick->end_ns = snap_clock_ns(CLOCK_MONOTONIC);
}

struct snap_error *snap_sampler_tick(struct snap_sampler *sampler, struct snap_sampler_tick *ret)
{
	struct snap_error *err;

	if (snap_options_cancelled(sampler->options))
		return snap_error_cancelled();
	sampler->now_ns = snap_clock_ns(CLOCK_MONOTONIC);
	sampler->tick = (struct snap_sampler_tick){ .begin_ns = sampler->now_ns };
	sampler->ticks++;
	sampler->pick_count = 0;
	err = run_tick(sampler);
	if (err)
		return err;
	sum_up_tick(sampler);
	*ret = sampler->tick;
	return NULL;
}
