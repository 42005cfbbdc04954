/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parent's side of a stop: makes the tracing child, watches its deadlines and the caller's
 * cancel flag, answers its requests, ends it. See tracer.h; the child is stop/child/child.c.
 */
#include "base/clock.h"
#include "base/spawn.h"
#include "bpf/threads.h"
#include "proc/procfs.h"
#include "stop/child/child.h"
#include "stop/describe.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

enum {
	TICK_MS = 20,       /* how often the parent looks at the cancel flag and the clock */
	LEAST_STACK = 4096, /* bytes copied of a thread */
	LATE_MS = 100,      /* past its time, before a stop is ended */
	BLOCKED_TICKS = 8,  /* for which the child sleeps uninterruptibly, before it is ended */
	PATIENCE_MS = 1000, /* for the child to end when all threads run again, or when killed */
};

static const size_t SCRATCH_BYTES = (size_t)128 << 20, LIST_BYTES = (size_t)128 << 20;

struct child {
	pid_t pid;
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

int snap_tracer_open_bpf(const struct snap_options *options, const struct snap_stop_hook *hook)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	struct snap_bpf bpf = { -1 };

	if (options->stop_all || options->no_bpf || (hook && hook->unwind) ||
	    snap_error_ignore(snap_procfs_open(NULL, &procfs)) ||
	    !snap_procfs_is_own(procfs.root_fd) || snap_bpf_open(&bpf))
		return -1;
	return bpf.program_fd;
}

struct snap_stop *snap_stop_new(struct snap_shared_memory *memory, uint32_t capacity)
{
	struct snap_stop *stop = snap_region_alloc(&memory->records, sizeof(*stop));
	struct snap_traced *processes =
		snap_region_new_array(&memory->records, capacity, struct snap_traced);

	if (!stop || !processes)
		return NULL;
	stop->processes = processes;
	stop->process_capacity = capacity;
	stop->patience = 100;
	stop->bpf_fd = -1;
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

static void run_child(void *context)
{
	snap_tracer_child(context);
}

static struct stacksnap_error *spawn_child(struct child *child, struct snap_tracer_task *task)
{
	child->to_child = eventfd(0, EFD_CLOEXEC);
	child->to_parent = eventfd(0, EFD_CLOEXEC);
	if (child->to_child < 0 || child->to_parent < 0)
		return snap_error_os(errno, "cannot create a channel to the tracing process");
	task->ask_fd = child->to_parent;
	task->answer_fd = child->to_child;
	return snap_spawn(0, "snap-tracer", run_child, task, &child->pid, &child->pidfd);
}

/*
 * The parent does this while the child lists threads: each thread needs one page of stack at least,
 * and making shared memory present is as slow as reading states.
 */
static void prefault_stacks(struct snap_shared_memory *memory, const struct snap_stop *stop)
{
	size_t threads = 0;

	for (uint32_t i = 0; i < stop->process_count; i++) {
		const struct snap_traced *process = &stop->processes[i];
		_cleanup_fd_ int tasks =
			process->proc_fd < 0 ? -1 : snap_procfs_open_tasks(process->proc_fd);
		size_t count;

		if (tasks >= 0 && snap_procfs_thread_count(tasks, &count) == 0 &&
		    count >= SNAP_TRACER_MANY)
			threads += count;
	}
	snap_region_prefault(&memory->stacks, threads * LEAST_STACK);
}

/* Has memory ready for the stacks, and describes threads in turns with the child. */
static void help_child(const struct snap_options *options, struct snap_shared_memory *memory,
		       struct snap_stop *stop)
{
	_cleanup_free_ char *buffer = malloc(SNAP_DESCRIBE_BYTES);
	struct snap_describer describer = { .options = options,
					    .records = &memory->records,
					    .buffer = buffer };
	struct snap_help *help = &stop->help;
	struct snap_traced *process;

	if (!buffer || !snap_help_begin(help))
		return;
	snap_region_prefault(&memory->stacks, help->stack_bytes);
	process = &stop->processes[help->process];
	describer.foreign_namespace = process->foreign_namespace;
	describer.clocks = stop->clocks;
	describer.tasks_fd = process->proc_fd < 0 ? -1 : snap_procfs_open_tasks(process->proc_fd);
	if (describer.tasks_fd >= 0)
		snap_describe_in_turns(&describer, help, process);
	snap_close(&describer.tasks_fd);
	snap_help_end(help);
}

static int64_t deadline_of_stop(const struct snap_options *options, const struct snap_stop *stop,
				int64_t start)
{
	int64_t begin = __atomic_load_n(&stop->begin_ns, __ATOMIC_ACQUIRE);
	int64_t end = __atomic_load_n(&stop->end_ns, __ATOMIC_ACQUIRE);

	int64_t until = begin ? begin + options->stop_timeout_ns : start + options->timeout_ns;
	int64_t latest = stop->until_ns + (begin ? LATE_MS * SNAP_NS_PER_MS : 0);

	if (end)
		return end + PATIENCE_MS * SNAP_NS_PER_MS;
	return stop->until_ns && latest < until ? latest : until;
}

/*
 * Handles a message of the child: it wants help with its reading, asks for plans, asks for new
 * processes in the tree, or is done.
 */
static struct stacksnap_error *answer_child(const struct snap_options *options,
					    const struct child *child,
					    const struct snap_stop_again *again,
					    struct snap_shared_memory *memory,
					    struct snap_stop *stop, bool *done_ret)
{
	uint64_t value;
	bool grown = false;
	struct stacksnap_error *err = NULL;

	if (read(child->to_parent, &value, sizeof(value)) < 0)
		return NULL;
	*done_ret = value >= SNAP_TRACER_DONE;
	if (value % SNAP_TRACER_ASK && !*done_ret)
		help_child(options, memory, stop);
	if (value < SNAP_TRACER_ASK || *done_ret)
		return NULL;
	if (value >= SNAP_TRACER_FOLLOW)
		again->follow(again->context, stop);
	else if (value >= SNAP_TRACER_PROBE)
		err = again->probe(again->context, stop);
	else
		err = again->look(again->context, stop, &grown);
	if (err)
		return err;
	value = grown ? SNAP_TRACER_PREPARE : SNAP_TRACER_GO;
	if (write(child->to_child, &value, sizeof(value)) < 0)
		return snap_error_os(errno, "cannot send to the tracing process");
	return NULL;
}

/* Until the child is done or has ended (NULL), or there is a reason to end it. */
static struct stacksnap_error *watch_tracer_child(const struct snap_options *options,
						  const struct child *child,
						  const struct snap_stop_again *again,
						  struct snap_shared_memory *memory,
						  struct snap_stop *stop)
{
	int64_t start = snap_clock_ns(CLOCK_MONOTONIC);
	unsigned blocked = 0;

	while (blocked < BLOCKED_TICKS) {
		struct pollfd fds[] = {
			{ .fd = child->pidfd, .events = POLLIN },
			{ .fd = child->to_parent, .events = POLLIN },
		};
		struct stacksnap_error *err;
		bool done = false;
		int64_t now;

		if (snap_options_cancelled(options))
			return snap_error_cancelled();
		if (poll(fds, SNAP_ARRAY_SIZE(fds), TICK_MS) < 0 && errno != EINTR)
			return snap_error_os(errno, "cannot wait for the tracing process");
		if (fds[0].revents)
			return NULL;
		if (fds[1].revents) {
			err = answer_child(options, child, again, memory, stop, &done);
			if (err || done)
				return err;
		}
		now = snap_clock_ns(CLOCK_MONOTONIC);
		if (now > deadline_of_stop(options, stop, start)) {
			stop->out_of_time |= stop->until_ns && now > stop->until_ns;
			stop->overdue = true;
			return snap_error_format(SNAP_ERROR_TIMEOUT,
						 "the tracing process did not exit in time");
		}
		blocked = !fds[1].revents && snap_procfs_is_blocked(child->pid) ? blocked + 1 : 0;
	}
	stop->stalled = true;
	return snap_error_format(SNAP_ERROR_TIMEOUT, "the tracing process does not wake up");
}

/* If the child was ended, the stop has ended by now. */
static void close_stop(struct snap_stop *stop)
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

void snap_tracer_end(int *tracer_fd)
{
	if (*tracer_fd >= 0)
		snap_spawn_end(*tracer_fd, PATIENCE_MS, PATIENCE_MS);
	snap_close(tracer_fd);
}

struct stacksnap_error *snap_tracer_run(const struct snap_options *options,
					const struct snap_stop_hook *hook,
					const struct snap_stop_again *again,
					struct snap_shared_memory *memory, struct snap_stop *stop,
					int *tracer_fd)
{
	_cleanup_(
		child_deinit) struct child child = { .pidfd = -1, .to_child = -1, .to_parent = -1 };
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	_cleanup_(scratch_deinit) struct snap_region scratch = { 0 };
	_cleanup_(scratch_deinit) struct snap_region lists = { 0 };
	struct snap_tracer_task task = {
		.options = options,
		.hook = hook,
		.memory = memory,
		.stop = stop,
	};
	struct stacksnap_error *err;

	snap_tracer_end(tracer_fd);
	SNAP_TRY(snap_procfs_open(NULL, &procfs));
	task.procfs = &procfs;
	task.may_probe = again->probe != NULL;
	task.may_follow = again->follow != NULL;
	err = snap_scratch_create(SCRATCH_BYTES, &scratch);
	SNAP_TRY(err ?: snap_shared_scratch_create(LIST_BYTES, &lists));
	task.scratch = scratch;
	task.lists = lists;
	SNAP_TRY(spawn_child(&child, &task));
	prefault_stacks(memory, stop);
	err = watch_tracer_child(options, &child, again, memory, stop);
	if (err || !stop->end_ns)
		snap_spawn_end(child.pidfd, err ? 0 : PATIENCE_MS, PATIENCE_MS);
	else
		*tracer_fd = snap_take_fd(&child.pidfd);
	close_stop(stop);
	if (err && snap_error_code(err) == SNAP_ERROR_TIMEOUT) {
		snap_error_destroy(err);
		err = NULL;
	}
	return err;
}
