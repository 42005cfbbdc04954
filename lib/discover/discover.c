/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Discover: see discover.h. First the tree is read, as fast as possible, since it changes
 * meanwhile; then what takes longer, process by process.
 */
#include "discover/discover.h"

#include "base/clock.h"
#include "discover/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

enum {
	LIVE_OTHERS = 64,         /* descriptors left to the program, or a quarter of all */
	LIVE_MOST = 1 << 16,      /* at any limit */
	ASK_NS = 1000000000,      /* the cost of processes that do not respond, at most */
	ASK_AGAIN_NS = 400000000, /* the same while others are seized */
	FIND_PARTS = 3,
	LEAST_PART_NS =
		250000000, /* of the time of a run, to find out which processes do not respond */
};

/*
 * A library does not raise the limit of descriptors of its program. Half of its share goes to
 * processes that get all four descriptors. Then others get their directory alone, then none;
 * snap_discover_open() serves these.
 */
static void share_out_descriptors(struct snap_discovery *run)
{
	const struct snap_capture *capture = run->capture;
	struct rlimit limit = { 0 };
	long most = 0;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		most = limit.rlim_cur > LIVE_MOST ? LIVE_MOST : (long)limit.rlim_cur;
	most -= most / 4 > LIVE_OTHERS ? most / 4 : LIVE_OTHERS;
	run->live_budget = most;
	run->whole_budget = most / 2;
	for (size_t i = 0; capture->live && i < capture->process_count; i++) {
		long count = snap_live_count(&capture->live[i]);

		run->live_budget -= count;
		run->whole_budget -= count > 1 ? count : 0;
	}
}

struct stacksnap_error *snap_discovery_init(struct snap_discovery *run,
					    const struct snap_options *options,
					    struct snap_capture *capture,
					    const struct snap_procfs *procfs, pid_t self)
{
	*run = (struct snap_discovery){
		.options = options,
		.capture = capture,
		.procfs = procfs,
		.facts_count = capture->process_count,
		.ask_ns = ASK_NS,
	};
	share_out_descriptors(run);
	snap_seen_init(&run->table, procfs, self);
	return NULL;
}

void snap_discovery_deinit(struct snap_discovery *run)
{
	snap_seen_deinit(&run->table);
	free(run->users);
	if (run->owns_asker)
		snap_asker_destroy(run->asker);
}

/* ---- the machine ---- */

/*
 * Start times count from boot. The difference between that clock and the wall clock changes only
 * when the clock is set. Rounding hides the time between the two reads, so that two runs agree.
 */
static int64_t boot_time_ns(void)
{
	int64_t before = snap_clock_ns(CLOCK_BOOTTIME);
	int64_t now = snap_clock_ns(CLOCK_REALTIME);
	int64_t after = snap_clock_ns(CLOCK_BOOTTIME);
	int64_t boot = now - before - (after - before) / 2;

	return (boot + SNAP_NS_PER_MS / 2) / SNAP_NS_PER_MS * SNAP_NS_PER_MS;
}

struct stacksnap_error *snap_discovery_host(struct snap_capture *capture,
					    const struct snap_procfs *procfs)
{
	struct snap_host *host = &capture->host;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), ticks = sysconf(_SC_CLK_TCK);
	struct utsname names;
	char boot_id[64];
	ssize_t length;

	host->cpus = cpus > 0 ? (unsigned)cpus : 1;
	host->ticks_per_second = ticks > 0 ? ticks : 100;
	host->boot_time_ns = boot_time_ns();
	if (uname(&names) == 0) {
		host->name = snap_arena_strdup(&capture->arena, names.nodename);
		host->kernel = snap_arena_strdup(&capture->arena, names.release);
		host->arch = snap_arena_strdup(&capture->arena, names.machine);
		SNAP_TRY(snap_no_memory_unless(host->name && host->kernel && host->arch));
	}
	length = snap_procfs_system_read(procfs, "sys/kernel/random/boot_id", boot_id,
					 sizeof(boot_id));
	if (length > 0) {
		host->boot_id =
			snap_arena_strndup(&capture->arena, boot_id, strcspn(boot_id, "\n"));
		SNAP_TRY(snap_no_memory_unless(host->boot_id));
	}
	return NULL;
}

/* ---- a run ---- */

/* Remembers pids that snap_discover_again() need not read. */
static struct stacksnap_error *remember_pids(struct snap_discovery *run)
{
	struct snap_capture *capture = run->capture;
	const struct snap_seen_table *table = &run->table;

	if (!table->pid_count)
		return NULL;
	capture->seen =
		snap_arena_memdup(&capture->arena, table->pids, table->pid_count * sizeof(pid_t));
	SNAP_TRY(snap_no_memory_unless(capture->seen));
	capture->seen_count = table->pid_count;
	return NULL;
}

static struct stacksnap_error *nothing_found(const struct snap_capture *capture)
{
	if (!capture->warning_count)
		return snap_error_format(SNAP_ERROR_NOT_FOUND, "no processes to show");
	return snap_error_format(SNAP_ERROR_NOT_FOUND, "%s",
				 capture->warnings[capture->warning_count - 1].message);
}

static void warn_unseen(struct snap_discovery *run)
{
	if (run->table.unseen)
		snap_capture_warn(run->capture, "processes_late", 0, 0,
				  "too many processes for the time of the run (see --timeout): "
				  "%zu were not read, and may be missing",
				  run->table.unseen);
}

struct stacksnap_error *snap_discovery_run(struct snap_discovery *run)
{
	struct stacksnap_error *err = NULL;

	SNAP_TRY(snap_discovery_host(run->capture, run->procfs));
	if (run->options->children || snap_options_look_for_targets(run->options))
		err = snap_seen_scan(&run->table);
	if (err)
		return err;
	SNAP_TRY(snap_discovery_match(run));
	SNAP_TRY(snap_seen_link(&run->table));
	SNAP_TRY(snap_options_check(run->options));
	SNAP_TRY(snap_discovery_add_trees(run));
	if (!run->capture->process_count && (!run->known || !run->known->find))
		return nothing_found(run->capture);
	SNAP_TRY(run->options->children ? snap_discovery_add_descendants(run) : NULL);
	warn_unseen(run);
	SNAP_TRY(snap_discovery_facts(run));
	return remember_pids(run);
}

/*
 * Every pid in procfs is one of the pid namespace that procfs was mounted in; system calls take
 * those of the caller's. Mixing them would stop foreign processes.
 */
static struct stacksnap_error *open_procfs(struct snap_procfs *ret)
{
	pid_t self;

	SNAP_TRY(snap_procfs_open(NULL, ret));
	self = snap_procfs_self(ret);
	if (self == getpid())
		return NULL;
	snap_procfs_close(ret);
	/* Without a pid of this process there is no link. */
	if (self < 0 && !snap_procfs_is_gone(self))
		return snap_error_os(-self,
				     "cannot read processes: cannot read the link self of procfs");
	return snap_error_format(SNAP_ERROR_OTHER,
				 "cannot read processes: procfs belongs to another pid namespace "
				 "(mount one in this namespace)");
}

/* The process that is not shown: the program that asked, if this is another process. */
static pid_t self_of(const struct snap_options *options)
{
	return options->self ? options->self : getpid();
}

/* Opens procfs and a run over it; both are released by the caller, also after an error. */
static struct stacksnap_error *begin_discovery(struct snap_discovery *run,
					       const struct snap_options *options,
					       struct snap_capture *capture,
					       struct snap_procfs *procfs)
{
	SNAP_TRY(open_procfs(procfs));
	return snap_discovery_init(run, options, capture, procfs, self_of(options));
}

/*
 * `part_ns`: the time for asking the processes that were found, and again for reading them;
 * FIND_PARTS times as long for finding them, as it is unknown how many of them matter; 0: no limit.
 */
static struct stacksnap_error *discover(const struct snap_options *options,
					const struct snap_discover_known *known,
					struct snap_asker *asker, int64_t part_ns,
					struct snap_capture *capture)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	_cleanup_(snap_discovery_deinit) struct snap_discovery run = { .asker = NULL };

	SNAP_TRY(begin_discovery(&run, options, capture, &procfs));
	run.known = known;
	run.asker = run.table.asker = asker;
	run.facts_ns = part_ns || !known ? part_ns : known->facts_ns;
	run.table.until_ns = part_ns ? snap_clock_ns(CLOCK_MONOTONIC) + FIND_PARTS * part_ns : 0;
	if (known) {
		run.live_budget = known->descriptors;
		run.whole_budget = known->descriptors / 2;
	}
	return snap_discovery_run(&run);
}

static int64_t part_of_time(const struct snap_options *options, unsigned percent)
{
	int64_t part_ns = options->timeout_ns / 100 * percent;

	return part_ns && part_ns < LEAST_PART_NS ? LEAST_PART_NS : part_ns;
}

struct stacksnap_error *snap_discover_with(const struct snap_options *options,
					   const struct snap_discover_known *known,
					   struct snap_capture *capture)
{
	return discover(options, known, known->asker, part_of_time(options, known->percent),
			capture);
}

struct stacksnap_error *snap_discover(const struct snap_options *options, unsigned percent,
				      struct snap_capture *capture)
{
	SNAP_TRY(snap_asker_new(0, &capture->asker));
	capture->end_asker = snap_asker_destroy;
	/* The worker is ready by the time the processes are known. */
	snap_asker_prepare(capture->asker, options->explain != SNAP_EXPLAIN_NO);
	return discover(options, NULL, capture->asker, part_of_time(options, percent), capture);
}

void snap_discover_end(struct snap_capture *capture)
{
	if (capture->end_asker)
		capture->end_asker(capture->asker);
	capture->asker = NULL;
	capture->end_asker = NULL;
}

struct stacksnap_error *snap_discover_one(const struct snap_options *options,
					  const struct snap_process *process, long descriptors,
					  struct snap_asker *asker, struct snap_capture *capture)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	_cleanup_(snap_discovery_deinit) struct snap_discovery run = { 0 };
	struct snap_process *added;

	SNAP_TRY(begin_discovery(&run, options, capture, &procfs));
	run.asker = run.table.asker = asker;
	run.live_budget = run.whole_budget = descriptors;
	SNAP_TRY(snap_discovery_host(capture, &procfs));
	SNAP_TRY(snap_discovery_append(&run, process->pid, SIZE_MAX, &added));
	added->start_ticks = process->start_ticks;
	added->ppid = process->ppid;
	added->program = process->program;
	added->args_start = process->args_start;
	added->args_end = process->args_end;
	return snap_discovery_facts(&run);
}

/* Restores the table of the last call: members of the tree, and pids that do not matter. */
static struct stacksnap_error *recall_table(struct snap_discovery *run)
{
	const struct snap_capture *capture = run->capture;

	for (size_t i = 0; i < capture->seen_count; i++) {
		struct snap_seen seen = { .stat.pid = capture->seen[i],
					  .blank = true,
					  .index = SIZE_MAX };

		SNAP_TRY(snap_seen_know(&run->table, &seen));
	}
	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];
		struct snap_seen seen = { .stat.pid = process->pid,
					  .stat.ppid = process->ppid,
					  .stat.start_ticks = process->start_ticks,
					  .index = i };
		struct snap_seen *known = snap_seen_find(&run->table, process->pid);

		if (known)
			*known = seen;
		SNAP_TRY(snap_seen_know(&run->table, &seen));
	}
	return NULL;
}

struct stacksnap_error *snap_discover_again(const struct snap_options *options,
					    struct snap_capture *capture, bool *grown_ret)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	_cleanup_(snap_discovery_deinit) struct snap_discovery run = { 0 };
	size_t count = capture->process_count;

	*grown_ret = false;
	if (!options->children)
		return NULL;
	SNAP_TRY(open_procfs(&procfs));
	SNAP_TRY(snap_discovery_init(&run, options, capture, &procfs, self_of(options)));
	run.asker = run.table.asker = capture->asker;
	run.ask_ns = ASK_AGAIN_NS;
	SNAP_TRY(recall_table(&run));
	SNAP_TRY(snap_discovery_add_descendants(&run));
	SNAP_TRY(snap_discovery_facts(&run));
	*grown_ret = capture->process_count > count;
	return remember_pids(&run);
}

void snap_discover_execs(struct snap_capture *capture, const size_t *processes, size_t count,
			 bool *others_ret)
{
	struct snap_asker *asker = capture->asker;

	memset(others_ret, 0, count * sizeof(*others_ret));
	if (!asker || !count)
		return;
	snap_asker_begin(asker, count);
	for (size_t i = 0; i < count; i++)
		snap_asker_add(asker, capture->processes[processes[i]].pid);
	snap_asker_run_stats(asker, ASK_AGAIN_NS, 0);
	for (size_t i = 0; i < count; i++) {
		const struct snap_process *process = &capture->processes[processes[i]];
		struct snap_answer answer = snap_asker_answer(asker, i);

		others_ret[i] = answer.kind == SNAP_ANSWER_GIVEN && answer.args_size == 0 &&
				answer.stat.start_ticks == process->start_ticks &&
				snap_stat_is_other(&answer.stat, process->program);
	}
}

int snap_discover_open(const struct snap_process *process)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	_cleanup_fd_ int fd = -1;
	struct snap_stat stat;
	int status;

	/* A process that did not respond is not asked again. */
	if (process->trouble == SNAP_TROUBLE_NOT_RESPONDING ||
	    snap_error_ignore(snap_procfs_open(NULL, &procfs)))
		return -ESRCH;
	fd = snap_procfs_open_process(&procfs, process->pid);
	if (fd < 0)
		return fd;
	status = snap_procfs_stat(fd, &stat);
	return status == 0 && stat.start_ticks == process->start_ticks ? snap_take_fd(&fd) : -ESRCH;
}
