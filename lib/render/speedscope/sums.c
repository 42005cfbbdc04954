/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Profiles that add up: one sample for each stack in each state, weighed by how often it was seen;
 * of all threads, where the process is the first frame, and of each process. Samples stand in the
 * order of their frames, so that the viewer, which merges what is next to each other, shows a whole
 * flame graph at once. Knows nothing of time.
 */
#include "base/bsearch.h"
#include "base/buffer.h"
#include "render/speedscope/speedscope.h"
#include "render/view/tally.h"

#include <stdlib.h>

/* What was seen of a stack in a state. */
struct sum {
	size_t process, stack, wait; /* wait: a frame + 1, or 0 */
	enum snap_state state;
	int64_t weight;
};

static void count_weighted_samples(const struct snap_recording *recording, uint64_t *samples)
{
	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_track *track = &recording->tracks[i];

		for (size_t k = 0; k < track->run_count; k++) {
			const struct snap_run *run = &track->runs[k];

			samples[run->stack * (size_t)SNAP_STATE_COUNT + run->state] +=
				snap_run_samples(run);
		}
	}
}

/* `sums` has room for all that is not zero; false without memory. */
static bool list_sums(struct snap_scope *scope, const uint64_t *samples, struct sum **sums,
		      size_t *count_ret)
{
	const struct snap_recording *recording = scope->recording;
	int64_t each = recording->period_ns ? snap_recording_weight(recording) : 1;
	size_t capacity = 0, count = 0;

	for (size_t i = 0; i < recording->stack_count * SNAP_STATE_COUNT; i++) {
		size_t stack = i / SNAP_STATE_COUNT;

		if (!samples[i])
			continue;
		if (!snap_scope_stack(scope, stack) ||
		    !snap_reserve_array(*sums, capacity, count + 1))
			return false;
		(*sums)[count++] = (struct sum){
			.process = recording->stacks[stack].process,
			.stack = stack,
			.state = (enum snap_state)(i % SNAP_STATE_COUNT),
			.weight = (int64_t)samples[i] * each,
		};
	}
	*count_ret = count;
	return true;
}

/* The same, with what is waited for. */
static bool list_waits(struct snap_scope *scope, struct sum **sums, size_t *count_ret)
{
	const struct snap_recording *recording = scope->recording;
	_cleanup_(snap_tally_deinit) struct snap_tally tally;
	int64_t each = recording->period_ns ? snap_recording_weight(recording) : 1;
	struct stacksnap_error *err =
		snap_tally_init(&tally, recording,
				SNAP_TALLY_STATE | (snap_tally_of_frames(scope->options) &
						    ~(unsigned)SNAP_TALLY_TID));

	if (snap_error_ignore(err))
		return false;
	*sums = calloc(tally.count + 1, sizeof(**sums));
	for (size_t i = 0; *sums && i < tally.count; i++) {
		const struct snap_tally_row *row = &tally.rows[i];
		size_t wait = snap_scope_frame_of_object(&scope->waits, row->object);

		if (wait == SIZE_MAX || !snap_scope_stack(scope, row->stack))
			return false;
		(*sums)[i] = (struct sum){ .process = row->process,
					   .stack = row->stack,
					   .wait = wait,
					   .state = row->state,
					   .weight = (int64_t)row->count * each };
	}
	*count_ret = tally.count;
	return *sums;
}

static int by_frames(const struct snap_scope_stack *a, const struct snap_scope_stack *b)
{
	size_t count = a->count < b->count ? a->count : b->count;

	for (size_t i = 0; i < count; i++)
		if (a->frames[i] != b->frames[i])
			return snap_compare(a->frames[i], b->frames[i]);
	return snap_compare(a->count, b->count);
}

static int in_order(const void *left, const void *right, void *context)
{
	const struct snap_scope *scope = context;
	const struct sum *a = left, *b = right;
	bool state_first = scope->options->state_frames == SNAP_STATE_FRAMES_ROOT;

	return snap_compare(a->process, b->process) ?:
	       (state_first ? snap_compare(a->state, b->state) : 0) ?:
	       snap_compare(a->wait, b->wait) ?:
	       by_frames(&scope->stacks[a->stack], &scope->stacks[b->stack]) ?:
	       snap_compare(a->state, b->state) ?: snap_compare(a->stack, b->stack);
}

/* `process` is in front of each sample, unless it is the name of the profile itself. */
static struct stacksnap_error *put_sums(struct snap_scope *scope, const struct sum *sums,
					size_t count, bool with_process)
{
	const char *process = NULL;

	for (size_t i = 0; i < count; i++) {
		if (with_process && (i == 0 || sums[i].process != sums[i - 1].process)) {
			process = snap_profile_process(&scope->profile, sums[i].process);
			SNAP_TRY(snap_no_memory_unless(process));
		}
		SNAP_TRY(snap_scope_put_sample(scope, process, sums[i].state, sums[i].wait,
					       sums[i].stack));
	}
	return NULL;
}

static struct stacksnap_error *put_sum_profile(struct snap_scope *scope, const char *name,
					       const struct sum *sums, size_t count,
					       bool with_process)
{
	int64_t total = 0;

	SNAP_TRY(snap_scope_begin(scope, name, NULL));
	SNAP_TRY(put_sums(scope, sums, count, with_process));
	snap_scope_begin_weights(scope);
	for (size_t i = 0; i < count; i++) {
		snap_json_number(scope->json, NULL, sums[i].weight);
		total += sums[i].weight;
	}
	snap_scope_end(scope, total);
	return NULL;
}

static struct stacksnap_error *put_sum_profiles(struct snap_scope *scope, const struct sum *sums,
						size_t count)
{
	SNAP_TRY(put_sum_profile(scope, "all threads", sums, count, true));
	for (size_t i = 0, next; i < count; i = next) {
		const char *name = snap_profile_process(&scope->profile, sums[i].process);

		SNAP_TRY(snap_no_memory_unless(name));
		for (next = i + 1; next < count && sums[next].process == sums[i].process;)
			next++;
		SNAP_TRY(put_sum_profile(scope, name, sums + i, next - i, false));
	}
	return NULL;
}

struct stacksnap_error *snap_scope_put_sums(struct snap_scope *scope)
{
	_cleanup_free_ uint64_t *samples =
		calloc(scope->recording->stack_count + 1, SNAP_STATE_COUNT * sizeof(*samples));
	_cleanup_free_ struct sum *sums = NULL;
	size_t count = 0;

	SNAP_TRY(snap_no_memory_unless(samples));
	count_weighted_samples(scope->recording, samples);
	if (!(scope->options->group_by & SNAP_GROUP_WAIT
		      ? list_waits(scope, &sums, &count)
		      : list_sums(scope, samples, &sums, &count)))
		return snap_error_no_memory();
	if (count)
		qsort_r(sums, count, sizeof(*sums), in_order, scope);
	return put_sum_profiles(scope, sums, count);
}
