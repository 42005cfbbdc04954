/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The report limit. A target could fill a disk with five thousand threads on stacks of five hundred
 * frames, or with names of four kilobytes. Unless the caller asked for so much, names are cut
 * first, then the long stacks, by a gap in their middle; the report says so. Tasks and waits have
 * limits of their own.
 *
 * The limit counts the bytes that the largest format would print. Knows nothing of how that prints
 * them.
 */
#include "analyze/analysis.h"

#include "analyze/fair_share.h"
#include "analyze/short_text.h"
#include "analyze/task/task.h"
#include "analyze/wait/wait.h"
#include "base/escape.h"
#include "model/stack_cut.h"

#include <stdlib.h>
#include <string.h>

enum {
	REPORT_BYTES = 8 << 20,
	PROCESS_BYTES = 32 << 10,  /* more for each process … */
	MANY = 128,                /* … of so many; those that are more have as much in all */
	ANCESTOR_BYTES = 64,       /* each, with a usual name */
	ANCESTORS_BYTES = 1 << 20, /* of all processes together */
	ENTRY_BYTES = 160,         /* each without its texts */
	THREAD_BYTES = 130,
	STACK_BYTES = 350,
	TASKS_BYTES = 64 << 20, /* of all tasks with their labels, without frames */
	WAITS_BYTES = 9 << 20,  /* of all waits with their owners and peers */
	SHORT_NAME = 256,       /* what names are cut to */
	FEW_FRAMES = 32,        /* before stacks are cut shorter than this, names are cut */
	LEAST_FRAMES = 2,
};

static uint64_t frame_bytes(const struct snap_frame *frame)
{
	uint64_t bytes =
		snap_report_text_bytes(frame->module) + snap_report_text_bytes(frame->build_id);

	for (size_t i = 0; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];

		bytes += ENTRY_BYTES + snap_report_text_bytes(entry->function) +
			 snap_report_text_bytes(entry->file);
		if (entry->symbol)
			bytes += snap_report_text_bytes(entry->symbol);
	}
	return bytes;
}

static uint64_t known_frame_bytes(const struct snap_frame *frame)
{
	struct snap_frame_record *record = snap_frame_record_of(frame);

	if (!record->report_bytes)
		record->report_bytes = frame_bytes(frame);
	return record->report_bytes;
}

static struct snap_stack_cut frames_cut_of_stack(const struct snap_stack *stack, size_t most)
{
	return snap_stack_cut_to(most, stack->frame_count, stack->gap_frame, stack->gap_count);
}

static uint64_t report_stack_bytes(const struct snap_stack *stack, size_t most)
{
	const struct snap_stack_cut cut = frames_cut_of_stack(stack, most);
	uint64_t bytes = STACK_BYTES + snap_report_text_bytes(stack->description) +
			 stack->thread_count * (uint64_t)THREAD_BYTES;

	for (size_t i = 0; i < cut.head; i++)
		bytes += known_frame_bytes(stack->frames[i]);
	for (size_t i = stack->frame_count - cut.tail; i < stack->frame_count; i++)
		bytes += known_frame_bytes(stack->frames[i]);
	return bytes;
}

/* Of one process; no more is counted where it is beyond the limit. */
static uint64_t node_bytes(const struct snap_node *node, size_t most, uint64_t limit)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;
	uint64_t bytes = 0;

	while (node && bytes <= limit && (stack = snap_node_next_stack(node, &cursor)))
		bytes += report_stack_bytes(stack, most);
	return bytes;
}

/* The largest length of stacks with which all of the process fit. */
static size_t fitting_length(const struct snap_node *node, size_t most, uint64_t limit)
{
	size_t low = LEAST_FRAMES, high = most;

	while (low < high) {
		size_t middle = high - (high - low) / 2;

		if (node_bytes(node, middle, limit) <= limit)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static const char *shorten_name(struct snap_analysis *analysis, const char *name)
{
	size_t length = name ? strnlen(name, SHORT_NAME + 1) : 0;
	char text[SHORT_NAME + 4];

	if (length <= SHORT_NAME)
		return name;
	length = snap_text_cut(name, length, SHORT_NAME);
	memcpy(text, name, length);
	memcpy(text + length, "...", 4);
	return snap_intern(&analysis->strings, text, length + 3);
}

static void shorten_names(struct snap_analysis *analysis, const struct snap_raw_process *raw,
			  const struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	struct snap_stack *stack;

	while ((stack = snap_node_next_stack(node, &cursor)))
		stack->description = shorten_name(analysis, stack->description);
	for (size_t k = 0; k < raw->record_count; k++) {
		struct snap_frame *frame = &raw->records[k]->frame;

		raw->records[k]->report_bytes = 0;
		frame->module = shorten_name(analysis, frame->module);
		for (size_t n = 0; n < frame->entry_count; n++) {
			struct snap_entry *entry = &frame->entries[n];

			entry->function = shorten_name(analysis, entry->function);
			entry->symbol = shorten_name(analysis, entry->symbol);
			entry->file = shorten_name(analysis, entry->file);
		}
	}
}

/* The frames are copied: other stacks of the process may have the same ones. */
static bool cut_report_stack(struct snap_arena *arena, struct snap_stack *stack, size_t most)
{
	const struct snap_stack_cut cut = frames_cut_of_stack(stack, most);
	const struct snap_frame **frames;

	if (stack->frame_count <= most)
		return true;
	frames = snap_arena_new_array(arena, cut.head + cut.tail, const struct snap_frame *);
	if (!frames)
		return false;
	stack->frame_count = snap_stack_cut_copy(&cut, stack->frames, stack->frame_count, frames,
						 &stack->gap_frame, &stack->gap_count);
	stack->frames = frames;
	return true;
}

/*
 * A row of two thousand generations has as many lists of ancestors, which the tree shows anyway:
 * the nearest ones stay, as many for each as there is room for. How many that are; 0: all.
 */
static size_t limit_ancestors(struct snap_node *const *nodes, size_t count)
{
	size_t total = 0, lists = 0, most;

	for (size_t i = 0; i < count; i++) {
		total += nodes[i] ? nodes[i]->ancestor_count : 0;
		lists += nodes[i] && nodes[i]->ancestor_count;
	}
	if (total <= ANCESTORS_BYTES / ANCESTOR_BYTES)
		return 0;
	most = ANCESTORS_BYTES / ANCESTOR_BYTES / lists + 1;
	for (size_t i = 0; i < count; i++)
		if (nodes[i] && nodes[i]->ancestor_count > most)
			nodes[i]->ancestor_count = most;
	return most;
}

static void warn_of_ancestors(struct snap_analysis *analysis, size_t most)
{
	if (most)
		snap_snapshot_warn(analysis->snapshot, "report_limited", 0, 0,
				   "the report would be too large: of the ancestors of each "
				   "process the nearest %zu are listed (-n COUNT lists all)",
				   most);
}

/* ---- shares ---- */

/* One more than there are processes: for what belongs to none. NULL without memory. */
static struct snap_claim *new_claims(const struct snap_analysis *analysis)
{
	const struct snap_capture *capture = analysis->capture;
	struct snap_claim *claims = calloc(capture->process_count + 1, sizeof(*claims));

	for (size_t i = 0; claims && i < capture->process_count; i++) {
		claims[i].uid = capture->processes[i].uid;
		claims[i].container = capture->processes[i].container;
	}
	if (claims)
		claims[capture->process_count].uid = (uid_t)-1;
	return claims;
}

static bool is_beyond(const struct snap_claim *claim)
{
	return claim->bytes > claim->share;
}

/* ---- tasks ---- */

static void warn_of_tasks(struct snap_analysis *analysis, pid_t pid,
			  const struct snap_task_cut *cut)
{
	char labels[80] = "", tasks[80] = "";

	if (cut->without_labels)
		snprintf(labels, sizeof(labels), ", the labels of %zu are left out",
			 cut->without_labels);
	if (cut->tasks)
		snprintf(tasks, sizeof(tasks), ", %zu tasks are left out", cut->tasks);
	snap_snapshot_warn(analysis->snapshot, "report_limited", pid, 0,
			   "the report would be too large: long texts of tasks are cut%s%s "
			   "(-n COUNT lists all)",
			   labels, tasks);
}

/*
 * Tasks and their labels cost a program nothing that it shows, and are written several times: what
 * exceeds the needs of honest programs is left out, from the processes that have the most.
 */
static struct stacksnap_error *limit_tasks(struct snap_analysis *analysis,
					   struct snap_node *const *nodes, size_t count)
{
	_cleanup_free_ struct snap_claim *claims = new_claims(analysis);

	SNAP_TRY(snap_no_memory_unless(claims));
	for (size_t i = 0; i < count; i++)
		SNAP_TRY(nodes[i] ? snap_task_report_bytes(nodes[i], &claims[i].bytes) : NULL);
	SNAP_TRY(snap_no_memory_unless(snap_fair_shares(claims, count, TASKS_BYTES) >= 0));
	for (size_t i = 0; i < count; i++) {
		struct snap_task_cut cut = { .texts = false };

		if (!is_beyond(&claims[i]))
			continue;
		SNAP_TRY(snap_task_limit_node(&analysis->strings, nodes[i], claims[i].share, &cut));
		warn_of_tasks(analysis, nodes[i]->pid, &cut);
	}
	return NULL;
}

/* ---- waits ---- */

static void warn_of_waits(struct snap_analysis *analysis, const struct snap_wait_cut *cut)
{
	char waits[80] = "";

	if (cut->waits)
		snprintf(waits, sizeof(waits), ", the waits of %zu thread%s are left out",
			 cut->waits, cut->waits == 1 ? "" : "s");
	snap_snapshot_warn(
		analysis->snapshot, "report_limited", 0, 0,
		"the report would be too large: texts about waits are cut "
		"to %zu bytes%s%s (-n COUNT lists all)",
		cut->length,
		cut->lists ? ", lists of processes at the other end to the first one" : "", waits);
}

/*
 * A lock may be called anything, a path be four kilobytes long, and a thread that waits for a
 * waiting thread repeats it. All waits together have a share like that of one process.
 */
static struct stacksnap_error *limit_waits(struct snap_analysis *analysis,
					   struct snap_node *const *nodes, size_t count)
{
	_cleanup_free_ struct snap_claim *claims = new_claims(analysis);
	const struct snap_waits *waits = &analysis->snapshot->waits;
	struct snap_wait_cut cut = { .length = 0 };
	struct stacksnap_error *err = NULL;

	if (!waits->asked)
		return NULL;
	SNAP_TRY(snap_no_memory_unless(claims));
	for (size_t i = 0; i <= count && !err; i++)
		if (i == count || nodes[i])
			err = snap_waits_report_bytes(i < count ? nodes[i] : NULL, waits,
						      &claims[i].bytes);
	if (!err && snap_fair_shares(claims, count + 1, WAITS_BYTES) < 0)
		return snap_error_no_memory();
	for (size_t i = 0; i <= count && !err; i++)
		if (is_beyond(&claims[i]))
			err = snap_waits_limit(&analysis->strings, i < count ? nodes[i] : NULL,
					       waits, claims[i].share, &cut);
	if (!err && cut.length)
		warn_of_waits(analysis, &cut);
	return err;
}

/* ---- stacks ---- */

static uint64_t limit_of(size_t count)
{
	uint64_t few = count < MANY ? count : MANY;

	return REPORT_BYTES + (count > MANY ? 2 * few : few) * PROCESS_BYTES;
}

/* What was taken from which process. */
struct stack_limit {
	uint64_t bytes;     /* of all of them */
	size_t least, most; /* lengths to which stacks were cut */
	size_t cut, uncut;  /* processes */
	bool shortened;     /* names */
};

static void warn_of_limit(struct snap_analysis *analysis, const struct stack_limit *limit)
{
	char whose[64] = "";

	if (limit->uncut)
		snprintf(whose, sizeof(whose), " of the %zu process%s with the most", limit->cut,
			 limit->cut == 1 ? "" : "es");
	snap_snapshot_warn(
		analysis->snapshot, "report_limited", 0, 0,
		"the report would be larger than %d MiB: stacks%s are cut to %zu frames%s%s "
		"(-n COUNT sets the number)",
		(int)(limit->bytes >> 20), whose, limit->least,
		limit->most > limit->least ? " or more" : "",
		limit->shortened ? ", names to 256 bytes" : "");
}

/* So that the process takes no more than its share. */
static bool cut_node(struct snap_analysis *analysis, size_t number, struct snap_node *node,
		     uint64_t share, struct stack_limit *limit)
{
	size_t longest = analysis->options->max_frames;
	size_t most = fitting_length(node, longest, share);
	struct snap_stack_cursor cursor = { 0 };
	struct snap_stack *stack;

	if (most < FEW_FRAMES) {
		shorten_names(analysis, &analysis->processes[number], node);
		limit->shortened = true;
		most = fitting_length(node, longest, share);
	}
	while ((stack = snap_node_next_stack(node, &cursor)))
		if (!cut_report_stack(snap_analysis_arena(analysis), stack, most))
			return false;
	limit->least = limit->cut == 0 || most < limit->least ? most : limit->least;
	limit->most = most > limit->most ? most : limit->most;
	limit->cut++;
	return true;
}

/* Long stacks of the processes that have the most are cut; a process that has little keeps it. */
static struct stacksnap_error *limit_stacks(struct snap_analysis *analysis,
					    struct snap_node *const *nodes, size_t count)
{
	struct stack_limit limit = { .bytes = limit_of(count) };
	_cleanup_free_ struct snap_claim *claims = new_claims(analysis);
	int shared;

	SNAP_TRY(snap_no_memory_unless(claims));
	for (size_t i = 0; i < count; i++)
		claims[i].bytes = node_bytes(nodes[i], analysis->options->max_frames, limit.bytes);
	shared = snap_fair_shares(claims, count, limit.bytes);
	if (shared <= 0)
		return snap_no_memory_unless(shared >= 0);
	for (size_t i = 0; i < count; i++) {
		if (!is_beyond(&claims[i]))
			limit.uncut += claims[i].bytes > 0;
		else if (!cut_node(analysis, i, nodes[i], claims[i].share, &limit))
			return snap_error_no_memory();
	}
	warn_of_limit(analysis, &limit);
	return NULL;
}

struct stacksnap_error *snap_report_limit(struct snap_analysis *analysis,
					  struct snap_node *const *nodes)
{
	size_t count = analysis->capture->process_count;

	if (snap_options_any_size(analysis->options))
		return NULL;
	warn_of_ancestors(analysis, limit_ancestors(nodes, count));
	SNAP_TRY(limit_tasks(analysis, nodes, count));
	SNAP_TRY(limit_waits(analysis, nodes, count));
	return limit_stacks(analysis, nodes, count);
}
