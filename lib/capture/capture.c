/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The capture stage from end to end: see capture.h. Who is in the tree comes from discover, the
 * pause from tracer; here they are put in order, tree after tree.
 */
#include "capture/capture.h"

#include "capture/capture_collect.h"
#include "capture/discover.h"

#include <time.h>

enum { SPARE_PROCESSES = 1024 }; /* found during a stop, beyond those that discover listed */

struct snap_error *snap_capture_list(const struct snap_options *options, struct snap_capture **ret)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	struct snap_error *err;

	if (!capture)
		return snap_error_no_memory();
	err = snap_discover(options, capture);
	if (err)
		return err;
	*ret = snap_take_ptr(capture);
	return NULL;
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* One tree on its way into a stop. */
struct tree {
	const struct snap_options *options;
	struct snap_capture *capture;
	struct snap_procfs *procfs;
	size_t root;   /* in capture->processes */
	size_t looked; /* processes before this one were looked at */
};

static size_t root_of(const struct snap_capture *capture, size_t index)
{
	for (size_t steps = 0; steps < capture->process_count; steps++) {
		size_t parent = capture->processes[index].parent;

		if (parent >= capture->process_count)
			break;
		index = parent;
	}
	return index;
}

static bool is_untouchable(const struct snap_process *process)
{
	return process->trouble != SNAP_TROUBLE_NONE || (process->flags & SNAP_PF_KTHREAD);
}

/* Puts those processes of the tree into the stop that the capture lists and the stop does not. */
static void add_processes(struct tree *tree, struct snap_stop *stop)
{
	struct snap_capture *capture = tree->capture;

	for (; tree->looked < capture->process_count; tree->looked++) {
		const struct snap_process *process = &capture->processes[tree->looked];
		struct snap_traced traced = {
			.pid = process->pid,
			.proc_fd = capture->live ? capture->live[tree->looked].proc_fd : -1,
			.index = tree->looked,
			.look_only = is_untouchable(process),
			.foreign_namespace =
				process->ns_pid != 0 && process->ns_pid != process->pid,
		};

		if (root_of(capture, tree->looked) != tree->root || process->pid == getpid())
			continue;
		if (traced.proc_fd >= 0)
			snap_stop_add(stop, &traced);
	}
}

static struct snap_error *look_again(void *context, struct snap_stop *stop, bool *grown_ret)
{
	struct tree *tree = context;
	uint32_t before = stop->process_count;
	struct snap_error *err;
	bool grown;

	err = snap_discover_again(tree->options, tree->capture, &grown);
	if (err)
		return err;
	add_processes(tree, stop);
	*grown_ret = stop->process_count > before;
	return NULL;
}

static struct snap_error *stop_tree(struct tree *tree, const struct snap_stop_hook *hook,
				    struct snap_shared *shared)
{
	struct snap_stop_again again = { .look = look_again, .context = tree };
	struct snap_stop *stop =
		snap_stop_new(shared, (uint32_t)tree->capture->process_count + SPARE_PROCESSES);
	struct snap_error *err;

	if (!stop)
		return snap_error_no_memory();
	add_processes(tree, stop);
	if (!stop->process_count)
		return NULL;
	err = snap_tracer_run(tree->options, hook, &again, shared, stop);
	if (err)
		return err;
	if (stop->begin_ns && !tree->capture->time_ns)
		tree->capture->time_ns =
			clock_ns(CLOCK_REALTIME) - (clock_ns(CLOCK_MONOTONIC) - stop->begin_ns);
	return snap_capture_collect(tree->options, tree->capture, stop);
}

struct snap_error *snap_capture_take(const struct snap_options *options,
				     const struct snap_stop_hook *hook, struct snap_capture **ret)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	int64_t begin = clock_ns(CLOCK_MONOTONIC);
	struct snap_shared *shared;
	struct snap_error *err;

	err = snap_capture_list(options, &capture);
	if (err)
		return err;
	err = snap_shared_create(options->max_snapshot, &shared);
	if (err)
		return err;
	capture->shared = shared;
	capture->shared_size = shared->size;
	for (size_t i = 0; i < capture->process_count; i++) {
		struct tree tree = { .options = options, .capture = capture, .root = i };

		if (capture->processes[i].parent < capture->process_count)
			continue;
		err = stop_tree(&tree, hook, shared);
		if (err)
			return err;
	}
	if (!capture->time_ns)
		capture->time_ns = clock_ns(CLOCK_REALTIME);
	capture->duration_ns = clock_ns(CLOCK_MONOTONIC) - begin;
	*ret = snap_take_ptr(capture);
	return NULL;
}
