/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is waited for, back to a log: see snaprec_waits.h. */
#include "render/snaprec_waits.h"

#include "base/bsearch.h"
#include "model/wait/kind.h"
#include "store/log/index.h"

enum {
	/* No thread has such a number: FUTEX_OWNER_DIED, and one above that of all threads. */
	OWNER_DIED = 0x40000000,
	NOT_RECOVERABLE = 0x7ffffffe,
};

/* From a tick on. */
struct snap_snaprec_owner {
	uint32_t tick, wait;
	const struct snap_owner_span *hold; /* NULL: nothing is known from here on */
};

/* At a tick. */
struct snap_snaprec_wake {
	uint32_t tick, thread;
	enum snap_log_ran ran;
};

void snap_snaprec_waits_deinit(struct snap_snaprec_waits *waits)
{
	free(waits->owners);
	free(waits->wakes);
}

static bool keeps_snaprec_owner(const struct snap_recorded_wait *wait)
{
	return wait->wait->owner_word.form != SNAP_OWNER_FORM_NONE &&
	       wait->wait->owner_word.address;
}

/* Whether a process has the other end, or what is waited for; children are known without. */
static bool names_end(const struct snap_recorded_wait *wait)
{
	return snap_wait_kind_is(wait->wait->kind, SNAP_KIND_HAS_ENDS) &&
	       !keeps_snaprec_owner(wait);
}

/* What ends at a tick comes before what begins there. */
SNAP_ORDER(by_tick, struct snap_snaprec_owner, a, b, snap_compare(a->tick, b->tick),
	   snap_compare(a->wait, b->wait), snap_compare(a->hold != NULL, b->hold != NULL));

static bool list_holds(struct snap_snaprec_waits *waits, const struct snap_recording *recording)
{
	size_t most = 1;

	for (size_t i = 0; i < recording->wait_count; i++)
		most += 2 * recording->waits[i].owner_count;
	waits->owners = calloc(most, sizeof(*waits->owners));
	if (!waits->owners)
		return false;
	for (size_t i = 0; i < recording->wait_count; i++) {
		const struct snap_recorded_wait *wait = &recording->waits[i];

		if (!keeps_snaprec_owner(wait) && !names_end(wait))
			continue;
		for (size_t k = 0; k < wait->owner_count; k++) {
			const struct snap_owner_span *hold = &wait->owners[k];

			waits->owners[waits->count++] =
				(struct snap_snaprec_owner){ hold->first, (uint32_t)i, hold };
			waits->owners[waits->count++] =
				(struct snap_snaprec_owner){ hold->last + 1, (uint32_t)i, NULL };
		}
	}
	qsort(waits->owners, waits->count, sizeof(*waits->owners), by_tick);
	return true;
}

SNAP_ORDER(in_order_of_ticks, struct snap_snaprec_wake, a, b, snap_compare(a->tick, b->tick),
	   snap_compare(a->thread, b->thread));

/* Tracks are the log's threads, in their order. */
static bool list_wakes(struct snap_snaprec_waits *waits, const struct snap_recording *recording)
{
	size_t most = 1;

	for (size_t i = 0; i < recording->track_count; i++)
		most += 2 * recording->tracks[i].wake_count;
	waits->wakes = calloc(most, sizeof(*waits->wakes));
	if (!waits->wakes)
		return false;
	for (size_t i = 0; i < recording->track_count; i++)
		for (size_t k = 0; k < recording->tracks[i].wake_count; k++) {
			const struct snap_wake *wake = &recording->tracks[i].wakes[k];
			bool is_one = wake->first == wake->last;

			waits->wakes[waits->wake_count++] =
				(struct snap_snaprec_wake){ wake->first, (uint32_t)i,
							    is_one ? SNAP_LOG_RAN_ONCE
								   : SNAP_LOG_RAN_EACH };
			if (!is_one)
				waits->wakes[waits->wake_count++] =
					(struct snap_snaprec_wake){ wake->last + 1, (uint32_t)i,
								    SNAP_LOG_RAN_NOT };
		}
	qsort(waits->wakes, waits->wake_count, sizeof(*waits->wakes), in_order_of_ticks);
	return true;
}

/* Distinguished by their numbers. */
static struct stacksnap_error *add_object(const struct snap_recorded_wait *wait, size_t index,
					  struct snap_log *log)
{
	struct snap_log_object object = {
		.space = log->processes[wait->process].space,
		.call = { .known = true, .arguments = { 0, 0, 0, 0, 0, index } },
	};
	struct stacksnap_error *err;
	uint32_t number;

	if (keeps_snaprec_owner(wait)) {
		object.is_futex = true;
		object.call.arguments[0] = wait->wait->owner_word.address;
	}
	err = snap_log_find_object(log, &object, NULL, &number);
	if (!err && number != index + 1)
		return snap_error_format(SNAP_ERROR_OTHER, "the recording waits for too much");
	return err;
}

struct stacksnap_error *snap_snaprec_add_waits(struct snap_snaprec_waits *waits,
					       const struct snap_recording *recording,
					       struct snap_log *log)
{
	struct stacksnap_error *err = NULL;

	if (!list_holds(waits, recording) || !list_wakes(waits, recording))
		return snap_error_no_memory();
	for (size_t i = 0; i < recording->wait_count && !err; i++)
		err = add_object(&recording->waits[i], i, log);
	return err;
}

/* What stands in the word, by which the same will be said again. */
static uint32_t word_of_hold(const struct snap_recording *recording,
			     const struct snap_owner_span *hold)
{
	const struct snap_track *track = NULL;

	if (hold->track < recording->track_count)
		track = &recording->tracks[hold->track];
	if (track)
		return (uint32_t)(track->ns_tid ? track->ns_tid : track->tid);
	if (hold->lack == SNAP_OWNER_DIED)
		return OWNER_DIED;
	return hold->tid > 0 ? (uint32_t)hold->tid : 0;
}

static struct stacksnap_error *add_snaprec_end(const struct snap_recording *recording,
					       struct snap_log *log,
					       const struct snap_snaprec_owner *from)
{
	const struct snap_owner_span *hold = from->hold;
	uint32_t pid;

	if (!hold || hold->lack != SNAP_OWNER_KNOWN || hold->track >= recording->track_count)
		return snap_log_set_peers(log, from->wait, NULL, 0);
	pid = (uint32_t)recording->processes[recording->tracks[hold->track].process].node->pid;
	return snap_log_set_peers(log, from->wait, &pid, 1);
}

static struct stacksnap_error *add_hold(const struct snap_recording *recording,
					struct snap_log *log, const struct snap_snaprec_owner *from)
{
	const struct snap_wait *wait = recording->waits[from->wait].wait;
	struct snap_memory_piece piece = { .address = wait->owner_word.address };
	const struct snap_memory_image image = { .pieces = &piece, .piece_count = 1 };
	uint32_t word;

	if (names_end(&recording->waits[from->wait]))
		return add_snaprec_end(recording, log, from);
	if (!from->hold || from->hold->lack == SNAP_OWNER_UNREADABLE)
		return snap_log_set_owner(log, from->wait, NULL);
	word = word_of_hold(recording, from->hold);
	if (word == OWNER_DIED && wait->owner_word.form == SNAP_OWNER_FORM_TID)
		word = NOT_RECOVERABLE;
	piece.bytes = (const uint8_t *)&word;
	piece.size = sizeof(word);
	return snap_log_set_owner(log, from->wait, &image);
}

struct stacksnap_error *snap_snaprec_add_owners(struct snap_snaprec_waits *waits,
						const struct snap_recording *recording,
						struct snap_log *log, size_t tick)
{
	struct stacksnap_error *err = NULL;

	while (waits->next < waits->count && waits->owners[waits->next].tick <= tick && !err)
		err = add_hold(recording, log, &waits->owners[waits->next++]);
	return err;
}

void snap_snaprec_add_wakes(struct snap_snaprec_waits *waits, struct snap_log *log, size_t tick)
{
	while (waits->next_wake < waits->wake_count &&
	       waits->wakes[waits->next_wake].tick <= tick) {
		const struct snap_snaprec_wake *wake = &waits->wakes[waits->next_wake++];

		snap_log_add_wake(log, wake->thread, wake->ran);
	}
}

struct stacksnap_error *snap_snaprec_find_object(const struct snap_recording *recording,
						 struct snap_log *log, const struct snap_run *run,
						 uint32_t *ret)
{
	uint32_t stack = (uint32_t)run->stack;

	*ret = run->wait;
	if (!run->wait || snap_log_explained(log, stack, run->wait - 1))
		return NULL;
	return snap_log_explain(log, stack, run->wait - 1, recording->waits[run->wait - 1].wait);
}
