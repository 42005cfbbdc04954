/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What procfs says of each thread, read while the target runs: name, state, processor, flags. At
 * 5-7 us a read this is the longest part of a snapshot of many threads, so the parent of the
 * tracing child reads with it. Everything here runs in both, and follows the rules of the child.
 */
#include "stop/child/child.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum {
	SHARE = 32, /* threads that are taken at once */
	LONGEST_KERNEL_STACK = 8192,
	LONGEST_WCHAN = 128,
	WAIT_NS = 100000000,
	LEAST_STACK = 4096, /* bytes copied of a thread */
};

static const char *read_text(const struct snap_describer *describer, pid_t tid, const char *name,
			     size_t most)
{
	ssize_t length =
		snap_procfs_task_read(describer->tasks_fd, tid, name, describer->buffer, most);

	/* "0": the thread waits for nothing. */
	if (length <= 0 || (length == 1 && describer->buffer[0] == '0'))
		return NULL;
	return snap_region_text(describer->records, describer->buffer, (size_t)length);
}

bool snap_describe(const struct snap_describer *describer, struct snap_thread *thread)
{
	const struct snap_options *options = describer->options;
	pid_t tid = thread->tid;
	struct snap_status status;
	struct snap_stat stat;
	int result = snap_procfs_task_stat(describer->tasks_fd, tid, &stat);

	if (snap_procfs_is_gone(result)) {
		thread->result = SNAP_THREAD_VANISHED;
		return false;
	}
	if (result)
		return true;
	thread->name = snap_region_text(describer->records, stat.name, strlen(stat.name));
	thread->state = stat.state;
	thread->cpu = stat.cpu;
	thread->flags = stat.flags;
	if (stat.state == 'D' || options->wchan || options->kernel_stacks)
		thread->wchan = read_text(describer, tid, "wchan", LONGEST_WCHAN);
	if (options->kernel_stacks)
		thread->kernel_stack = read_text(describer, tid, "stack", LONGEST_KERNEL_STACK);
	if (describer->foreign_namespace &&
	    snap_procfs_task_status(describer->tasks_fd, tid, &status) == 0)
		thread->ns_tid = status.ns_pid;
	return true;
}

static struct snap_describer describer_of(struct snap_tracer *tracer, uint32_t process)
{
	return (struct snap_describer){
		.options = tracer->options,
		.records = &tracer->shared->records,
		.tasks_fd = tracer->task_fds[process],
		.foreign_namespace = tracer->stop->processes[process].foreign_namespace,
		.buffer = tracer->buffer,
	};
}

bool snap_tracer_describe(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct snap_describer describer = describer_of(tracer, tracee->process);

	return snap_describe(&describer, snap_tracer_thread(tracer, tracee));
}

/* Takes shares of a process's threads until there are none left. */
static void take_shares(const struct snap_describer *describer, struct snap_help *help,
			struct snap_traced *process)
{
	for (;;) {
		uint32_t first = __atomic_fetch_add(&help->next, SHARE, __ATOMIC_RELAXED);

		for (uint32_t i = first; i < first + SHARE; i++) {
			if (i >= process->thread_count)
				return;
			snap_describe(describer, &process->threads[i]);
		}
	}
}

static bool change(struct snap_help *help, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&help->state, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

static void describe_shared(struct snap_tracer *tracer, uint32_t process)
{
	struct snap_describer describer = describer_of(tracer, process);
	struct snap_help *help = &tracer->stop->help;
	const struct timespec timeout = { .tv_nsec = WAIT_NS };
	uint64_t message = SNAP_TRACER_HELP;

	help->process = process;
	help->next = 0;
	if (write(tracer->ask_fd, &message, sizeof(message)) < 0)
		help->state = SNAP_HELP_CLOSED;
	take_shares(&describer, help, &tracer->stop->processes[process]);
	/* Too late for a parent that has not begun; one that has is waited for. */
	change(help, SNAP_HELP_NONE, SNAP_HELP_CLOSED);
	while (__atomic_load_n(&help->state, __ATOMIC_ACQUIRE) == SNAP_HELP_BUSY)
		syscall(SYS_futex, &help->state, FUTEX_WAIT, SNAP_HELP_BUSY, &timeout, NULL, 0);
}

void snap_tracer_describe_all(struct snap_tracer *tracer, uint32_t process)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	struct snap_describer describer = describer_of(tracer, process);

	/* Once in a stop: of several such processes the first is shared. */
	if (traced->thread_count >= SNAP_TRACER_MANY &&
	    tracer->stop->help.state == SNAP_HELP_NONE) {
		describe_shared(tracer, process);
		return;
	}
	for (size_t i = 0; i < traced->thread_count; i++)
		snap_describe(&describer, &traced->threads[i]);
}

/*
 * What the parent does while the child lists threads: a page of a stack is the least that each of
 * them will need, and making shared memory present is as slow as reading their states.
 */
void snap_tracer_make_room(struct snap_shared_memory *shared, const struct snap_stop *stop)
{
	size_t threads = 0;

	for (uint32_t i = 0; i < stop->process_count; i++) {
		const struct snap_traced *process = &stop->processes[i];
		_cleanup_fd_ int tasks =
			process->proc_fd < 0 ? -1 : snap_procfs_open_tasks(process->proc_fd);
		struct stat status;

		/* The directory's links are its threads and two of its own. */
		if (tasks >= 0 && fstat(tasks, &status) == 0 && status.st_nlink > SNAP_TRACER_MANY)
			threads += status.st_nlink - 2;
	}
	snap_region_prefault(&shared->stacks, threads * LEAST_STACK);
}

void snap_tracer_help(const struct snap_options *options, struct snap_shared_memory *shared,
		      struct snap_stop *stop)
{
	_cleanup_free_ char *buffer = malloc(SNAP_TRACER_BUFFER);
	struct snap_describer describer = { .options = options,
					    .records = &shared->records,
					    .buffer = buffer };
	struct snap_help *help = &stop->help;
	struct snap_traced *process;

	if (!buffer || !change(help, SNAP_HELP_NONE, SNAP_HELP_BUSY))
		return;
	snap_region_prefault(&shared->stacks, help->stack_bytes);
	process = &stop->processes[help->process];
	describer.foreign_namespace = process->foreign_namespace;
	describer.tasks_fd = process->proc_fd < 0 ? -1 : snap_procfs_open_tasks(process->proc_fd);
	if (describer.tasks_fd >= 0)
		take_shares(&describer, help, process);
	snap_close(&describer.tasks_fd);
	__atomic_store_n(&help->state, SNAP_HELP_CLOSED, __ATOMIC_RELEASE);
	syscall(SYS_futex, &help->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}
