/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parent's side of single stops: makes the child if there is none, hands it the threads to
 * stop, watches the deadline while it works, and takes over the copies. See single.h; the child is
 * stop/child/single.c.
 */
#include "stop/child/single.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/spawn.h"
#include "proc/procfs.h"
#include "stop/describe.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
	/*
	 * How often the child is woken in a call that takes long: on busy processors it may wait in
	 * a queue after its tracee has stopped, or wait for one thread after others have stopped.
	 */
	TICK_NS = 300000,
	LOOK_NS = 2000000,       /* between two looks at why a thread does not stop */
	PATIENCE_NS = 100000000, /* past the requested time, then the child is ended */
	END_MS = 1000,           /* for the child to end by itself, or when killed */
	DISMISS_MS = 200,        /* for the child to end on request */
	SPARE_BYTES = 1 << 20,
	KEPT_IMAGES = 4 << 20,
	SCHEDSTAT_TEXT = 80,
	READ_NS = 50000000,    /* see snap_single_set_patience() */
	READY_NS = 1000000000, /* for a new child, before it is handed anything */
	READY_LOOK_NS = 10000000,
};

static const uint64_t MOST_STACKS = (uint64_t)1 << 30;

struct snap_single {
	const struct snap_options *options;
	struct snap_procfs procfs; /* to see why a thread does not stop */
	struct snap_channel *channel;
	pid_t pid; /* 0: no child */
	int pidfd;
	int schedstat_fd;  /* of the child */
	int64_t waited_ns; /* see snap_single_waited() */
	int64_t gone_ns;   /* when the child of the last call ended, if it did */
	int64_t patience_ns;
};

/* What the child had of a processor so far. */
struct child_times {
	int64_t run_ns, waited_ns; /* -1: unknown */
	/* False: the kernel counts nothing, or the child was just made. */
	bool has_run;
};

static struct child_times child_times(const struct snap_single *single)
{
	char text[SCHEDSTAT_TEXT];
	uint64_t numbers[3];
	ssize_t length = single->schedstat_fd < 0
				 ? -EBADF
				 : snap_procfs_reread(single->schedstat_fd, text, sizeof(text));

	if (length <= 0 || !snap_parse_schedstat(text, (size_t)length, numbers))
		return (struct child_times){ -1, -1, false };
	return (struct child_times){ (int64_t)numbers[0], (int64_t)numbers[1], numbers[2] > 0 };
}

static void open_schedstat(struct snap_single *single)
{
	_cleanup_fd_ int process = snap_procfs_open_process(&single->procfs, single->pid);

	if (process >= 0)
		single->schedstat_fd = snap_procfs_open_file(process, "schedstat");
}

/* Address space only: unused parts take no memory. */
static struct stacksnap_error *create_channel(uint64_t max_stack, struct snap_channel **ret)
{
	size_t header = snap_round_up(sizeof(struct snap_channel), SNAP_MOST_PAGE);
	uint64_t stacks = max_stack > MOST_STACKS / SNAP_SINGLE_MOST ? MOST_STACKS
								     : max_stack * SNAP_SINGLE_MOST;
	const size_t images =
		snap_round_up((size_t)SNAP_SINGLE_MOST * SNAP_THREAD_PLAN_ROOM, SNAP_MOST_PAGE);
	struct snap_channel *channel;
	uint8_t *at;
	size_t size;
	void *base;

	stacks = snap_round_up(stacks + SPARE_BYTES, SNAP_MOST_PAGE);
	size = header + stacks + images + snap_thread_plan_work();
	base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	if (base == MAP_FAILED)
		return snap_error_os(errno, "cannot reserve memory for the stacks");
	channel = base;
	channel->size = size;
	channel->max_stack = max_stack & ~15ull;
	channel->first_stack = (uint8_t *)base + header;
	channel->stacks =
		(struct snap_region){ channel->first_stack, channel->first_stack + stacks };
	at = channel->stacks.end;
	channel->all_images = (struct snap_region){ at, at + images };
	at += images;
	channel->plan_work = (struct snap_region){ at, at + snap_thread_plan_work() };
	*ret = channel;
	return NULL;
}

static void destroy_channel(struct snap_channel *channel)
{
	if (channel)
		munmap(channel, channel->size);
}

static void end_child(struct snap_single *single, bool kill_it)
{
	if (!single->pid)
		return;
	snap_spawn_end(single->pidfd, kill_it ? 0 : END_MS, END_MS);
	snap_close(&single->pidfd);
	snap_close(&single->schedstat_fd);
	single->pid = 0;
}

/* No thread is stopped until the child has begun. A child that is late may still get ready. */
static void await_child(const struct snap_single *single)
{
	struct snap_channel *channel = single->channel;
	const struct timespec look = { .tv_nsec = READY_LOOK_NS };
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + READY_NS;

	while (!__atomic_load_n(&channel->ready, __ATOMIC_ACQUIRE) &&
	       !snap_spawn_has_ended(single->pidfd, 0) &&
	       !snap_options_cancelled(single->options) && snap_clock_ns(CLOCK_MONOTONIC) < until)
		syscall(SYS_futex, &channel->ready, FUTEX_WAIT, 0, &look, NULL, 0);
}

static struct stacksnap_error *make_child(struct snap_single *single)
{
	struct snap_channel *channel = single->channel;

	channel->request = channel->done = 0;
	channel->leaves = channel->ready = false;
	channel->procfs_fd = single->procfs.root_fd;
	SNAP_TRY(snap_spawn(0, "snap-tracer", snap_single_child, channel, &single->pid,
			    &single->pidfd));
	open_schedstat(single);
	await_child(single);
	return NULL;
}

/* The child ends its worker before it ends itself, so that no worker is left. */
static void dismiss_child(struct snap_single *single)
{
	struct snap_channel *channel = single->channel;

	if (!single->pid)
		return;
	channel->dismissed = true;
	__atomic_store_n(&channel->request, channel->request + 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &channel->request, FUTEX_WAKE, 1, NULL, NULL, 0);
	snap_spawn_end(single->pidfd, DISMISS_MS, END_MS);
	end_child(single, true);
}

struct stacksnap_error *snap_single_create(const struct snap_options *options,
					   struct snap_single **ret)
{
	_cleanup_(snap_single_destroyp) struct snap_single *single = calloc(1, sizeof(*single));
	struct stacksnap_error *err;

	SNAP_TRY(snap_no_memory_unless(single));
	single->options = options;
	single->patience_ns = READ_NS;
	single->pidfd = single->procfs.root_fd = single->schedstat_fd = -1;
	err = snap_procfs_open(NULL, &single->procfs);
	if (!err)
		err = create_channel(options->max_stack, &single->channel);
	if (!err)
		err = make_child(single);
	if (!err)
		*ret = snap_take_ptr(single);
	return err;
}

void snap_single_destroy(struct snap_single *single)
{
	if (!single)
		return;
	dismiss_child(single);
	destroy_channel(single->channel);
	snap_procfs_close(&single->procfs);
	free(single);
}

pid_t snap_single_pid(const struct snap_single *single)
{
	return single->pid;
}

void snap_single_set_patience(struct snap_single *single, int64_t patience_ns)
{
	single->patience_ns = patience_ns;
}

int64_t snap_single_waited(const struct snap_single *single)
{
	return single->waited_ns;
}

/* Gives back memory that only few calls need. */
static void begin_images(struct snap_channel *channel)
{
	size_t left = snap_region_room(&channel->images);
	size_t all = snap_region_room(&channel->all_images);

	if (channel->images.next && all - left > KEPT_IMAGES)
		madvise(channel->all_images.next, all, MADV_REMOVE);
	channel->images = channel->all_images;
}

static void hand_over_picks(const struct snap_single *single, const struct snap_pick *picks,
			    size_t count)
{
	struct snap_channel *channel = single->channel;
	struct snap_syscall_line line;

	for (size_t i = 0; i < count; i++) {
		struct snap_slot *slot = &channel->slots[i];

		slot->pick = (struct snap_pick){
			.tid = picks[i].tid,
			.stack_start = picks[i].stack_start,
			.stack_end = picks[i].stack_end,
			.ns_tid = picks[i].ns_tid,
		};
		slot->has_plan = picks[i].plan != NULL;
		if (picks[i].plan)
			snap_thread_plan_set(&channel->plans[i], picks[i].plan);
		channel->plans[i].image.piece_count = 0;
		slot->phase = SNAP_TRACEE_LISTED;
		if (snap_procfs_task_call(single->procfs.root_fd, picks[i].tid, &line) &&
		    !line.running &&
		    snap_stop_is_harmful(single->options, single->procfs.root_fd, picks[i].tid,
					 line.number, true)) {
			slot->phase = SNAP_TRACEE_REFUSED;
			slot->pick.copy.result = SNAP_THREAD_NOT_STOPPED;
			slot->pick.error = ETIMEDOUT;
		}
		slot->signal = 0;
		slot->ran_ns = snap_clock_ns(CLOCK_MONOTONIC);
	}
	channel->stacks.next = channel->first_stack;
	begin_images(channel);
	channel->count = (uint32_t)count;
	channel->give_up = 0;
	channel->begin_ns = channel->end_ns = channel->reading_ns = 0;
	__atomic_store_n(&channel->request, channel->request + 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &channel->request, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static bool is_slot_done(const struct snap_slot *slot)
{
	return snap_tracee_is_done(__atomic_load_n(&slot->phase, __ATOMIC_ACQUIRE));
}

/*
 * The time since the thread last ran for certain; a thread that was not interrupted is not stopped.
 */
static int64_t stood_until(const struct snap_slot *slot, int64_t now)
{
	switch ((enum snap_tracee_phase)__atomic_load_n(&slot->phase, __ATOMIC_ACQUIRE)) {
	case SNAP_TRACEE_AWAITED:
	case SNAP_TRACEE_SLOW:
	case SNAP_TRACEE_STOPPED:
		return now - slot->ran_ns;
	case SNAP_TRACEE_LISTED:
	case SNAP_TRACEE_RESTING:
	case SNAP_TRACEE_SEIZED:
	case SNAP_TRACEE_REFUSED:
	case SNAP_TRACEE_EXITING:
	case SNAP_TRACEE_RELEASED:
	case SNAP_TRACEE_GONE:
	case SNAP_TRACEE_PHASES:
		break;
	}
	return 0;
}

/* The child's worker has left the image, which is not trusted. */
static const struct snap_memory_image *take_over_image(struct snap_channel *channel, uint32_t index)
{
	struct snap_memory_image *image = &channel->plans[index].image;

	if (!channel->slots[index].has_plan || channel->slots[index].pick.stalled)
		return NULL;
	snap_plan_finish(image, channel->all_images.next, channel->all_images.end);
	return image;
}

/* Threads of a child that was ended in the middle count as not stopped. */
static void take_over_copies(struct snap_channel *channel, struct snap_pick *picks, int64_t now)
{
	const struct snap_thread nothing = { 0 };

	for (uint32_t i = 0; i < channel->count; i++) {
		const struct snap_slot *slot = &channel->slots[i];
		const struct snap_thread *from = &slot->pick.copy;
		struct snap_pick *pick = &picks[i];
		struct snap_thread *to = &pick->copy;
		bool done = is_slot_done(slot);

		pick->arch = slot->pick.arch;
		pick->error = done ? slot->pick.error : ETIMEDOUT;
		pick->past_end = slot->pick.past_end;
		pick->stalled = slot->pick.stalled;
		pick->stopped_ns = slot->pick.stopped_ns;
		/* A thread that was given up may have stopped just before the child ended. */
		pick->stood_ns = done ? slot->pick.stood_ns : stood_until(slot, now);
		pick->stood_from_ns = slot->ran_ns;
		to->result = done ? from->result : SNAP_THREAD_NOT_STOPPED;
		to->partial = false;
		to->taken = SNAP_TAKEN_ALONE;
		to->group_stopped = from->group_stopped;
		to->memory = done && to->result == SNAP_THREAD_COPIED ? take_over_image(channel, i)
								      : NULL;
		if (to->result != SNAP_THREAD_COPIED)
			from = &nothing;
		to->registers = from->registers;
		to->registers_size = from->registers_size;
		to->stack_address = from->stack_address;
		to->stack = from->stack;
		to->stack_size = from->stack_size;
		to->stack_limited = from->stack_limited;
		to->stack_unreadable = from->stack_unreadable;
		to->stack2_address = from->stack2_address;
		to->stack2 = from->stack2;
		to->stack2_size = from->stack2_size;
	}
}

static bool is_call_served(const struct snap_channel *channel)
{
	return __atomic_load_n(&channel->done, __ATOMIC_ACQUIRE) == channel->request;
}

/*
 * Whether waiting is useless: the threads that have not stopped are in D, or are leaders that have
 * exited before their threads, whose end wait(2) does not report.
 */
static bool is_waiting_useless(const struct snap_single *single)
{
	const struct snap_channel *channel = single->channel;

	for (uint32_t i = 0; i < channel->count; i++) {
		const struct snap_slot *slot = &channel->slots[i];
		_cleanup_fd_ int process = -1;
		struct snap_status status;

		if (is_slot_done(slot))
			continue;
		process = snap_procfs_open_process(&single->procfs, slot->pick.tid);
		/* Not from its stat, which may wait for an exec. */
		if (process < 0 || snap_procfs_status(process, &status) ||
		    (status.state != 'D' && status.state != 'Z'))
			return false;
	}
	return true;
}

enum watch_result { WATCH_SERVED, WATCH_DIED, WATCH_OVERDUE, WATCH_CANCELLED };

/* Mostly one wait that ends soon; the rest is for threads that do not stop. */
static enum watch_result watch_single_child(struct snap_single *single, int64_t timeout_ns)
{
	struct snap_channel *channel = single->channel;
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC), until = begin + timeout_ns,
		look = begin + LOOK_NS;
	struct timespec tick = { .tv_nsec = TICK_NS };

	while (!is_call_served(channel)) {
		int64_t now;

		syscall(SYS_futex, &channel->done, FUTEX_WAIT, channel->request - 1, &tick, NULL,
			0);
		if (is_call_served(channel))
			break;
		if (snap_spawn_has_ended(single->pidfd, 0))
			return WATCH_DIED;
		if (snap_options_cancelled(single->options))
			return WATCH_CANCELLED;
		now = snap_clock_ns(CLOCK_MONOTONIC);
		if (now > until + PATIENCE_NS)
			return WATCH_OVERDUE;
		if (now > until || (now > look && is_waiting_useless(single)))
			__atomic_store_n(&channel->give_up, 1, __ATOMIC_RELEASE);
		if (now > look)
			look = now + LOOK_NS;
		syscall(SYS_pidfd_send_signal, single->pidfd, SIGALRM, NULL, 0);
	}
	return WATCH_SERVED;
}

/*
 * A worker that did not return may still write to the old channel, and keeps it mapped. The child
 * would wait for that worker, so it is killed.
 */
static struct stacksnap_error *replace_channel(struct snap_single *single)
{
	struct snap_channel *fresh;

	SNAP_TRY(create_channel(single->options->max_stack, &fresh));
	end_child(single, true);
	destroy_channel(single->channel);
	single->channel = fresh;
	return NULL;
}

/*
 * Notes how long the child waited for a processor, and when it ended. The end of a child that left
 * by itself releases the threads that had not stopped. We may notice it much later, so its time is
 * computed from the processor time that the child has used since.
 */
static void note_end(struct snap_single *single, const struct child_times *before, bool left)
{
	const struct snap_channel *channel = single->channel;
	struct child_times after;
	int64_t end;

	if (left)
		snap_spawn_has_ended(single->pidfd, END_MS);
	after = child_times(single);
	single->waited_ns =
		after.has_run && before->waited_ns >= 0 && after.waited_ns >= before->waited_ns
			? after.waited_ns - before->waited_ns
			: -1;
	single->gone_ns = snap_clock_ns(CLOCK_MONOTONIC);
	end = channel->left_ns + after.run_ns - channel->left_run_ns;
	if (left && after.has_run && after.run_ns >= channel->left_run_ns && end < single->gone_ns)
		single->gone_ns = end;
}

static struct stacksnap_error *make_call(struct snap_single *single, const struct snap_pick *picks,
					 size_t count, int64_t timeout_ns, enum watch_result *ret)
{
	struct child_times before;

	if (single->channel->leaves)
		end_child(single, false);
	if (single->channel->spoiled)
		SNAP_TRY(replace_channel(single));
	if (!single->pid)
		SNAP_TRY(make_child(single));
	before = child_times(single);
	single->channel->patience_ns = single->patience_ns;
	single->channel->until_ns = snap_clock_ns(CLOCK_MONOTONIC) + timeout_ns;
	hand_over_picks(single, picks, count);
	*ret = watch_single_child(single, timeout_ns);
	note_end(single, &before, *ret == WATCH_SERVED && single->channel->leaves);
	if (*ret != WATCH_SERVED || single->channel->leaves)
		end_child(single, *ret != WATCH_SERVED);
	if (*ret != WATCH_SERVED)
		single->gone_ns = snap_clock_ns(CLOCK_MONOTONIC);
	return NULL;
}

struct stacksnap_error *snap_single_take(struct snap_single *single, struct snap_pick *picks,
					 size_t count, int64_t timeout_ns, int64_t *stopped_ns_ret)
{
	enum watch_result result;
	struct stacksnap_error *err;
	int64_t end_ns;

	if (count > SNAP_SINGLE_MOST)
		return snap_error_format(SNAP_ERROR_INVALID, "too many threads for one stop");
	if (snap_options_cancelled(single->options))
		return snap_error_cancelled();
	if (count == 0) {
		*stopped_ns_ret = 0;
		return NULL;
	}
	err = make_call(single, picks, count, timeout_ns, &result);
	if (!err && result == WATCH_DIED)
		err = make_call(single, picks, count, timeout_ns, &result);
	if (err)
		return err;
	if (result == WATCH_CANCELLED)
		return snap_error_cancelled();
	if (result == WATCH_DIED)
		return snap_error_format(SNAP_ERROR_OS, "the tracing process was killed");
	take_over_copies(single->channel, picks, single->gone_ns);
	/* A thread that had not stopped in time stood until the child ended, at most. */
	end_ns = single->pid ? single->channel->end_ns : single->gone_ns;
	*stopped_ns_ret =
		single->channel->begin_ns && end_ns ? end_ns - single->channel->begin_ns : 0;
	return NULL;
}
