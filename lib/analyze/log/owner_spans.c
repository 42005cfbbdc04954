/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds the thread that held what others wait for, tick by tick: from the words of each object at
 * that time, and the thread with the number in them. See internal.h.
 *
 * Words can be wrong: if no thread of the process had the number at that tick, there is no owner,
 * and the reason is recorded. Some objects may be the same lock, waited for in different ways. Then
 * the words of the object with a waiter count, as only these are read.
 */
#include "analyze/log/internal.h"
#include "base/bsearch.h"
#include "base/buffer.h"
#include "model/wait/kind.h"

#include <string.h>

enum {
	MOST_WAITS = 16,   /* of one object: names on different stacks may say different things */
	MOST_OBJECTS = 64, /* of one wait that are looked through */
	OWNER_MASK = 0x3fffffff,            /* FUTEX_TID_MASK */
	OWNER_DIED = 0x40000000,            /* FUTEX_OWNER_DIED */
	OWNER_NOT_RECOVERABLE = 0x7ffffffe, /* from there on, numbers that are no thread's */
	CHECK_CANCEL = 1 << 12,
};

/* ---- state ---- */

/* An object that a wait is for. */
struct link {
	uint32_t object, wait;
};

/* A wait that keeps an owner, while the slice is walked. */
struct line {
	struct snap_log_owners owners; /* threads that may have it */
	uint32_t source;               /* the object whose words count, + 1; 0: none is known yet */
	uint32_t since;                /* tick of the slice */
	bool is_open, is_touched, is_child;
	size_t last; /* its last span in `found`, + 1 */
	struct snap_log_owner owner;
};

/* A process gets or loses a child. */
struct event {
	uint64_t moment;
	uint32_t parent;
};

struct found {
	uint32_t wait;
	struct snap_owner_span span;
};

struct walk {
	struct snap_log_analysis *of;
	struct link *by_object, *by_wait; /* the same, in either order */
	size_t link_count;
	uint32_t *words;   /* of each object now, as in an owner change; UINT32_MAX: unknown yet */
	uint32_t *waiters; /* of each object: threads that wait with it now */
	uint32_t *object_of;  /* of each thread, + 1 */
	struct line *lines;   /* of each wait of the recording */
	struct link *parents; /* waits for children: by process, which stands as `object` */
	size_t parent_count;
	struct event *events; /* when children begin and end, in order */
	size_t event_count;
	uint32_t *touched; /* waits that may have another owner at this tick */
	size_t touched_count;
	size_t *tracks; /* of each thread of the log; SIZE_MAX: none */
	struct found *found;
	size_t found_count, found_capacity;
};

static void hold_walk_deinit(struct walk *walk)
{
	free(walk->by_object);
	free(walk->by_wait);
	free(walk->words);
	free(walk->waiters);
	free(walk->object_of);
	free(walk->lines);
	free(walk->touched);
	free(walk->parents);
	free(walk->events);
	free(walk->tracks);
	free(walk->found);
}

/* ---- the owner ---- */

static struct snap_log_owner no_hold_owner(enum snap_owner_lack lack)
{
	return (struct snap_log_owner){ .lack = lack,
					.thread = UINT32_MAX,
					.death = SNAP_LOG_NO_DEATH };
}

static struct snap_log_owner owner_by_words(const struct walk *walk, uint32_t wait, uint32_t words,
					    uint64_t moment)
{
	const struct snap_wait *of = walk->of->recording->waits[wait].wait;
	const struct snap_log_wait_bytes *reported =
		words ? &walk->of->log->words[words - 1] : NULL;
	struct snap_memory_image image;
	uint32_t number;

	if (!reported)
		return no_hold_owner(SNAP_OWNER_UNREADABLE);
	image = snap_log_wait_image(reported);
	if (!snap_memory_image_read(&image, of->owner_word.address, &number, sizeof(number)))
		return no_hold_owner(SNAP_OWNER_UNREADABLE);
	if (of->owner_word.form == SNAP_OWNER_FORM_MASKED) {
		if (number & OWNER_DIED)
			return no_hold_owner(SNAP_OWNER_DIED);
		number &= OWNER_MASK;
	}
	/* Readers of a lock are counted, and have no numbers. */
	if (number == 0)
		return no_hold_owner(of->kind == SNAP_WAIT_RWLOCK ? SNAP_OWNER_NOT_KEPT
								  : SNAP_OWNER_CHANGING);
	if (number >= OWNER_NOT_RECOVERABLE)
		return no_hold_owner(number > INT32_MAX ? SNAP_OWNER_UNREADABLE : SNAP_OWNER_DIED);
	return snap_log_find_owner(walk->of, &walk->lines[wait].owners, (pid_t)number, moment);
}

/* ---- time lines ---- */

static bool continues(const struct snap_owner_span *a, const struct snap_owner_span *b)
{
	return a->last + 1 == b->first && a->track == b->track && a->tid == b->tid &&
	       a->lack == b->lack && a->is_process == b->is_process;
}

static bool add_hold_span(struct walk *walk, uint32_t wait, uint32_t first, uint32_t last,
			  const struct snap_log_owner *owner)
{
	struct line *line = &walk->lines[wait];
	struct found found = {
		.wait = wait,
		.span = { .first = first,
			  .last = last,
			  .track = owner->thread == UINT32_MAX ? SIZE_MAX
							       : walk->tracks[owner->thread],
			  .tid = owner->tid,
			  .lack = owner->lack,
			  .is_process = owner->is_any },
	};

	if (line->last && continues(&walk->found[line->last - 1].span, &found.span)) {
		walk->found[line->last - 1].span.last = last;
		return true;
	}
	if (!snap_append(walk->found, walk->found_count, walk->found_capacity, found))
		return false;
	line->last = walk->found_count;
	return true;
}

/* Up to before tick `end` of the slice; its owner may have ended meanwhile. */
static bool close_line(struct walk *walk, uint32_t wait, uint32_t end)
{
	const struct line *line = &walk->lines[wait];
	struct snap_log_owner gone =
		no_hold_owner(line->owner.is_process ? SNAP_OWNER_NOT_SEEN : SNAP_OWNER_EXITED);
	uint32_t death = end;

	if (!line->is_open || line->since >= end)
		return true;
	/* A thread that waits for another's end goes on when there is none. */
	gone.tid = line->owner.is_process ? 0 : line->owner.tid;
	/* Behind `since`, when it lived. */
	if (line->owner.death != SNAP_LOG_NO_DEATH && line->owner.death - 1 - walk->of->first < end)
		death = (uint32_t)(line->owner.death - 1 - walk->of->first);
	return add_hold_span(walk, wait, line->since, death - 1, &line->owner) &&
	       (death == end || add_hold_span(walk, wait, death, end - 1, &gone));
}

static void touch_waited_object(struct walk *walk, uint32_t wait)
{
	if (!walk->lines[wait].is_touched)
		walk->touched[walk->touched_count++] = wait;
	walk->lines[wait].is_touched = true;
}

static bool same_owner(const struct snap_log_owner *a, const struct snap_log_owner *b)
{
	return a->lack == b->lack && a->thread == b->thread && a->tid == b->tid &&
	       a->is_any == b->is_any && a->death == b->death;
}

static struct snap_log_owner find_hold_owner(const struct walk *walk, uint32_t wait,
					     uint64_t moment)
{
	struct snap_log_analysis *of = walk->of;
	const struct line *line = &walk->lines[wait];
	uint32_t words;

	if (line->is_child)
		return snap_log_find_child(of, line->owners.process,
					   of->recording->waits[wait].wait->child, moment);
	words = walk->words[line->source - 1];
	if (of->log->objects[line->source - 1].is_futex)
		return owner_by_words(walk, wait, words, moment);
	return snap_log_find_peer(of, words ? &of->log->words[words - 1] : NULL,
				  line->owners.process, moment);
}

/* From this tick of the slice on, the owner that is named now. */
static bool settle_tick(struct walk *walk, uint32_t tick)
{
	uint64_t moment = walk->of->first + tick + 1;

	for (size_t i = 0; i < walk->touched_count; i++) {
		uint32_t wait = walk->touched[i];
		struct line *line = &walk->lines[wait];
		struct snap_log_owner owner;

		line->is_touched = false;
		if (!line->source && !line->is_child)
			continue;
		owner = find_hold_owner(walk, wait, moment);
		if (line->is_open && same_owner(&line->owner, &owner))
			continue;
		if (!close_line(walk, wait, tick))
			return false;
		line->is_open = true;
		line->since = tick;
		line->owner = owner;
	}
	walk->touched_count = 0;
	return true;
}

/* ---- what happens ---- */

static size_t first_link(const struct walk *walk, uint32_t object)
{
	const struct link *links = walk->by_object;

	return snap_first_not(walk->link_count, i, links[i].object < object);
}

static bool is_hold_reported(const struct walk *walk, uint32_t object)
{
	return walk->words[object] != UINT32_MAX;
}

/* The words of an object count from now on, unless those of another object with a waiter do. */
static void prefer(struct walk *walk, uint32_t object, bool always)
{
	if (!is_hold_reported(walk, object))
		return;
	for (size_t i = first_link(walk, object);
	     i < walk->link_count && walk->by_object[i].object == object; i++) {
		uint32_t wait = walk->by_object[i].wait;
		struct line *line = &walk->lines[wait];

		if (always || !line->source || line->source == object + 1 ||
		    !walk->waiters[line->source - 1])
			line->source = object + 1;
		touch_waited_object(walk, wait);
	}
}

static void take_owner(struct walk *walk, const struct snap_log_owner_change *to)
{
	walk->words[to->object] = to->words;
	prefer(walk, to->object, walk->waiters[to->object] > 0);
}

/* No thread waits with it any more: if one waits with another object, that object counts. */
static void end_hold(struct walk *walk, uint32_t object)
{
	for (size_t i = first_link(walk, object);
	     i < walk->link_count && walk->by_object[i].object == object; i++) {
		uint32_t wait = walk->by_object[i].wait;
		const struct link *links = walk->by_wait;
		size_t first = snap_first_not(walk->link_count, k, links[k].wait < wait);

		if (walk->lines[wait].source != object + 1)
			continue;
		for (size_t k = first;
		     k < walk->link_count && links[k].wait == wait && k < first + MOST_OBJECTS;
		     k++) {
			if (!walk->waiters[links[k].object] ||
			    !is_hold_reported(walk, links[k].object))
				continue;
			walk->lines[wait].source = links[k].object + 1;
			touch_waited_object(walk, wait);
			break;
		}
	}
}

static void change(struct walk *walk, const struct snap_log_change *to)
{
	uint32_t before = walk->object_of[to->thread];
	uint32_t object = to->stack == SNAP_LOG_GONE ? 0 : to->object;

	if (before == object)
		return;
	walk->object_of[to->thread] = object;
	if (object && walk->waiters[object - 1]++ == 0)
		prefer(walk, object - 1, true);
	if (before && --walk->waiters[before - 1] == 0)
		end_hold(walk, before - 1);
}

/* ---- the walk ---- */

SNAP_ORDER(in_order_of_objects, struct link, a, b, snap_compare(a->object, b->object),
	   snap_compare(a->wait, b->wait));

SNAP_ORDER(in_order_of_waits, struct link, a, b, snap_compare(a->wait, b->wait),
	   snap_compare(a->object, b->object));

/* Whether words of the object name the holder of what a wait is for, or processes do. */
static bool keeps_hold_owner(const struct snap_log_object *object, const struct snap_wait *wait)
{
	if (object->is_futex)
		return wait->owner_word.form != SNAP_OWNER_FORM_NONE;
	return wait->kind == SNAP_WAIT_CHILD ? wait->child >= 0
					     : snap_wait_kind_is(wait->kind, SNAP_KIND_HAS_ENDS);
}

static bool list_links(struct walk *walk)
{
	const struct snap_log_analysis *of = walk->of;
	const struct snap_log *log = of->log;
	size_t size = (log->explained_count + 1) * sizeof(struct link), count = 0, of_object = 0;
	struct link *links = malloc(size);

	walk->by_object = links;
	walk->by_wait = malloc(size);
	if (!links || !walk->by_wait)
		return false;
	for (size_t i = 0; i < log->explained_count; i++) {
		const struct snap_log_explained *pair = &log->explained[i];
		uint32_t wait = of->of_explained[i];

		if (wait && keeps_hold_owner(&log->objects[pair->object],
					     of->recording->waits[wait - 1].wait))
			links[count++] = (struct link){ pair->object, wait - 1 };
	}
	qsort(links, count, sizeof(*links), in_order_of_objects);
	for (size_t i = 0; i < count; i++) {
		bool is_same =
			walk->link_count && links[walk->link_count - 1].object == links[i].object;

		if (is_same && links[walk->link_count - 1].wait == links[i].wait)
			continue;
		of_object = is_same ? of_object + 1 : 0;
		if (of_object < MOST_WAITS)
			links[walk->link_count++] = links[i];
	}
	memcpy(walk->by_wait, links, walk->link_count * sizeof(*links));
	qsort(walk->by_wait, walk->link_count, sizeof(*links), in_order_of_waits);
	return true;
}

/* Runs of the log's threads lie behind each other, and tracks point to them. */
static bool list_tracks(struct walk *walk)
{
	const struct snap_log_analysis *of = walk->of;
	const struct snap_recording *recording = of->recording;
	size_t count = of->log->thread_count;

	walk->tracks = malloc((count + 1) * sizeof(*walk->tracks));
	if (!walk->tracks)
		return false;
	memset(walk->tracks, 0xff, (count + 1) * sizeof(*walk->tracks));
	for (size_t i = 0; i < recording->track_count; i++) {
		const struct snap_run *runs = recording->tracks[i].runs;
		size_t thread = snap_first_not(count, k, of->lines[k].runs < runs);

		if (thread < count && of->lines[thread].runs == runs)
			walk->tracks[thread] = i;
	}
	return true;
}

/* Whose threads may have what each wait is for. */
static bool find_processes(struct walk *walk)
{
	struct snap_log_analysis *of = walk->of;

	if (!snap_log_index_owners(of) || !snap_log_index_programs(of))
		return false;
	for (size_t i = 0; i < walk->link_count; i++) {
		const struct link *link = &walk->by_wait[i];
		const struct snap_log_object *object = &of->log->objects[link->object];
		struct line *line = &walk->lines[link->wait];

		if (i && link[-1].wait == link->wait)
			continue;
		line->owners.process = of->log->spaces[object->space].process;
		line->is_child = of->recording->waits[link->wait].wait->kind == SNAP_WAIT_CHILD;
		if (object->is_futex && !snap_log_owners_of(of, object, &line->owners))
			return false;
	}
	return true;
}

SNAP_ORDER(in_order_of_moments, struct event, a, b, snap_compare(a->moment, b->moment),
	   snap_compare(a->parent, b->parent));

/* Waits for children, and when there are others. */
static bool list_children(struct walk *walk)
{
	const struct snap_log_analysis *of = walk->of;
	size_t count = of->log->process_count;

	walk->parents = malloc((of->recording->wait_count + 1) * sizeof(*walk->parents));
	walk->events = malloc((2 * count + 1) * sizeof(*walk->events));
	if (!walk->parents || !walk->events)
		return false;
	for (uint32_t i = 0; i < of->recording->wait_count; i++)
		if (walk->lines[i].is_child)
			walk->parents[walk->parent_count++] =
				(struct link){ walk->lines[i].owners.process, i };
	qsort(walk->parents, walk->parent_count, sizeof(*walk->parents), in_order_of_objects);
	for (size_t i = 0; i < count && walk->parent_count; i++) {
		const struct snap_log_program *program = &of->programs[i];

		walk->events[walk->event_count++] =
			(struct event){ program->birth, program->parent };
		walk->events[walk->event_count++] =
			(struct event){ program->death, program->parent };
	}
	qsort(walk->events, walk->event_count, sizeof(*walk->events), in_order_of_moments);
	return true;
}

/* Up to a moment. */
static void pass_events(struct walk *walk, size_t *next, uint64_t moment)
{
	const struct link *parents = walk->parents;

	for (; *next < walk->event_count && walk->events[*next].moment <= moment; ++*next) {
		uint32_t parent = walk->events[*next].parent;

		for (size_t i = snap_first_not(walk->parent_count, k, parents[k].object < parent);
		     i < walk->parent_count && parents[i].object == parent; i++)
			touch_waited_object(walk, parents[i].wait);
	}
}

/* Ends of pipes and sockets were where they are now when the wait with them began. */
static void begin_with_ends(struct walk *walk)
{
	const struct snap_log *log = walk->of->log;

	for (size_t i = 0; i < log->owner_count; i++) {
		const struct snap_log_object *object = &log->objects[log->owners[i].object];

		if (!object->is_futex && !is_hold_reported(walk, log->owners[i].object) &&
		    object->descriptor_count && object->descriptors[0].kind != SNAP_DESCRIPTOR_FILE)
			take_owner(walk, &log->owners[i]);
	}
}

static bool walk_init(struct walk *walk)
{
	const struct snap_log_analysis *of = walk->of;
	const struct snap_log *log = of->log;
	size_t waits = of->recording->wait_count;

	walk->words = malloc((log->object_count + 1) * sizeof(*walk->words));
	walk->waiters = calloc(log->object_count + 1, sizeof(*walk->waiters));
	walk->object_of = calloc(log->thread_count + 1, sizeof(*walk->object_of));
	walk->lines = calloc(waits + 1, sizeof(*walk->lines));
	walk->touched = malloc((waits + 1) * sizeof(*walk->touched));
	if (!walk->words || !walk->waiters || !walk->object_of || !walk->lines || !walk->touched ||
	    !list_tracks(walk))
		return false;
	memset(walk->words, 0xff, (log->object_count + 1) * sizeof(*walk->words));
	if (!find_processes(walk) || !list_children(walk))
		return false;
	for (size_t i = 0; i < log->owners_before_count && i < log->object_count; i++)
		if (log->owners_before[i])
			take_owner(walk, &(struct snap_log_owner_change){ (uint32_t)i,
									  log->owners_before[i] });
	begin_with_ends(walk);
	for (size_t i = 0; i < log->before_count; i++)
		change(walk, &log->before[i]);
	for (size_t i = 0; i < walk->parent_count; i++)
		touch_waited_object(walk, walk->parents[i].wait);
	return true;
}

static struct stacksnap_error *walk_hold_ticks(struct walk *walk)
{
	const struct snap_log_analysis *of = walk->of;
	const struct snap_log *log = of->log;
	size_t next_owner = 0, next_change = 0, next_event = 0;

	for (size_t i = 0; i < of->end; i++) {
		const struct snap_log_tick *tick = &log->ticks[i];

		if (i % CHECK_CANCEL == 0 && snap_options_cancelled(of->options))
			return snap_error_cancelled();
		for (; next_owner < tick->owner_end - log->first_owner; next_owner++)
			take_owner(walk, &log->owners[next_owner]);
		for (; next_change < tick->change_end - log->first_change; next_change++)
			change(walk, &log->changes[next_change]);
		pass_events(walk, &next_event, i + 1);
		if (i >= of->first && !settle_tick(walk, (uint32_t)(i - of->first)))
			return snap_error_no_memory();
	}
	return snap_no_memory_unless(
		snap_all(of->recording->wait_count, i,
			 close_line(walk, i, (uint32_t)(of->end - of->first))));
}

/* ---- as the recording has them ---- */

static bool keep_holds(struct walk *walk)
{
	struct snap_recording *recording = walk->of->recording;
	struct snap_owner_span *spans =
		snap_arena_new_array(snap_analysis_arena(&walk->of->analysis),
				     walk->found_count + 1, struct snap_owner_span);

	if (!spans)
		return false;
	for (size_t i = 0; i < walk->found_count; i++)
		recording->waits[walk->found[i].wait].owner_count++;
	for (size_t i = 0; i < recording->wait_count; i++) {
		struct snap_recorded_wait *wait = &recording->waits[i];

		wait->owners = wait->owner_count ? spans : NULL;
		spans += wait->owner_count;
		wait->owner_count = 0;
	}
	for (size_t i = 0; i < walk->found_count; i++) {
		struct snap_recorded_wait *wait = &recording->waits[walk->found[i].wait];

		wait->owners[wait->owner_count++] = walk->found[i].span;
	}
	return true;
}

struct stacksnap_error *snap_log_make_owner_spans(struct snap_log_analysis *of)
{
	_cleanup_(hold_walk_deinit) struct walk walk = { .of = of };

	if (!of->recording->wait_count)
		return NULL;
	SNAP_TRY(snap_no_memory_unless(list_links(&walk)));
	if (!walk.link_count)
		return NULL;
	SNAP_TRY(snap_no_memory_unless(walk_init(&walk)));
	SNAP_TRY(walk_hold_ticks(&walk));
	return keep_holds(&walk) ? NULL : snap_error_no_memory();
}
