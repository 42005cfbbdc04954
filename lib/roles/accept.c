/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The result of a parser, read back before it is left to the maker: see analysis.h. */
#include "roles/analysis.h"
#include "store/snapshot/file.h"

static void forget_waits(struct snap_stack *stack)
{
	stack->wait = NULL;
	for (size_t i = 0; i < stack->thread_count; i++)
		stack->threads[i].wait = NULL;
	for (size_t i = 0; i < stack->task_count; i++)
		stack->tasks[i].label_count = 0;
}

static void forget_functions(struct snap_stack *stack)
{
	static const struct snap_entry unknown;

	stack->description = "unknown";
	for (size_t i = 0; i < stack->frame_count; i++) {
		/* A frame belongs to one process. */
		struct snap_frame *frame = (struct snap_frame *)(uintptr_t)stack->frames[i];

		frame->entries = (struct snap_entry *)(uintptr_t)&unknown;
		frame->entry_count = 1;
	}
}

static void forget_frames(struct snap_stack *stack)
{
	stack->frame_count = stack->gap_frame = stack->gap_count = 0;
}

static const struct part {
	const char *name;
	void (*forget)(struct snap_stack *stack);
} parts[] = { { "waits and labels of tasks", forget_waits },
	      { "functions", forget_functions },
	      { "frames", forget_frames } };

/* *shown_ret: how large a report it makes, about; not set if it is refused. */
static struct stacksnap_error *write_and_read(const struct snap_snapshot *snapshot,
					      struct snap_parser_job *job, uint64_t *shown_ret)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *read = NULL;
	struct stacksnap_error *err =
		snap_snapshot_write(snapshot, job->out, job->capacity, &job->size)
			?: snap_snapshot_read(job->out, job->size, &read);

	if (!err)
		*shown_ret = read->shown;
	return err;
}

static uint64_t shown_alone(const struct snap_node *node, struct snap_parser_job *job)
{
	struct snap_node alone = *node, *root = &alone;
	const struct snap_snapshot one = { .processes = &root,
					   .root_count = 1,
					   .process_count = 1 };
	uint64_t shown = UINT64_MAX;

	alone.child_count = 0;
	snap_error_destroy(write_and_read(&one, job, &shown));
	return shown;
}

/* Of each process that makes half as much of the report as the one that makes the most. */
static void leave_part_out(struct snap_snapshot *snapshot, struct snap_node **nodes,
			   uint64_t *shown, struct snap_parser_job *job, const struct part *part,
			   const char *reason)
{
	size_t count = 0;
	uint64_t most = 0;

	for (size_t i = 0; i < snapshot->root_count && count < snapshot->process_count; i++)
		nodes[count++] = snapshot->processes[i];
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < nodes[i]->child_count && count < snapshot->process_count;
		     k++)
			nodes[count++] = nodes[i]->children[k];
		shown[i] = shown_alone(nodes[i], job);
		most = SNAP_MAX(most, shown[i]);
	}
	for (size_t i = 0; i < count; i++) {
		struct snap_stack_cursor cursor = { 0 };
		struct snap_stack *stack;

		if (shown[i] < most / 2)
			continue;
		while ((stack = snap_node_next_stack(nodes[i], &cursor)))
			part->forget(stack);
		snapshot->missing.modules++;
		snap_snapshot_warn(snapshot, "report_limited", nodes[i]->pid, 0,
				   "process %d: its %s are left out: %s", nodes[i]->pid, part->name,
				   reason);
	}
}

struct stacksnap_error *snap_leave_snapshot(struct snap_snapshot *snapshot,
					    struct snap_parser_job *job)
{
	_cleanup_free_ struct snap_node **nodes =
		calloc(snapshot->process_count + 1, sizeof(*nodes));
	_cleanup_free_ uint64_t *shown = calloc(snapshot->process_count + 1, sizeof(*shown));
	struct stacksnap_error *err;

	SNAP_TRY(snap_no_memory_unless(nodes && shown));
	for (size_t round = 0;
	     (err = write_and_read(snapshot, job, shown)) && round < 4 * SNAP_ARRAY_SIZE(parts);
	     round++) {
		leave_part_out(snapshot, nodes, shown, job, &parts[round % SNAP_ARRAY_SIZE(parts)],
			       snap_error_message(err));
		snap_error_destroy(err);
	}
	return err;
}
