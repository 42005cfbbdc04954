/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Facts of threads, read by one or two processes: see describe.h. */
#include "stop/describe.h"

#include "model/arch/registers.h"
#include "model/wait/call.h"
#include "proc/procfs.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	TURN = 32, /* threads that one side takes at once */
	LONGEST_KERNEL_STACK = 8192,
	LONGEST_WCHAN = 128,
	WAIT_NS = 100000000,
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

void snap_describe_wchan(const struct snap_describer *describer, struct snap_thread *thread)
{
	const struct snap_options *options = describer->options;

	thread->wchan = NULL;
	if (thread->state == 'D' || options->wchan || options->kernel_stacks)
		thread->wchan = read_text(describer, thread->tid, "wchan", LONGEST_WCHAN);
}

void snap_describe_blocked(const struct snap_describer *describer, struct snap_thread *thread)
{
	if (describer->clocks && thread->state != 'R')
		thread->blocked_ns = snap_run_clocks_blocked(describer->clocks, describer->tasks_fd,
							     thread->tid, thread->cpu);
}

void snap_describe_runs(const struct snap_describer *describer, struct snap_thread *thread)
{
	uint64_t runs;

	if ((describer->options->again_ns || describer->clocks) &&
	    snap_procfs_task_runs(describer->tasks_fd, thread->tid, &runs))
		thread->runs = runs <= INT64_MAX ? runs : 0;
}

bool snap_stop_is_harmful(const struct snap_options *options, int tasks_fd, pid_t tid, int64_t call,
			  bool may_have_filter)
{
	const struct snap_wait_call_row *row = snap_wait_call_row(SNAP_OWN_ARCH, call);
	struct snap_status status;
	struct snap_stat stat;

	if (call < 0 || options->force_stop)
		return false;
	/* Most other calls never sleep where a stop would wake them up, but wait for locks of the kernel. */
	if (row->call == SNAP_CALL_OTHER)
		return !options->stop_all && snap_procfs_task_stat(tasks_fd, tid, &stat) == 0 &&
		       stat.state == 'S';
	if (!(row->facts & SNAP_CALL_GOES_ON))
		return !options->stop_all;
	return may_have_filter && row->facts & SNAP_CALL_RESTARTS &&
	       snap_procfs_task_status(tasks_fd, tid, &status) == 0 &&
	       status.seccomp == SNAP_SECCOMP_FILTER;
}

void snap_describe_start(const struct snap_describer *describer, struct snap_thread *thread)
{
	struct snap_stat stat;

	if (describer->clocks && !thread->start_ticks &&
	    snap_procfs_task_stat(describer->tasks_fd, thread->tid, &stat) == 0)
		thread->start_ticks = stat.start_ticks;
}

/* Another process may read it meanwhile. */
void snap_describe_kernel_stack(const struct snap_describer *describer, struct snap_thread *thread)
{
	const char *text;

	if (!snap_wants_kernel_stack(describer->options, thread))
		return;
	text = read_text(describer, thread->tid, "stack", LONGEST_KERNEL_STACK);
	__atomic_store_n(&thread->kernel_stack, text, __ATOMIC_RELEASE);
}

void snap_describe_known(const struct snap_describer *describer, struct snap_thread *thread,
			 const struct snap_stat *stat)
{
	struct snap_status status;

	thread->name = snap_region_text(describer->records, stat->name, strlen(stat->name));
	thread->state = stat->state;
	thread->cpu = stat->cpu;
	thread->flags = stat->flags;
	thread->start_ticks = stat->start_ticks;
	snap_describe_wchan(describer, thread);
	snap_describe_blocked(describer, thread);
	snap_describe_runs(describer, thread);
	if (describer->foreign_namespace &&
	    snap_procfs_task_status(describer->tasks_fd, thread->tid, &status) == 0)
		thread->ns_tid = status.ns_pid;
}

bool snap_describe(const struct snap_describer *describer, struct snap_thread *thread)
{
	struct snap_stat stat;
	int result = snap_procfs_task_stat(describer->tasks_fd, thread->tid, &stat);

	if (snap_procfs_is_gone(result)) {
		thread->result = SNAP_THREAD_VANISHED;
		return false;
	}
	if (result == 0)
		snap_describe_known(describer, thread, &stat);
	return true;
}

void snap_describe_in_turns(const struct snap_describer *describer, struct snap_help *help,
			    struct snap_traced *process)
{
	for (;;) {
		uint32_t first = __atomic_fetch_add(&help->next, TURN, __ATOMIC_RELAXED);

		for (uint32_t i = first; i < first + TURN; i++) {
			if (i >= process->thread_count)
				return;
			snap_describe(describer, &process->threads[i]);
		}
	}
}

static bool change_state(struct snap_help *help, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&help->state, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

bool snap_help_begin(struct snap_help *help)
{
	return change_state(help, SNAP_HELP_NONE, SNAP_HELP_BUSY);
}

void snap_help_end(struct snap_help *help)
{
	__atomic_store_n(&help->state, SNAP_HELP_CLOSED, __ATOMIC_RELEASE);
	syscall(SYS_futex, &help->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void snap_help_close(struct snap_help *help)
{
	const struct timespec timeout = { .tv_nsec = WAIT_NS };

	if (change_state(help, SNAP_HELP_NONE, SNAP_HELP_CLOSED))
		return;
	while (__atomic_load_n(&help->state, __ATOMIC_ACQUIRE) == SNAP_HELP_BUSY)
		syscall(SYS_futex, &help->state, FUTEX_WAIT, SNAP_HELP_BUSY, &timeout, NULL, 0);
}
