/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Match: marks the processes that the target options mean in the table, and does nothing else. A
 * pid may be that of a thread, a name that of the program; stacksnap itself is never meant.
 */
#include "discover/internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

enum { MOST_ASKED = 1 << 12 /* in one list */ };

static void mark_matched(struct snap_seen *seen, bool named)
{
	seen->matched = true;
	seen->named |= named;
}

/* Signal 0 is not sent: the call checks whether the process exists, as procfs may hide it. */
static struct stacksnap_error *add_absent(struct snap_discovery *run, pid_t pid)
{
	bool hidden = run->procfs->live && (kill(pid, 0) == 0 || errno == EPERM);
	const struct snap_seen seen = {
		.stat.pid = pid,
		.blank = true,
		.matched = true,
		.named = true,
		.absent = hidden ? SNAP_TROUBLE_PERMISSION_DENIED : SNAP_TROUBLE_NO_SUCH_PROCESS,
		.index = SIZE_MAX,
	};

	return snap_seen_know(&run->table, &seen);
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
	if (status.tgid > 0 && status.tgid != pid) {
		leader = status.tgid;
		snap_capture_warn(run->capture, "tid_given", leader, pid,
				  "%d is a thread of %d, which is shown instead", (int)pid,
				  (int)leader);
	}
	return snap_seen_add(&run->table, leader, ret);
}

static struct stacksnap_error *match_pid(struct snap_discovery *run, pid_t pid)
{
	struct snap_seen *seen;
	struct stacksnap_error *err;

	err = find_pid(run, pid, &seen);
	if (err)
		return err;
	if (!seen)
		return add_absent(run, pid);
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

/* `ids`: the containers with that name in the files of engines. */
static bool container_matches(const char *container, const struct snap_target *target,
			      const struct snap_container_ids *ids)
{
	for (size_t i = 0; i < ids->count; i++)
		if (strcmp(container, ids->list[i].text) == 0)
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
static const char *missing_words(enum snap_target_kind kind)
{
	switch (kind) {
	case SNAP_TARGET_PID:
	case SNAP_TARGET_ALL:
		break;
	case SNAP_TARGET_NAME:
		return "has a name or program that matches";
	case SNAP_TARGET_UNIT:
		return "runs in the unit";
	case SNAP_TARGET_CGROUP:
		return "runs in the cgroup";
	case SNAP_TARGET_CONTAINER:
		return "runs in a container with the id or name";
	}
	return "runs as";
}

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

static struct stacksnap_error *match_by_text(struct snap_discovery *run,
					     const struct snap_target *target, bool *found_ret)
{
	_cleanup_(snap_container_ids_deinit) struct snap_container_ids ids = { 0 };
	struct stacksnap_error *err;

	*found_ret = false;
	if (target->kind == SNAP_TARGET_CONTAINER && run->options->find_containers) {
		err = run->options->find_containers(target->text, &ids);
		if (err)
			return err;
	}
	if (target->kind != SNAP_TARGET_NAME) {
		*found_ret = match_by_cgroup(run, target, &ids);
		return NULL;
	}
	err = snap_discovery_need_asker(run);
	if (!err)
		*found_ret = match_by_name(run, target->regex);
	return err;
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
		snap_capture_warn(run->capture, "target_not_found", 0, 0, "no process %s '%s'",
				  missing_words(target->kind), target->text);
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
	for (size_t i = 0; i < run->options->target_count; i++) {
		struct stacksnap_error *err;

		if (again && run->options->targets[i].kind == SNAP_TARGET_PID)
			continue;
		err = match_target(run, &run->options->targets[i]);
		if (err)
			return err;
	}
	return NULL;
}
