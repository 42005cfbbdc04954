/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The child that makes single stops, from its first to its last instruction: it sleeps until there
 * is a call, serves it, sleeps; if none comes for long it leaves. It shares the parent's
 * descriptors, so it opens and closes none; as in child.h it allocates, locks and prints
 * nothing.
 *
 * Threads are interrupted together and let go as they come: a thread that runs on another
 * processor comes to its stop while the first is copied. A wait that takes long is ended by a
 * signal of the parent's, who looks at the clock.
 */
#include "stop/child/single.h"
#include "base/clock.h"
#include "stop/child/copy.h"

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

enum wait_result { WAIT_STOPPED, WAIT_GONE, WAIT_NOT_YET };

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

static void set_phase(struct snap_slot *slot, enum snap_slot_phase phase)
{
	__atomic_store_n(&slot->phase, (uint32_t)phase, __ATOMIC_RELEASE);
}

static void settle(struct snap_slot *slot, enum snap_thread_result result, int error)
{
	slot->pick.copy.result = result;
	slot->pick.error = error;
	set_phase(slot, SNAP_SLOT_DONE);
}

/* Without options: no thread of it becomes ours that we did not ask for. */
static void seize(struct snap_slot *slot)
{
	if (ptrace(PTRACE_SEIZE, slot->pick.tid, NULL, NULL) == 0)
		set_phase(slot, SNAP_SLOT_SEIZED);
	else
		settle(slot, errno == ESRCH ? SNAP_THREAD_VANISHED : SNAP_THREAD_UNTRACED, errno);
}

/* Where it fails the thread is about to exit, and its end is ours to take note of. */
static void interrupt(struct snap_slot *slot)
{
	slot->stop_ns = snap_clock_ns(CLOCK_MONOTONIC);
	ptrace(PTRACE_INTERRUPT, slot->pick.tid, NULL, NULL);
	set_phase(slot, SNAP_SLOT_AWAITED);
}

static enum wait_result wait_for(struct snap_channel *channel, struct snap_slot *slot, int options)
{
	int status, signal;
	long tid = syscall(SYS_wait4, slot->pick.tid, &status, __WALL | options, NULL);

	if (tid == 0 || (tid < 0 && errno == EINTR))
		return WAIT_NOT_YET;
	if (tid < 0 || !WIFSTOPPED(status)) {
		/* ECHILD: it called exec and has its leader's number now, or lost its own so. */
		if (tid < 0)
			channel->leaves = true;
		settle(slot, SNAP_THREAD_VANISHED, ESRCH);
		return WAIT_GONE;
	}
	signal = WSTOPSIG(status);
	if (status >> 16 == PTRACE_EVENT_STOP) /* our INTERRUPT (SIGTRAP), else a group-stop */
		slot->pick.copy.group_stopped = signal != SIGTRAP;
	else /* a signal on its way to the thread */
		slot->signal = signal;
	return WAIT_STOPPED;
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
static uint8_t *take_room(struct snap_channel *channel, uint64_t *size)
{
	size_t room = snap_region_room(&channel->stacks) & ~(size_t)15;

	*size = *size < channel->max_stack ? *size : channel->max_stack;
	*size = *size < room ? *size : room;
	return *size ? snap_region_alloc(&channel->stacks, *size) : NULL;
}

static void give_back(struct snap_channel *channel, uint8_t *bytes, size_t used)
{
	channel->stacks.next = bytes + ((used + 15) & ~(size_t)15);
}

static bool is_usual(void *context, uint64_t sp)
{
	const struct snap_pick *pick = context;

	return sp >= pick->stack_start && sp < pick->stack_end;
}

static uint64_t below(const struct snap_pick *pick, uint64_t sp)
{
	uint64_t start = sp < SNAP_STACK_MARGIN ? 0 : (sp - SNAP_STACK_MARGIN) & ~15ull;

	return is_usual((void *)pick, sp) && start < pick->stack_start ? pick->stack_start : start;
}

/* The stack that a handler on another one interrupted. */
static void copy_interrupted(struct snap_channel *channel, struct snap_pick *pick)
{
	struct snap_thread *thread = &pick->copy;
	size_t budget = UNKNOWN_STACK;
	uint64_t sp, start, size;
	uint8_t *bytes;

	if (!pick->stack_end || !thread->stack_size)
		return;
	sp = snap_tracer_interrupted_sp(thread, &budget, is_usual, pick);
	start = below(pick, sp);
	size = pick->stack_end - start;
	bytes = sp ? take_room(channel, &size) : NULL;
	if (!bytes)
		return;
	thread->stack2_size = read_memory(pick, start, bytes, size);
	thread->stack2_address = start;
	thread->stack2 = bytes;
	give_back(channel, bytes, thread->stack2_size);
}

static void copy_stack(struct snap_channel *channel, struct snap_pick *pick, uint64_t sp)
{
	struct snap_thread *thread = &pick->copy;
	uint64_t start = below(pick, sp), wanted, size;
	uint8_t *bytes;

	pick->past_end = !is_usual(pick, sp);
	wanted = pick->past_end ? UNKNOWN_STACK : pick->stack_end - start;
	size = wanted;
	bytes = take_room(channel, &size);
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
	give_back(channel, bytes, thread->stack_size);
	if (pick->past_end)
		copy_interrupted(channel, pick);
}

/* Standing still: copied, and on its way again. */
static void copy_and_release(struct snap_channel *channel, struct snap_slot *slot)
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
		set_phase(slot, SNAP_SLOT_AWAITED);
		return;
	}
	channel->end_ns = snap_clock_ns(CLOCK_MONOTONIC);
	pick->stopped_ns = channel->end_ns - slot->stop_ns;
	settle(slot, error ? SNAP_THREAD_UNTRACED : SNAP_THREAD_COPIED, error);
}

/* All that have come by now; false: nobody is awaited any more. */
static bool poll_all(struct snap_channel *channel)
{
	bool more = false;

	for (uint32_t i = 0; i < channel->count; i++) {
		struct snap_slot *slot = &channel->slots[i];

		if (slot->phase != SNAP_SLOT_AWAITED)
			continue;
		if (wait_for(channel, slot, WNOHANG) == WAIT_STOPPED)
			copy_and_release(channel, slot);
		more |= slot->phase == SNAP_SLOT_AWAITED;
	}
	return more;
}

static struct snap_slot *first_awaited(struct snap_channel *channel)
{
	for (uint32_t i = 0; i < channel->count; i++)
		if (channel->slots[i].phase == SNAP_SLOT_AWAITED)
			return &channel->slots[i];
	return NULL;
}

/* The end of this process is what lets a thread go that has not come to its stop. */
static void give_up(struct snap_channel *channel)
{
	for (uint32_t i = 0; i < channel->count; i++) {
		struct snap_slot *slot = &channel->slots[i];

		if (slot->phase == SNAP_SLOT_AWAITED) {
			settle(slot, SNAP_THREAD_NOT_STOPPED, ETIMEDOUT);
			channel->leaves = true;
		}
	}
}

/*
 * A thread on another processor stops within microseconds; whoever sleeps meanwhile is woken much
 * later than that, since his own processor has gone to rest (a virtual one leaves its machine). So
 * the first moment is waited through. A thread that needs our processor gets it soon after.
 */
static void await_the_quick(struct snap_channel *channel)
{
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + AWAKE_NS;

	while (poll_all(channel) && snap_clock_ns(CLOCK_MONOTONIC) < until)
		;
}

static void collect(struct snap_channel *channel)
{
	struct snap_slot *slot;

	await_the_quick(channel);
	while ((slot = first_awaited(channel))) {
		if (__atomic_load_n(&channel->give_up, __ATOMIC_ACQUIRE)) {
			poll_all(channel);
			give_up(channel);
			return;
		}
		switch (wait_for(channel, slot, 0)) {
		case WAIT_STOPPED:
			copy_and_release(channel, slot);
			break;
		case WAIT_GONE:
			break;
		case WAIT_NOT_YET: /* it must not hold up those behind it */
			poll_all(channel);
			break;
		}
	}
}

static void serve(struct snap_channel *channel)
{
	uint32_t count = channel->count;

	for (uint32_t i = 0; i < count; i++)
		seize(&channel->slots[i]);
	for (uint32_t i = 0; i < count; i++) {
		if (channel->slots[i].phase != SNAP_SLOT_SEIZED)
			continue;
		interrupt(&channel->slots[i]);
		if (!channel->begin_ns)
			channel->begin_ns = channel->slots[i].stop_ns;
	}
	collect(channel);
}

/* The beginning of the kernel's struct sched_attr (sched_setattr(2)), which older headers lack. */
struct attributes {
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
static void ask_to_be_quick(void)
{
	const int32_t first = -20;
	struct attributes attributes = { .size = sizeof(attributes) };
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
	ask_to_be_quick();
	snap_region_prefault(&channel->stacks, READY_STACKS);
	while (!channel->leaves) {
		if (!wait_for_call(channel, served)) {
			channel->leaves = true;
			return;
		}
		serve(channel);
		served++;
		__atomic_store_n(&channel->done, served, __ATOMIC_RELEASE);
		syscall(SYS_futex, &channel->done, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
}
