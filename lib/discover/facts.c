/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Facts of the processes that were found: whether they still exist, the descriptors that keep their
 * files reachable, and their labels. A worker makes the reads that a process can block (ask.c):
 * first for all of them at once, what each is; then for some at a time, whether each is still the
 * same.
 */
#include "base/buffer.h"
#include "base/clock.h"
#include "discover/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	LIVE_EACH = 4,
	FEW = 8,         /* processes that are read together at least */
	LEAST_READ = 64, /* processes that are read even after the time is over */
};

/* ESRCH if it has gone, also if another process has its pid by now. */
static int take_stat(struct snap_discovery *run, struct snap_process *process,
		     const struct snap_stat *stat)
{
	const struct snap_host *host = &run->capture->host;
	uint64_t tick_ns = (uint64_t)(SNAP_NS_PER_S / host->ticks_per_second), since_boot;
	size_t length;

	if (stat->start_ticks != process->start_ticks)
		return -ESRCH;
	length = strlen(stat->name);
	process->state = stat->state;
	process->flags = stat->flags;
	process->caught = stat->caught;
	if (__builtin_mul_overflow(stat->run_ticks, tick_ns, &process->usage.cpu_ns) ||
	    __builtin_mul_overflow(stat->rss_pages, sysconf(_SC_PAGESIZE),
				   &process->usage.rss_bytes))
		process->usage = (struct snap_usage){ 0 };
	if (length && strcmp(process->name ? process->name : "", stat->name) != 0)
		process->name = snap_arena_strndup(&run->capture->arena, stat->name, length);
	if (!__builtin_mul_overflow(stat->start_ticks, tick_ns, &since_boot) &&
	    since_boot < INT64_MAX / 2)
		process->start_time_ns = host->boot_time_ns + (int64_t)since_boot;
	return 0;
}

/*
 * Marks a process that could not be read. It exists, or did a moment ago, so it must not look as if
 * it had exited.
 */
static void mark_unread(struct snap_discovery *run, struct snap_process *process, int error)
{
	bool denied = error == EACCES || error == EPERM;

	snap_process_set_trouble(run->capture, process,
				 denied ? SNAP_TROUBLE_PERMISSION_DENIED : SNAP_TROUBLE_INTERNAL,
				 "cannot read process %d: %s", (int)process->pid, strerror(error));
}

static void mark_vanished(struct snap_discovery *run, struct snap_process *process)
{
	process->vanished = true;
	snap_process_set_trouble(run->capture, process, SNAP_TROUBLE_EXITED,
				 "process %d exited while it was read", (int)process->pid);
}

static void mark_failed(struct snap_discovery *run, struct snap_process *process, int status)
{
	if (!snap_procfs_is_gone(status)) {
		mark_unread(run, process, -status);
		return;
	}
	mark_vanished(run, process);
	/* They were asked for by its number, which may have been another process's by then. */
	process->exe = process->args = NULL;
	process->args_size = 0;
	process->exe_deleted = false;
}

static bool is_want_of_descriptors(int status)
{
	return status == -EMFILE || status == -ENFILE || status == -ENOMEM;
}

static struct stacksnap_error *cannot_read(const struct snap_process *process, int status)
{
	return snap_error_os(-status, "cannot read process %d", (int)process->pid);
}

static void mark_silent(struct snap_discovery *run, struct snap_process *process,
			enum snap_ask_stage stage)
{
	snap_process_set_trouble(run->capture, process, SNAP_TROUBLE_NOT_RESPONDING,
				 "process %d does not respond: %s took too long", (int)process->pid,
				 stage == SNAP_ASK_PROGRAM ? "looking for the file of its program"
				 : stage == SNAP_ASK_STAT  ? "reading its state"
							   : "reading its arguments");
}

static bool is_zombie(const struct snap_stat *stat)
{
	return (stat->state == 'Z' || stat->state == 'X') && stat->threads <= 1;
}

bool snap_process_explain_state(struct snap_capture *capture, struct snap_process *process,
				const struct snap_stat *stat)
{
	int pid = (int)process->pid;

	if (is_zombie(stat))
		snap_process_set_trouble(
			capture, process, SNAP_TROUBLE_ZOMBIE,
			"process %d has exited and its parent %d has not reaped it yet (zombie)",
			pid, (int)stat->ppid);
	else if (stat->flags & SNAP_PF_KTHREAD)
		snap_process_set_trouble(capture, process, SNAP_TROUBLE_KERNEL_THREAD,
					 "%d is a kernel thread and has no user stacks: --kernel "
					 "shows that of the kernel, for root",
					 pid);
	else
		return false;
	return true;
}

static bool has_exited(int pidfd)
{
	struct pollfd wait = { .fd = pidfd, .events = POLLIN };

	return poll(&wait, 1, 0) > 0;
}

static bool is_process_there(int process_fd)
{
	uid_t owner;

	return snap_procfs_owner(process_fd, "stat", &owner) == 0;
}

/* The answer of a process to the first question. */
struct reported {
	enum snap_answer_kind kind;
	enum snap_ask_stage stage;
};

struct reading {
	size_t index, number; /* in the capture; in the list for the second question */
	struct reported reported;
	int fd, files_fd; /* its directory; that of a thread that its leader left behind */
	bool is_whole;    /* all of its descriptors are wanted */
};

/*
 * Keeps descriptors that are opened once: by them the files of a process are found after it has
 * gone. A worker has opened them by pid, so they are this process's only if it still exists.
 */
static void keep_live(struct snap_discovery *run, struct snap_live *live, struct reading *reading)
{
	live->proc_fd = snap_take_fd(&reading->fd);
	live->files_fd = snap_take_fd(&reading->files_fd);
	run->live_budget -= 1 + (live->files_fd >= 0);
	if (!reading->is_whole)
		return;
	if (is_process_there(live->proc_fd))
		snap_asker_take_files(run->asker, reading->number, &live->root_fd, &live->exe_fd);
	run->live_budget -= LIVE_EACH - 1;
	run->whole_budget -= LIVE_EACH;
}

/* Without its stat, see ask.c. */
static int take_state(int fd, struct snap_stat *stat)
{
	struct snap_status status;
	int error = snap_procfs_status(fd, &status);

	if (error)
		return error;
	stat->state = status.state;
	stat->threads = status.threads;
	stat->ppid = status.ppid;
	return 0;
}

/* A state that cannot be read now counts as unchanged. */
static bool has_gone_meanwhile(const struct snap_live *live, int fd, struct snap_stat *stat)
{
	return (live->pidfd < 0 || has_exited(live->pidfd)) &&
	       snap_procfs_is_gone(take_state(fd, stat));
}

/* The stat as it was when the process was found. */
static struct snap_stat stat_of_process(const struct snap_process *process)
{
	return (struct snap_stat){ .pid = process->pid,
				   .state = process->state,
				   .ppid = process->ppid,
				   .flags = process->flags,
				   .caught = process->caught,
				   .threads = 1,
				   .start_ticks = process->start_ticks };
}

/*
 * Identity: the scan saw a start time, then the pidfd and the directory are opened, then a worker
 * reads the start time. If both are equal, all of these are the same process.
 */
static struct stacksnap_error *read_process_facts(struct snap_discovery *run,
						  struct reading *reading,
						  struct snap_process *process,
						  struct snap_live *live,
						  const struct snap_answer *now)
{
	bool is_late = now->kind == SNAP_ANSWER_LATE;
	struct snap_stat stat =
		now->kind == SNAP_ANSWER_GIVEN ? now->stat : stat_of_process(process);
	int status = now->kind == SNAP_ANSWER_GIVEN ? (int)now->args_size : 0;
	char state = 0;

	/*
	 * A leader that an exec has just released; another thread has its tid by now (de_thread()).
	 */
	if (status == 0 && stat.threads == 0)
		(void)take_state(reading->fd, &stat);
	if (status == 0)
		status = take_stat(run, process, &stat);
	if (is_want_of_descriptors(status))
		return cannot_read(process, status);
	if (status != 0) {
		snap_close(&live->pidfd);
		mark_failed(run, process, status);
		return NULL;
	}
	if (now->kind != SNAP_ANSWER_GIVEN)
		(void)take_state(reading->fd, &stat);
	/* A thread that the leader left behind still has what the leader has lost. */
	if (snap_stat_has_left(&stat))
		reading->files_fd = snap_procfs_open_survivor(run->procfs, reading->fd, &state);
	snap_discovery_read_owner(run, process, reading->fd);
	SNAP_TRY(snap_no_memory_unless(snap_discovery_read_groups(
		run, process, reading->files_fd < 0 ? reading->fd : reading->files_fd)));
	if (has_gone_meanwhile(live, reading->fd, &stat))
		mark_vanished(run, process);
	else if (!snap_process_explain_state(run->capture, process, &stat) &&
		 (is_late || reading->reported.kind == SNAP_ANSWER_LATE))
		mark_silent(run, process, is_late ? now->stage : reading->reported.stage);
	/* The state of a process is that of its leader, or of a thread that is left. */
	if (reading->files_fd >= 0 && process->trouble == SNAP_TROUBLE_NONE)
		process->state = state;
	if (run->live_budget <= 0 || process->trouble != SNAP_TROUBLE_NONE)
		snap_close(&live->pidfd);
	else
		keep_live(run, live, reading);
	return NULL;
}

static bool take_known(struct snap_discovery *run, struct snap_process *process)
{
	const struct snap_process *known =
		snap_discovery_known(run, process->pid, process->start_ticks);
	size_t parent = process->parent;
	pid_t ppid = process->ppid;

	if (!known)
		return false;
	*process = *known;
	process->parent = parent;
	process->ppid = ppid;
	return true;
}

static bool is_to_be_asked(const struct snap_discovery *run, const struct snap_process *process)
{
	return process->trouble == SNAP_TROUBLE_NONE && !(process->flags & SNAP_PF_KTHREAD) &&
	       !snap_discovery_known(run, process->pid, process->start_ticks);
}

struct stacksnap_error *snap_discovery_need_asker(struct snap_discovery *run)
{
	struct stacksnap_error *err = NULL;

	if (!run->asker) {
		err = snap_asker_new_on(run->procfs, 0, &run->asker);
		run->owns_asker = !err;
	}
	return err;
}

/* The end of the time for facts, from now on; 0: no limit. */
static int64_t facts_until(const struct snap_discovery *run)
{
	return run->facts_ns ? snap_clock_ns(CLOCK_MONOTONIC) + run->facts_ns : 0;
}

static void mark_out_of_time(struct snap_discovery *run, struct snap_process *process)
{
	snap_process_set_trouble(run->capture, process, SNAP_TROUBLE_OUT_OF_TIME,
				 "process %d was not read: too many processes for the time of the "
				 "run (see --timeout)",
				 (int)process->pid);
}

/* Asks all new processes in one list: many that do not respond cost the time of one. */
static struct stacksnap_error *ask_new_processes(struct snap_discovery *run, const size_t *turns)
{
	const struct snap_capture *capture = run->capture;
	size_t fresh = capture->process_count - run->facts_count, count = 0;

	for (size_t i = 0; i < fresh; i++) {
		const struct snap_process *process = &capture->processes[turns[i]];

		if (!is_to_be_asked(run, process))
			continue;
		SNAP_TRY(count ? NULL : snap_discovery_need_asker(run));
		if (!count++)
			snap_asker_begin(run->asker, fresh);
		snap_asker_add(run->asker, process->pid);
	}
	if (count)
		snap_asker_run(run->asker, run->ask_ns, facts_until(run));
	return NULL;
}

static void warn_not_asked(struct snap_discovery *run, size_t count)
{
	if (count)
		snap_capture_warn(run->capture, "facts_missing", 0, 0,
				  "cannot read the arguments of %zu processes in time", count);
}

/* Whether a process was not asked for want of time, and will be asked later. */
static bool will_be_asked_later(const struct snap_discovery *run, enum snap_answer_kind kind)
{
	return kind == SNAP_ANSWER_NOT_ASKED && run->known && run->known->facts_ns;
}

/* Takes the answers of the new processes; reported[] is by turn. */
static struct stacksnap_error *take_answers(struct snap_discovery *run, const size_t *turns,
					    struct reported *reported)
{
	const struct snap_capture *capture = run->capture;
	size_t fresh = capture->process_count - run->facts_count, asked = 0, not_asked = 0;

	for (size_t i = 0; i < fresh; i++, reported++) {
		struct snap_process *process = &capture->processes[turns[i]];
		struct snap_answer answer;

		*reported = (struct reported){ .kind = SNAP_ANSWER_GIVEN };
		if (!is_to_be_asked(run, process))
			continue;
		answer = snap_asker_answer(run->asker, asked++);
		*reported = (struct reported){ answer.kind, answer.stage };
		SNAP_TRY(snap_no_memory_unless(snap_discovery_keep_program(run, process, &answer)));
		not_asked += answer.kind == SNAP_ANSWER_NOT_ASKED &&
			     !will_be_asked_later(run, answer.kind);
	}
	warn_not_asked(run, not_asked);
	return NULL;
}

/* The processes that are read together, with one question to all of them. */
struct readings {
	struct reading list[SNAP_ASK_FILES];
	size_t count;
	size_t done; /* processes that were read before */
	int64_t until_ns;
	const size_t *turns; /* which processes */
	size_t turn, turn_count;
	const struct reported *reported; /* by turn */
};

static void close_readings(struct readings *readings)
{
	for (size_t i = 0; i < readings->count; i++) {
		snap_close(&readings->list[i].fd);
		snap_close(&readings->list[i].files_fd);
	}
	readings->count = 0;
}

/* Their descriptors are open together, so not more than can be kept, or a few. */
static size_t most_readings(const struct snap_discovery *run)
{
	long most = run->live_budget / (LIVE_EACH + 1);

	return most < FEW ? FEW : most > SNAP_ASK_FILES ? SNAP_ASK_FILES : (size_t)most;
}

static bool is_out_of_time(const struct snap_discovery *run, const struct readings *readings,
			   enum snap_answer_kind kind)
{
	return readings->until_ns && readings->done + readings->count >= LEAST_READ &&
	       (snap_clock_ns(CLOCK_MONOTONIC) >= readings->until_ns ||
		will_be_asked_later(run, kind));
}

/* Opens the next ones, without a call that a process can block. */
static struct stacksnap_error *open_readings(struct snap_discovery *run, struct readings *readings)
{
	struct snap_capture *capture = run->capture;
	size_t most = most_readings(run);
	long whole = run->procfs->live ? run->whole_budget : 0;

	for (; readings->turn < readings->turn_count && readings->count < most; readings->turn++) {
		const struct reported *reported = &readings->reported[readings->turn];
		size_t index = readings->turns[readings->turn];
		struct snap_process *process = &capture->processes[index];
		struct reading *reading = &readings->list[readings->count];

		if (process->trouble != SNAP_TROUBLE_NONE || take_known(run, process))
			continue;
		if (is_out_of_time(run, readings, reported->kind)) {
			mark_out_of_time(run, process);
			continue;
		}
		*reading = (struct reading){ .index = index,
					     .number = readings->count,
					     .reported = *reported,
					     .files_fd = -1,
					     .is_whole = whole >= LIVE_EACH };
		whole -= LIVE_EACH;
		if (reading->is_whole)
			capture->live[reading->index].pidfd = pidfd_open(process->pid, 0);
		reading->fd = snap_procfs_open_process(run->procfs, process->pid);
		if (reading->fd >= 0) {
			readings->count++;
			continue;
		}
		snap_close(&capture->live[reading->index].pidfd);
		/* It has its turn after descriptors that are not kept have been closed. */
		if (is_want_of_descriptors(reading->fd) && readings->count)
			return NULL;
		if (is_want_of_descriptors(reading->fd))
			return cannot_read(process, reading->fd);
		mark_failed(run, process, reading->fd);
	}
	return NULL;
}

/* A process that did not answer before is not asked again. */
static struct stacksnap_error *ask_readings(struct snap_discovery *run, struct readings *readings)
{
	size_t count = 0;

	SNAP_TRY(snap_discovery_need_asker(run));
	snap_asker_begin(run->asker, readings->count);
	for (size_t i = 0; i < readings->count; i++) {
		struct reading *reading = &readings->list[i];

		if (reading->reported.kind == SNAP_ANSWER_LATE)
			continue;
		reading->number = count++;
		snap_asker_add(run->asker, run->capture->processes[reading->index].pid);
		if (reading->is_whole)
			snap_asker_want_files(run->asker);
	}
	if (count)
		snap_asker_run_files(run->asker, run->ask_ns, readings->until_ns);
	return NULL;
}

static struct stacksnap_error *take_readings(struct snap_discovery *run, struct readings *readings)
{
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < readings->count && !err; i++) {
		struct reading *reading = &readings->list[i];
		struct snap_process *process = &run->capture->processes[reading->index];
		struct snap_live *live = &run->capture->live[reading->index];
		struct snap_answer now = { .kind = SNAP_ANSWER_NOT_ASKED };

		SNAP_TRY(snap_options_check(run->options));
		if (reading->reported.kind != SNAP_ANSWER_LATE)
			now = snap_asker_answer(run->asker, reading->number);
		if (reading->reported.kind != SNAP_ANSWER_LATE &&
		    will_be_asked_later(run, now.kind)) {
			snap_close(&live->pidfd);
			mark_out_of_time(run, process);
			continue;
		}
		err = read_process_facts(run, reading, process, live, &now);
		readings->done++;
	}
	return err;
}

/* Reads ancestors of processes that have none yet; a parent comes before its children. */
static struct stacksnap_error *read_all_ancestors(struct snap_discovery *run, size_t first)
{
	const struct snap_capture *capture = run->capture;
	struct stacksnap_error *err = NULL;

	for (size_t i = first; i < capture->process_count && !err; i++) {
		struct snap_process *process = &capture->processes[i];

		if (!snap_discovery_known(run, process->pid, process->start_ticks))
			err = snap_discovery_read_ancestors(run, process);
	}
	return err;
}

static struct stacksnap_error *read_in_turns(struct snap_discovery *run, struct readings *readings)
{
	struct stacksnap_error *err;

	while (readings->turn < readings->turn_count) {
		err = open_readings(run, readings);
		if (!err && readings->count)
			err = ask_readings(run, readings);
		err = err ?: take_readings(run, readings);
		close_readings(readings);
		if (err)
			return err;
	}
	return NULL;
}

struct stacksnap_error *snap_discovery_facts(struct snap_discovery *run)
{
	size_t first = run->facts_count, count = run->capture->process_count - first;
	_cleanup_free_ struct readings *readings = calloc(1, sizeof(*readings));
	_cleanup_free_ struct reported *reported = calloc(count + 1, sizeof(*reported));
	_cleanup_free_ size_t *turns = NULL;
	struct stacksnap_error *err = NULL;

	SNAP_TRY(snap_no_memory_unless(readings && reported));
	SNAP_TRY(snap_discovery_turns(run, &turns));
	SNAP_TRY(ask_new_processes(run, turns));
	SNAP_TRY(take_answers(run, turns, reported));
	readings->turns = turns;
	readings->turn_count = count;
	readings->reported = reported;
	readings->until_ns = facts_until(run);
	err = read_in_turns(run, readings);
	run->facts_count = run->capture->process_count;
	return err ? err : read_all_ancestors(run, first);
}
