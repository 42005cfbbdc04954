/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A capture without a stop: see nostop.h. This file has the beginning, and the end with what the
 * sampler does not report. What it reports is taken by nostop_sink.c.
 */
#include "capture/nostop.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "capture/collect.h"
#include "capture/nostop_sink.h"
#include "discover/discover.h"
#include "stop/wait_bytes.h"

#include <errno.h>
#include <string.h>

enum { SPARE_PROCESSES = 1024 /* found meanwhile, beyond those that discover listed */ };

/* What the sampler keeps open is the sampler's until its end, though the judge uses it. */
static void nostop_deinit(struct snap_nostop *nostop)
{
	for (size_t i = 0; nostop->stop && i < nostop->stop->process_count; i++)
		if (nostop->sampled[i])
			nostop->capture->live[i] = (struct snap_live){ -1, -1, -1, -1, -1 };
	snap_thread_plans_deinit(&nostop->plans);
	free(nostop->sampled);
	free(nostop->buffer);
	free(nostop->tids);
	free(nostop->maps);
	free(nostop->taken);
	free(nostop->heard);
	free(nostop->silent);
	free(nostop->words);
	free(nostop->clocks);
	snap_thread_asker_destroy(nostop->asker);
}

/* ---- what the sampler does not tell of ---- */

static struct snap_thread *find_nostop_thread(const struct snap_traced *traced, pid_t tid)
{
	for (size_t i = 0; i < traced->thread_count; i++)
		if (traced->threads[i].tid == tid)
			return &traced->threads[i];
	return NULL;
}

/* Nothing but the name and the state of a thread is asked; of one that does not answer, nothing. */
static struct stacksnap_error *describe_thread(struct snap_nostop *nostop,
					       const struct snap_traced *traced, int tasks_fd,
					       struct snap_thread *thread)
{
	const struct snap_describer describer = snap_nostop_describer(nostop, traced, tasks_fd);
	bool *silent = &nostop->silent[traced->index];
	struct stacksnap_error *err = NULL;
	struct snap_stat stat;
	int status;

	if (!nostop->asker)
		err = snap_thread_asker_new(&nostop->asker);
	if (err)
		return err;
	status = *silent ? -ETIMEDOUT
			 : snap_thread_ask_stat(nostop->asker, traced->pid, thread->tid, &stat);
	*silent |= status == -ETIMEDOUT;
	if (snap_procfs_is_gone(status))
		thread->result = SNAP_THREAD_VANISHED;
	else if (status == 0)
		snap_describe_known(&describer, thread, &stat);
	return NULL;
}

static struct stacksnap_error *
add_unread_thread(struct snap_nostop *nostop, struct snap_traced *traced, int tasks_fd, pid_t tid)
{
	struct snap_thread *thread = snap_nostop_add_thread(nostop, traced, tid);

	return thread ? describe_thread(nostop, traced, tasks_fd, thread) : snap_error_no_memory();
}

static struct stacksnap_error *add_unread_threads(struct snap_nostop *nostop,
						  struct snap_traced *traced, int tasks_fd)
{
	ssize_t count = snap_procfs_list(tasks_fd, nostop->tids, 0);
	struct stacksnap_error *err = NULL;

	if (count <= 0)
		return NULL;
	if (!snap_reserve_array(nostop->tids, nostop->tid_capacity, (size_t)count))
		return snap_error_no_memory();
	count = snap_procfs_list(tasks_fd, nostop->tids, (size_t)count);
	/* What was known of them was given up with the process. */
	traced->thread_count = 0;
	for (ssize_t i = 0; i < count && i < (ssize_t)nostop->tid_capacity && !err; i++) {
		err = add_unread_thread(nostop, traced, tasks_fd, nostop->tids[i]);
		/* As of all that do not respond. */
		if (nostop->silent[traced->index]) {
			traced->thread_count = 0;
			break;
		}
	}
	return err;
}

/* A leader that has exited before its threads; the sampler knows of threads that run alone. */
static struct stacksnap_error *add_zombie_leader(struct snap_nostop *nostop,
						 struct snap_traced *traced, int tasks_fd)
{
	struct stacksnap_error *err;

	if (find_nostop_thread(traced, traced->pid))
		return NULL;
	err = add_unread_thread(nostop, traced, tasks_fd, traced->pid);
	if (!err && traced->threads[traced->thread_count - 1].state != 'Z')
		traced->thread_count--;
	return err;
}

/* What those do in the kernel that were not copied: in D, say. */
static struct stacksnap_error *ask_calls(struct snap_nostop *nostop, struct snap_traced *traced)
{
	bool *silent = &nostop->silent[traced->index];
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < traced->thread_count && !*silent && !err; i++) {
		struct snap_thread *thread = &traced->threads[i];
		struct snap_syscall_line line;
		int status;

		if (thread->result != SNAP_THREAD_NOT_STOPPED || thread->call.known ||
		    thread->state == 'R')
			continue;
		if (!nostop->asker)
			err = snap_thread_asker_new(&nostop->asker);
		if (err)
			break;
		status = snap_thread_ask_call(nostop->asker, traced->pid, thread->tid, &line);
		*silent = status == -ETIMEDOUT;
		if (status == 0)
			thread->call = snap_call_of_line(&line, 0);
	}
	return err;
}

/* Threads whose files could not be opened, or that were born at the very end. */
static struct stacksnap_error *
describe_unheard_threads(struct snap_nostop *nostop, const struct snap_traced *traced, int tasks_fd)
{
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < traced->thread_count && !err; i++) {
		struct snap_thread *thread = &traced->threads[i];

		if (thread->state || thread->result != SNAP_THREAD_UNTRACED)
			continue;
		thread->result = SNAP_THREAD_NOT_STOPPED;
		thread->untried = true;
		err = describe_thread(nostop, traced, tasks_fd, thread);
	}
	return err;
}

/*
 * Where some threads could be copied, trouble is theirs alone; but of a process that does not
 * respond none is shown, as most were not asked.
 */
static void settle_trouble(struct snap_process *process, struct snap_traced *traced)
{
	if (!traced->seized || process->trouble == SNAP_TROUBLE_NONE ||
	    process->trouble == SNAP_TROUBLE_NOT_RESPONDING)
		return;
	if (process->trouble == SNAP_TROUBLE_PERMISSION_DENIED ||
	    process->trouble == SNAP_TROUBLE_ALREADY_TRACED)
		traced->error = EPERM;
	process->trouble = SNAP_TROUBLE_NONE;
	process->trouble_message = NULL;
}

static struct stacksnap_error *complete_process(struct snap_nostop *nostop, size_t index)
{
	struct snap_process *process = &nostop->capture->processes[index];
	struct snap_traced *traced = &nostop->stop->processes[index];
	_cleanup_fd_ int opened = -1, tasks_fd = -1;
	int fd = nostop->capture->live[index].proc_fd;
	struct stacksnap_error *err;

	settle_trouble(process, traced);
	if (!nostop->heard[index] && process->trouble == SNAP_TROUBLE_NONE && !process->vanished)
		snap_process_set_trouble(nostop->capture, process, SNAP_TROUBLE_STOP_TIMEOUT,
					 "%d could not be read in time (see --timeout)",
					 (int)process->pid);
	if (snap_troubles[process->trouble].ended || !nostop->heard[index])
		return NULL;
	if (fd < 0)
		fd = opened = snap_discover_open(process);
	tasks_fd = fd < 0 ? -1 : snap_procfs_open_tasks(fd);
	if (tasks_fd < 0)
		return NULL;
	if (process->trouble != SNAP_TROUBLE_NONE)
		return add_unread_threads(nostop, traced, tasks_fd);
	err = add_zombie_leader(nostop, traced, tasks_fd);
	err = err ?: describe_unheard_threads(nostop, traced, tasks_fd);
	return err || nostop->options->explain == SNAP_EXPLAIN_NO ? err : ask_calls(nostop, traced);
}

/* ---- the whole ---- */

static struct stacksnap_error *prepare(struct snap_nostop *nostop)
{
	struct snap_capture *capture = nostop->capture;

	SNAP_TRY(snap_shared_memory_create(nostop->options->max_snapshot, &nostop->shared));
	capture->shared = nostop->shared;
	capture->shared_size = nostop->shared->size;
	capture->shared_fd = nostop->shared->fd;
	nostop->stop =
		snap_stop_new(nostop->shared, (uint32_t)capture->process_count + SPARE_PROCESSES);
	nostop->buffer = malloc(SNAP_DESCRIBE_BYTES);
	nostop->pool = snap_region_alloc(&nostop->shared->records, sizeof(*nostop->pool));
	/* Address space: there are few mappings, mostly. */
	nostop->maps = malloc(SNAP_MAX_MAPS * sizeof(*nostop->maps));
	SNAP_TRY(snap_no_memory_unless(nostop->stop && nostop->buffer && nostop->maps));
	return snap_no_memory_unless(
		snap_all(capture->process_count, i, snap_nostop_add_traced(nostop, i)));
}

static struct stacksnap_error *finish_nostop(struct snap_nostop *nostop)
{
	for (size_t i = 0; i < nostop->capture->process_count; i++) {
		if (nostop->sampled[i])
			snap_nostop_take_live(nostop, i);
		nostop->stop->processes[i].memory = snap_thread_plans_image(&nostop->plans, i);
		SNAP_TRY(complete_process(nostop, i));
	}
	return snap_capture_collect(nostop->options, nostop->capture, nostop->stop);
}

/* If it fails, it is unknown since when threads wait. */
static struct stacksnap_error *read_nostop_clocks(struct snap_nostop *nostop)
{
	nostop->clocks = malloc(sizeof(*nostop->clocks));
	SNAP_TRY(snap_no_memory_unless(nostop->clocks));
	if (snap_thread_ask_clocks(nostop->asker, nostop->clocks)) {
		free(nostop->clocks);
		nostop->clocks = NULL;
	}
	return NULL;
}

struct stacksnap_error *snap_nostop_take(const struct snap_options *options,
					 const struct snap_stop_hook *hook, bool *execed_ret,
					 struct snap_capture **ret)
{
	_cleanup_(snap_sampler_destroyp) struct snap_sampler *sampler = NULL;
	_cleanup_(nostop_deinit) struct snap_nostop nostop = {
		.options = options,
		.hook = hook && hook->suffices ? hook : NULL,
		.plans = { .options = options, .hook = hook },
	};
	const struct snap_sampler_sink sink = snap_nostop_sink(&nostop);
	struct snap_sampler_tick tick;
	struct stacksnap_error *err = NULL;

	/* Before there is much memory, of which a worker that is left behind would keep a copy. */
	if (options->kernel_stacks || options->explain == SNAP_EXPLAIN_ALL)
		err = snap_thread_asker_new(&nostop.asker);
	if (!err && options->explain == SNAP_EXPLAIN_ALL)
		err = read_nostop_clocks(&nostop);
	if (err)
		return err;
	SNAP_TRY(snap_sampler_create(options, &sink, &sampler));
	nostop.capture = snap_sampler_capture(sampler);
	SNAP_TRY(prepare(&nostop));
	nostop.capture->time_ns = snap_clock_ns(CLOCK_REALTIME);
	err = snap_sampler_tick(sampler, &tick);
	if (!err && options->explain != SNAP_EXPLAIN_NO)
		err = snap_nostop_confirm(&nostop, sampler);
	SNAP_TRY(err ?: finish_nostop(&nostop));
	for (uint32_t i = 0; i < nostop.stop->process_count; i++)
		*execed_ret |= nostop.stop->processes[i].execed;
	*ret = snap_sampler_take_capture(sampler);
	return NULL;
}
