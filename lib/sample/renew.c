/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes that have lost their memory: which of them have ended, and what the others have become.
 * And the descriptors that ride beside a process, which are another program's then.
 */
#include "sample/internal.h"

#include <errno.h>

enum {
	RENEW_SHARE = 4,     /* of the time at most one part in so many is spent on one of them */
	RENEW_LEAST_MS = 20, /* and each is another program at most so often */
};

static long count_live(const struct snap_live *live)
{
	return (live->pidfd >= 0) + (live->proc_fd >= 0) + (live->root_fd >= 0) +
	       (live->exe_fd >= 0) + (live->files_fd >= 0);
}

void snap_sampler_process_drop_live(struct snap_sampler *sampler, struct snap_live *live)
{
	sampler->descriptors += count_live(live);
	snap_live_close(live);
}

void snap_sampler_process_take_live(struct snap_sampler *sampler, struct snap_live *from,
				    struct snap_live *ret)
{
	*ret = *from;
	*from = (struct snap_live){ -1, -1, -1, -1, -1 };
	sampler->descriptors -= count_live(ret);
}

int snap_sampler_process_directory(const struct snap_sampler *sampler,
				   const struct snap_sampler_process *process)
{
	_cleanup_fd_ int fd = snap_procfs_open_process(&sampler->procfs, process->facts.pid);
	struct snap_stat stat;
	int error = fd < 0 ? fd : snap_procfs_stat(fd, &stat);

	if (error)
		return error == -ENOENT ? -ESRCH : error;
	return stat.start_ticks == process->facts.start_ticks ? snap_take_fd(&fd) : -ESRCH;
}

enum fate {
	FATE_ENDED,
	FATE_LEAVING, /* or its leader is, for another thread that executes a program */
	FATE_ANOTHER, /* it runs another program */
};

static enum fate fate_of(const struct snap_sampler *sampler,
			 const struct snap_sampler_process *process)
{
	_cleanup_fd_ int loose = -1;
	int fd = process->live.proc_fd, error;
	struct snap_stat stat;

	if (fd < 0)
		fd = loose = snap_sampler_process_directory(sampler, process);
	error = fd < 0 ? fd : snap_procfs_stat(fd, &stat);
	/* Nothing else that fails says that it has ended. */
	if (error)
		return error == -ESRCH || error == -ENOENT ? FATE_ENDED : FATE_LEAVING;
	if (stat.state == 'Z' || stat.state == 'X')
		return stat.threads <= 1 ? FATE_ENDED : FATE_LEAVING;
	return stat.flags & SNAP_PF_EXITING ? FATE_LEAVING : FATE_ANOTHER;
}

/* Whatever was known of the old program goes once the sink knows the new one. */
static struct snap_error *renew_process(struct snap_sampler *sampler,
					struct snap_sampler_process *process)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();
	_cleanup_(snap_arena_deinit) struct snap_arena old, old_space;
	const struct snap_sampler_sink *sink = sampler->sink;
	bool is_target = process->facts.is_target;
	struct snap_error *err;

	snap_arena_init(&old);
	snap_arena_init(&old_space);
	if (!capture)
		return snap_error_no_memory();
	err = snap_discover_one(sampler->options, &process->facts,
				sampler->descriptors > 0 ? sampler->descriptors : 0, capture);
	if (err && snap_error_code(err) == SNAP_ERROR_OS) {
		snap_error_destroy(err);
		process->lost = true;
		return NULL;
	}
	if (err)
		return err;
	if (capture->processes[0].vanished) {
		process->gone = true;
		return NULL;
	}
	old = process->arena;
	old_space = process->space;
	snap_arena_init(&process->arena);
	snap_arena_init(&process->space);
	err = snap_facts_copy(&process->arena, &capture->processes[0], &process->facts);
	if (err)
		return err;
	process->facts.is_target = is_target;
	snap_sampler_process_drop_live(sampler, &process->live);
	snap_sampler_process_take_live(sampler, &capture->live[0], &process->live);
	/* The sink hears of the program before it hears of its mappings. */
	process->announced = process->lost = false;
	err = snap_sampler_process_open(sampler, process);
	process->announced = true;
	if (err || process->gone || process->lost)
		return err;
	return sink->program(sink->context, &process->shown, true);
}

struct snap_error *snap_sampler_renew(struct snap_sampler *sampler)
{
	for (size_t i = 0; i < sampler->process_count; i++) {
		struct snap_sampler_process *process = sampler->processes[i];
		int64_t begin;
		struct snap_error *err;
		enum fate fate;

		if (!process->lost || process->gone)
			continue;
		begin = snap_clock_ns(CLOCK_MONOTONIC);
		fate = fate_of(sampler, process);
		process->gone = fate == FATE_ENDED;
		if (fate != FATE_ANOTHER || begin < process->renew_after_ns)
			continue;
		err = renew_process(sampler, process);
		if (err)
			return err;
		process->renew_after_ns = snap_sampler_after(
			begin, RENEW_LEAST_MS * (int64_t)SNAP_NS_PER_MS, RENEW_SHARE);
	}
	return NULL;
}
