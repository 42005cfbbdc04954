/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Deadlocks, blockers, contended objects, and the list of waits behind them: see waits.h. */
#include "store/snapshot/waits.h"

#include "base/buffer.h"

enum {
	MOST_WAITS = SNAP_MAX_THREADS,
	/* the least that an element takes, in bytes */
	LEAST_WAIT = 41,
	LEAST_DEADLOCK = 34,
	LEAST_LINK = 28,
	LEAST_BLOCKER = 41,
	LEAST_CONTENDED = 16,
	WAIT_SHOWN = 256, /* bytes of a wait in a report besides its texts, about */
};

/* ---- pointers to waits ---- */

static void write_pointer(struct snap_pointer_codec *to, const struct snap_wait *wait)
{
	struct snap_pointer_entry *entry = wait ? snap_pointer_table_get(&to->waits, wait) : NULL;
	uint32_t number = entry ? (uint32_t)(entry - to->waits.entries) + 1 : 0;

	/* What is written is then of no use. */
	if (wait && !entry)
		to->no_memory = true;
	snap_code_u32(&to->codec, &number);
}

/* The next one of the list: its contents follow those of the ones before it. */
static const struct snap_wait *new_wait(struct snap_pointer_codec *to)
{
	struct snap_codec *codec = &to->codec;
	struct snap_wait *wait = NULL;

	if (to->waits.count >= MOST_WAITS ||
	    (to->waits.count - to->waits_read + 1) * LEAST_WAIT > codec->size - codec->position) {
		snap_codec_refuse(codec, "too many waits");
		return NULL;
	}
	wait = snap_arena_new(codec->arena, struct snap_wait);
	if (!wait || !snap_pointer_table_get(&to->waits, wait)) {
		snap_codec_refuse_memory(codec);
		return NULL;
	}
	return wait;
}

void snap_code_wait_pointer(struct snap_pointer_codec *to, const struct snap_wait **wait)
{
	uint32_t number = 0;

	if (!snap_codec_reads(&to->codec)) {
		write_pointer(to, *wait);
		return;
	}
	*wait = NULL;
	snap_code_u32(&to->codec, &number);
	if (to->codec.problem || number == 0)
		return;
	if (number > to->waits.count + 1)
		snap_codec_refuse(&to->codec, "invalid reference to a wait");
	else if (number > to->waits.count)
		*wait = new_wait(to);
	else
		*wait = to->waits.entries[number - 1].key;
	if (*wait)
		to->waits.entries[number - 1].number++;
}

/* ---- deadlocks, blockers, contended objects ---- */

static void code_link(struct snap_pointer_codec *to, struct snap_wait_link *link)
{
	struct snap_codec *codec = &to->codec;

	snap_code_i32(codec, &link->pid);
	snap_code_i32(codec, &link->tid);
	snap_code_text_pointer(to, &link->name, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &link->function, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &link->file, SNAP_MAX_NAME);
	snap_code_u32(codec, &link->line);
	snap_code_wait_pointer(to, &link->wait);
	snap_codec_check(codec, link->pid > 0 && link->tid > 0 && link->wait,
			 "invalid thread of a deadlock");
}

static void code_deadlock(struct snap_pointer_codec *to, struct snap_deadlock *deadlock)
{
	struct snap_codec *codec = &to->codec;

	snap_code_bool(codec, &deadlock->certain);
	snap_code_bool(codec, &deadlock->timed);
	snap_code_range(codec, &deadlock->until_ns, -1, SNAP_WAIT_MOST);
	snap_code_at_most(to, &deadlock->behind, SNAP_MAX_THREADS);
	snap_code_at_most(to, &deadlock->size, SNAP_MAX_THREADS);
	snap_code_list(codec, deadlock->threads, deadlock->thread_count, SNAP_DEADLOCK_SHOWN,
		       LEAST_LINK, i, code_link(to, &deadlock->threads[i]));
	snap_codec_check(codec, deadlock->thread_count && deadlock->size >= deadlock->thread_count,
			 "deadlock without threads");
}

static void code_blocker(struct snap_pointer_codec *to, struct snap_blocker *blocker)
{
	struct snap_codec *codec = &to->codec;

	snap_code_least(codec, &blocker->pid, 0);
	snap_code_least(codec, &blocker->tid, 0);
	snap_code_text_pointer(to, &blocker->name, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &blocker->function, SNAP_MAX_NAME);
	snap_code_at_most(to, &blocker->blocked, SNAP_MAX_THREADS);
	snap_code_at_most(to, &blocker->locks, SNAP_MAX_THREADS);
	snap_code_wait_pointer(to, &blocker->wait);
	snap_code_letter(codec, &blocker->state);
	snap_code_bool(codec, &blocker->certain);
	snap_code_enumerator(codec, &blocker->lack, SNAP_OWNER_LACKS);
}

static void code_contended(struct snap_pointer_codec *to, struct snap_contended *contended)
{
	snap_code_at_most(to, &contended->waiters, SNAP_MAX_THREADS);
	snap_code_i32(&to->codec, &contended->pid);
	snap_code_wait_pointer(to, &contended->wait);
	snap_codec_check(&to->codec, contended->pid > 0 && contended->wait,
			 "invalid contended object");
}

static void code_report(struct snap_pointer_codec *to, struct snap_waits *waits)
{
	struct snap_codec *codec = &to->codec;

	snap_code_bool(codec, &waits->asked);
	snap_code_u32(codec, &waits->lacks);
	snap_codec_check(codec, waits->lacks <= SNAP_LACK_ALL, "unknown lack");
	snap_code_array(codec, &waits->deadlocks, &waits->deadlock_count, SNAP_WAIT_LIST,
			sizeof(*waits->deadlocks), LEAST_DEADLOCK);
	snap_code_at_most(to, &waits->deadlock_total, SNAP_MAX_THREADS);
	for (size_t i = 0; i < waits->deadlock_count; i++)
		code_deadlock(to, &waits->deadlocks[i]);
	snap_codec_check(codec, waits->deadlock_total >= waits->deadlock_count,
			 "more deadlocks than there are");
	snap_code_list(codec, waits->blockers, waits->blocker_count, SNAP_WAIT_LIST, LEAST_BLOCKER,
		       i, code_blocker(to, &waits->blockers[i]));
	snap_code_list(codec, waits->contended, waits->contended_count, SNAP_WAIT_LIST,
		       LEAST_CONTENDED, i, code_contended(to, &waits->contended[i]));
}

/* ---- all waits ---- */

static uint64_t shown_of(const struct snap_pointer_table *waits, const uint64_t *own,
			 const struct snap_wait *wait)
{
	const struct snap_pointer_entry *entry = wait ? snap_pointer_table_find(waits, wait) : NULL;

	return entry ? own[entry - waits->entries] : 0;
}

static uint64_t shown_of_parties(const struct snap_pointer_table *waits, const uint64_t *own,
				 const struct snap_wait_party *parties, size_t count)
{
	return snap_sum(count, i, shown_of(waits, own, parties[i].wait));
}

/* Each is shown wherever it is pointed to, together with those that it points to itself. */
static void count_shown(struct snap_pointer_codec *to, const uint64_t *own)
{
	const struct snap_pointer_table *waits = &to->waits;

	for (size_t i = 0; i < waits->count && !to->codec.problem; i++) {
		const struct snap_wait *wait = waits->entries[i].key;
		uint64_t shown = own[i] + shown_of(waits, own, wait->owner.wait), all;

		shown += shown_of_parties(waits, own, wait->holders, wait->holder_count) +
			 shown_of_parties(waits, own, wait->peers, wait->peer_count) +
			 shown_of_parties(waits, own, wait->hints, wait->hint_count);
		if (__builtin_mul_overflow(shown, waits->entries[i].number, &all))
			all = UINT64_MAX / 2;
		snap_code_count_shown(to, all);
	}
}

void snap_code_waits(struct snap_pointer_codec *to, struct snap_waits *waits)
{
	_cleanup_free_ uint64_t *own = NULL;
	size_t capacity = 0;

	code_report(to, waits);
	/* More may be pointed to by those in front. */
	for (size_t i = 0; i < to->waits.count && !to->codec.problem; i++) {
		uint64_t before = to->shown;

		if (!snap_reserve_array(own, capacity, i + 1)) {
			to->no_memory = true;
			snap_codec_refuse_memory(&to->codec);
			return;
		}
		to->waits_read = i + 1;
		/* The descriptions also read; when they count or write, they change nothing. */
		snap_code_wait(to, (struct snap_wait *)(uintptr_t)to->waits.entries[i].key);
		own[i] = to->shown - before + WAIT_SHOWN;
	}
	if (snap_codec_reads(&to->codec))
		count_shown(to, own);
}
