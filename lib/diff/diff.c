/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See diff.h. */
#include "diff/diff.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/text.h"
#include "diff/parts.h"

#include <string.h>

/* A loop, as the documents decide how deep their trees are. */
static bool diff_nodes_init(struct snap_diff_nodes *list, const struct snap_snapshot *snapshot)
{
	*list = (struct snap_diff_nodes){ 0 };
	if (!snap_reserve_array(list->nodes, list->capacity, snapshot->root_count + 1))
		return false;
	for (size_t i = 0; i < snapshot->root_count; i++)
		list->nodes[list->count++] = snapshot->processes[i];
	for (size_t i = 0; i < list->count; i++) {
		const struct snap_node *node = list->nodes[i];

		if (!snap_reserve_array(list->nodes, list->capacity,
					list->count + node->child_count))
			return false;
		for (size_t k = 0; k < node->child_count; k++)
			list->nodes[list->count++] = node->children[k];
	}
	return true;
}

SNAP_FREES(diff_nodes_deinit, struct snap_diff_nodes, nodes);

/* Containers of one boot can have names of their own; a document may lack the boot. */
/* Of one boot of one host: pids of both can be compared. */
static bool has_same_boot(const struct snap_host *before, const struct snap_host *after)
{
	if (before->boot_id && after->boot_id)
		return strcmp(before->boot_id, after->boot_id) == 0;
	return snap_same_text(before->name, after->name);
}

static struct snap_diff_side side_of(const struct snap_diff_look *look)
{
	const struct snap_snapshot *snapshot = look->snapshot;
	const struct snap_recording *recording = look->recording;
	struct snap_diff_side side = {
		.host = snapshot->host,
		.time_ns = snapshot->time_ns,
		.duration_ns = recording ? recording->duration_ns : 0,
		.process_count = snapshot->process_count,
		.thread_count = snapshot->thread_count,
		.task_count = snapshot->task_count,
		.stack_count = snapshot->stack_count,
	};

	if (!recording)
		return side;
	side.ticks = recording->tick_count;
	/* A slice begins later than its recording. */
	if (recording->tick_count &&
	    __builtin_add_overflow(side.time_ns, recording->ticks[0].time_ns, &side.time_ns))
		side.time_ns = 0;
	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++)
			side.samples += snap_run_samples(&recording->tracks[i].runs[k]);
	return side;
}

static void warn_of_hosts(struct snap_diff *diff)
{
	const struct snap_host *before = &diff->before.host, *after = &diff->after.host;

	if (diff->same_boot)
		return;
	if (snap_same_text(before->name, after->name))
		snap_diff_warn(diff, "other_boot",
			       "the host was started anew in between: processes and threads are "
			       "not compared, groups are");
	else
		snap_diff_warn(diff, "other_host",
			       "they are of two hosts: processes and threads are not compared, "
			       "groups are");
}

static void warn_of_looks(struct snap_diff *diff, const struct snap_differ *differ)
{
	const char *before = differ->before.snapshot->tool_version,
		   *after = differ->after.snapshot->tool_version;

	warn_of_hosts(diff);
	if (!snap_same_text(before, after))
		snap_diff_warn(diff, "other_version",
			       "they were made by two versions of stacksnap, which may name and "
			       "group stacks otherwise");
	if (diff->before.time_ns && diff->after.time_ns && diff->same_boot &&
	    diff->before.time_ns > diff->after.time_ns)
		snap_diff_warn(diff, "reversed", "the first one is the later one");
	if (!differ->before.recording != !differ->after.recording)
		snap_diff_warn(diff, "one_recording",
			       "one of them is a recording: its groups have as many threads as "
			       "stood there on average");
}

/* Of a recording no thread is blocked in one stack. */
static bool add_stuck(struct snap_differ *differ)
{
	struct snap_diff *diff = differ->diff;
	_cleanup_free_ struct snap_diff_stuck *stuck = NULL;
	size_t blind;

	if (!diff->same_boot || snap_differ_is_noisy(differ))
		return true;
	if (!snap_diff_find_stuck(&differ->old_nodes, &differ->new_nodes, &stuck,
				  &diff->stuck_count, &blind))
		return false;
	if (blind)
		snap_diff_warn(diff, "runs_unknown",
			       "whether %zu thread%s ran in between is not known: take both with "
			       "--no-stop or --explain, or use --again",
			       blind, blind == 1 ? "" : "s");
	if (!diff->stuck_count)
		return true;
	diff->stuck = snap_arena_memdup(&diff->arena, stuck, diff->stuck_count * sizeof(*stuck));
	return diff->stuck;
}

SNAP_ORDER(compare_pids_of_nodes, const struct snap_node *, a, b,
	   snap_compare((*a)->pid, (*b)->pid));

struct stacksnap_error *snap_diff_mark_stuck(const struct snap_snapshot *before,
					     struct snap_snapshot *after)
{
	_cleanup_(diff_nodes_deinit) struct snap_diff_nodes old_nodes = { 0 }, new_nodes = { 0 };
	_cleanup_free_ struct snap_diff_stuck *stuck = NULL;
	size_t count, blind;

	if (!diff_nodes_init(&old_nodes, before) || !diff_nodes_init(&new_nodes, after) ||
	    !snap_diff_find_stuck(&old_nodes, &new_nodes, &stuck, &count, &blind))
		return snap_error_no_memory();
	/* They are the snapshot's, which is the caller's to change. */
	for (size_t i = 0; i < count; i++)
		((struct snap_member *)(uintptr_t)stuck[i].thread)->stuck = true;
	qsort(old_nodes.nodes, old_nodes.count, sizeof(*old_nodes.nodes), compare_pids_of_nodes);
	for (size_t i = 0; i < new_nodes.count; i++) {
		struct snap_node *node = (struct snap_node *)(uintptr_t)new_nodes.nodes[i];
		size_t at = snap_first_not(old_nodes.count, k, old_nodes.nodes[k]->pid < node->pid);

		if (at < old_nodes.count && old_nodes.nodes[at]->pid == node->pid &&
		    old_nodes.nodes[at]->start_ticks == node->start_ticks)
			node->usage_before = old_nodes.nodes[at]->usage;
	}
	if (__builtin_sub_overflow(after->time_ns, before->time_ns, &after->again_ns) ||
	    after->again_ns <= 0)
		after->again_ns = 1; /* the clock was set */
	if (blind)
		snap_snapshot_warn(after, "runs_unknown", 0, 0,
				   "whether %zu thread%s ran in between is not known: this kernel "
				   "does not count their runs",
				   blind, blind == 1 ? "" : "s");
	return NULL;
}

static void differ_deinit(struct snap_differ *differ)
{
	diff_nodes_deinit(&differ->old_nodes);
	diff_nodes_deinit(&differ->new_nodes);
	snap_diff_destroy(differ->diff);
}

struct stacksnap_error *snap_diff_make(const struct snap_diff_look *before,
				       const struct snap_diff_look *after, struct snap_diff **ret)
{
	_cleanup_(differ_deinit) struct snap_differ differ = { .diff = snap_diff_new(),
							       .before = *before,
							       .after = *after };
	struct snap_diff *diff = differ.diff;

	if (!diff || !diff_nodes_init(&differ.old_nodes, before->snapshot) ||
	    !diff_nodes_init(&differ.new_nodes, after->snapshot))
		return snap_error_no_memory();
	diff->before = side_of(before);
	diff->after = side_of(after);
	diff->same_boot = has_same_boot(&diff->before.host, &diff->after.host);
	warn_of_looks(diff, &differ);
	if (!snap_diff_groups(&differ) || !snap_diff_processes(&differ) || !add_stuck(&differ) ||
	    !snap_diff_functions(&differ))
		return snap_error_no_memory();
	*ret = snap_take_ptr(differ.diff);
	return NULL;
}
