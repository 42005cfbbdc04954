/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See circles.h. Each thread waits for one other at the most, so circles are found by walking on. */
#include "render/wait/circles.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "model/wait/kind.h"
#include "render/view/own.h"

#include <stdlib.h>

static const size_t NO_TRACK = SIZE_MAX;

/* Which thread has what a thread waits for, from tick `since` to tick `last`. */
struct circle_edge {
	size_t next;   /* its track; NO_TRACK: it waits for none, or that is not known */
	size_t walk;   /* the number of the first walk that came here, from 1 on */
	size_t circle; /* that it is in, or waits for; NO_TRACK: none */
	uint32_t since, last;
};

struct circle {
	size_t first; /* the track with the lowest tid */
	size_t size, behind;
	bool certain, timed;
};

struct circle_finder {
	const struct snap_recording *recording;
	struct snap_circles *result;
	struct circle_edge *edges; /* of each track */
	struct circle *items;
	size_t count, capacity;
};

SNAP_FREES(circle_finder_deinit, struct circle_finder, edges, items);

/* ---- which thread waits for which ---- */

static const struct snap_run *last_run(const struct snap_track *track)
{
	return track->run_count ? &track->runs[track->run_count - 1] : NULL;
}

/* The last one of a track; NULL: it waits for nothing that makes circles. */
static const struct snap_recorded_wait *last_wait(const struct snap_recording *recording,
						  const struct snap_track *track)
{
	const struct snap_run *run = last_run(track);
	const struct snap_recorded_wait *wait;

	if (!run || !run->wait || run->wait > recording->wait_count)
		return NULL;
	wait = &recording->waits[run->wait - 1];
	if (!snap_wait_is_shown(wait->wait, false) ||
	    (!snap_wait_kind_is(wait->wait->kind, SNAP_KIND_ENDED_BY_OWNER) &&
	     wait->wait->kind != SNAP_WAIT_FILE_LOCK))
		return NULL;
	/* It is known to the end of its process, which the last tick may have found ended. */
	return run->last + 1 >= recording->processes[track->process].last ? wait : NULL;
}

static struct circle_edge circle_edge_of(const struct snap_recording *recording,
					 const struct snap_track *track)
{
	const struct snap_recorded_wait *wait = last_wait(recording, track);
	struct circle_edge edge = { .next = NO_TRACK, .circle = NO_TRACK };
	const struct snap_owner_span *owner;
	const struct snap_run *run;

	if (!wait || !wait->owner_count)
		return edge;
	run = last_run(track);
	owner = &wait->owners[wait->owner_count - 1];
	if (owner->lack != SNAP_OWNER_KNOWN || owner->is_process ||
	    owner->track >= recording->track_count)
		return edge;
	edge.next = owner->track;
	edge.since = SNAP_MAX(run->first, owner->first);
	edge.last = SNAP_MIN(run->last, owner->last);
	/* It ran, and waits anew. */
	if (track->wake_count && track->wakes[track->wake_count - 1].last > edge.since)
		edge.since = track->wakes[track->wake_count - 1].last;
	return edge;
}

/* ---- circles ---- */

/* A circle that begins anywhere; false without memory. */
static bool add_circle(struct circle_finder *finder, size_t begin)
{
	const struct snap_recording *recording = finder->recording;
	struct circle circle = { .first = begin, .certain = true };
	uint32_t since = 0, last = UINT32_MAX;
	size_t at = begin;

	do {
		const struct circle_edge *edge = &finder->edges[at];
		const struct snap_wait *wait = last_wait(recording, &recording->tracks[at])->wait;

		since = SNAP_MAX(since, edge->since);
		last = SNAP_MIN(last, edge->last);
		circle.size++;
		circle.timed |= wait->timed;
		circle.certain &= snap_wait_kind_is(wait->kind, SNAP_KIND_ENDED_BY_OWNER);
		if (recording->tracks[at].tid < recording->tracks[circle.first].tid)
			circle.first = at;
		at = edge->next;
	} while (at != begin);
	if (since >= last)
		return true;
	/* Where it is not known whether they ran, they may have waited for something else between. */
	circle.certain &= since + 1 < recording->wakes_end;
	if (!snap_reserve_array(finder->items, finder->capacity, finder->count + 1))
		return false;
	do {
		finder->edges[at].circle = finder->count;
		at = finder->edges[at].next;
	} while (at != begin);
	finder->items[finder->count++] = circle;
	return true;
}

static bool find_circles(struct circle_finder *finder)
{
	struct circle_edge *edges = finder->edges;

	for (size_t i = 0; i < finder->recording->track_count; i++) {
		size_t at = i, circle;

		while (edges[at].next != NO_TRACK && !edges[at].walk) {
			edges[at].walk = i + 1;
			at = edges[at].next;
		}
		if (edges[at].next != NO_TRACK && edges[at].walk == i + 1 &&
		    !add_circle(finder, at))
			return false;
		circle = edges[at].circle;
		/* What led there waits for it as well. */
		for (at = i;
		     circle != NO_TRACK && edges[at].walk == i + 1 && edges[at].circle == NO_TRACK;
		     at = edges[at].next) {
			edges[at].circle = circle;
			finder->items[circle].behind++;
		}
	}
	return true;
}

/* ---- as a snapshot has them ---- */

static int compare_circles(const void *left, const void *right, void *context)
{
	const struct snap_track *tracks = context;
	const struct circle *a = left, *b = right;

	return snap_compare(b->size, a->size)
		       ?: snap_compare(tracks[a->first].tid, tracks[b->first].tid);
}

static struct snap_wait_link circle_link_of(const struct snap_recording *recording, size_t number)
{
	const struct snap_track *track = &recording->tracks[number];
	const struct snap_recorded_stack *stack = &recording->stacks[last_run(track)->stack];
	struct snap_wait_link link = { .pid = recording->processes[track->process].node->pid,
				       .tid = track->tid,
				       .name = track->name };
	size_t entry;
	const struct snap_frame *own = snap_own_frame(stack->frames, stack->frame_count, &entry);

	if (own) {
		link.function = own->entries[entry].function;
		link.file = own->entries[entry].file;
		link.line = own->entries[entry].line;
	}
	return link;
}

/* With the owner, which changes elsewhere in a recording. NULL without memory. */
static const struct snap_wait *owned_circle_wait(const struct circle_finder *finder, size_t number)
{
	const struct snap_recording *recording = finder->recording;
	struct snap_wait_link owner = circle_link_of(recording, finder->edges[number].next);
	struct snap_wait *wait = snap_arena_memdup(
		&finder->result->arena, last_wait(recording, &recording->tracks[number])->wait,
		sizeof(*wait));

	if (!wait)
		return NULL;
	wait->has_owner = true;
	wait->owner_lack = SNAP_OWNER_KNOWN;
	wait->owner = (struct snap_wait_party){
		.pid = owner.pid, .tid = owner.tid, .name = owner.name, .function = owner.function
	};
	return wait;
}

static bool make_circle(const struct circle_finder *finder, const struct circle *circle,
			struct snap_deadlock *ret)
{
	size_t at = circle->first;

	*ret = (struct snap_deadlock){
		.certain = circle->certain,
		.timed = circle->timed,
		.until_ns = -1,
		.behind = circle->behind,
		.size = circle->size,
		.thread_count = SNAP_MIN(circle->size, (size_t)SNAP_DEADLOCK_SHOWN),
	};
	ret->threads = snap_arena_new_array(&finder->result->arena, ret->thread_count,
					    struct snap_wait_link);
	for (size_t i = 0; ret->threads && i < ret->thread_count; i++) {
		ret->threads[i] = circle_link_of(finder->recording, at);
		ret->threads[i].wait = owned_circle_wait(finder, at);
		if (!ret->threads[i].wait)
			return false;
		at = finder->edges[at].next;
	}
	return ret->threads;
}

static bool make_circles(struct circle_finder *finder)
{
	struct snap_waits *waits = &finder->result->waits;

	if (!finder->count)
		return true;
	qsort_r(finder->items, finder->count, sizeof(*finder->items), compare_circles,
		finder->recording->tracks);
	waits->deadlock_total = finder->count;
	waits->deadlocks =
		snap_arena_new_array(&finder->result->arena, SNAP_WAIT_LIST, struct snap_deadlock);
	for (size_t i = 0; waits->deadlocks && i < finder->count && i < SNAP_WAIT_LIST; i++)
		if (!make_circle(finder, &finder->items[i],
				 &waits->deadlocks[waits->deadlock_count++]))
			return false;
	return waits->deadlocks;
}

struct stacksnap_error *snap_circles_init(struct snap_circles *circles,
					  const struct snap_recording *recording,
					  const struct snap_options *options)
{
	_cleanup_(circle_finder_deinit) struct circle_finder finder = { .recording = recording,
									.result = circles };

	*circles = (struct snap_circles){ .waits = { .asked = true } };
	snap_arena_init(&circles->arena);
	if (options->explain == SNAP_EXPLAIN_NO || !recording->wait_count)
		return NULL;
	finder.edges = malloc((recording->track_count + 1) * sizeof(*finder.edges));
	SNAP_TRY(snap_no_memory_unless(finder.edges));
	for (size_t i = 0; i < recording->track_count; i++)
		finder.edges[i] = circle_edge_of(recording, &recording->tracks[i]);
	return find_circles(&finder) && make_circles(&finder) ? NULL : snap_error_no_memory();
}

void snap_circles_deinit(struct snap_circles *circles)
{
	snap_arena_deinit(&circles->arena);
}

/* ---- in one line ---- */

static void add_made_text(struct snap_buffer *line, const char *before, char *text)
{
	if (!text)
		line->failed = true;
	else if (*text)
		snap_buffer_printf(line, "%s%s", before, text);
	free(text);
}

char *snap_circle_line(const struct snap_deadlock *deadlock)
{
	struct snap_buffer line = { 0 };
	char *text;

	snap_buffer_printf(&line, "%s  ", snap_wait_deadlock_word(deadlock));
	add_made_text(&line, "", snap_wait_deadlock_line(deadlock));
	for (size_t i = 0; i < deadlock->thread_count; i++) {
		const struct snap_wait_link *link = &deadlock->threads[i];

		snap_buffer_printf(&line, "%s %d %s", i ? ";" : ":", link->tid,
				   link->name ? link->name : "");
		add_made_text(&line, " ", snap_wait_link_line(link->wait));
		add_made_text(&line, ", ", snap_wait_owner_line(link->wait));
	}
	text = snap_buffer_take(&line, NULL);
	snap_buffer_deinit(&line);
	return text;
}
