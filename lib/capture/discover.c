/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Discover: see discover.h. First the tree, as fast as it can be read, since it changes meanwhile;
 * then what takes longer, one process after the other.
 */
#include "capture/discover.h"

#include "capture/discover_run.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

enum {
	MAX_LOOKS = 10,      /* at a tree that does not stand still */
	LIVE_OTHERS = 64,    /* descriptors left to everybody else at least, and a quarter of all */
	LIVE_MOST = 1 << 16, /* whatever the limit */
};

/*
 * A library does not raise its host's limit of descriptors. Half of its share of it goes to
 * processes that get all that is of use, then others get their directory alone, then none;
 * snap_discover_open() is there for these.
 */
static void share_descriptors(struct snap_discovery *run)
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
		const struct snap_live *live = &capture->live[i];
		long count = (live->pidfd >= 0) + (live->proc_fd >= 0) + (live->root_fd >= 0) +
			     (live->exe_fd >= 0);

		run->live_budget -= count;
		run->whole_budget -= count > 1 ? count : 0;
	}
}

struct snap_error *snap_discovery_init(struct snap_discovery *run,
				       const struct snap_options *options,
				       struct snap_capture *capture,
				       const struct snap_procfs *procfs, pid_t self)
{
	*run = (struct snap_discovery){
		.options = options,
		.capture = capture,
		.procfs = procfs,
		.process_capacity = capture->process_count,
		.live_capacity = capture->live ? capture->process_count : 0,
		.facts_count = capture->process_count,
	};
	share_descriptors(run);
	snap_table_init(&run->table, procfs, self);
	run->buffer = malloc(SNAP_MAX_ARGS);
	return run->buffer ? NULL : snap_error_no_memory();
}

void snap_discovery_deinit(struct snap_discovery *run)
{
	snap_table_deinit(&run->table);
	free(run->users);
	free(run->buffer);
}

/* The list lives in the arena: growing it leaves the old one behind, less than the list again. */
static struct snap_error *make_room(struct snap_discovery *run)
{
	struct snap_capture *capture = run->capture;
	size_t room = run->process_capacity * 2 + 8;
	struct snap_process *processes;
	struct snap_live *live;

	if (capture->process_count < run->process_capacity)
		return NULL;
	live = reallocarray(capture->live, room, sizeof(*live));
	if (!live)
		return snap_error_no_memory();
	capture->live = live;
	processes = snap_arena_new_array(&capture->arena, room, struct snap_process);
	if (!processes)
		return snap_error_no_memory();
	if (capture->process_count)
		memcpy(processes, capture->processes, capture->process_count * sizeof(*processes));
	capture->processes = processes;
	run->process_capacity = room;
	return NULL;
}

struct snap_error *snap_discovery_append(struct snap_discovery *run, pid_t pid, size_t parent,
					 struct snap_process **ret)
{
	struct snap_capture *capture = run->capture;
	struct snap_error *err = make_room(run);

	if (err)
		return err;
	capture->live[capture->process_count] = (struct snap_live){ -1, -1, -1, -1 };
	*ret = &capture->processes[capture->process_count++];
	**ret = (struct snap_process)
	{
		.pid = pid, .parent = parent, .uid = (uid_t)-1,
#if defined(__x86_64__)
		.arch = SNAP_ARCH_X86_64,
#elif defined(__aarch64__)
		.arch = SNAP_ARCH_AARCH64,
#endif
	};
	return NULL;
}

static struct snap_error *add_seen(struct snap_discovery *run, struct snap_seen *seen,
				   size_t parent)
{
	struct snap_process *process;
	struct snap_error *err;

	err = snap_discovery_append(run, seen->stat.pid, parent, &process);
	if (err)
		return err;
	seen->index = run->capture->process_count - 1;
	process->ppid = seen->stat.ppid;
	process->start_ticks = seen->stat.start_ticks;
	process->state = seen->stat.state;
	process->flags = seen->stat.flags;
	process->is_target = seen->named;
	process->name = snap_arena_strdup(&run->capture->arena, seen->stat.name);
	return process->name ? NULL : snap_error_no_memory();
}

/* Adds the children of processes[first] and later, and theirs. */
static struct snap_error *grow(struct snap_discovery *run, size_t first)
{
	struct snap_capture *capture = run->capture;

	for (size_t i = first; i < capture->process_count; i++) {
		const struct snap_child *children;
		size_t count;

		children = snap_table_children(&run->table, capture->processes[i].pid, &count);
		for (size_t k = 0; k < count; k++) {
			struct snap_seen *seen = snap_table_find(&run->table, children[k].pid);
			struct snap_seen *parent =
				seen ? snap_table_parent(&run->table, seen) : NULL;
			struct snap_error *err;

			if (!parent || parent->index != i || seen->index != SIZE_MAX || seen->own)
				continue;
			if (!run->options->children && !seen->matched)
				continue;
			if (capture->process_count >= SNAP_MAX_PROCESSES)
				return NULL;
			err = add_seen(run, seen, i);
			if (err)
				return err;
		}
	}
	return NULL;
}

static struct snap_seen *above(const struct snap_discovery *run, const struct snap_seen *seen)
{
	return seen->own ? NULL : snap_table_parent(&run->table, seen);
}

/*
 * Whether a matched process stands above one, so that it is found from there. The way up ends
 * where the answer is known; then it is written down along the way.
 */
static bool is_under_match(struct snap_discovery *run, struct snap_seen *seen)
{
	enum snap_under answer = seen->under;
	struct snap_seen *at = seen, *parent;

	if (!run->options->children) {
		parent = above(run, seen);
		return parent && parent->matched;
	}
	for (size_t step = 0; answer == SNAP_UNDER_UNKNOWN && step <= run->table.count; step++) {
		parent = above(run, at);
		if (parent && !parent->matched)
			answer = parent->under;
		else
			answer = parent ? SNAP_UNDER_MATCH : SNAP_UNDER_NONE;
		at = parent;
	}
	for (at = seen; at && at->under == SNAP_UNDER_UNKNOWN; at = parent) {
		at->under = answer == SNAP_UNDER_MATCH ? SNAP_UNDER_MATCH : SNAP_UNDER_NONE;
		parent = above(run, at);
		if (parent && parent->matched)
			break;
	}
	return answer == SNAP_UNDER_MATCH;
}

static struct snap_error *add_root(struct snap_discovery *run, struct snap_seen *seen)
{
	size_t first = run->capture->process_count;
	struct snap_error *err;

	if (!seen || !seen->matched || seen->index != SIZE_MAX ||
	    run->capture->process_count >= SNAP_MAX_PROCESSES)
		return NULL;
	err = add_seen(run, seen, SIZE_MAX);
	return err ? err : grow(run, first);
}

/* Named pids in the order in which they were named, then the others by pid. */
static struct snap_error *add_roots(struct snap_discovery *run)
{
	const struct snap_options *options = run->options;

	for (size_t i = 0; i < options->target_count; i++) {
		const struct snap_target *target = &options->targets[i];
		struct snap_seen *seen = NULL;
		struct snap_error *err;

		if (target->kind == SNAP_TARGET_PID)
			seen = snap_table_find(&run->table, target->pid);
		if (!seen || is_under_match(run, seen))
			continue;
		err = add_root(run, seen);
		if (err)
			return err;
	}
	/* The second time for what a circle of pids that were reused kept from having a root. */
	for (size_t i = 0; i < 2 * run->table.count; i++) {
		struct snap_seen *seen = &run->table.entries[i % run->table.count];
		struct snap_error *err;

		if (i < run->table.count && is_under_match(run, seen))
			continue;
		err = add_root(run, seen);
		if (err)
			return err;
	}
	return NULL;
}

/* Looks again until a look finds nothing that belongs to the tree. */
static struct snap_error *settle(struct snap_discovery *run)
{
	for (unsigned looks = 0; looks < MAX_LOOKS; looks++) {
		size_t count = run->capture->process_count;
		struct snap_error *err;

		if (snap_options_cancelled(run->options))
			return snap_error_cancelled();
		err = snap_table_scan(&run->table);
		if (err)
			return err;
		err = grow(run, 0);
		if (err)
			return err;
		if (run->capture->process_count == count)
			return NULL;
	}
	snap_capture_warn(run->capture, "tree_unsteady", 0, 0,
			  "new processes kept appearing while the tree was read %d times: some "
			  "may be missing",
			  MAX_LOOKS);
	return NULL;
}

static bool needs_scan(const struct snap_options *options)
{
	if (options->children)
		return true;
	for (size_t i = 0; i < options->target_count; i++)
		if (options->targets[i].kind != SNAP_TARGET_PID)
			return true;
	return false;
}

/* What snap_discover_again() need not read. */
static struct snap_error *remember(struct snap_discovery *run)
{
	struct snap_capture *capture = run->capture;
	const struct snap_table *table = &run->table;

	if (!table->pid_count)
		return NULL;
	capture->seen =
		snap_arena_memdup(&capture->arena, table->pids, table->pid_count * sizeof(pid_t));
	if (!capture->seen)
		return snap_error_no_memory();
	capture->seen_count = table->pid_count;
	return NULL;
}

static struct snap_error *nothing_found(const struct snap_capture *capture)
{
	if (!capture->warning_count)
		return snap_error_format(SNAP_ERROR_NOT_FOUND, "no process to show");
	return snap_error_format(SNAP_ERROR_NOT_FOUND, "%s",
				 capture->warnings[capture->warning_count - 1].message);
}

struct snap_error *snap_discovery_run(struct snap_discovery *run)
{
	struct snap_error *err = snap_discovery_host(run->capture, run->procfs);

	if (err)
		return err;
	err = needs_scan(run->options) ? snap_table_scan(&run->table) : NULL;
	if (err)
		return err;
	err = snap_discovery_match(run);
	if (err)
		return err;
	err = snap_table_link(&run->table);
	if (err)
		return err;
	if (snap_options_cancelled(run->options))
		return snap_error_cancelled();
	err = add_roots(run);
	if (err)
		return err;
	if (!run->capture->process_count)
		return nothing_found(run->capture);
	err = run->options->children ? settle(run) : NULL;
	if (err)
		return err;
	err = snap_discovery_facts(run);
	return err ? err : remember(run);
}

/*
 * Every number below is one of the pid namespace that procfs was mounted in; system calls mean
 * those of the caller's. Mixing them would stop strangers.
 */
static struct snap_error *open_procfs(struct snap_procfs *ret)
{
	struct snap_error *err = snap_procfs_open(NULL, ret);

	if (err)
		return err;
	if (snap_procfs_self(ret) == getpid())
		return NULL;
	snap_procfs_close(ret);
	return snap_error_format(SNAP_ERROR_OTHER,
				 "cannot read processes: procfs shows another pid namespace (mount "
				 "one in this namespace)");
}

struct snap_error *snap_discover(const struct snap_options *options, struct snap_capture *capture)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	_cleanup_(snap_discovery_deinit) struct snap_discovery run = { 0 };
	struct snap_error *err = open_procfs(&procfs);

	if (err)
		return err;
	err = snap_discovery_init(&run, options, capture, &procfs, getpid());
	return err ? err : snap_discovery_run(&run);
}

/* The table as the last call left it: members of the tree, and pids that are of no interest. */
static struct snap_error *recall(struct snap_discovery *run)
{
	const struct snap_capture *capture = run->capture;
	struct snap_error *err;

	for (size_t i = 0; i < capture->seen_count; i++) {
		struct snap_seen seen = { .stat.pid = capture->seen[i],
					  .blank = true,
					  .index = SIZE_MAX };

		err = snap_table_know(&run->table, &seen);
		if (err)
			return err;
	}
	for (size_t i = 0; i < capture->process_count; i++) {
		const struct snap_process *process = &capture->processes[i];
		struct snap_seen seen = { .stat.pid = process->pid,
					  .stat.ppid = process->ppid,
					  .stat.start_ticks = process->start_ticks,
					  .index = i };
		struct snap_seen *known = snap_table_find(&run->table, process->pid);

		if (known)
			*known = seen;
		err = snap_table_know(&run->table, &seen);
		if (err)
			return err;
	}
	return NULL;
}

struct snap_error *snap_discover_again(const struct snap_options *options,
				       struct snap_capture *capture, bool *grown_ret)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	_cleanup_(snap_discovery_deinit) struct snap_discovery run = { 0 };
	size_t count = capture->process_count;
	struct snap_error *err;

	*grown_ret = false;
	if (!options->children)
		return NULL;
	err = open_procfs(&procfs);
	if (err)
		return err;
	err = snap_discovery_init(&run, options, capture, &procfs, getpid());
	if (err)
		return err;
	err = recall(&run);
	if (err)
		return err;
	err = settle(&run);
	if (err)
		return err;
	err = snap_discovery_facts(&run);
	if (err)
		return err;
	*grown_ret = capture->process_count > count;
	return remember(&run);
}

int snap_discover_open(const struct snap_process *process)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	_cleanup_fd_ int fd = -1;
	struct snap_stat stat;
	int status;

	if (snap_error_ignore(snap_procfs_open(NULL, &procfs)))
		return -ESRCH;
	fd = snap_procfs_open_process(&procfs, process->pid);
	if (fd < 0)
		return fd;
	status = snap_procfs_stat(fd, &stat);
	if (status != 0 || stat.start_ticks != process->start_ticks)
		return -ESRCH;
	return snap_take_fd(&fd);
}
