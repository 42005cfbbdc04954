/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tree: turns marked entries of the table into processes of the capture, a parent before its
 * children. A tree that changes meanwhile is read again until it does not change. Knows nothing of
 * names and programs.
 */
#include "discover/internal.h"

#include "model/arch/registers.h"

#include <string.h>

enum { MAX_LOOKS = 10 }; /* at a tree that keeps changing */

struct stacksnap_error *snap_discovery_append(struct snap_discovery *run, pid_t pid, size_t parent,
					      struct snap_process **ret)
{
	struct snap_process *process = snap_capture_append(run->capture);

	SNAP_TRY(snap_no_memory_unless(process));
	process->pid = pid;
	process->parent = parent;
	process->uid = (uid_t)-1;
	process->arch = SNAP_OWN_ARCH;
	*ret = process;
	return NULL;
}

static void say_absent(struct snap_discovery *run, struct snap_process *process,
		       const struct snap_seen *seen)
{
	int pid = (int)process->pid;

	if (seen->is_other)
		snap_process_set_trouble(run->capture, process, seen->absent,
					 "process %d has ended; another one has its number now",
					 pid);
	else if (seen->absent == SNAP_TROUBLE_PERMISSION_DENIED)
		snap_process_set_trouble(
			run->capture, process, seen->absent,
			"process %d is hidden (procfs is mounted with hidepid; run as "
			"root or with the group that the mount option gid names)",
			pid);
	else if (seen->absent != SNAP_TROUBLE_NONE)
		snap_process_set_trouble(run->capture, process, seen->absent,
					 "cannot find %d: no such process", pid);
}

static struct stacksnap_error *add_seen(struct snap_discovery *run, struct snap_seen *seen,
					size_t parent)
{
	struct snap_process *process = NULL;

	SNAP_TRY(snap_discovery_append(run, seen->stat.pid, parent, &process));
	seen->index = run->capture->process_count - 1;
	process->ppid = seen->stat.ppid;
	process->pgrp = seen->stat.pgrp;
	process->caught = seen->stat.caught;
	process->start_ticks = seen->stat.start_ticks;
	process->state = seen->stat.state;
	process->flags = seen->stat.flags;
	process->program = seen->stat.program;
	process->args_start = seen->stat.args;
	process->args_end = seen->stat.args_end;
	process->is_target = seen->named;
	say_absent(run, process, seen);
	if (seen->silent)
		snap_process_set_trouble(run->capture, process, SNAP_TROUBLE_NOT_RESPONDING,
					 "process %d does not respond: reading its state took "
					 "too long",
					 (int)process->pid);
	if (seen->stat.name[0] == '\0')
		return NULL;
	process->name = snap_arena_strdup(&run->capture->arena, seen->stat.name);
	return process->name ? NULL : snap_error_no_memory();
}

static void warn_once(struct snap_discovery *run, const char *code, const char *message)
{
	for (size_t i = 0; i < run->capture->warning_count; i++)
		if (strcmp(run->capture->warnings[i].code, code) == 0)
			return;
	snap_capture_warn(run->capture, code, 0, 0, "%s", message);
}

static bool is_full(struct snap_discovery *run)
{
	if (run->capture->process_count < SNAP_MAX_PROCESSES)
		return false;
	warn_once(run, "too_many_processes", "there are more processes than stacksnap can show");
	return true;
}

/* Adds the descendants of processes[first] and later ones. */
static struct stacksnap_error *grow_tree(struct snap_discovery *run, size_t first)
{
	struct snap_capture *capture = run->capture;

	for (size_t i = first; i < capture->process_count; i++) {
		const struct snap_child *children;
		size_t count;

		children = snap_seen_children(&run->table, capture->processes[i].pid, &count);
		for (size_t k = 0; k < count; k++) {
			struct snap_seen *seen = snap_seen_find(&run->table, children[k].pid);
			struct snap_seen *parent =
				seen ? snap_seen_parent(&run->table, seen) : NULL;

			if (!parent || parent->index != i || seen->index != SIZE_MAX || seen->own)
				continue;
			if (!run->options->children && !seen->matched)
				continue;
			if (is_full(run))
				return NULL;
			SNAP_TRY(add_seen(run, seen, i));
		}
	}
	return NULL;
}

static struct snap_seen *parent_above(const struct snap_discovery *run,
				      const struct snap_seen *seen)
{
	return seen->own ? NULL : snap_seen_parent(&run->table, seen);
}

/*
 * Whether a process has a matched ancestor, and so is found from there. The way up ends where the
 * answer is known; then all entries on the way keep it.
 */
static bool is_under_match(struct snap_discovery *run, struct snap_seen *seen)
{
	enum snap_under answer = seen->under;
	struct snap_seen *at = seen, *parent;

	if (!run->options->children) {
		parent = parent_above(run, seen);
		return parent && parent->matched;
	}
	for (size_t step = 0; answer == SNAP_UNDER_UNKNOWN && step <= run->table.count; step++) {
		parent = parent_above(run, at);
		if (parent && !parent->matched)
			answer = parent->under;
		else
			answer = parent ? SNAP_UNDER_MATCH : SNAP_UNDER_NONE;
		at = parent;
	}
	for (at = seen; at && at->under == SNAP_UNDER_UNKNOWN; at = parent) {
		at->under = answer == SNAP_UNDER_MATCH ? SNAP_UNDER_MATCH : SNAP_UNDER_NONE;
		parent = parent_above(run, at);
		if (parent && parent->matched)
			break;
	}
	return answer == SNAP_UNDER_MATCH;
}

static struct stacksnap_error *add_root(struct snap_discovery *run, struct snap_seen *seen)
{
	size_t first = run->capture->process_count;

	if (!seen || !seen->matched || seen->index != SIZE_MAX || is_full(run))
		return NULL;
	SNAP_TRY(add_seen(run, seen, SIZE_MAX));
	return grow_tree(run, first);
}

struct stacksnap_error *snap_discovery_add_trees(struct snap_discovery *run)
{
	/*
	 * The second round is for processes that had no root, because of a circle of reused pids.
	 */
	for (size_t i = 0; i < 2 * run->table.count; i++) {
		struct snap_seen *seen = &run->table.entries[i % run->table.count];

		if (i < run->table.count && is_under_match(run, seen))
			continue;
		SNAP_TRY(add_root(run, seen));
	}
	return NULL;
}

struct stacksnap_error *snap_discovery_add_descendants(struct snap_discovery *run)
{
	for (unsigned looks = 0; looks < MAX_LOOKS; looks++) {
		size_t count = run->capture->process_count;

		SNAP_TRY(snap_options_check(run->options));
		SNAP_TRY(snap_seen_scan(&run->table));
		SNAP_TRY(grow_tree(run, 0));
		if (run->capture->process_count == count)
			return NULL;
	}
	warn_once(run, "tree_unsteady",
		  "new processes kept appearing while the tree was read: some may be missing");
	return NULL;
}
