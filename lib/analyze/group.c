/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Grouping: see group.h. The order of stacks and, by tid, of threads is total, so the same input
 * gives the same bytes.
 */
#include "analyze/group.h"

#include "analyze/analysis.h"
#include "analyze/classify.h"
#include "analyze/label.h"
#include "base/bsearch.h"
#include "model/wait/wait.h"

#include <inttypes.h>
#include <string.h>

struct grouping {
	struct snap_interner *strings;
	const struct snap_options *options;
	const struct snap_raw_process *raw;
	const size_t *stacks; /* of each item's number: the raw stack */
	const struct snap_member *members;
};

static const char *linkage_name(const struct snap_entry *entry)
{
	return entry->symbol ? entry->symbol : entry->function;
}

static uint64_t address_key(const struct snap_frame_record *record)
{
	const struct snap_frame *frame = &record->frame;
	uint64_t hash = snap_hash_text("place", 0);

	if (frame->has_offset)
		return snap_hash_number(frame->offset,
					snap_hash_text(frame->build_id ? frame->build_id
						       : frame->module ? frame->module
								       : "",
						       hash));
	if (record->module && frame->module)
		return snap_hash_number(record->lookup - record->module->start,
					snap_hash_text(frame->module, hash));
	/* What a document has, too: its groups keep their ids. */
	return snap_hash_number(frame->address, hash);
}

/* The first entry behind the tail-called functions, which recordings do not have: ids are the same. */
static size_t first_with_frame(const struct snap_frame *frame)
{
	size_t first = frame->entry_count - 1;

	while (first && !frame->entries[first - 1].tail_call)
		first--;
	return first;
}

static uint64_t compute_key(const struct snap_frame_record *record)
{
	const struct snap_frame *frame = &record->frame;
	size_t first = first_with_frame(frame);
	uint64_t hash = snap_hash_number(frame->entry_count - first, 1);
	bool named = false;

	for (size_t i = first; i < frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i];
		const char *name = linkage_name(entry);

		named = named || name;
		hash = snap_hash_text(name ? name : "", hash + entry->kernel);
		hash = snap_hash_number(entry->line, hash);
	}
	return named ? hash : address_key(record);
}

static uint64_t frame_key(const struct snap_frame *frame)
{
	struct snap_frame_record *record = snap_frame_record_of(frame);

	if (record->key == 0)
		record->key = compute_key(record) | 1;
	return record->key;
}

uint64_t snap_group_stack_key(const struct snap_raw_stack *stack)
{
	/* Equal frames are one stack, however they were found. */
	enum snap_unwind_end end =
		snap_unwind_is_whole(stack->end) ? SNAP_UNWIND_COMPLETE : stack->end;
	uint64_t hash = snap_hash_number(stack->frame_count, end);

	hash = snap_hash_number(stack->gap_count, snap_hash_number(stack->gap_frame, hash));
	for (size_t i = 0; i < stack->frame_count; i++)
		hash = snap_hash_number(frame_key(stack->frames[i]), hash);
	return snap_hash_number(SNAP_GROUP_STACK, hash);
}

int snap_group_compare_items(const void *left, const void *right)
{
	const struct snap_group_item *a = left, *b = right;

	return snap_compare(a->id, b->id) ?: snap_compare(a->number, b->number);
}

static const struct snap_raw_stack *stack_of_group(const struct grouping *grouping,
						   const struct snap_group_item *item)
{
	return &grouping->raw->stacks[grouping->stacks[item->number]];
}

/* What is passed over on the way in from the outermost function. */
enum passed_over {
	PASS_STARTUP = 1,         /* start-up code of a language */
	PASS_SYSTEM = 2,          /* all of the system's, start-up code among it */
	PASS_MANAGED_STARTUP = 4, /* "<module>", "{main}" and what starts threads */
};

static bool is_passed_over(const struct snap_entry *entry, unsigned passed_over)
{
	if (!entry->function || entry->kernel)
		return true;
	if (passed_over & PASS_SYSTEM && entry->system)
		return true;
	if (passed_over & PASS_STARTUP &&
	    snap_classify_startup_function(entry->symbol, entry->function))
		return true;
	return passed_over & PASS_MANAGED_STARTUP &&
	       snap_classify_managed_startup(entry->language, entry->function, entry->file);
}

/* The display name of the outermost entry that is not passed over; NULL if there is none. */
static const char *outermost_function(const struct snap_frame **frames, size_t count,
				      unsigned passed_over)
{
	for (size_t i = count; i-- > 0;)
		for (size_t k = frames[i]->entry_count; k-- > 0;)
			if (!is_passed_over(&frames[i]->entries[k], passed_over))
				return frames[i]->entries[k].function;
	return NULL;
}

/* How many frames are more inner than the innermost managed one; `count`: none is managed. */
static size_t count_in_managed(const struct snap_frame **frames, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < frames[i]->entry_count; k++)
			if (frames[i]->entries[k].language)
				return i;
	return count;
}

const char *snap_group_describe(const struct snap_frame **frames, size_t count)
{
	/* What is asked for first. "<module>" is better than the function in C that it waits in. */
	static const unsigned ways[] = { PASS_SYSTEM | PASS_MANAGED_STARTUP, PASS_SYSTEM,
					 PASS_STARTUP | PASS_MANAGED_STARTUP, PASS_STARTUP };
	size_t inner = count_in_managed(frames, count);
	const char *function = NULL;

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && !function && inner < count; i++)
		function = outermost_function(frames + inner, count - inner, ways[i]);
	if (!function)
		function = outermost_function(frames, count, PASS_SYSTEM);
	if (!function)
		function = outermost_function(frames, count, PASS_STARTUP);
	return function ? function : "(unknown)";
}

static const char *not_stopped_detail(const struct grouping *grouping,
				      const struct snap_stack *stack)
{
	struct snap_arena *arena = grouping->strings->arena;
	const struct snap_member *first = &stack->threads[0];

	if (first->kernel)
		return "a kernel worker has no user stack";
	if (first->wchan)
		return snap_arena_printf(arena, "state %s, wchan %s", snap_state_word(first->state),
					 first->wchan);
	return snap_arena_printf(arena, "state %s", snap_state_word(first->state));
}

/*
 * Without the stack in --group-by, threads of a group stand in different places: what is printed is
 * the outermost part that all have in common.
 */
static void keep_common_part(const struct grouping *grouping, const struct snap_group_item *items,
			     size_t count, struct snap_stack *stack)
{
	size_t common = stack->frame_count;
	bool same_end = true;

	for (size_t i = 1; i < count; i++) {
		const struct snap_raw_stack *other = stack_of_group(grouping, &items[i]);
		size_t k = 0;

		while (k < common && k < other->frame_count &&
		       frame_key(stack->frames[stack->frame_count - 1 - k]) ==
			       frame_key(other->frames[other->frame_count - 1 - k]))
			k++;
		if (k < common || other->frame_count > k) {
			common = k;
			same_end = same_end && other->end == stack->unwind;
			stack->unwind_detail = "the innermost frames differ and are left out";
			stack->gap_count = 0;
			stack->gap_frame = 0;
		}
	}
	stack->frames += stack->frame_count - common;
	stack->frame_count = common;
	if (!same_end)
		stack->unwind = SNAP_UNWIND_FAILED;
}

/* Of stacks that differ only in how their frames were found, the one with the least trust. */
static const struct snap_raw_stack *choose_stack(const struct grouping *grouping,
						 const struct snap_group_item *items, size_t count)
{
	const struct snap_raw_stack *chosen = stack_of_group(grouping, &items[0]);

	for (size_t i = 1; i < count && grouping->options->group_by & SNAP_GROUP_STACK; i++) {
		const struct snap_raw_stack *other = stack_of_group(grouping, &items[i]);

		if (other->doubt > chosen->doubt)
			chosen = other;
	}
	return chosen;
}

void snap_group_show(const struct snap_options *options, const struct snap_raw_process *raw,
		     const size_t *stacks, const struct snap_group_item *items, size_t count,
		     struct snap_stack *ret)
{
	const struct grouping grouping = { NULL, options, raw, stacks, NULL };
	const struct snap_raw_stack *chosen = choose_stack(&grouping, items, count);

	*ret = (struct snap_stack){
		.count = count,
		.unwind = chosen->end,
		.unwind_detail = chosen->detail,
		.gap_frame = chosen->gap_frame,
		.gap_count = chosen->gap_count,
		.frames = chosen->frames,
		.frame_count = chosen->frame_count,
	};
	snprintf(ret->id, sizeof(ret->id), "%016" PRIx64, items[0].id);
	if (!(options->group_by & (SNAP_GROUP_STACK | SNAP_GROUP_TID)))
		keep_common_part(&grouping, items, count, ret);
	ret->description = snap_group_describe(ret->frames, ret->frame_count);
}

const struct snap_wait *snap_group_wait(const struct snap_stack *stack)
{
	const struct snap_wait *first = stack->thread_count ? stack->threads[0].wait : NULL;

	for (size_t i = 1; first && i < stack->thread_count; i++)
		if (!stack->threads[i].wait || !snap_wait_same(first, stack->threads[i].wait))
			return NULL;
	return first;
}

static bool make_group_stack(const struct grouping *grouping, const struct snap_group_item *items,
			     size_t count, struct snap_stack *stack)
{
	snap_group_show(grouping->options, grouping->raw, grouping->stacks, items, count, stack);
	stack->thread_count = count;
	stack->threads = snap_arena_new_array(grouping->strings->arena, count, struct snap_member);
	if (!stack->threads)
		return false;
	for (size_t i = 0; i < count; i++)
		stack->threads[i] = grouping->members[items[i].number];
	stack->wait = snap_group_wait(stack);
	stack->crashed = snap_stack_has_thread(stack, grouping->raw->process->signal.tid);
	if (stack->unwind == SNAP_UNWIND_NOT_STOPPED && !stack->unwind_detail)
		stack->unwind_detail = not_stopped_detail(grouping, stack);
	return snap_label_stack(grouping->strings, stack);
}

static bool make_group_stacks(const struct grouping *grouping, const struct snap_group_item *items,
			      size_t count, struct snap_node *node)
{
	size_t stack_count = snap_sum(count, i, i == 0 || items[i].id != items[i - 1].id);

	node->stacks =
		snap_arena_new_array(grouping->strings->arena, stack_count, struct snap_stack);
	if (!node->stacks)
		return false;
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i; end < count && items[end].id == items[i].id;)
			end++;
		if (!make_group_stack(grouping, items + i, end - i,
				      &node->stacks[node->stack_count++]))
			return false;
	}
	qsort(node->stacks, node->stack_count, sizeof(*node->stacks), snap_stack_compare);
	return true;
}

struct stacksnap_error *snap_group_threads(struct snap_interner *strings,
					   const struct snap_options *options,
					   struct snap_raw_process *raw,
					   const struct snap_member *members, const bool *shown,
					   struct snap_node *node)
{
	_cleanup_free_ struct snap_group_item *items =
		malloc((raw->thread_count + 1) * sizeof(*items));
	_cleanup_free_ uint64_t *keys = malloc((raw->stack_count + 1) * sizeof(*keys));
	_cleanup_free_ size_t *stacks = malloc((raw->thread_count + 1) * sizeof(*stacks));
	struct grouping grouping = { strings, options, raw, stacks, members };
	size_t count = 0;

	SNAP_TRY(snap_no_memory_unless(items && keys && stacks));
	for (size_t i = 0; i < raw->thread_count; i++)
		stacks[i] = raw->threads[i].stack;
	for (size_t i = 0; i < raw->stack_count; i++)
		keys[i] = options->group_by & SNAP_GROUP_STACK
				  ? snap_group_stack_key(&raw->stacks[i])
				  : 0;
	for (size_t i = 0; i < raw->thread_count; i++)
		if (shown[i])
			items[count++] = (struct snap_group_item){
				snap_label_key(&members[i], options->group_by,
					       keys[raw->threads[i].stack]),
				i,
			};
	qsort(items, count, sizeof(*items), snap_group_compare_items);
	return make_group_stacks(&grouping, items, count, node) ? NULL : snap_error_no_memory();
}

/* ---- of a document ---- */

/* The frames of a document are no records, which keys are kept in: these are. */
static const struct snap_frame **copy_to_records(struct snap_arena *arena,
						 const struct snap_stack *stack)
{
	const struct snap_frame **frames =
		snap_arena_new_array(arena, stack->frame_count, const struct snap_frame *);
	struct snap_frame_record *records =
		snap_arena_new_array(arena, stack->frame_count, struct snap_frame_record);

	if (!frames || !records)
		return NULL;
	for (size_t i = 0; i < stack->frame_count; i++) {
		records[i].frame = *stack->frames[i];
		frames[i] = &records[i].frame;
	}
	return frames;
}

/* A thread of a document, and which of its stacks. */
struct read_thread {
	struct snap_member member;
	size_t stack;
};

SNAP_ORDER(compare_read_threads, struct read_thread, a, b,
	   snap_compare(a->member.tid, b->member.tid));

/* The stacks of a node and their threads as an analysis has them, threads by tid. */
struct read_node {
	struct snap_raw_process raw;
	struct snap_process process;
	struct read_thread *read;
	struct snap_member *members;
	bool *shown;
};

SNAP_FREES(read_node_deinit, struct read_node, raw.stacks, raw.threads, read, members, shown);

static bool read_node_init(struct read_node *of, struct snap_arena *arena,
			   const struct snap_node *node)
{
	struct snap_raw_process *raw = &of->raw;

	*of = (struct read_node){ .process.signal = node->signal };
	raw->process = &of->process;
	raw->stack_count = node->stack_count;
	for (size_t i = 0; i < node->stack_count; i++)
		raw->thread_count += node->stacks[i].thread_count;
	raw->stacks = calloc(raw->stack_count + 1, sizeof(*raw->stacks));
	raw->threads = calloc(raw->thread_count + 1, sizeof(*raw->threads));
	of->read = calloc(raw->thread_count + 1, sizeof(*of->read));
	of->members = calloc(raw->thread_count + 1, sizeof(*of->members));
	of->shown = calloc(raw->thread_count + 1, sizeof(*of->shown));
	if (!raw->stacks || !raw->threads || !of->read || !of->members || !of->shown)
		return false;
	for (size_t i = 0, count = 0; i < raw->stack_count; i++) {
		const struct snap_stack *stack = &node->stacks[i];

		raw->stacks[i] = (struct snap_raw_stack){
			.frames = copy_to_records(arena, stack),
			.frame_count = stack->frame_count,
			.end = stack->unwind,
			.detail = stack->unwind_detail,
			.gap_frame = stack->gap_frame,
			.gap_count = stack->gap_count,
		};
		if (!raw->stacks[i].frames)
			return false;
		for (size_t k = 0; k < stack->thread_count; k++)
			of->read[count++] = (struct read_thread){ stack->threads[k], i };
	}
	qsort(of->read, raw->thread_count, sizeof(*of->read), compare_read_threads);
	for (size_t i = 0; i < raw->thread_count; i++) {
		of->members[i] = of->read[i].member;
		raw->threads[i].stack = of->read[i].stack;
		of->shown[i] = true;
	}
	return true;
}

struct stacksnap_error *snap_group_again(struct snap_interner *strings,
					 const struct snap_options *options, struct snap_node *node)
{
	_cleanup_(read_node_deinit) struct read_node of;
	struct snap_node grouped = { .pid = node->pid };
	struct snap_stack *all;

	SNAP_TRY(snap_no_memory_unless(read_node_init(&of, strings->arena, node)));
	SNAP_TRY(snap_group_threads(strings, options, &of.raw, of.members, of.shown, &grouped));
	all = snap_arena_new_array(strings->arena, grouped.stack_count + node->stack_count,
				   struct snap_stack);
	SNAP_TRY(snap_no_memory_unless(all));
	if (grouped.stack_count)
		memcpy(all, grouped.stacks, grouped.stack_count * sizeof(*all));
	for (size_t i = 0; i < node->stack_count; i++)
		if (node->stacks[i].runtime)
			all[grouped.stack_count++] = node->stacks[i];
	qsort(all, grouped.stack_count, sizeof(*all), snap_stack_compare);
	node->stacks = all;
	node->stack_count = grouped.stack_count;
	return NULL;
}
