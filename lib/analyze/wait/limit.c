/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Measures waits in a report, and makes them smaller. Long texts are cut, then lists of processes
 * at the other end are cut to their first one, and at last waits of threads are left out; the wait
 * of each group's first thread is left out last. Counts what the JSON writes, with escapes, as
 * often as it writes it. Knows no other process, and not the limit.
 */
#include "analyze/wait/wait.h"

#include "analyze/short_text.h"

#include <stddef.h>
#include <string.h>

enum {
	WAIT_BYTES = 120,  /* each without its texts and numbers */
	PARTY_BYTES = 130, /* with the id of its group */
	LINK_BYTES = 90,   /* a thread of a deadlock, a blocker, what is contended */
	TEXT_BYTES = 18,   /* the key of a text */
	NUMBER_BYTES = 28, /* a number and its key */
	DESCRIPTOR_BYTES = 25,
	PID_BYTES = 12,
	SIGNAL_BYTES = 4,
};

/*
 * What texts are cut to, one after the other; names in the text report are no longer than the last.
 */
static const size_t lengths[] = { SNAP_LONGEST_SHORT_TEXT, 64 };

static const size_t text_fields[] = {
	offsetof(struct snap_wait, variant),        offsetof(struct snap_wait, symbol),
	offsetof(struct snap_wait, module),         offsetof(struct snap_wait, place),
	offsetof(struct snap_wait, path),           offsetof(struct snap_wait, call),
	offsetof(struct snap_wait, wchan),          offsetof(struct snap_wait, cgroup),
	offsetof(struct snap_wait, mutex_symbol),   offsetof(struct snap_wait, local),
	offsetof(struct snap_wait, remote),         offsetof(struct snap_wait, socket_state),
	offsetof(struct snap_wait, listen_address),
};

/* Waits of an analysis are its own, and lie in the snapshot's arena. */
static struct snap_wait *own(const struct snap_wait *wait)
{
	return (struct snap_wait *)(uintptr_t)wait;
}

static const char **wait_text_at(const struct snap_wait *wait, size_t field)
{
	return (const char **)((char *)own(wait) + text_fields[field]);
}

/* ---- how much it is ---- */

static uint64_t wait_text_bytes(struct snap_short_texts *texts, const char *text)
{
	return text ? TEXT_BYTES + snap_short_texts_bytes(texts, text) : 0;
}

static uint64_t number_bytes(const struct snap_wait *wait)
{
	const int64_t known[] = { wait->fd,          wait->id,
				  wait->readers,     wait->value,
				  wait->waiters,     wait->arrived,
				  wait->needed,      wait->fd_count,
				  wait->recv_queue,  wait->send_queue,
				  wait->backlog,     wait->backlog_max,
				  wait->retransmits, wait->peer_recv_queue,
				  wait->since_ns,    wait->remaining_ns };
	const uint64_t not_zero[] = { wait->address,     wait->offset,         wait->mutex,
				      wait->range_start, wait->range_end,      wait->listening,
				      wait->connected,   (uint64_t)wait->child };
	uint64_t count = snap_sum(SNAP_ARRAY_SIZE(known), i, known[i] >= 0);

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(not_zero); i++)
		count += not_zero[i] != 0;
	for (size_t i = 0; i < SNAP_DESCRIPTOR_KINDS; i++)
		count += wait->kinds_watched[i] != 0;
	return count * NUMBER_BYTES;
}

/* Without the owners and peers. */
static uint64_t object_bytes(struct snap_short_texts *texts, const struct snap_wait *wait)
{
	uint64_t bytes = WAIT_BYTES + number_bytes(wait) + wait->fds_count * DESCRIPTOR_BYTES +
			 (uint64_t)__builtin_popcountll(wait->signals) * SIGNAL_BYTES;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(text_fields); i++)
		bytes += wait_text_bytes(texts, *wait_text_at(wait, i));
	return bytes;
}

static uint64_t parties_bytes(struct snap_short_texts *texts, const struct snap_wait_party *parties,
			      size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++) {
		bytes += PARTY_BYTES + PID_BYTES + wait_text_bytes(texts, parties[i].name) +
			 wait_text_bytes(texts, parties[i].function);
		if (parties[i].wait)
			bytes += object_bytes(texts, parties[i].wait);
	}
	return bytes;
}

static uint64_t wait_bytes(struct snap_short_texts *texts, const struct snap_wait *wait)
{
	if (!wait)
		return 0;
	return object_bytes(texts, wait) +
	       parties_bytes(texts, &wait->owner, wait->has_owner || wait->owner.tid) +
	       parties_bytes(texts, wait->holders, wait->holder_count) +
	       parties_bytes(texts, wait->hints, wait->hint_count) +
	       parties_bytes(texts, wait->peers, wait->peer_count);
}

static uint64_t node_bytes(struct snap_short_texts *texts, const struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;
	uint64_t bytes = 0;

	while ((stack = snap_node_next_stack(node, &cursor))) {
		bytes += wait_bytes(texts, stack->wait);
		for (size_t i = 0; i < stack->thread_count; i++)
			bytes += wait_bytes(texts, stack->threads[i].wait);
	}
	return bytes;
}

static uint64_t top_bytes(struct snap_short_texts *texts, const struct snap_waits *waits)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < waits->deadlock_count; i++)
		for (size_t k = 0; k < waits->deadlocks[i].thread_count; k++) {
			const struct snap_wait_link *link = &waits->deadlocks[i].threads[k];

			bytes += LINK_BYTES + wait_text_bytes(texts, link->name) +
				 wait_text_bytes(texts, link->function) +
				 wait_text_bytes(texts, link->file) + wait_bytes(texts, link->wait);
		}
	for (size_t i = 0; i < waits->blocker_count; i++)
		bytes += LINK_BYTES + wait_text_bytes(texts, waits->blockers[i].name) +
			 wait_text_bytes(texts, waits->blockers[i].function) +
			 wait_bytes(texts, waits->blockers[i].wait);
	for (size_t i = 0; i < waits->contended_count; i++)
		bytes += LINK_BYTES + wait_bytes(texts, waits->contended[i].wait);
	return bytes;
}

/* ---- less of it ---- */

/* What is done to each wait: its texts are cut, or its lists. */
struct cutter {
	struct snap_short_texts *texts;
	bool lists;
};

static void cut_text(struct cutter *cutter, const char **text)
{
	if (*text)
		snap_short_texts_cut(cutter->texts, text);
}

static void cut_object(struct cutter *cutter, const struct snap_wait *wait)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(text_fields); i++)
		cut_text(cutter, wait_text_at(wait, i));
	if (cutter->lists)
		own(wait)->fds_count = 0;
}

static void cut_parties(struct cutter *cutter, struct snap_wait_party *parties, size_t *count)
{
	if (cutter->lists && *count > 1)
		*count = 1;
	for (size_t i = 0; i < *count; i++) {
		cut_text(cutter, &parties[i].name);
		cut_text(cutter, &parties[i].function);
		if (parties[i].wait)
			cut_object(cutter, parties[i].wait);
	}
}

static void cut_wait(struct cutter *cutter, const struct snap_wait *given)
{
	struct snap_wait *wait = own(given);
	size_t one = 1;

	if (!wait)
		return;
	cut_object(cutter, wait);
	cut_parties(cutter, &wait->owner, &one);
	cut_parties(cutter, wait->holders, &wait->holder_count);
	cut_parties(cutter, wait->hints, &wait->hint_count);
	cut_parties(cutter, wait->peers, &wait->peer_count);
}

static void cut_node(struct cutter *cutter, const struct snap_node *node)
{
	struct snap_stack_cursor cursor = { 0 };
	const struct snap_stack *stack;

	/* The wait that a group has in common is that of one of its threads. */
	while ((stack = snap_node_next_stack(node, &cursor)))
		for (size_t i = 0; i < stack->thread_count; i++)
			cut_wait(cutter, stack->threads[i].wait);
}

static void cut_top(struct cutter *cutter, const struct snap_waits *waits)
{
	for (size_t i = 0; i < waits->deadlock_count; i++)
		for (size_t k = 0; k < waits->deadlocks[i].thread_count; k++) {
			struct snap_wait_link *link = &waits->deadlocks[i].threads[k];

			cut_text(cutter, &link->name);
			cut_text(cutter, &link->function);
			cut_text(cutter, &link->file);
			cut_wait(cutter, link->wait);
		}
	for (size_t i = 0; i < waits->blocker_count; i++) {
		cut_text(cutter, &waits->blockers[i].name);
		cut_text(cutter, &waits->blockers[i].function);
		cut_wait(cutter, waits->blockers[i].wait);
	}
	for (size_t i = 0; i < waits->contended_count; i++)
		cut_wait(cutter, waits->contended[i].wait);
}

/* Takes what waits need from what is left; false: it is too little. */
static bool take_room(uint64_t bytes, uint64_t *room)
{
	if (bytes > *room)
		return false;
	*room -= bytes;
	return true;
}

/* What a group has in common, and the wait of its first thread, before those of all others. */
static void leave_waits_out(struct snap_short_texts *texts, const struct snap_node *node,
			    uint64_t room, struct snap_wait_cut *cut)
{
	for (int pass = 0; pass < 2; pass++) {
		struct snap_stack_cursor cursor = { 0 };
		struct snap_stack *stack;

		while ((stack = snap_node_next_stack(node, &cursor))) {
			size_t first = pass, end = pass ? stack->thread_count : 1;

			if (pass == 0 && !take_room(wait_bytes(texts, stack->wait), &room))
				stack->wait = NULL;
			for (size_t i = first; i < end && i < stack->thread_count; i++) {
				if (take_room(wait_bytes(texts, stack->threads[i].wait), &room))
					continue;
				stack->threads[i].wait = NULL;
				cut->waits++;
			}
		}
	}
}

/* Cuts more and more until the waits take no more than `most`; how much they take then. */
static uint64_t cut_until(struct snap_short_texts *texts, const struct snap_node *node,
			  const struct snap_waits *waits, uint64_t most, struct snap_wait_cut *cut)
{
	uint64_t bytes = UINT64_MAX;

	for (size_t step = 0; step <= SNAP_ARRAY_SIZE(lengths) && bytes > most; step++) {
		struct cutter cutter = { .texts = texts,
					 .lists = step == SNAP_ARRAY_SIZE(lengths) };

		if (cutter.lists) {
			cut->lists = true;
		} else {
			/* What texts were cut to before is longer. */
			memset(texts->known, 0, sizeof(texts->known));
			texts->most = lengths[step];
		}
		if (node)
			cut_node(&cutter, node);
		else
			cut_top(&cutter, waits);
		bytes = node ? node_bytes(texts, node) : top_bytes(texts, waits);
	}
	if (cut->length == 0 || texts->most < cut->length)
		cut->length = texts->most;
	return bytes;
}

static struct snap_short_texts *texts_create(struct snap_interner *strings)
{
	struct snap_short_texts *texts = calloc(1, sizeof(*texts));

	if (texts)
		texts->strings = strings;
	return texts;
}

struct stacksnap_error *snap_waits_report_bytes(const struct snap_node *node,
						const struct snap_waits *waits, uint64_t *ret)
{
	_cleanup_free_ struct snap_short_texts *texts = texts_create(NULL);

	SNAP_TRY(snap_no_memory_unless(texts));
	*ret = node ? node_bytes(texts, node) : top_bytes(texts, waits);
	return NULL;
}

struct stacksnap_error *snap_waits_limit(struct snap_interner *strings,
					 const struct snap_node *node,
					 const struct snap_waits *waits, uint64_t most,
					 struct snap_wait_cut *cut)
{
	_cleanup_free_ struct snap_short_texts *texts = texts_create(strings);

	SNAP_TRY(snap_no_memory_unless(texts));
	/* The top of a report has few, which tell the most: none of them is left out. */
	if (cut_until(texts, node, waits, most, cut) > most && node)
		leave_waits_out(texts, node, most, cut);
	return snap_no_memory_unless(!texts->failed);
}
