/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The child that makes single stops, from its first to its last instruction: it sleeps until there
 * is a call, serves it, and sleeps again; without calls it ends. It keeps no descriptor of the
 * parent. As in internal.h it allocates, locks and prints nothing, and a worker reads the memory
 * (single_read.c).
 *
 * Threads are interrupted together and released one by one as they stop: a thread on another
 * processor stops while the first is copied. Our own timer ends a long wait, and so do signals of
 * the parent: no thread stays stopped because the parent gets no processor.
 */
#include "stop/child/single.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/priority.h"
#include "base/spawn.h"
#include "base/workers.h"
#include "proc/session.h"
#include "stop/child/await.h"
#include "stop/child/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	IDLE_SECONDS = 10,   /* then it ends; the next call makes a new one */
	SLICE_NS = 100000,   /* the shortest there is */
	TICK_US = 300,       /* between two checks of all awaited threads */
	AWAKE_NS = 20000,    /* for a running thread to stop */
	READ_NS = 1000000,   /* for one stack at least, however long the others took */
	SEIZE_NS = 20000000, /* for an exec that goes on */
	READY_NS = 500000000,
	FIRST_NICE = -20, /* of the thread, and of its session */
};

struct single {
	struct snap_channel *channel;
	struct snap_workers pool; /* they read memory for us */
	volatile sig_atomic_t seizing;
	int64_t seizing_until_ns;
	unsigned late_alarms; /* in the current SEIZE, after that time */
	sigjmp_buf seize_given_up;
	_Alignas(16) uint8_t ticks_place[SNAP_TICKS_PLACE];
};

/*
 * The parent's signal ends a blocking wait with EINTR. It also ends a SEIZE, which waits for an
 * exec that the program can block, and which the kernel restarts. After a while without a processor
 * the first signal may find the time up although the SEIZE is done: so the next one decides.
 */
static void on_alarm(int signal _unused_, siginfo_t *info _unused_, void *frame)
{
	struct single *single = snap_ticks_context(frame);

	if (!single || !single->seizing ||
	    snap_clock_ns(CLOCK_MONOTONIC) <= single->seizing_until_ns)
		return;
	if (++single->late_alarms > 1)
		siglongjmp(single->seize_given_up, 1);
}

/* Makes every change of a phase; the parent may read the slot at any time. */
static void note_event(struct snap_slot *slot, enum snap_tracee_event event)
{
	__atomic_store_n(&slot->phase, (uint32_t)snap_tracee_next(slot->phase, event),
			 __ATOMIC_RELEASE);
}

/* The last change: first the result, then the phase that announces it. */
static void finish_slot(struct snap_slot *slot, enum snap_tracee_event event,
			enum snap_thread_result result, int error)
{
	slot->pick.copy.result = result;
	slot->pick.error = error;
	note_event(slot, event);
}

/* Without options: no other thread becomes a tracee. */
static void seize_single_thread(struct single *single, struct snap_slot *slot)
{
	bool seized;

	if (sigsetjmp(single->seize_given_up, 0)) {
		single->seizing = 0;
		snap_ticks_allow();
		finish_slot(slot, SNAP_TRACEE_ON_REFUSED, SNAP_THREAD_NOT_STOPPED, ETIMEDOUT);
		/*
		 * SEIZE may have succeeded at the last moment: only our end is sure to release the
		 * thread.
		 */
		single->channel->leaves = true;
		return;
	}
	single->seizing_until_ns = snap_clock_ns(CLOCK_MONOTONIC) + SEIZE_NS;
	single->late_alarms = 0;
	single->seizing = 1;
	seized = ptrace(PTRACE_SEIZE, slot->pick.tid, NULL, NULL) == 0;
	single->seizing = 0;
	if (seized)
		note_event(slot, SNAP_TRACEE_ON_SEIZED);
	else if (errno == ESRCH)
		finish_slot(slot, SNAP_TRACEE_ON_GONE, SNAP_THREAD_VANISHED, ESRCH);
	else
		finish_slot(slot, SNAP_TRACEE_ON_REFUSED, SNAP_THREAD_UNTRACED, errno);
}

/* If it fails, the thread is about to exit, and we must reap it. */
static void interrupt_thread(struct snap_slot *slot)
{
	slot->stop_ns = slot->ran_ns = snap_clock_ns(CLOCK_MONOTONIC);
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

/* Waits for one thread, with 0 or WNOHANG; whether it has stopped. */
static bool wait_for_stop(struct snap_channel *channel, struct snap_slot *slot, int options)
{
	int status;
	pid_t tid = snap_await_tracee(slot->pick.tid, options, &status);

	/* A blocking wait returns as soon as the thread stops. */
	if (tid == 0 || !(options & WNOHANG))
		slot->ran_ns = snap_clock_ns(CLOCK_MONOTONIC);
	if (tid == 0 || (tid < 0 && errno == EINTR))
		return false;
	if (tid > 0 && WIFSTOPPED(status)) {
		note_wait_status(slot, status);
		return true;
	}
	/*
	 * ECHILD: it called exec and has its leader's tid now, or another thread took its tid that
	 * way.
	 */
	if (tid < 0)
		channel->leaves = true;
	finish_slot(slot, SNAP_TRACEE_ON_GONE, SNAP_THREAD_VANISHED, ESRCH);
	return false;
}

/* The most bytes that the stacks of one thread take. */
static uint64_t most_room(const struct snap_channel *channel)
{
	size_t room = snap_region_room(&channel->stacks) & ~(size_t)15;

	return 2 * channel->max_stack < room ? 2 * channel->max_stack : room;
}

static void take_stacks(struct snap_pick *pick, const struct snap_pick *read)
{
	struct snap_thread *to = &pick->copy;
	const struct snap_thread *from = &read->copy;

	pick->past_end = read->past_end;
	to->stack_address = from->stack_address;
	to->stack = from->stack;
	to->stack_size = from->stack_size;
	to->stack_limited = from->stack_limited;
	to->stack_unreadable = from->stack_unreadable;
	to->stack2_address = from->stack2_address;
	to->stack2 = from->stack2;
	to->stack2_size = from->stack2_size;
}

static int64_t time_to_read(const struct snap_channel *channel, const struct snap_slot *slot)
{
	int64_t left = channel->patience_ns - channel->reading_ns;

	left = left > READ_NS ? left : READ_NS;
	return slot->has_plan ? left + SNAP_THREAD_PLAN_STOPPED_NS : left;
}

/*
 * Has the stacks of a thread read, which may never return. Then the other threads of this call get
 * no stacks, as they are stopped meanwhile, and this memory is not used again.
 */
static void copy_single_stack(struct single *single, uint32_t index, uint64_t sp)
{
	struct snap_channel *channel = single->channel;
	struct snap_slot *slot = &channel->slots[index];
	struct snap_work work = {
		.run = snap_single_read,
		.context = channel,
		.count = 1,
		.marks = &channel->list.mark,
		.patience_ns = time_to_read(channel, slot),
		.here = true,
	};
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC), took;
	bool done;

	slot->pick.copy.stack_unreadable = true;
	if (channel->spoiled)
		return;
	slot->sp = sp;
	slot->read = slot->pick;
	slot->room = (struct snap_region){ channel->stacks.next,
					   channel->stacks.next + most_room(channel) };
	slot->images = channel->images;
	channel->list = (struct snap_single_list){ .slot = index };
	work.until_ns = begin + work.patience_ns;
	done = snap_workers_run(&single->pool, &work);
	took = snap_clock_ns(CLOCK_MONOTONIC) - begin;
	channel->reading_ns += took;
	if (done) {
		channel->stacks.next = slot->room.next;
		channel->images = slot->images;
		take_stacks(&slot->pick, &slot->read);
		return;
	}
	/* Else the worker was killed. */
	slot->pick.stalled = took >= work.patience_ns;
	channel->spoiled = true;
}

/* Copies a stopped thread, and releases it. */
static void copy_and_release_thread(struct single *single, uint32_t index)
{
	struct snap_channel *channel = single->channel;
	struct snap_slot *slot = &channel->slots[index];
	struct snap_pick *pick = &slot->pick;
	uint64_t sp;
	int error = snap_tracer_registers(pick->tid, slot->registers, &pick->copy.registers_size,
					  &sp, &pick->arch);

	if (error == 0) {
		pick->copy.registers = slot->registers;
		pick->copy.taken = SNAP_TAKEN_ALONE;
		copy_single_stack(single, index, sp);
	}
	if (ptrace(PTRACE_DETACH, pick->tid, NULL, (void *)(long)slot->signal)) {
		/* SIGKILL ends stopped threads, too. Unless its end is seen an exec may hang. */
		note_event(slot, SNAP_TRACEE_ON_KILLED);
		return;
	}
	channel->end_ns = snap_clock_ns(CLOCK_MONOTONIC);
	pick->stopped_ns = channel->end_ns - slot->stop_ns;
	pick->stood_ns = channel->end_ns - slot->ran_ns;
	finish_slot(slot, SNAP_TRACEE_ON_RELEASED,
		    error ? SNAP_THREAD_UNTRACED : SNAP_THREAD_COPIED, error);
}

/* The slot of the first awaited thread; `count`: there is none. */
static uint32_t first_awaited(const struct snap_channel *channel)
{
	uint32_t i = 0;

	while (i < channel->count && channel->slots[i].phase != SNAP_TRACEE_AWAITED)
		i++;
	return i;
}

/* Copies all threads that have stopped by now; false: none is awaited any more. */
static bool take_stopped_threads(struct single *single)
{
	struct snap_channel *channel = single->channel;

	for (uint32_t i = 0; i < channel->count; i++) {
		struct snap_slot *slot = &channel->slots[i];

		if (slot->phase == SNAP_TRACEE_AWAITED && wait_for_stop(channel, slot, WNOHANG))
			copy_and_release_thread(single, i);
	}
	return first_awaited(channel) < channel->count;
}

/*
 * A thread on another processor stops within microseconds. If we slept meanwhile, we would wake up
 * much later, as our processor becomes idle (a virtual one leaves its machine). So we poll for a
 * moment first. A thread that needs our processor gets it soon after.
 */
static void await_quick_threads(struct single *single)
{
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + AWAKE_NS;

	while (take_stopped_threads(single) && snap_clock_ns(CLOCK_MONOTONIC) < until)
		;
}

static bool is_time_up(const struct snap_channel *channel)
{
	return __atomic_load_n(&channel->give_up, __ATOMIC_ACQUIRE) ||
	       snap_clock_ns(CLOCK_MONOTONIC) >= channel->until_ns;
}

static void take_threads(struct single *single)
{
	struct snap_channel *channel = single->channel;
	bool ticking = false;
	uint32_t first;

	await_quick_threads(single);
	while ((first = first_awaited(channel)) < channel->count) {
		if (is_time_up(channel)) {
			/* Only our end releases a thread that has not stopped. */
			channel->leaves |= take_stopped_threads(single);
			break;
		}
		if (!ticking)
			snap_tracer_set_ticks(TICK_US);
		ticking = true;
		if (wait_for_stop(channel, &channel->slots[first], 0))
			copy_and_release_thread(single, first);
		else /* it must not delay those behind it */
			take_stopped_threads(single);
	}
	if (ticking)
		snap_tracer_set_ticks(0);
}

static void serve_call(struct single *single)
{
	struct snap_channel *channel = single->channel;
	uint32_t count = channel->count;

	for (uint32_t i = 0; i < count; i++)
		if (channel->slots[i].phase == SNAP_TRACEE_LISTED)
			seize_single_thread(single, &channel->slots[i]);
	for (uint32_t i = 0; i < count; i++) {
		if (channel->slots[i].phase != SNAP_TRACEE_SEIZED)
			continue;
		interrupt_thread(&channel->slots[i]);
		if (!channel->begin_ns)
			channel->begin_ns = channel->slots[i].stop_ns;
	}
	take_threads(single);
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
 * While we wait for a processor, stopped threads wait, too. If permitted we take priority over
 * others; and a short slice lets a woken thread run at once (Linux 6.12; older kernels ignore it).
 */
static void shorten_own_slice(void)
{
	struct scheduling attributes = { .size = sizeof(attributes) };
	int32_t nice;

	if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) ||
	    attributes.policy != SCHED_OTHER)
		return;
	attributes.size = sizeof(attributes);
	attributes.runtime = SLICE_NS;
	nice = attributes.nice;
	attributes.nice = FIRST_NICE;
	if (syscall(SYS_sched_setattr, 0, &attributes, 0) == 0)
		return;
	attributes.nice = nice;
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/* False when none came for long: as long as we live, we keep a copy of our maker's memory. */
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

static bool make_reader(struct single *single)
{
	struct snap_work work = {
		.run = snap_single_get_ready,
		.context = single->channel,
		.count = 1,
		.marks = &single->channel->list.mark,
		.patience_ns = READY_NS,
	};

	single->channel->list.mark = SNAP_ITEM_OPEN;
	return snap_workers_init(&single->pool, 0, -1, 0) == 0 &&
	       snap_workers_run(&single->pool, &work);
}

/*
 * Serves calls. True: it was dismissed, or no call came for long. False: its end has to release
 * threads, and nothing must delay that.
 */
static bool serve_calls(struct single *single, uint32_t served)
{
	struct snap_channel *channel = single->channel;

	__atomic_store_n(&channel->ready, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &channel->ready, FUTEX_WAKE, 1, NULL, NULL, 0);
	while (!channel->leaves) {
		if (!wait_for_call(channel, served)) {
			channel->leaves = true;
			return true;
		}
		if (channel->dismissed)
			return true;
		serve_call(single);
		channel->left_ns = snap_clock_ns(CLOCK_MONOTONIC);
		channel->left_run_ns = snap_clock_ns(CLOCK_THREAD_CPUTIME_ID);
		served++;
		__atomic_store_n(&channel->done, served, __ATOMIC_RELEASE);
		/*
		 * Otherwise the parent is not woken: it could take the processor that our end
		 * needs, and it checks soon anyway.
		 */
		if (!channel->leaves)
			syscall(SYS_futex, &channel->done, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	return false;
}

void snap_single_child(void *context)
{
	struct single single = { .channel = context };
	uint32_t served = __atomic_load_n(&single.channel->done, __ATOMIC_ACQUIRE);

	snap_priority_lower();
	/*
	 * Priority inside a session does not count outside of it, so it becomes a session of its
	 * own.
	 */
	snap_session_begin(single.channel->procfs_fd, FIRST_NICE);
	snap_spawn_close_all_but(-1);
	snap_ticks_set_up(on_alarm, single.ticks_place, &single);
	shorten_own_slice();
	/* Else the worker ends when we do: waiting for a blocked one could take long. */
	if (!make_reader(&single) || serve_calls(&single, served))
		snap_workers_deinit(&single.pool);
}
