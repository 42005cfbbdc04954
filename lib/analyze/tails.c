/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tail-called functions have left no frame: they become entries of the frame that called the first of
 * them, marked. A pair of frames is looked at where the call led to another function than the one
 * that runs. Such a frame is a copy, as the same call can lead to several functions.
 */
#include "analyze/analysis.h"
#include "base/bsearch.h"
#include "base/buffer.h"

/* Each file with such pairs is read once more, at most for so long. */
enum { MOST_NS = 100000000 };

/* A frame of a stack that called a function other than the one in the frame below it. */
struct pair {
	struct snap_raw_process *raw;
	const struct snap_frame **place; /* of the caller, in the stack */
	struct snap_frame_record *caller;
	uint64_t called, runs; /* in the file */
};

SNAP_ORDER(compare_pairs, struct pair, a, b,
	   snap_compare(a->caller->file->index, b->caller->file->index),
	   snap_compare(a->called, b->called), snap_compare(a->runs, b->runs),
	   snap_compare((uintptr_t)a->caller, (uintptr_t)b->caller));
SNAP_ORDER(compare_names, struct snap_query, a, b, snap_compare(a->vaddr, b->vaddr));

struct pairs {
	struct pair *pairs;
	size_t count, capacity;
};

static void pairs_deinit(struct pairs *pairs)
{
	free(pairs->pairs);
}

static bool is_same_question(const struct pair *a, const struct pair *b)
{
	return a->called == b->called && a->runs == b->runs;
}

static bool add_pair(struct pairs *pairs, struct snap_raw_process *raw,
		     struct snap_raw_stack *stack, size_t caller)
{
	struct snap_frame_record *of = snap_frame_record_of(stack->frames[caller]);
	const struct snap_frame_record *below = snap_frame_record_of(stack->frames[caller - 1]);
	uint64_t called;

	if (!of->file || of->file != below->file || of->is_managed || below->is_managed ||
	    !below->start || snap_pc_is_exact((struct snap_pc){ of->bits }) ||
	    (stack->gap_count && stack->gap_frame == caller - 1))
		return true;
	called = snap_symbolizer_call(of->file, of->vaddr + 1);
	if (!called || called == below->start)
		return true;
	if (!snap_reserve_array(pairs->pairs, pairs->capacity, pairs->count + 1))
		return false;
	pairs->pairs[pairs->count++] =
		(struct pair){ raw, &stack->frames[caller], of, called, below->start };
	return true;
}

static bool find_pairs(struct snap_analysis *analysis, struct pairs *pairs)
{
	for (size_t i = 0; i < analysis->capture->process_count; i++) {
		struct snap_raw_process *raw = &analysis->processes[i];

		for (size_t k = 0; k < raw->stack_count; k++)
			for (size_t f = raw->stacks[k].kernel_count + 1;
			     f < raw->stacks[k].frame_count; f++)
				if (!add_pair(pairs, raw, &raw->stacks[k], f))
					return false;
	}
	return true;
}

/* ---- entries ---- */

static const struct snap_query *name_of(const struct snap_query *names, size_t count,
					uint64_t vaddr)
{
	size_t at = snap_first_not(count, i, names[i].vaddr < vaddr);

	return at < count && names[at].vaddr == vaddr && names[at].entries ? &names[at] : NULL;
}

/* The entries of tail-called functions, the innermost first, and behind them those of the caller. */
static bool add_entries(struct snap_analysis *analysis, struct snap_frame_record *record,
			const struct snap_tail_query *query, const struct snap_query *names,
			size_t name_count)
{
	struct snap_frame *frame = &record->frame;
	size_t count = 0, total = frame->entry_count;
	struct snap_entry *entries;

	for (size_t i = 0; i < query->count; i++) {
		const struct snap_query *name = name_of(names, name_count, query->tails[i]);

		total += name ? name->entry_count : 0;
	}
	entries = snap_arena_new_array(snap_analysis_arena(analysis), total, struct snap_entry);
	if (!entries)
		return false;
	for (size_t i = query->count; i-- > 0;) {
		const struct snap_query *name = name_of(names, name_count, query->tails[i]);

		for (size_t k = 0; name && k < name->entry_count; k++) {
			entries[count] = name->entries[k];
			entries[count].inlined = true;
			entries[count++].tail_call = k + 1 == name->entry_count;
		}
	}
	memcpy(entries + count, frame->entries, frame->entry_count * sizeof(*entries));
	frame->entries = entries;
	frame->entry_count = total;
	return true;
}

/* All pairs with one answer. A copy serves all stacks of a process with the same caller. */
static bool put_tails(struct snap_analysis *analysis, struct pair *pairs, size_t count,
		      const struct snap_tail_query *query, const struct snap_query *names,
		      size_t name_count)
{
	struct snap_frame_record *copy = NULL;
	const struct pair *last = NULL;

	for (size_t i = 0; i < count; i++) {
		struct pair *pair = &pairs[i];

		if (!last || last->raw != pair->raw || last->caller != pair->caller) {
			copy = snap_arena_memdup(snap_analysis_arena(analysis), pair->caller,
						 sizeof(*copy));
			if (!copy || !add_entries(analysis, copy, query, names, name_count) ||
			    !snap_frame_record_add(pair->raw, copy))
				return false;
		}
		*pair->place = &copy->frame;
		last = pair;
	}
	return true;
}

static struct stacksnap_error *name_tails(struct snap_analysis *analysis,
					  struct snap_module_file *file,
					  const struct snap_tail_query *queries, size_t count,
					  struct snap_query **names_ret, size_t *name_count_ret)
{
	struct snap_query *names = calloc(count * SNAP_MOST_TAILS + 1, sizeof(*names));
	size_t all = 0, distinct = 0;
	bool is_late;

	*names_ret = names;
	if (!names)
		return snap_error_no_memory();
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < queries[i].count; k++)
			names[all++].vaddr = queries[i].tails[k];
	qsort(names, all, sizeof(*names), compare_names);
	for (size_t i = 0; i < all; i++)
		if (i == 0 || names[i].vaddr != names[distinct - 1].vaddr)
			names[distinct++] = names[i];
	*name_count_ret = distinct;
	return snap_symbolize(analysis->symbolizer, file, names, distinct, MOST_NS, &is_late);
}

/* The pairs of one file. */
static struct stacksnap_error *find_tails_of_file(struct snap_analysis *analysis,
						  struct pair *pairs, size_t count)
{
	_cleanup_free_ struct snap_tail_query *queries = calloc(count, sizeof(*queries));
	_cleanup_free_ struct snap_query *names = NULL;
	struct snap_module_file *file = pairs->caller->file;
	size_t distinct = 0, name_count = 0;

	if (!queries)
		return snap_error_no_memory();
	for (size_t i = 0; i < count; i++)
		if (i == 0 || !is_same_question(&pairs[i], &pairs[i - 1]))
			queries[distinct++] = (struct snap_tail_query){ .called = pairs[i].called,
									.runs = pairs[i].runs };
	SNAP_TRY(snap_symbolizer_tails(analysis->symbolizer, file, queries, distinct, MOST_NS));
	if (!snap_any(distinct, i, queries[i].count))
		return NULL;
	SNAP_TRY(name_tails(analysis, file, queries, distinct, &names, &name_count));
	for (size_t i = 0; i < name_count; i++)
		snap_frames_flag_system(&names[i], file->path, !pairs->raw->has_libc);
	for (size_t i = 0, q = 0, end; i < count; i = end, q++) {
		for (end = i + 1; end < count && is_same_question(&pairs[end], &pairs[i]);)
			end++;
		if (queries[q].count &&
		    !put_tails(analysis, pairs + i, end - i, &queries[q], names, name_count))
			return snap_error_no_memory();
	}
	return NULL;
}

struct stacksnap_error *snap_tails_find(struct snap_analysis *analysis)
{
	_cleanup_(pairs_deinit) struct pairs pairs = { 0 };

	if (!analysis->options->symbols || !analysis->options->inlines)
		return NULL;
	if (!find_pairs(analysis, &pairs))
		return snap_error_no_memory();
	if (pairs.count)
		qsort(pairs.pairs, pairs.count, sizeof(*pairs.pairs), compare_pairs);
	for (size_t i = 0, end; i < pairs.count; i = end) {
		for (end = i + 1; end < pairs.count &&
				  pairs.pairs[end].caller->file == pairs.pairs[i].caller->file;)
			end++;
		SNAP_TRY(find_tails_of_file(analysis, pairs.pairs + i, end - i));
	}
	return NULL;
}
