/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads at rest: they are on no processor, and are not stopped. BPF tells their registers, and a number
 * that counts whenever they leave a processor.
 *
 *	before	   the registers of all threads on no processor; their stacks are copied while all run
 *	stop	   those on a processor are seized and interrupted, until nothing of them runs: the instant
 *	instant	   registers and stacks of these, and memory of all
 *	after	   a thread with the same number as before, and on no processor, had none in between: its
 *		   copy is what it was at the instant, and it has written no memory since. Any other is
 *		   stopped, too, and the instant is a new one.
 *
 * The order matters: memory that is read after the last step may be of another instant.
 *
 * A thread in a call that a stop would harm (snap_stop_is_harmful()) is spared: if it runs in between,
 * it rests again, where it is blocked then. One that runs again and again is late: its copy is of a
 * later moment. Without BPF the others are stopped; of the spared ones procfs tells pc, sp, the call, and
 * how often they ran. Knows nothing of what is copied.
 */
#include "model/arch/registers.h"
#include "stop/child/internal.h"
#include "stop/describe.h"
#include "stop/wait_bytes.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

enum {
	TRIES = 3,            /* to find no thread on a processor, before the stop */
	NAP_NS = 100000,      /* between them: most that run do it for less */
	SHORT_NAP_NS = 20000, /* while threads are stopped */
	MOST_NAPS = 64,       /* of these two, for single threads */
	ROUNDS = 8, /* of an instant; then those that rest are stopped, where that is harmless … */
	MOST_ROUNDS = 64, /* … and from here on those that run are late */
	LATE_TRIES = 8,   /* to meet one that runs asleep, and to copy one that is late */
};

/*
 * Whether it may be copied at rest. What SEIZE says of all others is needed: zombies, workers, processes
 * that may not be traced, threads that a debugger has stopped.
 */
static bool may_rest(const struct snap_tracer *tracer, const struct snap_tracee *tracee)
{
	const struct snap_traced *process = snap_tracer_process(tracer, tracee);
	const struct snap_thread *thread = snap_tracer_thread(tracer, tracee);

	return !process->look_only && !process->left_out && !process->unresponsive &&
	       !process->error && process->map_count && thread->result != SNAP_THREAD_VANISHED &&
	       thread->state && !strchr("ZXt", thread->state) &&
	       !(thread->flags & SNAP_PF_EXITING) && !snap_thread_is_worker(thread);
}

/* Whether a stop would change what such a call returns, or end the process. */
static bool is_harmed(const struct snap_tracer *tracer, const struct snap_tracee *tracee,
		      int64_t call)
{
	return snap_stop_is_harmful(tracer->options, tracer->task_fds[tracee->process], tracee->tid,
				    call, snap_tracer_process(tracer, tracee)->is_filtered);
}

/* It has run: nothing that was copied of it counts. */
static void wake(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	struct snap_known_registers known;

	tracee->was_spared = snap_registers_of(SNAP_OWN_ARCH, thread, &known) &&
			     is_harmed(tracer, tracee, known.call);
	snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_RAN);
	snap_trace(tracer->options->trace, tracee->tid, SNAP_TRACE_MOVED, NULL);
	thread->result = SNAP_THREAD_UNTRACED;
	thread->taken = SNAP_TAKEN_TOGETHER;
	thread->group_stopped = thread->stack_limited = thread->stack_unreadable = false;
	thread->partial = false;
	thread->registers_size = thread->stack_size = thread->stack2_size = 0;
	thread->stack = thread->stack2 = NULL;
	thread->memory = NULL;
	thread->lead = SNAP_LEAD_UNKNOWN;
	if (!tracer->options->kernel_stacks)
		thread->kernel_stack = NULL;
}

/* Its state may have been read before it went to sleep, or was woken. */
static void correct_state(struct snap_tracer *tracer, const struct snap_tracee *tracee, bool runs)
{
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	struct snap_stat stat;

	if (runs)
		thread->state = 'R';
	else if (thread->state == 'R' &&
		 snap_procfs_task_stat(tracer->task_fds[tracee->process], tracee->tid, &stat) == 0)
		thread->state = stat.state;
}

/* `from`: SNAP_OWN_REGISTERS bytes. False: memory is used up. */
static bool keep_registers(struct snap_tracer *tracer, struct snap_tracee *tracee, const void *from,
			   uint64_t switches)
{
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	void *registers = snap_region_alloc(&tracer->memory->records, SNAP_OWN_REGISTERS);

	if (!registers)
		return false;
	thread->registers = memcpy(registers, from, SNAP_OWN_REGISTERS);
	thread->registers_size = SNAP_OWN_REGISTERS;
	thread->stack_unreadable = true; /* until its bytes are there */
	thread->result = SNAP_THREAD_COPIED;
	thread->taken = SNAP_TAKEN_CONFIRMED;
	thread->group_stopped = thread->state == 'T';
	tracee->switches = switches;
	snap_tracer_process(tracer, tracee)->arch = SNAP_OWN_ARCH;
	tracer->any_rest = true;
	snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_RESTED);
	return true;
}

/* ---- threads that a stop would harm ---- */

static void refuse_to_stop(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);

	if (tracee->phase == SNAP_TRACEE_RESTING)
		wake(tracer, tracee);
	thread->spared = true;
	thread->result = SNAP_THREAD_NOT_STOPPED;
	snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_REFUSED);
}

/* It may have the memory of its next program already, and the registers of the last one. */
static bool is_in_exec_call(int64_t call)
{
	return call == SYS_execve || call == SYS_execveat;
}

/* Programs of 32 bits have other registers, which only a stop tells in their form. */
static bool is_usable(int error, const struct snap_bpf_thread *found)
{
	return !error && snap_registers_are_wide(SNAP_OWN_ARCH, found->registers) &&
	       !is_in_exec_call(found->call);
}

/*
 * With BPF. Whether it is harmed, and rests now. One that runs may be about to enter such a call, and
 * mostly sleeps soon. During the stop only one that was in such a call is waited for.
 */
static bool spare_exactly(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	const struct timespec nap = { .tv_nsec = tracer->stopping ? SHORT_NAP_NS : NAP_NS };
	bool may_wait = !tracer->stopping || tracee->was_spared;
	struct snap_bpf_thread found;
	int error = snap_bpf_read(&tracer->bpf, tracee->tid, &found);

	for (unsigned i = 0;
	     error == -EAGAIN && may_wait && i < LATE_TRIES && tracer->naps < MOST_NAPS; i++) {
		tracer->naps++;
		nanosleep(&nap, NULL);
		error = snap_bpf_read(&tracer->bpf, tracee->tid, &found);
	}
	return is_usable(error, &found) && !found.queued && is_harmed(tracer, tracee, found.call) &&
	       may_rest(tracer, tracee) &&
	       snap_procfs_has_task(tracer->task_fds[tracee->process], tracee->tid) &&
	       keep_registers(tracer, tracee, found.registers, found.switches);
}

/* What a system call of procfs says of the registers. */
static bool keep_place(struct snap_tracer *tracer, struct snap_tracee *tracee,
		       const struct snap_syscall_line *line, uint64_t runs)
{
	struct snap_known_registers known = { .pc = line->pc, .sp = line->sp };
	uint8_t registers[SNAP_MAX_REGISTERS];

	known.call = (int32_t)line->number;
	memcpy(known.arguments, line->arguments, sizeof(known.arguments));
	if (line->sp <= UINT32_MAX || !may_rest(tracer, tracee) ||
	    snap_registers_write(SNAP_OWN_ARCH, &known, registers) != SNAP_OWN_REGISTERS ||
	    !keep_registers(tracer, tracee, registers, runs))
		return false;
	snap_tracer_thread(tracer, tracee)->partial = true;
	return true;
}

/* The filters of other threads are mostly those of the first one, which was asked. */
bool snap_tracer_spare(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	const struct snap_traced *process = snap_tracer_process(tracer, tracee);
	int tasks = tracer->task_fds[tracee->process];
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	struct snap_syscall_line line;
	uint64_t runs = 0;
	bool has_runs = false, harmed;

	if (snap_tracer_may_rest(tracer))
		return spare_exactly(tracer, tracee);
	if (!process->is_filtered && snap_tracer_stops_all(tracer))
		return false;
	if (!snap_procfs_task_call(tasks, tracee->tid, &line))
		return false;
	harmed = !line.running && is_harmed(tracer, tracee, line.number);
	if (harmed) {
		/* Its place counts as long as its runs, which are read before it. */
		has_runs = snap_procfs_task_runs(tasks, tracee->tid, &runs);
		if (!snap_procfs_task_call(tasks, tracee->tid, &line))
			return false;
		harmed = !line.running && is_harmed(tracer, tracee, line.number);
	}
	if (!harmed)
		return line.running && !tracer->takes_running;
	thread->call = snap_call_of_line(&line, 0);
	if (!has_runs || !keep_place(tracer, tracee, &line, runs))
		refuse_to_stop(tracer, tracee);
	return true;
}

void snap_tracer_seize_blocked(struct snap_tracer *tracer)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	bool any = true;

	for (unsigned try = 0; try < TRIES && any; try++) {
		if (try)
			nanosleep(&nap, NULL);
		snap_tracer_seize_listed(tracer);
		any = false;
		for (uint32_t i = 0; i < tracer->count && !any; i++)
			any = tracer->tracees[i].phase == SNAP_TRACEE_LISTED;
	}
}

/*
 * It runs for a moment, as a clock of a runtime does: some tries to meet it asleep again. Where its
 * process may have a filter, nothing else may be done.
 */
static void spare_again(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	wake(tracer, tracee);
	for (unsigned i = 0; i < TRIES; i++) {
		if (snap_tracer_spare(tracer, tracee))
			return;
		nanosleep(&nap, NULL);
	}
	if (snap_tracer_process(tracer, tracee)->is_filtered)
		refuse_to_stop(tracer, tracee);
}

/* Whether one at rest has not run since its registers were read. */
static bool has_kept_still(const struct snap_tracer *tracer, const struct snap_tracee *tracee)
{
	struct snap_bpf_thread found;
	uint64_t runs;

	if (snap_tracer_may_rest(tracer))
		return !snap_bpf_read(&tracer->bpf, tracee->tid, &found) &&
		       found.switches == tracee->switches;
	return snap_procfs_task_runs(tracer->task_fds[tracee->process], tracee->tid, &runs) &&
	       runs == tracee->switches;
}

static bool has_late(const struct snap_tracer *tracer)
{
	return snap_any(tracer->count, i, tracer->tracees[i].late);
}

/* Those that are late rest again, if they are blocked now. */
static void rest_late_ones(struct snap_tracer *tracer)
{
	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];

		if (!tracee->late)
			continue;
		if (tracee->phase == SNAP_TRACEE_RESTING)
			wake(tracer, tracee);
		snap_tracer_spare(tracer, tracee);
	}
}

void snap_tracer_take_late(struct snap_tracer *tracer)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	/* They may have made threads that are of no instant. */
	if (has_late(tracer))
		snap_tracer_note_missed(tracer);

	for (unsigned try = 0; try < LATE_TRIES && has_late(tracer); try++) {
		if (try)
			nanosleep(&nap, NULL);
		rest_late_ones(tracer);
		snap_tracer_copy_rest(tracer);
		for (uint32_t i = 0; i < tracer->count; i++) {
			struct snap_tracee *tracee = &tracer->tracees[i];

			if (!tracee->late || tracee->phase != SNAP_TRACEE_RESTING ||
			    !has_kept_still(tracer, tracee))
				continue;
			snap_tracer_thread(tracer, tracee)->taken = SNAP_TAKEN_UNSTOPPED;
			tracee->late = false;
		}
	}
	for (uint32_t i = 0; i < tracer->count; i++)
		if (tracer->tracees[i].late)
			refuse_to_stop(tracer, &tracer->tracees[i]);
}

/* Without BPF. How many have run, and are not late. */
static uint32_t look_at_spared(struct snap_tracer *tracer)
{
	uint32_t woken = 0;

	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];

		if (tracee->phase != SNAP_TRACEE_RESTING || has_kept_still(tracer, tracee))
			continue;
		tracee->late = tracer->round >= TRIES;
		if (tracee->late)
			continue;
		spare_again(tracer, tracee);
		woken++;
	}
	return woken;
}

/* ---- a pass over all threads ---- */

struct pass {
	struct snap_tracer *tracer;
	uint32_t process; /* in stop->processes: the one whose threads are read */
	pid_t fresh_tid;  /* one of it that rests since this pass; 0: there is none */
	bool confirms;    /* what has run is not to rest again, unless a stop would harm it */
	uint32_t woken;
	struct snap_rest_count count;
};

/* What is known of a thread now; `error`: as of snap_bpf_read(). */
static void judge(struct pass *pass, struct snap_tracee *tracee, int error,
		  const struct snap_bpf_thread *found)
{
	struct snap_tracer *tracer = pass->tracer;
	bool harmed = false;

	if (!is_usable(error, found))
		found = NULL;
	if (tracee->phase == SNAP_TRACEE_RESTING) {
		if (found && found->switches == tracee->switches)
			return;
		harmed = found && !found->queued && is_harmed(tracer, tracee, found->call);
		tracee->late = tracer->round >= (harmed ? TRIES : MOST_ROUNDS);
		if (tracee->late)
			return;
		wake(tracer, tracee);
		pass->woken++;
	}
	if (tracee->phase != SNAP_TRACEE_LISTED || !may_rest(tracer, tracee))
		return;
	correct_state(tracer, tracee, error == -EAGAIN || (found && found->queued));
	if (pass->confirms && !harmed)
		return;
	if (!found || !keep_registers(tracer, tracee, found->registers, found->switches)) {
		pass->count.running++;
		return;
	}
	pass->fresh_tid = tracee->tid;
	pass->count.fresh++;
}

static void take_member(void *context, pid_t tid, int error, const struct snap_bpf_thread *found)
{
	struct pass *pass = context;
	struct snap_tracer *tracer = pass->tracer;
	uint32_t index = tid > 0 && tid < SNAP_TRACER_TIDS ? tracer->by_tid[tid] : 0;
	struct snap_tracee *tracee = index ? &tracer->tracees[index - 1] : NULL;

	if (!tracee || tracee->process != pass->process || tracee->pass == tracer->pass)
		return;
	tracee->pass = tracer->pass;
	judge(pass, tracee, error, found);
}

/* The numbers of a process that has ended may be those of another one by now. */
static void drop_foreign(struct pass *pass)
{
	struct snap_tracer *tracer = pass->tracer;

	if (!pass->fresh_tid ||
	    snap_procfs_has_task(tracer->task_fds[pass->process], pass->fresh_tid))
		return;
	for (uint32_t i = 0; i < tracer->count; i++)
		if (tracer->tracees[i].process == pass->process &&
		    tracer->tracees[i].phase == SNAP_TRACEE_RESTING)
			wake(tracer, &tracer->tracees[i]);
}

static void walk_process(struct pass *pass, uint32_t process)
{
	pass->process = process;
	pass->fresh_tid = 0;
	/* What it does not meet is read alone. */
	(void)snap_bpf_walk(&pass->tracer->bpf, pass->tracer->stop->processes[process].pid,
			    take_member, pass);
	drop_foreign(pass);
}

/* The walk has ended before it: another thread was about to exit. */
static void read_alone(struct pass *pass, struct snap_tracee *tracee)
{
	struct snap_tracer *tracer = pass->tracer;
	struct snap_bpf_thread found;
	int error = snap_bpf_read(&tracer->bpf, tracee->tid, &found);

	tracee->pass = tracer->pass;
	if (!error && !snap_procfs_has_task(tracer->task_fds[tracee->process], tracee->tid))
		error = -ESRCH;
	judge(pass, tracee, error, &found);
}

static struct pass pass_over(struct snap_tracer *tracer, bool confirms)
{
	struct pass pass = { .tracer = tracer, .process = UINT32_MAX, .confirms = confirms };

	tracer->pass++;
	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];

		if (tracee->phase != SNAP_TRACEE_RESTING &&
		    (confirms || tracee->phase != SNAP_TRACEE_LISTED || !may_rest(tracer, tracee)))
			continue;
		if (tracee->process != pass.process)
			walk_process(&pass, tracee->process);
		if (tracee->pass != tracer->pass)
			read_alone(&pass, tracee);
	}
	return pass;
}

struct snap_rest_count snap_tracer_rest(struct snap_tracer *tracer)
{
	return pass_over(tracer, false).count;
}

bool snap_tracer_rest_late(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct pass pass = { .tracer = tracer };

	if (!snap_tracer_may_rest(tracer) || !may_rest(tracer, tracee) || tracer->round >= TRIES)
		return false;
	read_alone(&pass, tracee);
	return tracee->phase == SNAP_TRACEE_RESTING;
}

void snap_tracer_rest_and_copy(struct snap_tracer *tracer)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	for (unsigned i = 0; i < TRIES; i++) {
		struct snap_rest_count count = snap_tracer_rest(tracer);

		if (count.fresh)
			snap_tracer_copy_rest(tracer);
		if (!count.fresh && !count.running)
			return;
		if (count.running && i + 1 < TRIES)
			nanosleep(&nap, NULL);
	}
}

/* In the last rounds: those that may be stopped are. */
static void wake_harmless(struct snap_tracer *tracer)
{
	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];
		struct snap_known_registers known;

		if (tracee->phase == SNAP_TRACEE_RESTING &&
		    snap_registers_of(SNAP_OWN_ARCH, snap_tracer_thread(tracer, tracee), &known) &&
		    !is_harmed(tracer, tracee, known.call))
			wake(tracer, tracee);
	}
}

bool snap_tracer_has_woken(struct snap_tracer *tracer)
{
	uint32_t woken = snap_tracer_may_rest(tracer) ? pass_over(tracer, true).woken
						      : look_at_spared(tracer);

	if (!woken)
		return false;
	if (++tracer->round + 1 >= ROUNDS)
		wake_harmless(tracer);
	for (uint32_t i = 0; i < tracer->stop->process_count; i++)
		tracer->stop->processes[i].words = tracer->stop->processes[i].memory = NULL;
	snap_tracer_seize_listed(tracer);
	return true;
}
