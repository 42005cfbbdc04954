/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The child that makes single stops, from its first to its last instruction: it sleeps until there
 * is a call, serves it, sleeps; if none comes for long it leaves. It shares the parent's
 * descriptors, so it opens and closes none; as in internal.h it allocates, locks and prints
 * nothing.
 *
 * Threads are interrupted together and let go as they come: a thread that runs on another
 * processor comes to its stop while the first is copied. A wait that takes long is ended by a
 * signal of the parent's, who looks at the clock.
 */
#include "stop/child/single.h"

#include "base/clock.h"
#include "stop/child/internal.h"
#include "stop/signal_stack.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	UNKNOWN_STACK = 1 << 16, /* bytes to be read where nobody knows where the stack ends */
	READY_STACKS = 1 << 20,  /* bytes that are there before the first stop */
	PAGE = 4096,
	IDLE_SECONDS = 10, /* then it leaves; the next call makes a new one */
	SLICE_NS = 100000, /* the shortest there is */
	AWAKE_NS = 20000,  /* for a thread that runs, to stop */
};

/* What the parent's signal is for: to end a blocking wait with EINTR. */
static void on_alarm(int signal _unused_)
{
}

static void set_up_signals(void)
{
	struct sigaction action = { .sa_handler = on_alarm };
	sigset_t alarm;

	sigaction(SIGALRM, &action, NULL);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	/* All others stay blocked as the parent left them: a Ctrl-C is the parent's to handle. */
	sigprocmask(SIG_UNBLOCK, &alarm, NULL);
}

/* Every change of a phase; the parent may look at the slot at any time. */
static void note_event(struct snap_slot *slot, enum snap_tracee_event event)
{
	__atomic_store_n(&slot->phase, (uint32_t)snap_tracee_next(slot->phase, event),
			 __ATOMIC_RELEASE);
}

/* The last change: first what came of the thread, then the phase that says so. */
static void finish_slot(struct snap_slot *slot, enum snap_tracee_event event,
			enum snap_thread_result result, int error)
{
	slot->pick.copy.result = result;
	slot->pick.error = error;
	note_event(slot, event);
}

/* Without options: no thread of it becomes ours that we did not ask for. */
static void seize_thread(struct snap_slot *slot)
{
	if (ptrace(PTRACE_SEIZE, slot->pick.tid, NULL, NULL) == 0)
		note_event(slot, SNAP_TRACEE_ON_SEIZED);
	else if (errno == ESRCH)
		finish_slot(slot, SNAP_TRACEE_ON_GONE, SNAP_THREAD_VANISHED, ESRCH);
	else
		finish_slot(slot, SNAP_TRACEE_ON_REFUSED, SNAP_THREAD_UNTRACED, errno);
}

/* Where it fails the thread is about to exit, and its end is ours to take note of. */
static void interrupt_thread(struct snap_slot *slot)
{
	slot->stop_ns = snap_clock_ns(CLOCK_MONOTONIC);
	ptrace(PTRACE_INTERRUPT, slot->pick.tid, NULL, NULL);
	note_event(slot, SNAP_TRACEE_ON_INTERRUPTED);
}

static void note_wait_status(struct snap_slot *slot, int status)
{
	int signal = WSTOPSIG(status);

	if (status >> 16 == PTRACE_EVENT_STOP) /* our INTERRUPT (SIGTRAP), else a group-stop */
		slot->pick.copy.group_stopped = signal != SIGTRAP;
	else /* a signal on its way to the thread */
		slot->signal = signal;
	note_event(slot, SNAP_TRACEE_ON_STOPPED);
}

/* Waits for one thread, with `options` of wait4(2); whether it has stopped. */
static bool wait_for_stop(struct snap_channel *channel, struct snap_slot *slot, int options)
{
	int status;
	long tid = syscall(SYS_wait4, slot->pick.tid, &status, __WALL | options, NULL);

	if (tid == 0 || (tid < 0 && errno == EINTR))
		return false;
	if (tid > 0 && WIFSTOPPED(status)) {
		note_wait_status(slot, status);
		return true;
	}
	/* ECHILD: it called exec and has its leader's number now, or lost its own so. */
	if (tid < 0)
		channel->leaves = true;
	finish_slot(slot, SNAP_TRACEE_ON_GONE, SNAP_THREAD_VANISHED, ESRCH);
	return false;
}

/* Bytes up to the first that cannot be read. */
static size_t read_memory(const struct snap_pick *pick, uint64_t address, uint8_t *bytes,
			  size_t size)
{
	struct iovec local = { bytes, size }, remote = { (void *)(uintptr_t)address, size };
	ssize_t got = 0;

	if (pick->mem_fd >= 0)
		got = pread(pick->mem_fd, bytes, size, (off_t)address);
	/* 0: the memory that the descriptor was opened for has gone, by exec. */
	if (got == 0)
		got = process_vm_readv(pick->tid, &local, 1, &remote, 1, 0);
	return got > 0 ? (size_t)got : 0;
}

/* Room for so many bytes, or for as many as there are; what is not used is given back. */
static uint8_t *reserve_bytes(struct snap_channel *channel, uint64_t *size)
{
	size_t room = snap_region_room(&channel->stacks) & ~(size_t)15;

	*size = *size < channel->max_stack ? *size : channel->max_stack;
	*size = *size < room ? *size : room;
	return *size ? snap_region_alloc(&channel->stacks, *size) : NULL;
}

static void return_unused_bytes(struct snap_channel *channel, uint8_t *bytes, size_t used)
{
	channel->stacks.next = bytes + ((used + 15) & ~(size_t)15);
}

static bool is_on_usual_stack(void *context, uint64_t sp)
{
	const struct snap_pick *pick = context;

	return sp >= pick->stack_start && sp < pick->stack_end;
}

static uint64_t start_of_stack(const struct snap_pick *pick, uint64_t sp)
{
	uint64_t start = sp < SNAP_STACK_MARGIN ? 0 : (sp - SNAP_STACK_MARGIN) & ~15ull;

	return is_on_usual_stack((void *)pick, sp) && start < pick->stack_start ? pick->stack_start
										: start;
}

/* The stack that a handler on another one interrupted. */
static void copy_interrupted_stack(struct snap_channel *channel, struct snap_pick *pick)
{
	struct snap_thread *thread = &pick->copy;
	size_t budget = UNKNOWN_STACK;
	uint64_t sp, start, size;
	uint8_t *bytes;

	if (!pick->stack_end || !thread->stack_size)
		return;
	sp = snap_tracer_interrupted_sp(thread, &budget, is_on_usual_stack, pick);
	start = start_of_stack(pick, sp);
	size = pick->stack_end - start;
	bytes = sp ? reserve_bytes(channel, &size) : NULL;
	if (!bytes)
		return;
	thread->stack2_size = read_memory(pick, start, bytes, size);
	thread->stack2_address = start;
	thread->stack2 = bytes;
	return_unused_bytes(channel, bytes, thread->stack2_size);
}

static void copy_stack(struct snap_channel *channel, struct snap_pick *pick, uint64_t sp)
{
	struct snap_thread *thread = &pick->copy;
	uint64_t start = start_of_stack(pick, sp), wanted, size;
	uint8_t *bytes;

	pick->past_end = !is_on_usual_stack(pick, sp);
	wanted = pick->past_end ? UNKNOWN_STACK : pick->stack_end - start;
	size = wanted;
	bytes = reserve_bytes(channel, &size);
	thread->stack_unreadable = true;
	if (!bytes)
		return;
	thread->stack_size = read_memory(pick, start, bytes, size);
	/* What is below sp may lie in another mapping, or in none. */
	if (!thread->stack_size && start / PAGE != sp / PAGE) {
		start = sp & ~(uint64_t)(PAGE - 1);
		thread->stack_size = read_memory(pick, start, bytes, size);
	}
	thread->stack_address = start;
	thread->stack = bytes;
	if (pick->past_end) {
		thread->stack_limited = thread->stack_size == size;
		thread->stack_unreadable = thread->stack_size == 0;
	} else {
		thread->stack_limited = thread->stack_size == size && size < wanted;
		thread->stack_unreadable = thread->stack_size < size;
	}
	return_unused_bytes(channel, bytes, thread->stack_size);
	if (pick->past_end)
		copy_interrupted_stack(channel, pick);
}

/* Standing still: copied, and on its way again. */
static void copy_and_release_thread(struct snap_channel *channel, struct snap_slot *slot)
{
	struct snap_pick *pick = &slot->pick;
	uint64_t sp;
	int error = snap_tracer_registers(pick->tid, slot->registers, &pick->copy.registers_size,
					  &sp, &pick->arch);

	if (error == 0) {
		pick->copy.registers = slot->registers;
		pick->copy.taken = SNAP_TAKEN_ALONE;
		copy_stack(channel, pick, sp);
	}
	if (ptrace(PTRACE_DETACH, pick->tid, NULL, (void *)(long)slot->signal)) {
		/* SIGKILL ends stopped threads, too. Unless its end is seen an exec may hang. */
		note_event(slot, SNAP_TRACEE_ON_KILLED);
		return;
	}
	channel->end_ns = snap_clock_ns(CLOCK_MONOTONIC);
	pick->stopped_ns = channel->end_ns - slot->stop_ns;
	finish_slot(slot, SNAP_TRACEE_ON_RELEASED,
		    error ? SNAP_THREAD_UNTRACED : SNAP_THREAD_COPIED, error);
}

static struct snap_slot *first_awaited(struct snap_channel *channel)
{
	for (uint32_t i = 0; i < channel->count; i++)
		if (channel->slots[i].phase == SNAP_TRACEE_AWAITED)
			return &channel->slots[i];
	return NULL;
}

/* Takes all that have stopped by now; false: nobody is awaited any more. */
static bool take_stopped_threads(struct snap_channel *channel)
{
	for (uint32_t i = 0; i < channel->count; i++) {
		struct snap_slot *slot = &channel->slots[i];

		if (slot->phase == SNAP_TRACEE_AWAITED && wait_for_stop(channel, slot, WNOHANG))
			copy_and_release_thread(channel, slot);
	}
	return first_awaited(channel) != NULL;
}

/*
 * A thread on another processor stops within microseconds; whoever sleeps meanwhile is woken much
 * later than that, since his own processor has gone to rest (a virtual one leaves its machine). So
 * the first moment is waited through. A thread that needs our processor gets it soon after.
 */
static void await_quick_threads(struct snap_channel *channel)
{
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + AWAKE_NS;

	while (take_stopped_threads(channel) && snap_clock_ns(CLOCK_MONOTONIC) < until)
		;
}

static void take_threads(struct snap_channel *channel)
{
	struct snap_slot *slot;

	await_quick_threads(channel);
	while ((slot = first_awaited(channel))) {
		if (__atomic_load_n(&channel->give_up, __ATOMIC_ACQUIRE)) {
			/* Our end is what lets a thread go that has not come to its stop. */
			channel->leaves |= take_stopped_threads(channel);
			return;
		}
		if (wait_for_stop(channel, slot, 0))
			copy_and_release_thread(channel, slot);
		else /* it must not hold up those behind it */
			take_stopped_threads(channel);
	}
}

static void serve_call(struct snap_channel *channel)
{
	uint32_t count = channel->count;

	for (uint32_t i = 0; i < count; i++)
		seize_thread(&channel->slots[i]);
	for (uint32_t i = 0; i < count; i++) {
		if (channel->slots[i].phase != SNAP_TRACEE_SEIZED)
			continue;
		interrupt_thread(&channel->slots[i]);
		if (!channel->begin_ns)
			channel->begin_ns = channel->slots[i].stop_ns;
	}
	take_threads(channel);
}

/* The beginning of the kernel's struct sched_attr (sched_setattr(2)), which older headers lack. */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/*
 * As long as we wait for a processor, so does who is stopped. Where it is permitted we come before
 * others; and a short slice makes that being woken means to run at once, as it is asked for little
 * at a time (Linux 6.12; others take no notice).
 */
static void shorten_own_slice(void)
{
	const int32_t first = -20;
	struct scheduling attributes = { .size = sizeof(attributes) };
	int32_t nice;

	if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) ||
	    attributes.policy != SCHED_OTHER)
		return;
	attributes.size = sizeof(attributes);
	attributes.runtime = SLICE_NS;
	nice = attributes.nice;
	attributes.nice = first;
	if (syscall(SYS_sched_setattr, 0, &attributes, 0) == 0)
		return;
	attributes.nice = nice;
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/*
 * False when none came for long. Who calls exec keeps its children, and we its old descriptors; and
 * as long as we live, so does the memory that the parent had when we were made.
 */
static bool wait_for_call(struct snap_channel *channel, uint32_t served)
{
	const struct timespec patience = { .tv_sec = IDLE_SECONDS };

	while (__atomic_load_n(&channel->request, __ATOMIC_ACQUIRE) == served) {
		if (syscall(SYS_futex, &channel->request, FUTEX_WAIT, served, &patience, NULL, 0) &&
		    errno == ETIMEDOUT)
			return false;
	}
	return true;
}

void snap_single_child(void *context)
{
	struct snap_channel *channel = context;
	uint32_t served = __atomic_load_n(&channel->done, __ATOMIC_ACQUIRE);

	set_up_signals();
	shorten_own_slice();
	snap_region_prefault(&channel->stacks, READY_STACKS);
	while (!channel->leaves) {
		if (!wait_for_call(channel, served)) {
			channel->leaves = true;
			return;
		}
		serve_call(channel);
		served++;
		__atomic_store_n(&channel->done, served, __ATOMIC_RELEASE);
		syscall(SYS_futex, &channel->done, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
}
