/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From the tracing child's records to the capture: see collect.h. */
#include "capture/collect.h"

#include "base/bsearch.h"
#include "base/clock.h"
#include "discover/discover.h"
#include "proc/procfs.h"
#include "stop/plan/execute.h"

#include <fcntl.h>
#include <string.h>

enum { MOST_THREAD_WARNINGS = 16 };

SNAP_ORDER(by_tid, struct snap_thread, left, right, snap_compare(left->tid, right->tid));

/* Mostly the kernel lists threads in the order of their tids. */
static void sort_threads(struct snap_process *process)
{
	for (size_t i = 1; i < process->thread_count; i++) {
		if (process->threads[i - 1].tid > process->threads[i].tid) {
			qsort(process->threads, process->thread_count, sizeof(*process->threads),
			      by_tid);
			return;
		}
	}
}

/* The tracer has ended before it knew whether the thread rested all the time. */
static struct snap_thread without_copy(struct snap_thread thread)
{
	thread.result = SNAP_THREAD_NOT_STOPPED;
	thread.taken = SNAP_TAKEN_TOGETHER;
	thread.partial = false;
	thread.registers_size = thread.stack_size = thread.stack2_size = 0;
	return thread;
}

static void collect_threads(struct snap_process *process, const struct snap_traced *traced,
			    bool settled)
{
	size_t kept = 0;

	process->threads = traced->threads;
	for (size_t i = 0; i < traced->thread_count; i++) {
		struct snap_thread thread = traced->threads[i];

		if (thread.result != SNAP_THREAD_VANISHED)
			process->threads[kept++] = thread.taken == SNAP_TAKEN_CONFIRMED && !settled
							   ? without_copy(thread)
							   : thread;
	}
	process->thread_count = kept;
	process->threads_missed = traced->threads_missed;
	/* A leader that has exited without other threads is no thread any more. */
	if (kept == 1 && process->threads[0].state == 'Z')
		process->thread_count = 0;
	sort_threads(process);
}

static bool has_copies(const struct snap_process *process)
{
	for (size_t i = 0; i < process->thread_count; i++) {
		if (process->threads[i].result == SNAP_THREAD_COPIED)
			return true;
	}
	return false;
}

/* The option that says for how long the stop may last: with little time left it is that of the run. */
static const char *limit_of_stop(const struct snap_options *options, const struct snap_stop *stop)
{
	return stop->until_ns && stop->until_ns - stop->begin_ns < options->stop_timeout_ns
		       ? "--timeout"
		       : "--stop-timeout";
}

/* Nothing of the process could be copied: why? */
static void explain_trouble(const struct snap_options *options, struct snap_capture *capture,
			    struct snap_process *process, const struct snap_stop *stop,
			    const struct snap_traced *traced)
{
	int pid = (int)process->pid;
	int64_t waited_ns = traced->waited_ns;

	if (process->trouble != SNAP_TROUBLE_NONE || has_copies(process))
		return;
	/* A child that was ended in the middle has not said how long it had waited. */
	if (stop->overdue && traced->stop_begin_ns && !waited_ns)
		waited_ns = stop->end_ns - traced->stop_begin_ns;
	if (traced->unsupported) {
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_UNSUPPORTED_ARCH,
					 "cannot unwind %d: the word size or architecture of its "
					 "program is not supported",
					 pid);
	} else if (traced->unresponsive == SNAP_UNRESPONSIVE_MAPS) {
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_NOT_RESPONDING,
					 "process %d does not respond: reading its memory map took "
					 "too long",
					 pid);
	} else if (traced->unresponsive == SNAP_UNRESPONSIVE_SEIZE) {
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_NOT_RESPONDING,
					 "process %d does not respond: seizing it took too long, "
					 "as it is in an exec",
					 pid);
	} else if (traced->unresponsive == SNAP_UNRESPONSIVE_OTHERS) {
		snap_process_set_trouble(
			capture, process, SNAP_TROUBLE_NOT_RESPONDING,
			"%d was not stopped: seizing other processes took too long", pid);
	} else if (traced->error) {
		snap_discover_explain(capture, process, capture->asker, traced->error);
	} else if (stop->out_of_time && !traced->vanished) {
		snap_capture_set_out_of_time(capture, process);
	} else if (options->no_stop && process->thread_count) {
		return; /* each of them says what it does, and why it has no stack */
	} else if (waited_ns) {
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_STOP_TIMEOUT,
					 "%d did not stop within %lld ms (see %s)", pid,
					 (long long)waited_ns / SNAP_NS_PER_MS,
					 limit_of_stop(options, stop));
	} else if (stop->stalled && traced->stop_begin_ns) {
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_STOP_TIMEOUT,
					 "%d was not copied: a process blocked the tracing process",
					 pid);
	} else if (stop->killed && !traced->vanished) {
		/* Not even the list of its threads need be whole. */
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_INTERNAL,
					 "the tracing process was killed before it had copied %d",
					 pid);
	} else if (traced->vanished || process->thread_count == 0) {
		process->vanished = true;
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_EXITED,
					 "%d exited before it could be stopped", pid);
	}
}

static void warn_of_threads(const struct snap_options *options, struct snap_capture *capture,
			    const struct snap_process *process, const struct snap_traced *traced)
{
	size_t not_stopped = 0, unread = 0;
	bool stacks_missing = false;

	for (size_t i = 0; i < process->thread_count; i++) {
		const struct snap_thread *thread = &process->threads[i];

		if (thread->result <= SNAP_THREAD_NOT_STOPPED && !thread->stack_size &&
		    (!options->no_stop || thread->untried))
			snap_trace(options->trace, thread->tid, SNAP_TRACE_MISSED, NULL);
		stacks_missing |= thread->result == SNAP_THREAD_COPIED && thread->stack_unreadable;
		if (thread->result != SNAP_THREAD_VANISHED && !thread->name &&
		    ++unread <= MOST_THREAD_WARNINGS)
			snap_capture_warn(capture, "facts_missing", process->pid, thread->tid,
					  "cannot read name and state of thread %d of %d",
					  thread->tid, process->pid);
		if (thread->result != SNAP_THREAD_NOT_STOPPED ||
		    ++not_stopped > MOST_THREAD_WARNINGS)
			continue;
		if (thread->untried)
			snap_capture_warn(
				capture, "thread_not_stopped", process->pid, thread->tid,
				"there was no time to read thread %d of %d (see --timeout)",
				thread->tid, process->pid);
		else if (thread->spared)
			snap_capture_warn(
				capture, "thread_not_stopped", process->pid, thread->tid,
				"thread %d of %d was not stopped: that could end its call "
				"early, or its process (see --force-stop)",
				thread->tid, process->pid);
		else
			snap_capture_warn(capture, "thread_not_stopped", process->pid, thread->tid,
					  "thread %d of %d %sdid not stop (state %c%s%s)",
					  thread->tid, process->pid,
					  options->no_stop ? "needs a stop to be read, and " : "",
					  thread->state ? thread->state : '?',
					  thread->wchan ? ", waits in " : "",
					  thread->wchan ? thread->wchan : "");
	}
	if (not_stopped > MOST_THREAD_WARNINGS)
		snap_capture_warn(capture, "thread_not_stopped", process->pid, 0,
				  "%zu threads of %d did not stop%s", not_stopped, process->pid,
				  options->no_stop ? ", or there was no time to read them" : "");
	if (unread > MOST_THREAD_WARNINGS)
		snap_capture_warn(capture, "facts_missing", process->pid, 0,
				  "cannot read names and states of %zu threads of %d", unread,
				  process->pid);
	if (process->threads_missed)
		snap_capture_warn(capture, "threads_missed", process->pid, 0,
				  "%zu threads of %d could not be stopped in time and are missing",
				  process->threads_missed, process->pid);
	if (traced->stalled)
		snap_capture_warn(capture, "memory_stalled", process->pid, 0,
				  "reading a memory page of %d blocked (userfaultfd, FUSE, or its "
				  "mappings change): %s",
				  process->pid,
				  stacks_missing ? "stacks of its threads are missing"
				  : traced->wait_bytes_missing
					  ? "what its threads wait for may be missing"
					  : "names of its functions may be missing");
	if (traced->maps_error && !process->map_count && has_copies(process))
		snap_capture_warn(capture, "maps_cut", process->pid, 0,
				  "cannot read the mappings of %d: %s: its stacks end after one "
				  "frame",
				  process->pid, strerror(traced->maps_error));
	if (traced->children_missed)
		snap_capture_warn(capture, "children_missed", process->pid, 0,
				  "%zu children of %d forked just before the stop were not stopped",
				  traced->children_missed, process->pid);
	if (traced->error && traced->seized)
		snap_capture_warn(capture, "thread_refused", process->pid, 0,
				  "some threads of %d cannot be traced: %s", process->pid,
				  strerror(traced->error));
}

static void collect_words(const struct snap_capture *capture, struct snap_process *process,
			  const struct snap_traced *traced)
{
	const uint8_t *shared = capture->shared;

	if (!traced->words)
		return;
	snap_plan_finish(traced->words, shared, shared + capture->shared_size);
	process->words = traced->words->piece_count ? traced->words : NULL;
}

/* ---- arguments of the same moment as the stacks: PostgreSQL and others say there what they do ---- */

/* A longer title lies over the environment, too, and ends with the first NUL (proc(5), cmdline). */
static bool is_title_grown(const struct snap_process *process)
{
	return process->args_size > process->args_end - process->args_start;
}

size_t snap_capture_args_wanted(const struct snap_process *process)
{
	enum { MOST_ARGS = 4096 /* longer ones are no title */, MOST_GROWTH = 256 };
	size_t size = process->args_size;

	if (!process->args_start || !size || size > MOST_ARGS)
		return 0;
	return is_title_grown(process) ? size + MOST_GROWTH : size;
}

static void collect_arguments(struct snap_capture *capture, struct snap_process *process,
			      const struct snap_traced *traced)
{
	size_t size = traced->args_size;
	char *args;

	if (!process->words || !size || traced->execed)
		return;
	args = snap_arena_alloc(&capture->arena, size);
	if (!args || !snap_memory_image_read(process->words, traced->args_start, args, size) ||
	    !*args)
		return;
	process->args = args;
	process->args_size = is_title_grown(process) ? strnlen(args, size) : size;
}

/* Of the program that the plan was made for. */
static void collect_memory(const struct snap_capture *capture, struct snap_process *process,
			   const struct snap_traced *traced)
{
	const uint8_t *shared = capture->shared;

	if (!traced->memory || traced->execed)
		return;
	snap_plan_finish(traced->memory, shared, shared + capture->shared_size);
	process->memory = traced->memory;
}

/* A program of 32 bits, whose calls have other numbers: all its memory is below 4 GiB. */
static bool is_narrow(const struct snap_traced *traced)
{
	return traced->map_count && traced->maps[traced->map_count - 1].end <= 1ull << 32;
}

static void collect_process(const struct snap_options *options, struct snap_capture *capture,
			    struct snap_process *process, const struct snap_stop *stop,
			    const struct snap_traced *traced)
{
	if (traced->left_out) {
		if (process->trouble == SNAP_TROUBLE_NONE)
			snap_capture_set_out_of_time(capture, process);
		return;
	}
	process->maps = traced->maps;
	process->map_count = traced->map_count;
	process->credentials = traced->credentials;
	process->maps_cut = traced->maps_cut;
	process->pieces = traced->pieces;
	process->piece_count = traced->piece_count;
	if (traced->maps_cut)
		snap_capture_warn(capture, "maps_cut", process->pid, 0,
				  "process %d: only its first %zu mappings are kept, as they take "
				  "too much memory: stacks and names may be missing",
				  (int)process->pid, process->map_count);
	if (traced->arch || traced->unsupported || is_narrow(traced))
		process->arch = traced->arch;
	collect_words(capture, process, traced);
	collect_arguments(capture, process, traced);
	collect_memory(capture, process, traced);
	if (traced->stop_begin_ns && traced->stop_end_ns)
		process->stop_duration_ns = traced->stop_end_ns - traced->stop_begin_ns;
	if (traced->alone_ns)
		process->stop_duration_ns = traced->alone_ns;
	if (traced->alone_ns > capture->stop_duration_ns)
		capture->stop_duration_ns = traced->alone_ns;
	collect_threads(process, traced, stop->settled);
	/* The kernel's stack is all that there is of such a process. */
	if (process->trouble == SNAP_TROUBLE_KERNEL_THREAD && process->thread_count &&
	    process->threads[0].kernel_stack) {
		process->trouble = SNAP_TROUBLE_NONE;
		process->trouble_message = NULL;
		return;
	}
	explain_trouble(options, capture, process, stop, traced);
	warn_of_threads(options, capture, process, traced);
}

/*
 * Called gone, yet there: in an exec of another thread the leader goes, and the thread that calls
 * exec takes its number. A look in between sees neither.
 */
static bool is_in_exec(const struct snap_capture *capture, size_t index)
{
	const struct snap_process *process = &capture->processes[index];
	struct snap_stat stat;

	return process->trouble == SNAP_TROUBLE_EXITED && capture->live &&
	       capture->live[index].proc_fd >= 0 &&
	       snap_procfs_stat(capture->live[index].proc_fd, &stat) == 0 &&
	       stat.start_ticks == process->start_ticks && !strchr("ZX", stat.state);
}

static int duplicate_fd(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static int64_t start_time(const struct snap_host *host, uint64_t ticks)
{
	uint64_t each = host->ticks_per_second > 0 ? 1000000000u / host->ticks_per_second : 0;

	return host->boot_time_ns && ticks && each ? host->boot_time_ns + (int64_t)(ticks * each)
						   : 0;
}

/* A process that was forked during the stop was, at that moment, its parent's twin. */
static struct snap_process *add_forked(struct snap_capture *capture,
				       const struct snap_traced *child, size_t parent)
{
	struct snap_process *process = snap_capture_append(capture), *processes;
	struct snap_live *live;

	if (!process)
		return NULL;
	processes = capture->processes;
	live = &capture->live[process - processes];
	live->root_fd = duplicate_fd(capture->live[parent].root_fd);
	live->exe_fd = duplicate_fd(capture->live[parent].exe_fd);
	*process = processes[parent];
	process->pid = child->pid;
	process->ppid = processes[parent].pid;
	process->ns_pid = process->ns_pid == process->ppid ? child->pid : 0;
	process->parent = parent;
	process->is_target = process->is_namespace_init = false;
	process->memory = process->words = NULL;
	process->usage = (struct snap_usage){ 0 };
	process->descriptors = NULL;
	process->descriptor_count = 0;
	process->start_ticks = child->start_ticks;
	process->start_time_ns = start_time(&capture->host, child->start_ticks);
	process->ancestors = NULL;
	process->ancestor_count = 0;
	process->trouble = SNAP_TROUBLE_NONE;
	process->trouble_message = NULL;
	return process;
}

void snap_capture_set_out_of_time(struct snap_capture *capture, struct snap_process *process)
{
	snap_process_set_trouble(capture, process, SNAP_TROUBLE_OUT_OF_TIME,
				 "%d was not stopped: the time of the run was up (see --timeout)",
				 (int)process->pid);
}

struct stacksnap_error *snap_capture_collect(const struct snap_options *options,
					     struct snap_capture *capture, struct snap_stop *stop)
{
	bool stopped = false;
	size_t uncopied = 0;

	for (uint32_t i = 0; i < stop->process_count; i++) {
		struct snap_traced *traced = &stop->processes[i];
		struct snap_process *process;

		stopped |= traced->stop_begin_ns != 0;
		uncopied += traced->uncopied;
		if (traced->index == SIZE_MAX) {
			process = add_forked(capture, traced,
					     stop->processes[traced->forked_from].index);
			SNAP_TRY(snap_no_memory_unless(process));
			traced->index = capture->process_count - 1;
		}
		process = &capture->processes[traced->index];
		collect_process(options, capture, process, stop, traced);
		if (!is_in_exec(capture, traced->index))
			continue;
		/* What is shown unless the next try stops it. */
		traced->execed = true;
		process->vanished = false;
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_NOT_RESPONDING,
					 "process %d was not stopped: it was executing another "
					 "program",
					 (int)process->pid);
	}
	if (stopped && stop->end_ns - stop->begin_ns > capture->stop_duration_ns)
		capture->stop_duration_ns = stop->end_ns - stop->begin_ns;
	if (stop->rounds > capture->stop_rounds)
		capture->stop_rounds = stop->rounds;
	if (stopped && stop->still_ns && stop->still_ns - stop->begin_ns > capture->stop_skew_ns)
		capture->stop_skew_ns = stop->still_ns - stop->begin_ns;
	if (uncopied)
		snap_capture_warn(
			capture, "stacks_late", 0, 0,
			"stacks of %zu processes were not copied, as the time of the stop "
			"was up (see %s)",
			uncopied, limit_of_stop(options, stop));
	if (stop->limited)
		snap_capture_warn(capture, "stacks_limited", 0, 0,
				  "stacks were cut to keep the snapshot within %llu MiB",
				  (unsigned long long)options->max_snapshot >> 20);
	return NULL;
}
