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
 * The order matters: memory that is read after the last step may be of another instant. Without BPF all
 * threads are stopped but those whose process a stop may end: of these procfs tells pc, sp and the call,
 * and how often they ran. Knows nothing of what is copied.
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
	TRIES = 3,       /* to find no thread on a processor, before the stop */
	NAP_NS = 100000, /* between them: most that run do it for less */
	ROUNDS = 8,      /* of an instant; in the last one all that still rest are stopped */
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

/* It has run: nothing that was copied of it counts. */
static void wake(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);

	snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_RAN);
	snap_trace(tracer->options->trace, tracee->tid, SNAP_TRACE_MOVED, NULL);
	thread->result = SNAP_THREAD_UNTRACED;
	thread->taken = SNAP_TAKEN_TOGETHER;
	thread->group_stopped = thread->stack_limited = thread->stack_unreadable = false;
	thread->partial = false;
	thread->registers_size = thread->stack_size = thread->stack2_size = 0;
	thread->stack = thread->stack2 = NULL;
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
	snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_RESTED);
	return true;
}

/* ---- threads that must not be stopped, without BPF ---- */

/* How often it has got a processor. */
static bool read_runs(const struct snap_tracer *tracer, const struct snap_tracee *tracee,
		      uint64_t *ret)
{
	enum { LINE = 128 };
	char text[LINE];
	uint64_t numbers[3];
	ssize_t length = snap_procfs_task_read(tracer->task_fds[tracee->process], tracee->tid,
					       "schedstat", text, sizeof(text));

	if (length <= 0 || !snap_parse_schedstat(text, (size_t)length, numbers))
		return false;
	*ret = numbers[2];
	return true;
}

static void refuse_to_stop(struct snap_thread *thread)
{
	thread->spared = true;
	thread->result = SNAP_THREAD_NOT_STOPPED;
}

/* The filters of other threads are mostly those of the first one, which was asked. */
bool snap_tracer_spare(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	uint8_t registers[SNAP_MAX_REGISTERS];
	struct snap_known_registers known = { .sp = 0 };
	struct snap_syscall_line line;
	uint64_t runs = 0;
	bool has_runs;

	if (!snap_tracer_process(tracer, tracee)->is_filtered)
		return false;
	has_runs = read_runs(tracer, tracee, &runs);
	if (!snap_stop_may_kill(tracer->task_fds[tracee->process], tracee->tid, &line))
		return false;
	thread->call = snap_call_of_line(&line, 0);
	known.pc = line.pc;
	known.sp = line.sp;
	known.call = (int32_t)line.number;
	memcpy(known.arguments, line.arguments, sizeof(known.arguments));
	if (snap_tracer_may_rest(tracer) || !has_runs || line.sp <= UINT32_MAX ||
	    !may_rest(tracer, tracee) ||
	    snap_registers_write(SNAP_OWN_ARCH, &known, registers) != SNAP_OWN_REGISTERS ||
	    !keep_registers(tracer, tracee, registers, runs)) {
		refuse_to_stop(thread);
		snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_REFUSED);
	}
	thread->partial = tracee->phase == SNAP_TRACEE_RESTING;
	return true;
}

/* It runs for a moment, as a clock of a runtime does: some tries to meet it asleep again. */
static void spare_again(struct snap_tracer *tracer, struct snap_tracee *tracee, unsigned round)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	wake(tracer, tracee);
	for (unsigned i = 0; round < TRIES && i < TRIES; i++) {
		if (snap_tracer_spare(tracer, tracee))
			return;
		nanosleep(&nap, NULL);
	}
	refuse_to_stop(snap_tracer_thread(tracer, tracee));
	snap_tracer_note(tracer, tracee, SNAP_TRACEE_ON_REFUSED);
}

/* As snap_tracer_has_woken(), of spared threads: they are never stopped. */
static bool has_spared_run(struct snap_tracer *tracer, unsigned round)
{
	bool any = false;

	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_tracee *tracee = &tracer->tracees[i];
		uint64_t runs;

		if (tracee->phase != SNAP_TRACEE_RESTING ||
		    (read_runs(tracer, tracee, &runs) && runs == tracee->switches))
			continue;
		spare_again(tracer, tracee, round);
		any = round < TRIES;
	}
	return any;
}

/* ---- a pass over all threads ---- */

struct pass {
	struct snap_tracer *tracer;
	uint32_t process; /* in stop->processes: the one whose threads are read */
	pid_t fresh_tid;  /* one of it that rests since this pass; 0: there is none */
	bool confirms;    /* what has run is not to rest again */
	uint32_t woken;
	struct snap_rest_count count;
};

/* It may have the memory of its next program already, and the registers of the last one. */
static bool is_in_exec_call(const struct snap_bpf_thread *found)
{
	struct snap_known_registers known;

	return snap_registers_read(SNAP_OWN_ARCH, found->registers, SNAP_OWN_REGISTERS, 'S',
				   &known) &&
	       (known.call == SYS_execve || known.call == SYS_execveat);
}

/* What is known of a thread now; `error`: as of snap_bpf_read(). */
static void judge(struct pass *pass, struct snap_tracee *tracee, int error,
		  const struct snap_bpf_thread *found)
{
	struct snap_tracer *tracer = pass->tracer;

	/* Programs of 32 bits have other registers, which only a stop tells in their form. */
	if (error || !snap_registers_are_wide(SNAP_OWN_ARCH, found->registers) ||
	    is_in_exec_call(found))
		found = NULL;
	if (tracee->phase == SNAP_TRACEE_RESTING) {
		if (found && found->switches == tracee->switches)
			return;
		wake(tracer, tracee);
		pass->woken++;
	}
	if (tracee->phase != SNAP_TRACEE_LISTED || !may_rest(tracer, tracee))
		return;
	correct_state(tracer, tracee, error == -EAGAIN || (found && found->queued));
	if (pass->confirms)
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

	if (!snap_tracer_may_rest(tracer) || !may_rest(tracer, tracee))
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

bool snap_tracer_has_woken(struct snap_tracer *tracer, unsigned *rounds)
{
	if (snap_tracer_may_rest(tracer) ? !pass_over(tracer, true).woken
					 : !has_spared_run(tracer, *rounds))
		return false;
	++*rounds;
	for (uint32_t i = 0; *rounds + 1 >= ROUNDS && i < tracer->count; i++)
		if (tracer->tracees[i].phase == SNAP_TRACEE_RESTING)
			wake(tracer, &tracer->tracees[i]);
	for (uint32_t i = 0; i < tracer->stop->process_count; i++)
		tracer->stop->processes[i].words = tracer->stop->processes[i].memory = NULL;
	snap_tracer_seize_listed(tracer);
	return true;
}
