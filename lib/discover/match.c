/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Match: marks the processes that the target options mean in the table, and does nothing else. A
 * pid may be that of a thread, a name that of the program; stacksnap itself is never meant.
 */
#include "discover/internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

enum { MOST_ASKED = 1 << 12 /* in one list */, MOST_LEFT = 2 };

static void mark_matched(struct snap_seen *seen, bool named)
{
	seen->matched = true;
	seen->named |= named;
}

/* Signal 0 is not sent: the call checks whether the process exists, as procfs may hide it. */
static struct stacksnap_error *add_absent(struct snap_discovery *run, pid_t pid, bool is_other)
{
	bool hidden = !is_other && run->procfs->live && (kill(pid, 0) == 0 || errno == EPERM);
	struct snap_seen *known = snap_seen_find(&run->table, pid);
	const struct snap_seen seen = {
		.stat.pid = pid,
		.blank = true,
		.matched = true,
		.named = true,
		.is_other = is_other,
		.absent = hidden ? SNAP_TROUBLE_PERMISSION_DENIED : SNAP_TROUBLE_NO_SUCH_PROCESS,
		.index = SIZE_MAX,
	};

	if (known)
		*known = seen;
	return snap_seen_know(&run->table, &seen);
}

/* Whether it is what an earlier look saw. One that does not respond cannot say, and is not read. */
static bool is_same_process(const struct snap_options *options, const struct snap_seen *seen)
{
	for (size_t i = 0; i < options->seen_count; i++) {
		const struct snap_process *process = &options->seen[i];

		if (process->pid == seen->stat.pid)
			return process->trouble != SNAP_TROUBLE_NO_SUCH_PROCESS &&
			       (!process->start_ticks || seen->silent ||
				process->start_ticks == seen->stat.start_ticks);
	}
	return !options->seen;
}

/*
 * A thread has a directory in procfs that no listing shows. So the thread group of a pid is read
 * that the scan has not found.
 */
static struct stacksnap_error *find_pid(struct snap_discovery *run, pid_t pid,
					struct snap_seen **ret)
{
	struct snap_status status;
	pid_t leader = pid;

	*ret = snap_seen_find(&run->table, pid);
	if (*ret)
		return NULL;
	if (snap_procfs_task_status(run->procfs->root_fd, pid, &status) != 0)
		return NULL;
	if (status.tgid > 0)
		leader = status.tgid;
	return snap_seen_add(&run->table, leader, ret);
}

static struct stacksnap_error *match_pid(struct snap_discovery *run, pid_t pid)
{
	struct snap_seen *seen;

	SNAP_TRY(find_pid(run, pid, &seen));
	if (!seen || !is_same_process(run->options, seen))
		return add_absent(run, pid, seen);
	if (seen->stat.pid != pid)
		snap_capture_warn(run->capture, "tid_given", seen->stat.pid, pid,
				  "%d is a thread of %d, which is shown instead", (int)pid,
				  (int)seen->stat.pid);
	if (seen->own)
		snap_capture_warn(run->capture, "own_process", pid, 0,
				  "%d is stacksnap itself and is left out", (int)pid);
	else
		mark_matched(seen, true);
	return NULL;
}

static bool program_matches(const struct snap_answer *answer, const regex_t *regex)
{
	char path[SNAP_MAX_PATH + 16], *base;
	size_t cut = answer->exe_size > 0 ? (size_t)answer->exe_size : 0;

	if (!cut)
		return false;
	memcpy(path, answer->exe, cut);
	snap_cut_deleted(path, &cut);
	path[cut] = '\0';
	base = strrchr(path, '/');
	return regexec(regex, base ? base + 1 : path, 0, NULL, 0) == 0;
}

/* `ids`: the containers with that name in the files of engines; NULL: unknown. */
static bool container_matches(const char *container, const struct snap_target *target,
			      const struct snap_container_ids *ids)
{
	for (size_t i = 0; ids && i < ids->count; i++)
		if (snap_cgroup_container_is(container, ids->list[i].text))
			return true;
	return snap_cgroup_container_is(container, target->text);
}

static bool cgroup_matches(struct snap_discovery *run, int process_fd,
			   const struct snap_target *target, const struct snap_container_ids *ids)
{
	if (snap_discovery_cgroup(run, process_fd) != 0)
		return false;
	switch (target->kind) {
	case SNAP_TARGET_UNIT:
		return snap_cgroup_in_unit(run->cgroup.path, target->text);
	case SNAP_TARGET_CGROUP:
		return run->cgroup.path[0] && snap_cgroup_is_below(run->cgroup.path, target->text);
	case SNAP_TARGET_CONTAINER:
		return container_matches(run->cgroup.container, target, ids);
	case SNAP_TARGET_PID:
	case SNAP_TARGET_NAME:
	case SNAP_TARGET_ALL:
		break;
	}
	return false;
}

static bool target_matches(struct snap_discovery *run, const struct snap_seen *seen,
			   const struct snap_target *target, const struct snap_container_ids *ids)
{
	_cleanup_fd_ int fd = snap_procfs_open_process(run->procfs, seen->stat.pid);

	return fd >= 0 && cgroup_matches(run, fd, target, ids);
}

/* The end of the sentence after "no process ", for a target that matches nothing. */
static const char *const missing_words[] = {
	[SNAP_TARGET_NAME] = "has a name or program that matches",
	[SNAP_TARGET_UNIT] = "runs in the unit",
	[SNAP_TARGET_CGROUP] = "runs in the cgroup",
	[SNAP_TARGET_CONTAINER] = "runs in a container with the id or name",
};

/* Kernel threads have no stack of a program: only a pid means one. */
static bool may_be_meant(const struct snap_seen *seen)
{
	return !seen->own && !(seen->stat.flags & SNAP_PF_KTHREAD);
}

static bool match_by_cgroup(struct snap_discovery *run, const struct snap_target *target,
			    const struct snap_container_ids *ids)
{
	bool found = false;

	for (size_t i = 0; i < run->table.count; i++) {
		struct snap_seen *seen = &run->table.entries[i];

		if (snap_options_cancelled(run->options))
			break;
		if (!may_be_meant(seen) || !target_matches(run, seen, target, ids))
			continue;
		mark_matched(seen, true);
		found = true;
	}
	return found;
}

/* Matches `count` entries by the name of their program, which may differ from their own. */
static bool match_by_program(struct snap_discovery *run, const size_t *entries, size_t count,
			     const regex_t *regex)
{
	bool found = false;

	if (!count || snap_options_cancelled(run->options))
		return false;
	snap_asker_begin(run->asker, count);
	for (size_t i = 0; i < count; i++)
		snap_asker_add(run->asker, run->table.entries[entries[i]].stat.pid);
	snap_asker_run_programs(run->asker, run->ask_ns, run->table.until_ns);
	for (size_t i = 0; i < count; i++) {
		struct snap_answer answer = snap_asker_answer(run->asker, i);

		if (!program_matches(&answer, regex))
			continue;
		mark_matched(&run->table.entries[entries[i]], true);
		found = true;
	}
	return found;
}

/* A process with a blocked stat is not asked for its program. */
static bool match_by_name(struct snap_discovery *run, const regex_t *regex)
{
	size_t asked[MOST_ASKED], count = 0;
	bool found = false;

	for (size_t i = 0; i < run->table.count; i++) {
		struct snap_seen *seen = &run->table.entries[i];

		if (!may_be_meant(seen))
			continue;
		if (regexec(regex, seen->stat.name, 0, NULL, 0) == 0) {
			mark_matched(seen, true);
			found = true;
		} else if (!seen->silent && !seen->blank) {
			asked[count++] = i;
		}
		if (count < MOST_ASKED)
			continue;
		found |= match_by_program(run, asked, count, regex);
		count = 0;
	}
	return match_by_program(run, asked, count, regex) || found;
}

/* Two of earlier runs still wait for the same files (roles/file_opener/silent.h). */
static bool is_hunt_hopeless(const struct snap_discovery *run)
{
	unsigned left =
		snap_sum(run->table.count, i,
			 run->table.entries[i].own && strcmp(run->table.entries[i].stat.name,
							     SNAP_CONTAINERS_PROCESS) == 0);

	return run->engines_are_late || left >= MOST_LEFT;
}

static struct stacksnap_error *match_by_text(struct snap_discovery *run,
					     const struct snap_target *target, bool *found_ret)
{
	_cleanup_(snap_container_ids_destroyp) struct snap_container_ids *ids = NULL;
	bool is_named = target->kind == SNAP_TARGET_CONTAINER && run->options->find_containers;

	*found_ret = false;
	if (is_named && !is_hunt_hopeless(run))
		ids = run->options->find_containers(target->text);
	if (is_named && (!ids || ids->is_late)) {
		run->engines_are_late = true;
		snap_capture_warn(run->capture, "processes_late", 0, 0,
				  "cannot read the files of container engines in time: '%s' may be "
				  "the name of a container",
				  target->text);
	}
	if (target->kind != SNAP_TARGET_NAME) {
		*found_ret = match_by_cgroup(run, target, ids);
		return NULL;
	}
	SNAP_TRY(snap_discovery_need_asker(run));
	*found_ret = match_by_name(run, target->regex);
	return NULL;
}

/* Matches every process except stacksnap and its ancestors. */
static void match_all(struct snap_discovery *run)
{
	struct snap_seen_table *table = &run->table;
	struct snap_seen *above = snap_seen_find(table, table->self);

	for (size_t i = 0; i < table->count; i++)
		if (!table->entries[i].own)
			mark_matched(&table->entries[i], false);
	for (size_t step = 0; above && step < table->count; step++) {
		above->matched = above->named;
		above = snap_seen_parent(table, above);
	}
}

static struct stacksnap_error *match_target(struct snap_discovery *run,
					    const struct snap_target *target)
{
	struct stacksnap_error *err;
	bool found;

	if (target->kind == SNAP_TARGET_PID)
		return match_pid(run, target->pid);
	if (target->kind == SNAP_TARGET_ALL) {
		match_all(run);
		return NULL;
	}
	err = match_by_text(run, target, &found);
	if (!err && !found)
		snap_capture_warn(run->capture, "target_not_found", 0, 0, "no process %s '%s'%s",
				  missing_words[target->kind], target->text,
				  target->kind == SNAP_TARGET_CONTAINER && run->engines_are_late
					  ? "; files of container engines could not be read in time"
					  : "");
	return err;
}

/* A known process stays in the tree, even with another parent. */
static void match_known(struct snap_discovery *run)
{
	for (size_t i = 0; i < run->table.count; i++) {
		struct snap_seen *seen = &run->table.entries[i];
		const struct snap_process *known =
			snap_discovery_known(run, seen->stat.pid, seen->stat.start_ticks);

		if (known)
			mark_matched(seen, known->is_target);
	}
}

struct stacksnap_error *snap_discovery_match(struct snap_discovery *run)
{
	bool again = run->known && run->known->find;

	if (again)
		match_known(run);
	for (size_t i = 0; i < run->options->target_count; i++)
		if (!again || run->options->targets[i].kind != SNAP_TARGET_PID)
			SNAP_TRY(match_target(run, &run->options->targets[i]));
	return NULL;
}
