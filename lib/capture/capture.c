/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The capture stage from end to end: see capture.h. The processes of the tree come from discover,
 * the pause from tracer; this file puts them in order, tree after tree.
 */
#include "capture/capture.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "capture/collect.h"
#include "capture/follow.h"
#include "capture/nostop.h"
#include "capture/stop_backoff.h"
#include "capture/wait/resolve.h"
#include "discover/discover.h"
#include "sample/copy_blocked.h"

#include <stdlib.h>
#include <string.h>

enum {
	/* Processes that are found during a stop, beyond those that discover listed. */
	SPARE_ALL = 1 << 20,
	SPARE_MOST = 1024,
	SPARE_LEAST = 16,
	EXECED_TRIES = 2,
	STALLED_TRIES = 5,
	STARVED_TRIES = 4,
	LOST_TRIES = 8,
	/* Parts of the time of a run, in percent: see snap_discover(). */
	LOOK_PERCENT = 9,
	LIST_PERCENT = 18,
	LONG_LOOK_NS = 50000000, /* for new processes: one did not answer */
	CLOCK_TRIES = 5,
	CLOCK_CLOSE_NS = 1000,
};

/*
 * What another clock is ahead of CLOCK_MONOTONIC. A thread that loses the processor between two
 * readings is wrong by this time; so the closest of a few is taken.
 */
static int64_t offset_ns(clockid_t clock)
{
	int64_t least = INT64_MAX, offset = 0;

	for (int i = 0; i < CLOCK_TRIES && least > CLOCK_CLOSE_NS; i++) {
		int64_t before = snap_clock_ns(CLOCK_MONOTONIC), other = snap_clock_ns(clock),
			after = snap_clock_ns(CLOCK_MONOTONIC);

		if (after - before < least) {
			least = after - before;
			offset = other - before - least / 2;
		}
	}
	return offset;
}

/* For waits; when all stand still, which is now if no thread is stopped. The first time counts. */
static struct stacksnap_error *note_moment(const struct snap_options *options,
					   struct snap_capture *capture, int64_t monotonic_ns)
{
	if (options->explain == SNAP_EXPLAIN_NO || capture->waits)
		return NULL;
	capture->waits = snap_arena_new(&capture->arena, struct snap_wait_facts);
	SNAP_TRY(snap_no_memory_unless(capture->waits));
	*capture->waits = (struct snap_wait_facts){
		.monotonic_ns = monotonic_ns,
		.realtime_ns = monotonic_ns + offset_ns(CLOCK_REALTIME),
		.boottime_ns = monotonic_ns + offset_ns(CLOCK_BOOTTIME),
	};
	return NULL;
}

static struct stacksnap_error *discover_tree(const struct snap_options *options, unsigned percent,
					     struct snap_capture **ret)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();

	SNAP_TRY(snap_no_memory_unless(capture));
	SNAP_TRY(snap_discover(options, percent, capture));
	*ret = snap_take_ptr(capture);
	return NULL;
}

/*
 * Why a capture is taken once more: what was read before the stop belongs to a program that is no
 * more; or the tracer was blocked by something that a process does, which the next look will find;
 * or a process that executes a program did not get the processor that it needs for that; or all
 * threads of one that runs were gone when they were to be stopped.
 */
struct retry {
	bool execed, stalled, starved, lost;
	unsigned tries; /* with this one */
	bool again;     /* the rest is left to the next one */
};

static bool may_retry(const struct retry *retry, const struct snap_stop_backoff *pace)
{
	unsigned most = retry->lost      ? LOST_TRIES
			: retry->stalled ? STALLED_TRIES
			: retry->starved ? STARVED_TRIES
			: retry->execed  ? EXECED_TRIES
					 : 1;

	return retry->tries < most && snap_clock_ns(CLOCK_MONOTONIC) < pace->no_retry_ns;
}

struct stacksnap_error *snap_capture_list(const struct snap_options *options,
					  struct snap_capture **ret)
{
	int64_t start = snap_clock_ns(CLOCK_MONOTONIC);

	SNAP_TRY(discover_tree(options, LIST_PERCENT, ret));
	(*ret)->time_ns = snap_clock_ns(CLOCK_REALTIME);
	(*ret)->duration_ns = snap_clock_ns(CLOCK_MONOTONIC) - start;
	return NULL;
}

/*
 * The root of each process, by its index. A tree may be as deep as it has processes, so the way up
 * is gone once: a parent stands before its children.
 */
struct roots {
	size_t *roots;
	size_t count, capacity;
	bool *taken; /* by root: its stop was begun */
	size_t taken_capacity;
};

SNAP_FREES(roots_deinit, struct roots, roots, taken);

static struct stacksnap_error *find_roots(struct roots *roots, const struct snap_capture *capture)
{
	if (!snap_reserve_array(roots->roots, roots->capacity, capture->process_count) ||
	    !snap_reserve_array_zeroed(roots->taken, roots->taken_capacity, capture->process_count))
		return snap_error_no_memory();
	for (; roots->count < capture->process_count; roots->count++) {
		size_t parent = capture->processes[roots->count].parent;

		roots->roots[roots->count] =
			parent < roots->count ? roots->roots[parent] : roots->count;
	}
	return NULL;
}

/* One tree on its way into a stop. */
struct tree {
	const struct snap_options *options;
	struct snap_capture *capture;
	size_t root; /* in capture->processes */
	struct roots *roots;
	struct snap_stop_backoff *pace;
	const struct snap_stop_hook *hook; /* or NULL */
	struct snap_shared_memory *memory;
	int bpf_fd;       /* for all stops */
	bool any;         /* a stop was begun */
	size_t looked;    /* processes before this one were looked at */
	uint32_t checked; /* those of the stop before this one still run what was read of them */
};

static bool is_untouchable(const struct snap_process *process)
{
	return process->trouble != SNAP_TROUBLE_NONE || (process->flags & SNAP_PF_KTHREAD);
}

/* A zombie has no threads left to speak of; and without a start there never was a process. */
static bool is_dead(const struct snap_process *process)
{
	return process->vanished || process->start_ticks == 0 ||
	       process->trouble == SNAP_TROUBLE_ZOMBIE;
}

/*
 * Puts those processes of the tree into the stop that the capture lists and the stop does not. What
 * was opened after the child was made, it has not got: such processes it looks up by itself.
 */
static void add_processes(struct tree *tree, struct snap_stop *stop, bool running)
{
	struct snap_capture *capture = tree->capture;

	for (; tree->looked < capture->process_count; tree->looked++) {
		const struct snap_process *process = &capture->processes[tree->looked];
		struct snap_traced traced = {
			.pid = process->pid,
			.proc_fd = capture->live && !running ? capture->live[tree->looked].proc_fd
							     : -1,
			.start_ticks = process->start_ticks,
			.program = process->program,
			.args_start = process->args_start,
			.args_size = snap_capture_args_wanted(process),
			.index = tree->looked,
			.look_only = is_untouchable(process),
			.foreign_namespace =
				process->ns_pid != 0 && process->ns_pid != process->pid,
		};

		if (tree->roots->roots[tree->looked] != tree->root || process->pid == getpid())
			continue;
		if (!is_dead(process) && process->trouble != SNAP_TROUBLE_OUT_OF_TIME)
			snap_stop_add(stop, &traced);
	}
}

/*
 * A second look finds what all trees have got meanwhile. What belongs to one that was stopped
 * before is no part of its moment: it is taken out again, with all that belongs to it.
 */
static void drop_belated(struct tree *tree, size_t first)
{
	struct snap_capture *capture = tree->capture;
	size_t kept = first, gap;

	for (size_t i = first; i < capture->process_count; i++) {
		size_t root = tree->roots->roots[i];

		if (root != tree->root && tree->roots->taken[root]) {
			snap_live_close(&capture->live[i]);
			continue;
		}
		gap = i - kept;
		/* A parent in the same range has moved with its children, or not at all. */
		for (size_t k = i + 1; gap && k < capture->process_count; k++) {
			if (capture->processes[k].parent == i)
				capture->processes[k].parent = kept;
		}
		capture->processes[kept] = capture->processes[i];
		capture->live[kept++] = capture->live[i];
	}
	capture->process_count = kept;
}

/*
 * Other programs than those whose names, arguments and mappings were read? Asked once their threads
 * are seized: from then on the kernel notifies the tracer.
 */
static struct stacksnap_error *look_for_execs(struct tree *tree, struct snap_stop *stop)
{
	size_t most = stop->process_count - tree->checked, count = 0;
	_cleanup_free_ size_t *processes = calloc(most + 1, sizeof(*processes));
	_cleanup_free_ struct snap_traced **traced = calloc(most + 1, sizeof(*traced));
	_cleanup_free_ bool *others = calloc(most + 1, sizeof(*others));

	SNAP_TRY(snap_no_memory_unless(processes && traced && others));
	for (; tree->checked < stop->process_count; tree->checked++) {
		struct snap_traced *one = &stop->processes[tree->checked];

		if (one->look_only || !one->seized || one->index == SIZE_MAX)
			continue;
		processes[count] = one->index;
		traced[count++] = one;
	}
	snap_discover_execs(tree->capture, processes, count, others);
	for (size_t i = 0; i < count; i++)
		traced[i]->execed |= others[i];
	return NULL;
}

/* The parent of each new process on the machine is read, and one process may not answer. */
static struct stacksnap_error *look_again(struct tree *tree, const struct snap_stop *stop,
					  bool *grown_ret)
{
	int64_t begin_ns = snap_clock_ns(CLOCK_MONOTONIC), lost_ns;
	struct stacksnap_error *err;

	snap_asker_set_patience(tree->capture->asker, stop->patience);
	err = snap_discover_again(tree->options, tree->capture, grown_ret);
	lost_ns = snap_clock_ns(CLOCK_MONOTONIC) - begin_ns;
	if (lost_ns > LONG_LOOK_NS)
		snap_stop_backoff_lose(tree->pace, lost_ns);
	return err;
}

static struct stacksnap_error *look_for_new_processes(void *context, struct snap_stop *stop,
						      bool *grown_ret)
{
	struct tree *tree = context;
	struct snap_capture *capture = tree->capture;
	size_t count = capture->process_count;
	uint32_t before = stop->process_count;
	bool grown;

	SNAP_TRY(look_for_execs(tree, stop));
	SNAP_TRY(look_again(tree, stop, &grown));
	SNAP_TRY(find_roots(tree->roots, capture));
	drop_belated(tree, count);
	/* What is kept has moved. */
	tree->roots->count = count;
	SNAP_TRY(find_roots(tree->roots, capture));
	add_processes(tree, stop, true);
	*grown_ret = stop->process_count > before;
	return NULL;
}

/* Which memory of their runtimes is to be copied of processes that look as if they had one. */
static struct stacksnap_error *probe_processes(void *context, struct snap_stop *stop)
{
	struct tree *tree = context;
	struct stacksnap_error *err = NULL;

	for (uint32_t i = 0; i < stop->process_count && !err; i++) {
		struct snap_traced *traced = &stop->processes[i];
		struct snap_process *process = &tree->capture->processes[traced->index];
		struct snap_memory_plan plan = { .step_count = 0 }, *kept;
		bool found = false;

		if (!traced->runtimes || traced->look_only)
			continue;
		process->maps = traced->maps;
		process->map_count = traced->map_count;
		process->credentials = traced->credentials;
		process->pieces = traced->pieces;
		process->piece_count = traced->piece_count;
		err = tree->hook->probe(tree->hook->context, tree->options, tree->capture,
					traced->index, &plan, &found);
		if (err || !found || !snap_memory_plan_check(&plan))
			continue;
		kept = snap_region_alloc(&tree->memory->records, sizeof(*kept));
		if (kept)
			*kept = plan;
		traced->plan = kept;
	}
	return err;
}

static void follow_stacks(void *context, struct snap_stop *stop)
{
	struct tree *tree = context;

	snap_follow_stopped(tree->hook, tree->capture, tree->memory, stop);
}

/* For the processes of the tree, and for new ones: a share, where there are many trees. */
static uint32_t room_for_tree(const struct tree *tree)
{
	size_t members = 0, trees = 0, spare;

	for (size_t i = 0; i < tree->roots->count; i++) {
		members += tree->roots->roots[i] == tree->root;
		trees += tree->roots->roots[i] == i;
	}
	spare = trees ? SPARE_ALL / trees : 0;
	if (spare > SPARE_MOST)
		spare = SPARE_MOST;
	if (spare < SPARE_LEAST)
		spare = SPARE_LEAST;
	return (uint32_t)(members + spare);
}

static struct stacksnap_error *run_stop(struct tree *tree, struct snap_stop **ret)
{
	const struct snap_stop_hook *hook = tree->hook;
	struct snap_shared_memory *memory = tree->memory;
	const struct snap_stop_again again = {
		.look = look_for_new_processes,
		.probe = hook && hook->probe && tree->options->runtimes ? probe_processes : NULL,
		.follow = hook && hook->follow ? follow_stacks : NULL,
		.context = tree,
	};
	struct stacksnap_error *err = find_roots(tree->roots, tree->capture);
	struct snap_stop *stop = err ? NULL : snap_stop_new(memory, room_for_tree(tree));

	if (err)
		return err;
	SNAP_TRY(snap_no_memory_unless(stop));
	stop->patience =
		snap_stop_backoff_patience(tree->pace, tree->capture->processes[tree->root].uid);
	stop->bpf_fd = tree->bpf_fd;
	stop->until_ns = tree->pace->no_stop_ns;
	stop->prepare_until_ns =
		snap_stop_backoff_prepare_until_ns(tree->pace, snap_clock_ns(CLOCK_MONOTONIC));
	tree->roots->taken[tree->root] = tree->any = true;
	tree->looked = tree->root;
	tree->checked = 0;
	add_processes(tree, stop, false);
	SNAP_TRY(stop->process_count ? snap_tracer_run(tree->options, hook, &again, memory, stop,
						       &tree->capture->tracer_fd)
				     : NULL);
	*ret = stop;
	return NULL;
}

/* What a stop has cost that a process has made longer. */
static void note_stalls(const struct tree *tree, const struct snap_stop *stop, int64_t ns)
{
	bool stalled = false;

	for (uint32_t i = 0; i < stop->process_count; i++) {
		const struct snap_traced *traced = &stop->processes[i];

		if (!traced->stalled && !traced->unresponsive && !traced->maps_cut)
			continue;
		snap_stop_backoff_blame(tree->pace, tree->capture->processes[traced->index].uid,
					ns);
		stalled = true;
	}
	if (stalled)
		snap_stop_backoff_lose(tree->pace, ns);
}

/* The letter of a process's leader now; 0: it is not known, or there is none. */
static char state_now(const struct snap_capture *capture, size_t process)
{
	int fd = capture->live[process].proc_fd;
	struct snap_status status;

	return fd >= 0 && snap_procfs_status(fd, &status) == 0 ? status.state : 0;
}

/*
 * A process that delays an exec sleeps in it; a process that waits for a processor cannot answer.
 */
static bool is_starved(const struct snap_capture *capture, const struct snap_traced *traced)
{
	return traced->unresponsive && traced->index < capture->process_count &&
	       state_now(capture, traced->index) == 'R';
}

static struct stacksnap_error *stop_tree(struct tree *tree, struct retry *retry)
{
	struct snap_capture *capture = tree->capture;
	struct snap_stop *stop = NULL;
	struct stacksnap_error *err = NULL;
	int64_t begin_ns = snap_clock_ns(CLOCK_MONOTONIC);

	SNAP_TRY(run_stop(tree, &stop));
	retry->stalled |= stop->stalled;
	if (stop->begin_ns && !capture->time_ns)
		capture->time_ns = stop->begin_ns + offset_ns(CLOCK_REALTIME);
	if (stop->still_ns)
		err = note_moment(tree->options, capture, stop->still_ns);
	err = err ?: snap_capture_collect(tree->options, capture, stop);
	for (uint32_t i = 0; i < stop->process_count; i++) {
		retry->execed |= stop->processes[i].execed;
		retry->starved |= is_starved(capture, &stop->processes[i]);
	}
	if (!err)
		note_stalls(tree, stop, snap_clock_ns(CLOCK_MONOTONIC) - begin_ns);
	return err;
}

/*
 * A process that did not respond will not have become quicker; and users whose processes cost much
 * come last.
 */
static bool is_to_wait(const struct tree *tree)
{
	const struct snap_capture *capture = tree->capture;

	for (size_t i = tree->root; i < tree->roots->count; i++)
		if (tree->roots->roots[i] == tree->root &&
		    capture->processes[i].trouble == SNAP_TROUBLE_NOT_RESPONDING)
			return true;
	return snap_stop_backoff_is_last(tree->pace, capture->processes[tree->root].uid);
}

/* The first tree is begun in any case: that some of it is shown is better than nothing. */
static bool is_too_late(const struct tree *tree)
{
	return tree->any && snap_clock_ns(CLOCK_MONOTONIC) > tree->pace->no_tree_ns;
}

/* All trees that are not to wait, then the others, until time or patience is over. */
static struct stacksnap_error *stop_trees(struct tree *tree, struct retry *retry)
{
	struct snap_capture *capture = tree->capture;
	struct stacksnap_error *err = NULL;

	for (unsigned round = 0; round < 2 && !err; round++) {
		for (size_t i = 0; i < capture->process_count && !err && !retry->again; i++) {
			err = find_roots(tree->roots, capture);
			tree->root = i;
			if (err || tree->roots->roots[i] != i || tree->roots->taken[i] ||
			    is_too_late(tree) || (round == 0 && is_to_wait(tree)))
				continue;
			err = stop_tree(tree, retry);
			retry->again = retry->stalled && may_retry(retry, tree->pace);
		}
	}
	return err;
}

/* What was left out for want of time is there, and says so. */
static void mark_left_out(struct snap_capture *capture, const struct roots *roots)
{
	for (size_t i = 0; i < roots->count; i++) {
		struct snap_process *process = &capture->processes[i];

		if (!roots->taken[roots->roots[i]] && !is_untouchable(process) && !is_dead(process))
			snap_capture_set_out_of_time(capture, process);
	}
}

/*
 * An exec ends all threads but one, which takes over the id of the process: a look meanwhile finds
 * a zombie, or threads that are gone when they are to be seized. Is there a process that has
 * not ended for all that (execve(2))?
 */
static bool is_any_lost(const struct snap_capture *capture)
{
	for (size_t i = 0; i < capture->process_count; i++) {
		enum snap_trouble trouble = capture->processes[i].trouble;

		/* Without a letter it has ended, too: strchr(3) finds the end of the text. */
		if ((trouble == SNAP_TROUBLE_EXITED || trouble == SNAP_TROUBLE_ZOMBIE) &&
		    !strchr("ZX", state_now(capture, i)))
			return true;
	}
	return false;
}

static struct stacksnap_error *check_guard(void)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	struct stacksnap_error *err = snap_procfs_open(NULL, &procfs);

	if (err || snap_guard_find(&procfs) != SNAP_GUARD_NONE)
		return err;
	return snap_error_format(
		SNAP_ERROR_OTHER,
		"cannot read threads without stopping them: this kernel has neither schedstat nor "
		"counts of context switches, so a thread that ran meanwhile would go unnoticed; "
		"leave out --no-stop");
}

static struct stacksnap_error *take_capture(const struct snap_options *options,
					    const struct snap_stop_hook *hook,
					    struct snap_stop_backoff *pace, struct retry *retry,
					    struct snap_capture **ret)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = NULL;
	_cleanup_(roots_deinit) struct roots roots = { .roots = NULL };
	_cleanup_fd_ int bpf_fd = -1;
	struct tree tree = { .options = options, .roots = &roots, .pace = pace, .hook = hook };
	struct snap_shared_memory *memory;

	if (options->no_stop) {
		SNAP_TRY(check_guard());
		return snap_nostop_take(options, hook, &retry->execed, ret);
	}
	SNAP_TRY(discover_tree(options, LOOK_PERCENT, &capture));
	SNAP_TRY(snap_shared_memory_create(options->max_snapshot + snap_stop_extra_bytes(options),
					   &memory));
	capture->shared = memory;
	capture->shared_size = memory->size;
	capture->shared_fd = memory->fd;
	tree.capture = capture;
	tree.memory = memory;
	snap_stop_backoff_again(pace);
	bpf_fd = tree.bpf_fd = snap_tracer_open_bpf(options, hook);
	SNAP_TRY(stop_trees(&tree, retry));
	retry->lost = is_any_lost(capture);
	mark_left_out(capture, &roots);
	if (!capture->time_ns)
		capture->time_ns = snap_clock_ns(CLOCK_REALTIME);
	*ret = snap_take_ptr(capture);
	return NULL;
}

static void warn_of_instants(struct snap_capture *capture)
{
	size_t taken[SNAP_TAKEN_COUNT] = { 0 };

	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];

		for (size_t k = 0; k < process->thread_count; k++)
			if (process->threads[k].result == SNAP_THREAD_COPIED)
				taken[process->threads[k].taken]++;
	}
	if (taken[SNAP_TAKEN_UNSTOPPED] + taken[SNAP_TAKEN_ALONE] < 2)
		return;
	snap_capture_warn(capture, "not_one_instant", 0, 0,
			  "threads were not read at one instant: %zu were read without a stop, %zu "
			  "were stopped one by one",
			  taken[SNAP_TAKEN_UNSTOPPED], taken[SNAP_TAKEN_ALONE]);
}

struct stacksnap_error *snap_capture_take(const struct snap_options *options,
					  const struct snap_stop_hook *hook,
					  struct snap_capture **ret)
{
	int64_t begin = snap_clock_ns(CLOCK_MONOTONIC);
	struct snap_capture *capture;
	struct stacksnap_error *err = NULL;
	struct snap_stop_backoff pace;
	struct retry retry = { .tries = 0 };

	snap_stop_backoff_begin(&pace, begin, options->timeout_ns);
	do {
		if (retry.tries)
			snap_capture_destroy(capture);
		retry = (struct retry){ .tries = retry.tries + 1 };
		SNAP_TRY(take_capture(options, hook, &pace, &retry, &capture));
	} while (retry.again || may_retry(&retry, &pace));
	if (retry.stalled)
		snap_capture_warn(capture, "stop_held", 0, 0,
				  "some processes could not be stopped: the tracer was blocked "
				  "repeatedly");
	if (retry.execed)
		snap_capture_warn(capture, "execed", 0, 0,
				  "processes executed other programs while the tree was read: "
				  "names and arguments may be those of the previous program");
	if (options->no_stop)
		warn_of_instants(capture);
	err = note_moment(options, capture, snap_clock_ns(CLOCK_MONOTONIC));
	if (err) {
		snap_capture_destroy(capture);
		return err;
	}
	if (capture->waits)
		snap_capture_resolve_waits(options, capture, pace.no_stop_ns);
	capture->duration_ns = snap_clock_ns(CLOCK_MONOTONIC) - begin;
	*ret = capture;
	return NULL;
}
