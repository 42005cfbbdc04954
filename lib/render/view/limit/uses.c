/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How often formats print the stacks of a recording: see parts.h. */
#include "base/bsearch.h"
#include "base/text.h"
#include "render/view/limit/parts.h"
#include "render/view/tally.h"

#include <stdlib.h>
#include <string.h>

/* What is printed apart, besides stacks. */
enum apart {
	APART_OWNERS, /* nothing else */
	APART_STATES,
	APART_WAITS, /* states, system calls and wait channels */
};

static bool same_wait(const struct snap_run *a, const struct snap_run *b)
{
	return a->state == b->state && snap_same_text(a->syscall, b->syscall) &&
	       snap_same_text(a->wchan, b->wchan);
}

static bool is_new(const struct snap_limit_stack *stack, const struct snap_run *run,
		   enum apart apart)
{
	switch (apart) {
	case APART_OWNERS:
		return !stack->states;
	case APART_STATES:
		return !(stack->states & 1u << run->state);
	case APART_WAITS:
		break;
	}
	return !stack->states || !same_wait(stack->run, run);
}

static void count_run(struct snap_limit *limit, const struct snap_run *run, uint32_t owner,
		      enum apart apart)
{
	struct snap_limit_stack *stack = &limit->stacks[run->stack];

	if (stack->owner != owner + 1)
		stack->states = 0;
	stack->owner = owner + 1;
	stack->times += is_new(stack, run, apart);
	stack->states |= 1u << run->state;
	stack->run = run;
}

/* ---- groups ---- */

/* Whether groups are distinguished by what differs from thread to thread. */
static bool groups_differ(const struct snap_options *options)
{
	return options->group_by &
	       ~(unsigned)(SNAP_GROUP_STACK | SNAP_GROUP_STATE | SNAP_GROUP_TYPE);
}

/* Each different wait is a line, up to some, and a line for the others. */
static void count_waits(struct snap_limit *limit)
{
	enum { MOST_LINES = 9 };
	const struct snap_recording *recording = limit->from;

	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++) {
			const struct snap_run *run = &recording->tracks[i].runs[k];
			struct snap_limit_stack *stack = &limit->stacks[run->stack];

			stack->waits +=
				run->wait && run->wait != stack->wait && stack->waits < MOST_LINES;
			stack->wait = run->wait;
		}
}

static void count_groups(struct snap_limit *limit)
{
	const struct snap_recording *recording = limit->from;
	bool differ = groups_differ(limit->options);

	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++)
			count_run(limit, &recording->tracks[i].runs[k], differ ? (uint32_t)i : 0,
				  differ ? APART_WAITS : APART_STATES);
}

/*
 * Text tells stacks with few samples in one line, unless there is only one of them in a process:
 * those take nothing.
 */
static bool leave_small_stacks(struct snap_limit *limit)
{
	enum { SMALLEST_SHARE = 1000 };
	const struct snap_recording *recording = limit->from;
	_cleanup_free_ uint32_t *small = calloc(recording->process_count + 1, sizeof(*small));
	double all = 0;

	if (!small)
		return false;
	for (size_t i = 0; i < recording->stack_count; i++)
		all += limit->stacks[i].samples;
	for (size_t i = 0; i < recording->stack_count; i++)
		small[recording->stacks[i].process] +=
			limit->stacks[i].samples < all / SMALLEST_SHARE - 1;
	for (size_t i = 0; i < recording->stack_count; i++)
		if (limit->stacks[i].samples < all / SMALLEST_SHARE - 1 &&
		    small[recording->stacks[i].process] > 1)
			limit->stacks[i].times = 0;
	return true;
}

/* ---- ticks ---- */

/* A tick prints each stack once in each state. False without memory. */
static bool count_ticks(struct snap_limit *limit)
{
	const struct snap_recording *recording = limit->from;
	_cleanup_free_ size_t *cursors = calloc(recording->track_count + 1, sizeof(*cursors));
	bool differ = groups_differ(limit->options);

	for (uint32_t tick = 0; cursors && tick < recording->tick_count; tick++)
		for (size_t i = 0; i < recording->track_count; i++) {
			const struct snap_track *track = &recording->tracks[i];
			size_t *at = &cursors[i];

			while (*at < track->run_count && track->runs[*at].last < tick)
				++*at;
			if (*at == track->run_count || track->runs[*at].first > tick)
				continue;
			if (differ)
				limit->stacks[track->runs[*at].stack].times++;
			else
				count_run(limit, &track->runs[*at], tick, APART_STATES);
		}
	return cursors;
}

/* ---- rows of profiles ---- */

SNAP_ORDER(by_owner, const struct snap_track *, a, b, snap_compare((*a)->process, (*b)->process),
	   strcmp((*a)->name ? (*a)->name : "", (*b)->name ? (*b)->name : ""));

/* Threads of one process and name are one, unless they are distinguished. False without memory. */
static bool count_rows(struct snap_limit *limit, enum apart apart)
{
	const struct snap_recording *recording = limit->from;
	bool differ = limit->options->group_by & SNAP_GROUP_TID;
	_cleanup_free_ const struct snap_track **tracks =
		calloc(recording->track_count + 1, sizeof(const struct snap_track *));
	uint32_t owner = 0;

	if (!tracks)
		return false;
	for (size_t i = 0; i < recording->track_count; i++)
		tracks[i] = &recording->tracks[i];
	qsort(tracks, recording->track_count, sizeof(const struct snap_track *), by_owner);
	for (size_t i = 0; i < recording->track_count; i++) {
		owner += i && (differ || by_owner(&tracks[i - 1], &tracks[i]) != 0);
		for (size_t k = 0; k < tracks[i]->run_count; k++)
			count_run(limit, &tracks[i]->runs[k], owner, apart);
	}
	return true;
}

/* The rows themselves: holders of what others wait for make more of them than runs alone show. */
static bool count_tally(struct snap_limit *limit, unsigned by)
{
	_cleanup_(snap_tally_deinit) struct snap_tally tally;
	struct stacksnap_error *err = snap_tally_init(&tally, limit->from, by);

	for (size_t i = 0; !err && i < tally.count; i++)
		limit->stacks[tally.rows[i].stack].times++;
	return !snap_error_ignore(err);
}

static void count_runs(struct snap_limit *limit)
{
	const struct snap_recording *recording = limit->from;

	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++)
			limit->stacks[recording->tracks[i].runs[k].stack].times++;
}

static void count_used_samples(struct snap_limit *limit)
{
	const struct snap_recording *recording = limit->from;

	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].run_count; k++) {
			const struct snap_run *run = &recording->tracks[i].runs[k];

			limit->stacks[run->stack].samples += (double)snap_run_samples(run);
		}
}

bool snap_limit_count(struct snap_limit *limit)
{
	count_used_samples(limit);
	switch (limit->use) {
	case SNAP_FRAMES_AS_NUMBERS:
		break;
	case SNAP_FRAMES_IN_TABLES:
		for (size_t i = 0; i < limit->from->stack_count; i++)
			limit->stacks[i].times = 1;
		break;
	case SNAP_FRAMES_IN_ROWS:
		if (limit->from->wait_count)
			return count_tally(limit, snap_tally_of_profile(limit->options));
		return count_rows(limit, APART_WAITS);
	case SNAP_FRAMES_IN_SAMPLES:
		count_groups(limit);
		/* In the profile of all threads, and in that of their process. */
		for (size_t i = 0; i < limit->from->stack_count; i++)
			limit->stacks[i].times *= 2;
		count_runs(limit);
		break;
	case SNAP_FRAMES_IN_LINES:
		if (limit->options->group_by & SNAP_GROUP_WAIT)
			return count_tally(limit, snap_tally_of_frames(limit->options));
		return count_rows(limit, APART_OWNERS);
	case SNAP_FRAMES_IN_TEXT:
		count_groups(limit);
		count_waits(limit);
		/* A tree of calls goes through small ones, too. */
		return limit->options->verbose || limit->options->call_tree ||
		       leave_small_stacks(limit);
	case SNAP_FRAMES_IN_GROUPS:
		count_groups(limit);
		break;
	case SNAP_FRAMES_IN_TICKS:
		return count_ticks(limit);
	case SNAP_FRAMES_IN_CHANGES:
		count_runs(limit);
		break;
	}
	return true;
}
