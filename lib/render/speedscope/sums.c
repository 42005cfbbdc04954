/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Profiles that add up: one sample for each stack in each state, weighed by how often it was seen;
 * of all threads, where the process is the first frame, and of each process.
 *
 * Samples stand in the order of their frames, so that the viewer, which merges what is next to each
 * other, shows a whole flame graph at once.
 */
#include "render/speedscope/internal.h"

#include <stdlib.h>

/* What was seen of a stack in a state. */
struct sum {
	size_t process, stack;
	enum snap_state state;
	int64_t weight;
};

static void count_samples(const struct snap_recording *recording, uint64_t *samples)
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
		if (!snap_scope_stack(scope, stack) || !snap_grow_array(*sums, capacity, count))
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

static int by_state(const struct sum *a, const struct sum *b)
{
	return (a->state > b->state) - (a->state < b->state);
}

static int by_frames(const struct snap_scope_stack *a, const struct snap_scope_stack *b)
{
	size_t count = a->count < b->count ? a->count : b->count;

	for (size_t i = 0; i < count; i++)
		if (a->frames[i] != b->frames[i])
			return a->frames[i] < b->frames[i] ? -1 : 1;
	return (a->count > b->count) - (a->count < b->count);
}

static int in_order(const void *left, const void *right, void *context)
{
	const struct snap_scope *scope = context;
	const struct sum *a = left, *b = right;
	bool state_first = scope->options->state_frames == SNAP_STATE_FRAMES_ROOT;
	int order;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (state_first && a->state != b->state)
		return by_state(a, b);
	order = by_frames(&scope->stacks[a->stack], &scope->stacks[b->stack]);
	if (!order)
		order = by_state(a, b);
	return order ? order : (a->stack > b->stack) - (a->stack < b->stack);
}

/* `process` is in front of each sample, unless it is the name of the profile itself. */
static struct snap_error *put_samples(struct snap_scope *scope, const struct sum *sums,
				      size_t count, bool with_process)
{
	const char *process = NULL;

	for (size_t i = 0; i < count; i++) {
		struct snap_error *err;

		if (with_process && (i == 0 || sums[i].process != sums[i - 1].process)) {
			process = snap_profile_process(&scope->profile, sums[i].process);
			if (!process)
				return snap_error_no_memory();
		}
		err = snap_scope_sample(scope, i == 0, process, sums[i].state, sums[i].stack);
		if (err)
			return err;
	}
	return NULL;
}

static struct snap_error *put_profile(struct snap_scope *scope, const char *name,
				      const struct sum *sums, size_t count, bool with_process)
{
	int64_t total = 0;
	struct snap_error *err;

	snap_scope_begin(scope, name, NULL);
	err = put_samples(scope, sums, count, with_process);
	if (err)
		return err;
	snap_scope_weights(scope);
	for (size_t i = 0; i < count; i++) {
		snap_scope_weight(scope, i == 0, sums[i].weight);
		total += sums[i].weight;
	}
	snap_scope_end(scope, total);
	return NULL;
}

static struct snap_error *put_profiles(struct snap_scope *scope, const struct sum *sums,
				       size_t count)
{
	struct snap_error *err;

	err = put_profile(scope, "all threads", sums, count, true);
	if (err)
		return err;
	for (size_t i = 0, next; i < count; i = next) {
		const char *name = snap_profile_process(&scope->profile, sums[i].process);

		if (!name)
			return snap_error_no_memory();
		for (next = i + 1; next < count && sums[next].process == sums[i].process;)
			next++;
		err = put_profile(scope, name, sums + i, next - i, false);
		if (err)
			return err;
	}
	return NULL;
}

struct snap_error *snap_scope_sums(struct snap_scope *scope)
{
	_cleanup_free_ uint64_t *samples =
		calloc(scope->recording->stack_count + 1, SNAP_STATE_COUNT * sizeof(*samples));
	_cleanup_free_ struct sum *sums = NULL;
	size_t count = 0;

	if (!samples)
		return snap_error_no_memory();
	count_samples(scope->recording, samples);
	if (!list_sums(scope, samples, &sums, &count))
		return snap_error_no_memory();
	if (count)
		qsort_r(sums, count, sizeof(*sums), in_order, scope);
	return put_profiles(scope, sums, count);
}
