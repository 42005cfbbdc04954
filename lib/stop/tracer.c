/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parent's side of a stop: makes the tracing child, watches it against deadlines and the
 * caller's wish to cancel, answers its one question, ends it. See tracer.h; the child is
 * stop/child/child.c.
 */
#include "base/clock.h"
#include "base/spawn.h"
#include "stop/child/child.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

enum {
	TICK_MS = 20, /* how often the parent looks at the cancel flag and the clock */
	READ_PATIENCE_MS = 100,
	PATIENCE_MS = 1000, /* for the child to end when all threads run again, or when killed */
};

static const size_t SCRATCH_BYTES = (size_t)128 << 20;

struct child {
	int pidfd;
	int to_child, to_parent; /* eventfds */
};

static void child_deinit(struct child *child)
{
	snap_close(&child->pidfd);
	snap_close(&child->to_child);
	snap_close(&child->to_parent);
}

static void scratch_deinit(struct snap_region *scratch)
{
	if (scratch->next)
		munmap(scratch->next, (size_t)(scratch->end - scratch->next));
}

struct snap_stop *snap_stop_new(struct snap_shared_memory *shared, uint32_t capacity)
{
	struct snap_stop *stop = snap_region_alloc(&shared->records, sizeof(*stop));
	struct snap_traced *processes =
		snap_region_new_array(&shared->records, capacity, struct snap_traced);

	if (!stop || !processes)
		return NULL;
	stop->processes = processes;
	stop->process_capacity = capacity;
	return stop;
}

bool snap_stop_add(struct snap_stop *stop, const struct snap_traced *process)
{
	if (stop->process_count == stop->process_capacity)
		return false;
	stop->processes[stop->process_count] = *process;
	stop->process_count++;
	return true;
}

struct birth {
	struct snap_tracer *tracer;
	const struct child *child;
};

static void run_child(void *context)
{
	struct birth *birth = context;

	snap_tracer_child(birth->tracer, birth->child->to_parent, birth->child->to_child);
}

static struct snap_error *spawn(struct child *child, struct snap_tracer *tracer)
{
	struct birth birth = { tracer, child };
	pid_t pid;

	child->to_child = eventfd(0, EFD_CLOEXEC);
	child->to_parent = eventfd(0, EFD_CLOEXEC);
	if (child->to_child < 0 || child->to_parent < 0)
		return snap_error_os(errno, "cannot create a channel to the tracing process");
	return snap_spawn(0, "snap-tracer", run_child, &birth, &pid, &child->pidfd);
}

static int64_t deadline(const struct snap_options *options, const struct snap_stop *stop,
			int64_t start)
{
	int64_t begin = __atomic_load_n(&stop->begin_ns, __ATOMIC_ACQUIRE);
	int64_t end = __atomic_load_n(&stop->end_ns, __ATOMIC_ACQUIRE);

	if (end)
		return end + PATIENCE_MS * 1000000ll;
	if (begin)
		return begin + options->stop_timeout_ns;
	return start + options->timeout_ns;
}

/* A read of memory that never ends holds the whole target: it is given up before the time is. */
static bool is_stalled(const struct snap_stop *stop)
{
	int64_t since = __atomic_load_n(&stop->reading_ns, __ATOMIC_ACQUIRE);

	return since && snap_clock_ns(CLOCK_MONOTONIC) > since + READ_PATIENCE_MS * 1000000ll;
}

/* The child wants help with its reading, or asks whether there are new processes in the tree. */
static struct snap_error *answer(const struct snap_options *options, const struct child *child,
				 const struct snap_stop_again *again,
				 struct snap_shared_memory *shared, struct snap_stop *stop)
{
	uint64_t value;
	bool grown = false;
	struct snap_error *err;

	if (read(child->to_parent, &value, sizeof(value)) < 0)
		return NULL;
	if (value % SNAP_TRACER_ASK)
		snap_tracer_help(options, shared, stop);
	if (value < SNAP_TRACER_ASK)
		return NULL;
	err = again->look(again->context, stop, &grown);
	if (err)
		return err;
	value = grown ? SNAP_TRACER_PREPARE : SNAP_TRACER_GO;
	if (write(child->to_child, &value, sizeof(value)) < 0)
		return snap_error_os(errno, "cannot send to the tracing process");
	return NULL;
}

/* Until the child has ended (NULL), or there is a reason to end it. */
static struct snap_error *watch(const struct snap_options *options, const struct child *child,
				const struct snap_stop_again *again,
				struct snap_shared_memory *shared, struct snap_stop *stop)
{
	int64_t start = snap_clock_ns(CLOCK_MONOTONIC);

	for (;;) {
		struct pollfd fds[] = {
			{ .fd = child->pidfd, .events = POLLIN },
			{ .fd = child->to_parent, .events = POLLIN },
		};
		struct snap_error *err;

		if (snap_options_cancelled(options))
			return snap_error_cancelled();
		if (poll(fds, SNAP_ARRAY_SIZE(fds), TICK_MS) < 0 && errno != EINTR)
			return snap_error_os(errno, "cannot wait for the tracing process");
		if (fds[0].revents)
			return NULL;
		if (fds[1].revents) {
			err = answer(options, child, again, shared, stop);
			if (err)
				return err;
		}
		stop->stalled = is_stalled(stop);
		if (stop->stalled ||
		    snap_clock_ns(CLOCK_MONOTONIC) > deadline(options, stop, start))
			return snap_error_format(SNAP_ERROR_TIMEOUT,
						 "the tracing process did not exit in time");
	}
}

/* Where the child was ended, by whomever, the stop ended no later than now. */
static void close_books(struct snap_stop *stop)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);

	if (stop->end_ns)
		return;
	stop->killed = true;
	stop->end_ns = now;
	for (uint32_t i = 0; i < stop->process_count; i++) {
		struct snap_traced *process = &stop->processes[i];

		if (process->stop_begin_ns && !process->stop_end_ns)
			process->stop_end_ns = now;
	}
}

struct snap_error *snap_tracer_run(const struct snap_options *options,
				   const struct snap_stop_hook *hook,
				   const struct snap_stop_again *again,
				   struct snap_shared_memory *shared, struct snap_stop *stop)
{
	_cleanup_(
		child_deinit) struct child child = { .pidfd = -1, .to_child = -1, .to_parent = -1 };
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	_cleanup_(scratch_deinit) struct snap_region scratch = { 0 };
	struct snap_tracer tracer = {
		.options = options,
		.hook = hook,
		.shared = shared,
		.stop = stop,
	};
	struct snap_error *err;

	err = snap_procfs_open(NULL, &procfs);
	if (err)
		return err;
	tracer.procfs = &procfs;
	err = snap_scratch_create(SCRATCH_BYTES, &scratch);
	if (err)
		return err;
	tracer.scratch = scratch;
	err = spawn(&child, &tracer);
	if (err)
		return err;
	snap_tracer_make_room(shared, stop);
	err = watch(options, &child, again, shared, stop);
	snap_spawn_end(child.pidfd, err ? 0 : PATIENCE_MS, PATIENCE_MS);
	close_books(stop);
	if (err && snap_error_code(err) == SNAP_ERROR_TIMEOUT) {
		snap_error_destroy(err);
		err = NULL;
	}
	return err;
}
