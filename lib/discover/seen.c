/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The processes that were seen: see internal.h. A look lists the pids (cheap: some hundred a system
 * call) and reads stat (6 us each) only for new ones.
 */
#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "discover/internal.h"
#include "proc/left_behind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	FIRST_PIDS = 512,
	MOST_ASKED = 1 << 14, /* in one list */
	ASK_NS = 1000000000,  /* the cost of processes that do not respond, at most */
};

void snap_seen_init(struct snap_seen_table *table, const struct snap_procfs *procfs, pid_t self)
{
	*table = (struct snap_seen_table){ .procfs = procfs, .self = self, .here = getpid() };
}

void snap_seen_deinit(struct snap_seen_table *table)
{
	free(table->entries);
	free(table->children);
	free(table->pids);
	free(table->fresh);
	*table = (struct snap_seen_table){ 0 };
}

SNAP_ORDER(compare_pids, pid_t, a, b, snap_compare(*a, *b));

/* The position of a pid, or that for its entry. */
static size_t find_position(const struct snap_seen_table *table, pid_t pid)
{
	return snap_first_not(table->count, i, table->entries[i].stat.pid < pid);
}

struct snap_seen *snap_seen_find(const struct snap_seen_table *table, pid_t pid)
{
	size_t at = find_position(table, pid);

	if (at == table->count || table->entries[at].stat.pid != pid)
		return NULL;
	return &table->entries[at];
}

/*
 * A parent is never younger than its child. If it seems to be, the parent died between two reads
 * and its pid was used again.
 */
struct snap_seen *snap_seen_parent(const struct snap_seen_table *table,
				   const struct snap_seen *seen)
{
	struct snap_seen *parent;

	if (seen->blank || seen->stat.ppid <= 0)
		return NULL;
	parent = snap_seen_find(table, seen->stat.ppid);
	if (!parent || parent->blank ||
	    (parent->stat.start_ticks > seen->stat.start_ticks && !seen->silent))
		return NULL;
	return parent;
}

/*
 * Children of stacksnap have no exit signal, which is rare otherwise. In a program with several
 * threads they have one, and are known by their names (roles/role.h).
 */
static bool is_own_child(const struct snap_seen_table *table, const struct snap_stat *stat)
{
	if (stat->ppid != table->self && stat->ppid != table->here)
		return false;
	return stat->exit_signal == 0 || strcmp(stat->name, "snap-collector") == 0 ||
	       strcmp(stat->name, "snap-parser") == 0;
}

/* By its own stat alone: see is_of_own(). */
static bool is_own_process(const struct snap_seen_table *table, const struct snap_stat *stat)
{
	return table->self > 0 &&
	       (stat->pid == table->self || stat->pid == table->here || is_own_child(table, stat));
}

/*
 * Many such processes may be left, and none of them runs any more. A process with our uid can hide
 * itself this way.
 */
static bool is_left_behind(const struct snap_seen_table *table, const struct snap_stat *stat)
{
	return stat->state == 'D' && snap_has_own_name(stat->name) &&
	       snap_is_left_behind(table->procfs->root_fd, stat->pid);
}

/* Reads what the process cannot block. False if it does not exist. */
static bool read_status(const struct snap_seen_table *table, pid_t pid, struct snap_stat *ret)
{
	char path[32], comm[SNAP_MAX_COMM + 2];
	struct snap_status status;
	ssize_t length;

	if (snap_procfs_task_status(table->procfs->root_fd, pid, &status) != 0)
		return false;
	*ret = (struct snap_stat){ .pid = pid,
				   .state = status.state,
				   .ppid = status.ppid,
				   .threads = status.threads,
				   .exit_signal = -1,
				   .cpu = -1 };
	snprintf(path, sizeof(path), "%d/comm", (int)pid);
	length = snap_procfs_read(table->procfs->root_fd, path, comm, sizeof(comm));
	if (length > 0)
		snap_stat_take_comm(ret, comm, (size_t)length);
	return true;
}

/*
 * *found_ret false: it does not exist or is hidden. A failure with a cause in this process is an
 * error: else a lack of descriptors would look like a machine without processes.
 */
static struct stacksnap_error *take_seen_entry(const struct snap_seen_table *table, pid_t pid,
					       const struct snap_answer *answer,
					       struct snap_seen *seen_ret, bool *found_ret)
{
	struct snap_seen seen = { .stat = answer->stat, .index = SIZE_MAX };
	int status = (int)answer->args_size;

	*found_ret = false;
	if (answer->kind != SNAP_ANSWER_GIVEN) {
		seen.silent = true;
		status = read_status(table, pid, &seen.stat) ? 0 : -ESRCH;
	}
	if (status == -EMFILE || status == -ENFILE || status == -ENOMEM)
		return snap_error_os(-status, "cannot read process %d", (int)pid);
	if (status != 0)
		return NULL;
	*found_ret = true;
	seen.stat.pid = pid;
	seen.own = is_own_process(table, &seen.stat) || is_left_behind(table, &seen.stat);
	*seen_ret = seen;
	return NULL;
}

static struct snap_answer read_seen_stat(const struct snap_seen_table *table, pid_t pid)
{
	struct snap_answer answer = { .kind = SNAP_ANSWER_GIVEN };

	answer.args_size = snap_procfs_task_stat(table->procfs->root_fd, pid, &answer.stat);
	return answer;
}

/* Asks for the stat of these processes, all at once, if there is an asker. */
static void ask_stats(const struct snap_seen_table *table, const pid_t *pids, size_t count,
		      int64_t until_ns)
{
	if (!table->asker || !count)
		return;
	snap_asker_begin(table->asker, count);
	for (size_t i = 0; i < count; i++)
		snap_asker_add(table->asker, pids[i]);
	snap_asker_run_stats(table->asker, ASK_NS, until_ns);
}

/* Asking has three quarters of the time; the rest is for processes that did not answer. */
static int64_t ask_until(const struct snap_seen_table *table)
{
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC);

	return table->until_ns ? now + (table->until_ns - now) / 4 * 3 : 0;
}

static struct snap_answer stat_of_pid(const struct snap_seen_table *table, const pid_t *pids,
				      size_t index)
{
	return table->asker ? snap_asker_answer(table->asker, index)
			    : read_seen_stat(table, pids[index]);
}

static struct stacksnap_error *insert_entry(struct snap_seen_table *table,
					    const struct snap_seen *seen)
{
	size_t at = find_position(table, seen->stat.pid);

	if (!snap_reserve_array(table->entries, table->capacity, table->count + 1))
		return snap_error_no_memory();
	memmove(table->entries + at + 1, table->entries + at,
		(table->count - at) * sizeof(*table->entries));
	table->entries[at] = *seen;
	table->count++;
	return NULL;
}

struct stacksnap_error *snap_seen_know(struct snap_seen_table *table, const struct snap_seen *seen)
{
	return snap_seen_find(table, seen->stat.pid) ? NULL : insert_entry(table, seen);
}

/*
 * Whether a process is a worker (base/workers.h), a child of one of stacksnap's children. A process
 * that the program itself has started is none.
 */
static bool is_of_own(const struct snap_seen_table *table, const struct snap_seen *seen)
{
	const struct snap_seen *parent = table->self > 0 ? snap_seen_parent(table, seen) : NULL;

	return parent && parent->own && parent->stat.pid != table->self &&
	       seen->stat.exit_signal == 0;
}

static bool may_be_worker(const struct snap_seen_table *table, const struct snap_seen *seen)
{
	return table->self > 0 && !seen->own && seen->stat.exit_signal == 0 && seen->stat.ppid > 0;
}

/* The same if its parent may be missing in the table. */
static bool is_worker(const struct snap_seen_table *table, const struct snap_seen *seen)
{
	const struct snap_seen *parent = snap_seen_find(table, seen->stat.ppid);
	struct snap_answer answer;

	if (!may_be_worker(table, seen) || (parent && !parent->blank))
		return is_of_own(table, seen);
	ask_stats(table, &seen->stat.ppid, 1, 0);
	answer = stat_of_pid(table, &seen->stat.ppid, 0);
	return answer.kind == SNAP_ANSWER_GIVEN && answer.args_size == 0 &&
	       is_own_child(table, &answer.stat);
}

struct stacksnap_error *snap_seen_add(struct snap_seen_table *table, pid_t pid,
				      struct snap_seen **ret)
{
	struct snap_seen seen, *known = snap_seen_find(table, pid);
	struct snap_answer answer;
	bool found = false;

	if (!known) {
		ask_stats(table, &pid, 1, 0);
		answer = stat_of_pid(table, &pid, 0);
		SNAP_TRY(take_seen_entry(table, pid, &answer, &seen, &found));
	}
	if (found) {
		seen.own |= is_worker(table, &seen);
		SNAP_TRY(insert_entry(table, &seen));
		known = snap_seen_find(table, pid);
	}
	*ret = known;
	return NULL;
}

/* The kernel lists pids in ascending order, a recorded tree does not. */
static void sort_pids(struct snap_seen_table *table)
{
	size_t count = 0, i = 1;

	while (i < table->pid_count && table->pids[i - 1] < table->pids[i])
		i++;
	if (i >= table->pid_count)
		return;
	qsort(table->pids, table->pid_count, sizeof(pid_t), compare_pids);
	for (i = 0; i < table->pid_count; i++)
		if (!count || table->pids[count - 1] != table->pids[i])
			table->pids[count++] = table->pids[i];
	table->pid_count = count;
}

static struct stacksnap_error *list_seen_pids(struct snap_seen_table *table)
{
	size_t room = FIRST_PIDS;
	ssize_t count;

	for (;;) {
		if (!snap_reserve_array(table->pids, table->pid_capacity, room))
			return snap_error_no_memory();
		count = snap_procfs_list(table->procfs->root_fd, table->pids, table->pid_capacity);
		if (count < 0)
			return snap_error_os((int)-count, "cannot list the processes");
		if ((size_t)count <= table->pid_capacity)
			break;
		room = (size_t)count + (size_t)count / 8;
	}
	table->pid_count = (size_t)count;
	sort_pids(table);
	return NULL;
}

/*
 * The process to ask in order to know the parent of an entry. It is the entry itself if it is
 * outside the tree and its parent has gone: its new parent may be in the tree. It is the parent if
 * that may be a child of ours. 0: none. Any process can look like our worker, and have a parent
 * that does not respond, so an asker reads it.
 */
static pid_t whom_to_ask(const struct snap_seen_table *table, const struct snap_seen *seen)
{
	const struct snap_seen *parent;

	if (seen->blank || seen->silent || seen->gone || seen->stat.ppid <= 0)
		return 0;
	parent = snap_seen_find(table, seen->stat.ppid);
	if (!parent || parent->gone)
		return seen->index == SIZE_MAX ? seen->stat.pid : 0;
	return parent->blank && may_be_worker(table, seen) ? seen->stat.ppid : 0;
}

static void take_parent(const struct snap_seen_table *table, struct snap_seen *seen, pid_t asked,
			const struct snap_answer *answer)
{
	if (answer->kind != SNAP_ANSWER_GIVEN || answer->args_size != 0)
		return;
	if (asked != seen->stat.pid)
		seen->own |= is_own_child(table, &answer->stat);
	else if (answer->stat.start_ticks == seen->stat.start_ticks)
		seen->stat.ppid = answer->stat.ppid;
}

/* Asks all at once: many that do not respond cost the time of one. */
static struct stacksnap_error *ask_about_parents(struct snap_seen_table *table)
{
	size_t count = 0, at = 0;

	if (!snap_reserve_array(table->fresh, table->fresh_capacity, table->count))
		return snap_error_no_memory();
	for (size_t i = 0; i < table->count && count < MOST_ASKED; i++) {
		table->fresh[count] = whom_to_ask(table, &table->entries[i]);
		count += table->fresh[count] != 0;
	}
	ask_stats(table, table->fresh, count, ask_until(table));
	for (size_t i = 0; i < table->count && at < count; i++) {
		struct snap_seen *seen = &table->entries[i];
		struct snap_answer answer;

		if (!whom_to_ask(table, seen))
			continue;
		answer = stat_of_pid(table, table->fresh, at);
		take_parent(table, seen, table->fresh[at++], &answer);
	}
	return NULL;
}

SNAP_ORDER(compare_children, struct snap_child, a, b, snap_compare(a->parent, b->parent),
	   snap_compare(a->pid, b->pid));

struct stacksnap_error *snap_seen_link(struct snap_seen_table *table)
{
	struct snap_child *grown =
		reallocarray(table->children, table->count + 1, sizeof(*table->children));

	SNAP_TRY(snap_no_memory_unless(grown));
	table->children = grown;
	for (size_t i = 0; i < table->count; i++)
		grown[i] = (struct snap_child){ table->entries[i].stat.ppid,
						table->entries[i].stat.pid };
	table->child_count = table->count;
	qsort(grown, table->child_count, sizeof(*grown), compare_children);
	return NULL;
}

/* Lists the pids that are not in the table; returns their number. */
static size_t find_new_pids(struct snap_seen_table *table)
{
	size_t old_count = table->count, at = 0, kept = 0;

	for (size_t i = 0; i < table->pid_count; i++) {
		pid_t pid = table->pids[i];

		for (; at < old_count && table->entries[at].stat.pid < pid; at++)
			table->entries[at].gone = true;
		if (at < old_count && table->entries[at].stat.pid == pid)
			at++;
		else
			table->fresh[kept++] = pid;
	}
	for (; at < old_count; at++)
		table->entries[at].gone = true;
	return kept;
}

/* Whether a process is left out for want of time: it was not asked, and will not be. */
static bool is_unseen(const struct snap_seen_table *table, const struct snap_answer *answer)
{
	return answer->kind == SNAP_ANSWER_NOT_ASKED && table->until_ns &&
	       snap_clock_ns(CLOCK_MONOTONIC) >= table->until_ns;
}

/* Puts the new entries behind the old ones; the caller sorts them in. */
static struct stacksnap_error *add_new_pids(struct snap_seen_table *table, size_t count)
{
	for (size_t first = 0; first < count; first += MOST_ASKED) {
		const pid_t *pids = table->fresh + first;
		size_t some = count - first < MOST_ASKED ? count - first : MOST_ASKED;

		ask_stats(table, pids, some, ask_until(table));
		for (size_t i = 0; i < some; i++) {
			struct snap_answer answer = stat_of_pid(table, pids, i);
			bool found = false;

			if (is_unseen(table, &answer)) {
				table->unseen++;
				continue;
			}
			SNAP_TRY(take_seen_entry(table, pids[i], &answer,
						 &table->entries[table->count], &found));
			table->count += found;
		}
	}
	return NULL;
}

struct stacksnap_error *snap_seen_scan(struct snap_seen_table *table)
{
	size_t old_count = table->count;

	table->unseen = 0;
	SNAP_TRY(list_seen_pids(table));
	if (!snap_reserve_array(table->entries, table->capacity, table->count + table->pid_count) ||
	    !snap_reserve_array(table->fresh, table->fresh_capacity, table->pid_count))
		return snap_error_no_memory();
	SNAP_TRY(add_new_pids(table, find_new_pids(table)));
	/* An entry begins with its stat, and a stat with the pid. */
	if (old_count && table->count > old_count)
		qsort(table->entries, table->count, sizeof(*table->entries), compare_pids);
	SNAP_TRY(ask_about_parents(table));
	for (size_t i = 0; i < table->count; i++)
		table->entries[i].own |= is_of_own(table, &table->entries[i]);
	return snap_seen_link(table);
}

const struct snap_child *snap_seen_children(const struct snap_seen_table *table, pid_t parent,
					    size_t *count_ret)
{
	size_t low = snap_first_not(table->child_count, i, table->children[i].parent < parent);
	size_t high = low;

	while (high < table->child_count && table->children[high].parent == parent)
		high++;
	*count_ret = high - low;
	return table->children + low;
}
