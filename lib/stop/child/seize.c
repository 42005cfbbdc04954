/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tracing child lists threads, seizes them and reads what procfs says of them, while the target
 * runs. Each read of procfs costs 5-7 us, so a thread gets one (stat) unless options ask for more.
 */
#include "base/clock.h"
#include "stop/child/internal.h"
#include "stop/describe.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

enum {
	SPARE_THREADS = 64,
	REFUSED_TRIES = 4,
	SEIZE_TICK_US = 20000, /* the second tick in one SEIZE reaps, and checks all tracees */
	/* Parts of the remaining time before the stop, each from its beginning on. */
	LIST_EIGHTHS = 2,
	MAPS_EIGHTHS = 5,
	DESCRIBE_EIGHTHS = 5,
	/*
	 * The number of processes that are always listed, and the least time for the maps of some
	 * of them.
	 */
	LEAST_PROCESSES = 64,
	LEAST_PART_NS = 150000000,
};

/* For all maps together; ordinary processes on a busy machine need the lower one. */
static const int64_t MOST_MAPS_NS = 2000000000, LEAST_MAPS_NS = 1000000000;

/*
 * New threads, forks and execs stop at once and become tracees; no option kills a target with its
 * tracer.
 */
static const long SEIZE_OPTIONS =
	PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;

/* Makes room for threads of a process: the records move to twice the room. */
static bool reserve_threads(struct snap_tracer *tracer, struct snap_traced *process, size_t wanted)
{
	struct snap_thread *threads;

	if (wanted <= process->thread_capacity)
		return true;
	wanted += wanted / 4 + SPARE_THREADS;
	threads = snap_region_new_array(&tracer->memory->records, wanted, struct snap_thread);
	if (!threads)
		return false;
	if (process->thread_count)
		memcpy(threads, process->threads, process->thread_count * sizeof(*threads));
	process->threads = threads;
	process->thread_capacity = wanted;
	return true;
}

struct snap_tracee *snap_tracer_add(struct snap_tracer *tracer, uint32_t process, pid_t tid)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	struct snap_tracee *tracee;

	if (tid <= 0 || tid >= SNAP_TRACER_TIDS || tracer->count == tracer->capacity)
		return NULL;
	/* A thread that has gone and is listed again exits slowly, or its tid was used again. */
	if (tracer->by_tid[tid] &&
	    tracer->tracees[tracer->by_tid[tid] - 1].phase != SNAP_TRACEE_GONE)
		return NULL;
	if (!reserve_threads(tracer, traced, traced->thread_count + 1))
		return NULL;
	tracee = &tracer->tracees[tracer->count++];
	*tracee = (struct snap_tracee){ .tid = tid,
					.process = process,
					.thread = (uint32_t)traced->thread_count };
	traced->threads[traced->thread_count] = (struct snap_thread){
		.tid = tid,
		.ns_tid = traced->foreign_namespace ? 0 : tid,
		.cpu = -1,
		.blocked_ns = -1,
		.result = SNAP_THREAD_UNTRACED,
	};
	traced->thread_count++;
	snap_trace(tracer->options->trace, tid, SNAP_TRACE_LISTED, NULL);
	tracer->by_tid[tid] = tracer->count;
	tracer->counted[process]++;
	return tracee;
}

struct snap_tracee *snap_tracer_leader(const struct snap_tracer *tracer, uint32_t process)
{
	uint32_t index = tracer->by_tid[tracer->stop->processes[process].pid];
	struct snap_tracee *leader = index ? &tracer->tracees[index - 1] : NULL;

	return leader && leader->process == process ? leader : NULL;
}

void snap_tracer_note(struct snap_tracer *tracer, struct snap_tracee *tracee,
		      enum snap_tracee_event event)
{
	struct snap_traced *process = snap_tracer_process(tracer, tracee);
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	enum snap_tracee_phase before = tracee->phase, after = snap_tracee_next(before, event);
	uint32_t *counted = &tracer->counted[tracee->process];
	uint32_t *unwatched = &tracer->unwatched[tracee->process];

	if (after == before)
		return;
	tracee->phase = (uint8_t)after;
	if (after == SNAP_TRACEE_STOPPED)
		snap_trace(tracer->options->trace, tracee->tid, SNAP_TRACE_STOPPED, NULL);
	*counted = *counted - snap_tracee_is_counted(before) + snap_tracee_is_counted(after);
	*unwatched =
		*unwatched - snap_tracee_is_unwatched(before) + snap_tracee_is_unwatched(after);
	if (after == SNAP_TRACEE_RESTING) {
		process->seized = true;
	} else if (after == SNAP_TRACEE_SEIZED || after == SNAP_TRACEE_AWAITED) {
		process->seized = true;
		thread->result = SNAP_THREAD_NOT_STOPPED;
	} else if (after == SNAP_TRACEE_EXITING && tracee->tid == process->pid) {
		/* A leader that has exited is shown while its threads live on. */
		thread->state = 'Z';
		thread->result = SNAP_THREAD_UNTRACED;
	} else if (after == SNAP_TRACEE_EXITING || after == SNAP_TRACEE_GONE) {
		thread->result = SNAP_THREAD_VANISHED;
	}
}

static struct snap_describer describer_of(const struct snap_tracer *tracer, uint32_t process)
{
	return (struct snap_describer){
		.options = tracer->options,
		.records = &tracer->memory->records,
		.tasks_fd = tracer->task_fds[process],
		.foreign_namespace = tracer->stop->processes[process].foreign_namespace,
		.clocks = tracer->stop->clocks,
		.buffer = tracer->buffer,
	};
}

bool snap_tracer_describe(struct snap_tracer *tracer, const struct snap_tracee *tracee)
{
	struct snap_describer describer = describer_of(tracer, tracee->process);

	return snap_describe(&describer, snap_tracer_thread(tracer, tracee));
}

/* The parent helps to describe the first process that has many threads. */
static void describe_process(struct snap_tracer *tracer, uint32_t process)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	struct snap_describer describer = describer_of(tracer, process);
	struct snap_help *help = &tracer->stop->help;
	uint64_t message = SNAP_TRACER_HELP;
	struct snap_status status;

	traced->is_filtered =
		snap_procfs_task_status(describer.tasks_fd, traced->pid, &status) == 0 &&
		status.seccomp == SNAP_SECCOMP_FILTER;
	if (traced->thread_count < SNAP_TRACER_MANY || help->state != SNAP_HELP_NONE) {
		for (size_t i = 0; i < traced->thread_count; i++)
			snap_describe(&describer, &traced->threads[i]);
		return;
	}
	help->process = process;
	help->next = 0;
	if (write(tracer->ask_fd, &message, sizeof(message)) < 0)
		help->state = SNAP_HELP_CLOSED;
	snap_describe_in_turns(&describer, help, traced);
	snap_help_close(help);
}

/*
 * 0 or an errno. SEIZE waits for an exec of the process, which its program can block without end;
 * ETIMEDOUT: a tick has given it up. A tid may have been used again since it was listed. Once it is
 * seized it cannot be, so it is looked up then, and a foreign thread is released by the next settling.
 */
static int seize_listed_thread(struct snap_tracer *tracer, const struct snap_tracee *tracee)
{
	pid_t tid = tracee->tid;
	int error;

	if (sigsetjmp(tracer->seize_given_up, 0)) {
		tracer->seizes_given_up++;
		tracer->seizing = 0;
		snap_ticks_allow();
		/* The next late SEIZE is given up sooner. */
		if (!tracer->stopping)
			snap_tracer_set_ticks(SNAP_TRACER_TICK_US);
		return ETIMEDOUT;
	}
	if (!tracer->first_seize_ns)
		tracer->first_seize_ns = snap_clock_ns(CLOCK_MONOTONIC);
	tracer->seizing_since_ns = 0;
	tracer->seizing = tid;
	error = ptrace(PTRACE_SEIZE, tid, NULL, (void *)SEIZE_OPTIONS) ? errno : 0;
	tracer->seizing = 0;
	if (!error && !snap_procfs_has_task(tracer->task_fds[tracee->process], tid))
		snap_tracer_process(tracer, tracee)->has_foreign = true;
	return error;
}

/* The meaning of a refused SEIZE; the state is read again, as the first one may be out of date. */
static enum snap_tracee_event explain_refusal(struct snap_tracer *tracer,
					      const struct snap_tracee *tracee, int os_errno)
{
	int tasks = tracer->task_fds[tracee->process];
	struct snap_status status = { 0 };
	struct snap_stat stat = { 0 };
	int error = snap_procfs_task_stat(tasks, tracee->tid, &stat);

	if (os_errno == ESRCH || snap_procfs_is_gone(error))
		return SNAP_TRACEE_ON_GONE;
	if (stat.state == 'Z' && tracee->tid == snap_tracer_process(tracer, tracee)->pid)
		return SNAP_TRACEE_ON_ENDED;
	if (snap_procfs_task_status(tasks, tracee->tid, &status) == 0 &&
	    status.tracer_pid == (pid_t)syscall(SYS_getpid))
		return SNAP_TRACEE_ON_BORN;
	if (stat.state == 'Z' || stat.state == 'X' || (stat.flags & SNAP_PF_EXITING))
		return SNAP_TRACEE_ON_ENDED;
	/*
	 * During an exec tracing is not permitted, and another tracer may have had it for a moment.
	 */
	for (int i = 0; i < REFUSED_TRIES && os_errno == EPERM && status.tracer_pid == 0; i++) {
		if (!seize_listed_thread(tracer, tracee))
			return SNAP_TRACEE_ON_SEIZED;
		if (snap_procfs_task_status(tasks, tracee->tid, &status))
			break;
	}
	return SNAP_TRACEE_ON_REFUSED;
}

/* After many late ones no other SEIZE is tried in the end: the seized threads must run again. */
static bool is_too_late_to_seize(const struct snap_tracer *tracer)
{
	int64_t now;

	if (!tracer->seizes_given_up)
		return false;
	now = snap_clock_ns(CLOCK_MONOTONIC);
	return tracer->stopping
		       ? now >= tracer->wait_until_ns
		       : snap_tracer_seized_ns(tracer, now) > tracer->options->stop_timeout_ns;
}

void snap_tracer_seize(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct snap_traced *process = snap_tracer_process(tracer, tracee);
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	enum snap_tracee_event event = SNAP_TRACEE_ON_SEIZED;
	int error;

	if (process->look_only || snap_tracer_spare(tracer, tracee))
		return;
	if (!process->seized && is_too_late_to_seize(tracer)) {
		process->unresponsive = SNAP_UNRESPONSIVE_OTHERS;
		event = SNAP_TRACEE_ON_REFUSED;
	} else if (snap_thread_is_worker(thread)) {
		event = SNAP_TRACEE_ON_REFUSED;
	} else if (thread->state == 'Z' && tracee->tid == process->pid) {
		event = SNAP_TRACEE_ON_ENDED;
	} else if ((error = seize_listed_thread(tracer, tracee)) != 0) {
		event = explain_refusal(tracer, tracee, error);
		if (error == ETIMEDOUT && event == SNAP_TRACEE_ON_REFUSED)
			process->unresponsive = SNAP_UNRESPONSIVE_SEIZE;
		else if (event == SNAP_TRACEE_ON_REFUSED && !process->error)
			process->error = error;
	}
	/* Only we can have stopped it: at its birth, before it was listed. */
	if (event == SNAP_TRACEE_ON_BORN && thread->state == 't')
		thread->state = 'R';
	snap_tracer_note(tracer, tracee, event);
}

/*
 * A process without a descriptor of the parent is looked up by pid, and its start time is checked.
 * Our copy of the parent's descriptor is closed: two for each of many processes are too many.
 */
void snap_tracer_open_tasks(struct snap_tracer *tracer, uint32_t process)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	_cleanup_fd_ int fd = traced->proc_fd;
	struct snap_stat stat;
	int error;

	tracer->task_fds[process] = -ESRCH;
	if (fd < 0) {
		fd = snap_procfs_open_process(tracer->procfs, traced->pid);
		error = fd < 0 ? 0 : snap_procfs_stat(fd, &stat);
		if (error) {
			tracer->task_fds[process] = error;
			return;
		}
		if (fd >= 0 && !traced->start_ticks)
			traced->start_ticks = stat.start_ticks;
		if (fd >= 0 && stat.start_ticks != traced->start_ticks)
			return;
	}
	tracer->task_fds[process] = fd < 0 ? fd : snap_procfs_open_tasks(fd);
}

/* Lists threads and their states, all before the first SEIZE: reading is the slow part. */
static void list_seized_threads(struct snap_tracer *tracer, uint32_t process)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	ssize_t count;
	int tasks;

	snap_tracer_open_tasks(tracer, process);
	tasks = tracer->task_fds[process];
	count = tasks < 0 ? tasks : snap_procfs_list(tasks, tracer->tids, SNAP_MAX_THREADS);
	if (count <= 0) {
		traced->vanished = count == 0 || snap_procfs_is_gone(count);
		if (!traced->vanished)
			traced->error = (int)-count;
		return;
	}
	if (count > SNAP_MAX_THREADS)
		count = SNAP_MAX_THREADS;
	if (!reserve_threads(tracer, traced, (size_t)count))
		return;
	for (ssize_t i = 0; i < count; i++)
		snap_tracer_add(tracer, process, tracer->tids[i]);
}

/* The end of a part of the remaining time before the stop. */
static int64_t part_until(const struct snap_tracer *tracer, unsigned eighths)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC), until_ns = tracer->stop->prepare_until_ns;

	return until_ns ? now + (until_ns - now) / 8 * eighths : INT64_MAX;
}

static bool is_process_left_out(const struct snap_tracer *tracer, uint32_t process,
				int64_t until_ns)
{
	return process - tracer->prepared >= LEAST_PROCESSES &&
	       snap_clock_ns(CLOCK_MONOTONIC) >= until_ns;
}

static int64_t maps_until(const struct snap_tracer *tracer)
{
	int64_t most = snap_tracer_patience(tracer, MOST_MAPS_NS);

	return snap_clock_ns(CLOCK_MONOTONIC) + (most > LEAST_MAPS_NS ? most : LEAST_MAPS_NS);
}

/* The same before the stop: a part of the remaining time, if that is less. */
static int64_t first_maps_until(const struct snap_tracer *tracer)
{
	int64_t most_ns = maps_until(tracer), part_ns = part_until(tracer, MAPS_EIGHTHS);
	int64_t least_ns = snap_clock_ns(CLOCK_MONOTONIC) + LEAST_PART_NS;

	part_ns = part_ns > least_ns ? part_ns : least_ns;
	return most_ns < part_ns ? most_ns : part_ns;
}

/*
 * Reads the quick lists of all processes first, and then what takes long. With thousands of
 * processes on a busy machine there is time for a part: that part is stopped, and the others are
 * left out.
 */
static void read_lists(struct snap_tracer *tracer)
{
	struct snap_stop *stop = tracer->stop;
	int64_t until_ns = part_until(tracer, LIST_EIGHTHS);

	for (uint32_t i = tracer->prepared; i < stop->process_count; i++) {
		struct snap_traced *traced = &stop->processes[i];

		tracer->task_fds[i] = -ESRCH;
		traced->left_out = is_process_left_out(tracer, i, until_ns);
		if (traced->left_out)
			continue;
		list_seized_threads(tracer, i);
		tracer->maps_wanted[i] = !traced->look_only && !traced->vanished && !traced->error;
	}
	snap_tracer_read_maps(tracer, SNAP_STOP_PATIENCE_MS * SNAP_NS_PER_MS,
			      first_maps_until(tracer));
	snap_tracer_probe(tracer);
}

static void describe_processes(struct snap_tracer *tracer)
{
	struct snap_stop *stop = tracer->stop;
	int64_t until_ns = part_until(tracer, DESCRIBE_EIGHTHS);

	for (uint32_t i = tracer->prepared; i < stop->process_count; i++) {
		struct snap_traced *traced = &stop->processes[i];

		traced->left_out |= is_process_left_out(tracer, i, until_ns);
		if (!traced->left_out)
			describe_process(tracer, i);
	}
}

/* It has no memory that could make a reader wait. */
static bool is_of_kernel(const struct snap_traced *traced)
{
	return traced->thread_count && traced->threads[0].flags & SNAP_PF_KTHREAD;
}

/*
 * Has a worker read something of the threads of seized processes, from `first` on; `slow_alone`:
 * only of threads that did not stop.
 */
static void read_of_threads(struct snap_tracer *tracer, void (*run)(void *list, uint32_t item),
			    uint32_t first, bool slow_alone)
{
	const struct snap_stop *stop = tracer->stop;
	uint32_t most = stop->process_count - first, count = 0;
	struct snap_kernel_list *list = snap_region_alloc(&tracer->lists, sizeof(*list));
	uint32_t *processes = snap_region_new_array(&tracer->lists, most, uint32_t);
	int64_t *signs = snap_region_new_array(&tracer->lists, most, int64_t);
	struct snap_work work = {
		.run = run,
		.context = list,
		.marks = snap_region_alloc(&tracer->lists, most),
		.patience_ns = SNAP_STOP_PATIENCE_MS * SNAP_NS_PER_MS,
		.asleep_ns = snap_tracer_patience(tracer, SNAP_STOP_PATIENCE_MS * SNAP_NS_PER_MS),
		.until_ns = maps_until(tracer),
		.signs = signs,
	};

	if (!list || !processes || !signs || !work.marks)
		return;
	for (uint32_t i = first; i < stop->process_count; i++)
		if ((!stop->processes[i].look_only || is_of_kernel(&stop->processes[i])) &&
		    !stop->processes[i].unresponsive && !stop->processes[i].left_out)
			processes[count++] = i;
	*list = (struct snap_kernel_list){ .reader = tracer->reader,
					   .processes = processes,
					   .signs = signs,
					   .slow_alone = slow_alone };
	work.count = count;
	snap_workers_run(&tracer->pool, &work);
}

static bool wants_kernel_stacks(const struct snap_tracer *tracer)
{
	return snap_any(tracer->count, i,
			snap_wants_kernel_stack(tracer->options,
						snap_tracer_thread(tracer, &tracer->tracees[i])));
}

void snap_tracer_read_slow(struct snap_tracer *tracer)
{
	bool any = false;

	for (uint32_t i = 0; i < tracer->count && !any; i++)
		any = tracer->tracees[i].phase == SNAP_TRACEE_SLOW;
	if (any || tracer->options->kernel_stacks)
		read_of_threads(tracer, snap_stop_reader_read_kernel_stacks, 0, true);
	if (any && tracer->options->explain != SNAP_EXPLAIN_NO)
		read_of_threads(tracer, snap_stop_reader_read_calls, 0, true);
}

static void seize_if_listed(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	const struct snap_traced *process = snap_tracer_process(tracer, tracee);

	if (tracee->phase != SNAP_TRACEE_LISTED)
		return;
	if (snap_tracer_thread(tracer, tracee)->result == SNAP_THREAD_VANISHED)
		snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_GONE);
	else if (!process->unresponsive && !process->left_out &&
		 (process->seized || !process->error))
		snap_tracer_seize(tracer, tracee);
	else /* If the first thread may not be traced, the other thousands are not tried. */
		snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_REFUSED);
}

void snap_tracer_seize_listed(struct snap_tracer *tracer)
{
	snap_tracer_set_ticks(tracer->stopping ? SNAP_TRACER_TICK_US : SEIZE_TICK_US);
	for (uint32_t i = 0; i < tracer->count; i++)
		seize_if_listed(tracer, &tracer->tracees[i]);
	if (!tracer->stopping)
		snap_tracer_set_ticks(0);
}

void snap_tracer_prepare(struct snap_tracer *tracer)
{
	struct snap_stop *stop = tracer->stop;
	uint64_t stack_bytes;

	read_lists(tracer);
	stack_bytes = snap_tracer_expect(tracer);
	stop->help.stack_bytes = stack_bytes;
	describe_processes(tracer);
	if (wants_kernel_stacks(tracer))
		read_of_threads(tracer, snap_stop_reader_read_kernel_stacks, tracer->prepared,
				false);
	tracer->prepared = stop->process_count;
	snap_tracer_reserve_copies(tracer, stack_bytes);
	if (snap_tracer_may_rest(tracer))
		snap_tracer_rest(tracer);
	else if (snap_tracer_stops_all(tracer))
		snap_tracer_seize_listed(tracer);
}
