/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The waits of a recording's runs: one for each pair of stack and object, once in a process, in
 * order. See internal.h; knows no holders.
 */
#include "analyze/log/internal.h"
#include "base/bsearch.h"
#include "base/buffer.h"

static uint64_t hash_pair(uint32_t stack, uint32_t object)
{
	return snap_hash_mix((uint64_t)stack << 32 | object);
}

bool snap_log_index_waits(struct snap_log_analysis *of)
{
	const struct snap_log *log = of->log;

	/* Files of earlier formats have no more than what was found. */
	of->recording->explains =
		of->options->explain != SNAP_EXPLAIN_NO && (log->explains || log->object_count);
	if (!of->recording->explains)
		return true;
	of->of_explained = calloc(log->explained_count + 1, sizeof(*of->of_explained));
	if (!of->of_explained ||
	    !snap_hash_table_reserve(&of->explained_table, log->explained_count))
		return false;
	return snap_all(log->explained_count, i,
			!log->explained[i].wait ||
				snap_hash_table_add(&of->explained_table,
						    hash_pair(log->explained[i].stack,
							      log->explained[i].object),
						    i));
}

/* SIZE_MAX: it is not known what it waits for. */
static size_t find_explained(const struct snap_log_analysis *of,
			     const struct snap_log_change *change)
{
	uint32_t object = change->object - 1;

	return snap_hash_find(&of->explained_table, hash_pair(change->stack, object), i,
			      of->log->explained[i].stack == change->stack &&
				      of->log->explained[i].object == object);
}

/* A thread that runs waits for nothing, whatever call it was in; nor does one that ends. */
static bool can_wait(enum snap_state state)
{
	return state != SNAP_STATE_RUNNING && state != SNAP_STATE_ZOMBIE &&
	       state != SNAP_STATE_DEAD;
}

static bool add_recorded_wait(struct snap_log_analysis *of, uint32_t process,
			      const struct snap_wait *wait, uint64_t hash)
{
	struct snap_wait *copy =
		snap_arena_new(snap_analysis_arena(&of->analysis), struct snap_wait);

	if (!copy || !snap_wait_copy(&of->analysis.strings, wait, copy) ||
	    !snap_reserve_array(of->waits, of->wait_capacity, of->wait_count + 1) ||
	    !snap_hash_table_add(&of->wait_table, hash, of->wait_count))
		return false;
	of->waits[of->wait_count++] = (struct snap_log_wait){ process, copy };
	return true;
}

static bool find_wait(struct snap_log_analysis *of, uint32_t process, const struct snap_wait *wait,
		      uint32_t *ret)
{
	uint64_t hash = snap_wait_hash(wait, snap_hash_mix(process));
	struct snap_probe probe = snap_hash_table_probe(&of->wait_table, hash);

	while (snap_probe_next(&probe)) {
		struct snap_log_wait *known = &of->waits[probe.number];

		if (known->process != process || !snap_wait_same(known->wait, wait))
			continue;
		if (known->wait->confidence < wait->confidence)
			known->wait->confidence = wait->confidence;
		*ret = (uint32_t)probe.number;
		return true;
	}
	*ret = (uint32_t)of->wait_count;
	return add_recorded_wait(of, process, wait, hash);
}

/* Its own wait goes on, but what it is for could not end it. */
static bool show_frozen(struct snap_log_analysis *of, uint32_t space, uint32_t *ret)
{
	const struct snap_process *process = &of->log->capture->processes[space];
	struct snap_wait frozen = snap_wait_init(SNAP_WAIT_FROZEN, SNAP_WAIT_IS_CERTAIN);

	frozen.cgroup = snap_analysis_text(&of->analysis, process->cgroup);
	if (!find_wait(of, of->log->spaces[space].process, &frozen, ret))
		return false;
	++*ret;
	return true;
}

bool snap_log_show_wait(struct snap_log_analysis *of, const struct snap_log_change *change,
			uint32_t *ret)
{
	const struct snap_log *log = of->log;
	uint32_t process = log->spaces[log->stacks[change->stack].space].process, number;
	size_t explained = SIZE_MAX;

	*ret = 0;
	if (of->recording->explains && change->state == SNAP_STATE_FROZEN)
		return show_frozen(of, log->stacks[change->stack].space, ret);
	if (of->recording->explains && change->object && can_wait(change->state))
		explained = find_explained(of, change);
	if (explained == SIZE_MAX)
		return true;
	if (!of->of_explained[explained]) {
		if (!find_wait(of, process, log->explained[explained].wait, &number))
			return false;
		of->of_explained[explained] = number + 1;
	}
	*ret = of->of_explained[explained];
	return true;
}

/* ---- as the recording has them ---- */

/* A wait that is shown, before it has its number. */
struct numbered {
	uint32_t process, index; /* index: in of->waits */
	const struct snap_wait *wait;
};

SNAP_ORDER(by_object, struct numbered, a, b, snap_compare(a->process, b->process),
	   snap_wait_compare(a->wait, b->wait), snap_compare(a->index, b->index));

static void renumber_runs(struct snap_recording *recording, const uint32_t *numbers)
{
	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++) {
			struct snap_run *run = &recording->tracks[i].runs[k];

			if (run->wait)
				run->wait = numbers[run->wait - 1] + 1;
		}
}

struct stacksnap_error *snap_log_make_waits(struct snap_log_analysis *of, const uint32_t *shown)
{
	struct snap_recording *recording = of->recording;
	_cleanup_free_ uint32_t *numbers = malloc((of->wait_count + 1) * sizeof(*numbers));
	_cleanup_free_ struct numbered *order = malloc((of->wait_count + 1) * sizeof(*order));
	size_t count = 0;

	recording->waits = snap_arena_new_array(snap_analysis_arena(&of->analysis),
						of->wait_count + 1, struct snap_recorded_wait);
	SNAP_TRY(snap_no_memory_unless(recording->waits && numbers && order));
	for (size_t i = 0; i < of->wait_count; i++) {
		uint32_t process = shown[of->waits[i].process];

		numbers[i] = UINT32_MAX;
		if (process != UINT32_MAX)
			order[count++] =
				(struct numbered){ process, (uint32_t)i, of->waits[i].wait };
	}
	qsort(order, count, sizeof(*order), by_object);
	for (size_t i = 0; i < count; i++) {
		numbers[order[i].index] = (uint32_t)i;
		recording->waits[i] = (struct snap_recorded_wait){ .process = order[i].process,
								   .wait = order[i].wait };
	}
	recording->wait_count = count;
	renumber_runs(recording, numbers);
	for (size_t i = 0; i < of->log->explained_count && of->of_explained; i++)
		if (of->of_explained[i])
			of->of_explained[i] = numbers[of->of_explained[i] - 1] + 1;
	return snap_log_make_owner_spans(of);
}
