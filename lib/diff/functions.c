/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions of two recordings, and their shares of the samples: see parts.h. Running and waiting
 * threads are separate, as a few that compute would be lost among a hundred that sleep.
 */
#include "diff/parts.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <string.h>

enum {
	LEAST_SAMPLES = 20, /* of an activity, in one of the two: fewer say nothing */
	LEAST_SHARE = SNAP_DIFF_WHOLE / 100, /* what moves by less is noise */
};

enum activity { RUNNING, WAITING, ACTIVITIES };
enum place { ANYWHERE, INNERMOST, PLACES };

struct row {
	const char *name, *module;
	bool guessed;
	uint64_t counts[2][ACTIVITIES][PLACES]; /* samples, by look */
	size_t seen;                            /* the number of the stack that was counted last */
};

struct table {
	struct row *rows;
	size_t count, capacity;
	struct snap_hash_table hashes;
	uint64_t totals[2][ACTIVITIES];
	size_t stacks; /* how many were counted */
};

static void table_deinit(struct table *table)
{
	free(table->rows);
	snap_hash_table_deinit(&table->hashes);
}

/* NULL without memory. */
static struct row *find_function_row(struct table *table, const char *name, const char *module)
{
	uint64_t hash = snap_hash_text(name, 0);
	struct snap_probe probe = snap_hash_table_probe(&table->hashes, hash);

	while (snap_probe_next(&probe))
		if (strcmp(table->rows[probe.number].name, name) == 0)
			return &table->rows[probe.number];
	if (!snap_reserve_array(table->rows, table->capacity, table->count + 1) ||
	    !snap_hash_table_add(&table->hashes, hash, table->count))
		return NULL;
	table->rows[table->count] = (struct row){ .name = name, .module = module };
	return &table->rows[table->count++];
}

/* Functions that recurse are somewhere in the stack once. */
static bool add_function_entry(struct table *table, int look, const struct snap_frame *frame,
			       const struct snap_entry *entry, const uint64_t *samples,
			       bool innermost)
{
	const char *name = entry->function ? entry->function : entry->symbol;
	struct row *row;

	if (!name)
		return true;
	row = find_function_row(table, name, frame->module);
	if (!row)
		return false;
	row->guessed |= frame->trust != SNAP_TRUST_CFI;
	for (int activity = 0; activity < ACTIVITIES; activity++) {
		if (row->seen != table->stacks)
			row->counts[look][activity][ANYWHERE] += samples[activity];
		if (innermost)
			row->counts[look][activity][INNERMOST] += samples[activity];
	}
	row->seen = table->stacks;
	return true;
}

static bool add_function_stack(struct table *table, int look,
			       const struct snap_recorded_stack *stack, const uint64_t *samples)
{
	table->stacks++;
	for (size_t i = 0; i < stack->frame_count; i++)
		for (size_t k = 0; k < stack->frames[i]->entry_count; k++)
			if (!add_function_entry(table, look, stack->frames[i],
						&stack->frames[i]->entries[k], samples,
						i == 0 && k == 0))
				return false;
	return true;
}

static bool add_recording(struct table *table, int look, const struct snap_recording *recording)
{
	_cleanup_free_ uint64_t(*samples)[ACTIVITIES] =
		calloc(recording->stack_count + 1, sizeof(*samples));

	if (!samples)
		return false;
	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++) {
			const struct snap_run *run = &recording->tracks[i].runs[k];
			enum activity activity =
				run->state == SNAP_STATE_RUNNING ? RUNNING : WAITING;

			samples[run->stack][activity] += snap_run_samples(run);
			table->totals[look][activity] += snap_run_samples(run);
		}
	return snap_all(recording->stack_count, i,
			!(samples[i][RUNNING] || samples[i][WAITING]) ||
				add_function_stack(table, look, &recording->stacks[i], samples[i]));
}

static uint32_t share_of_function(const struct table *table, const struct row *row, int look,
				  enum activity activity, enum place place)
{
	uint64_t total = table->totals[look][activity], count = row->counts[look][activity][place];

	return total ? (uint32_t)((unsigned __int128)count * SNAP_DIFF_WHOLE / total) : 0;
}

static uint32_t function_distance(uint32_t a, uint32_t b)
{
	return a > b ? a - b : b - a;
}

static uint32_t movement(const struct snap_diff_function *function)
{
	uint32_t anywhere = function_distance(function->before, function->after),
		 self = function_distance(function->before_self, function->after_self);

	return anywhere > self ? anywhere : self;
}

static struct snap_diff_function function_of(const struct table *table, const struct row *row,
					     enum activity activity)
{
	return (struct snap_diff_function){
		.name = row->name,
		.module = row->module,
		.guessed = row->guessed,
		.running = activity == RUNNING,
		.before = share_of_function(table, row, 0, activity, ANYWHERE),
		.after = share_of_function(table, row, 1, activity, ANYWHERE),
		.before_self = share_of_function(table, row, 0, activity, INNERMOST),
		.after_self = share_of_function(table, row, 1, activity, INNERMOST),
	};
}

SNAP_ORDER(compare_functions, struct snap_diff_function, a, b, snap_compare(b->running, a->running),
	   snap_compare(movement(b), movement(a)), strcmp(a->name, b->name));

static bool says_something(const struct table *table, enum activity activity)
{
	return table->totals[0][activity] >= LEAST_SAMPLES ||
	       table->totals[1][activity] >= LEAST_SAMPLES;
}

static bool list_moved(const struct table *table, struct snap_diff *diff)
{
	_cleanup_free_ struct snap_diff_function *moved = NULL;
	size_t count = 0, capacity = 0;

	for (int activity = 0; activity < ACTIVITIES; activity++)
		for (size_t i = 0; i < table->count && says_something(table, activity); i++) {
			struct snap_diff_function function =
				function_of(table, &table->rows[i], activity);

			if (movement(&function) < LEAST_SHARE)
				continue;
			if (!snap_append(moved, count, capacity, function))
				return false;
		}
	if (!count)
		return true;
	qsort(moved, count, sizeof(*moved), compare_functions);
	diff->functions = snap_arena_memdup(&diff->arena, moved, count * sizeof(*moved));
	diff->function_count = diff->functions ? count : 0;
	return diff->functions;
}

bool snap_diff_functions(struct snap_differ *differ)
{
	_cleanup_(table_deinit) struct table table = { .rows = NULL };

	if (!differ->before.recording || !differ->after.recording)
		return true;
	return add_recording(&table, 0, differ->before.recording) &&
	       add_recording(&table, 1, differ->after.recording) &&
	       list_moved(&table, differ->diff);
}
