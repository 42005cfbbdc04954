/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Offsets that no table has, derived from the stacks of goroutines: which word of a goroutine is
 * the function that it began with, and which byte is the reason that fits the place where it waits.
 * The fields around these have not moved since Go 1.18, nor has the beginning of a goroutine. Each
 * offset must have one solution only; otherwise none is used.
 */
#include "analyze/runtime/go/internal.h"

#include "base/text.h"

#include <string.h>

enum {
	MOST_PARKED = 2000, /* stacks that are looked at */
	LEAST_PARKED = 4,
	MOST_OUTER = 256,
	FIRST_FIELD = 80,
	LAST_FIELD = 400,
	FIRST_CALL = 96, /* where the registers at a system call may be */
	LAST_CALL = 136,
	FIRST_THREAD_FIELD = 48,
	LAST_THREAD_FIELD = 256,
	TEXTS_TO_START = 48, /* from the first function to the labels */
	ID_TO_REASON = 24,
};

/* A goroutine that the scheduler has put aside. */
struct parked {
	uint8_t bytes[SNAP_GO_GOROUTINE_BYTES];
	uint64_t begun;     /* the outermost function's entry */
	const char *reason; /* how the reason to wait begins; NULL: unknown */
};

struct derivation {
	struct snap_go *go;
	struct parked *parked;
	size_t count;
	struct snap_go_layout layout;
};

static uint64_t word_of_parked(const uint8_t *goroutine, unsigned offset)
{
	return snap_runtime_field(goroutine, offset, 8);
}

/* How the reason begins for which the runtime's function waits; NULL: for several. */
static const char *reason_of(const char *function)
{
	static const char *const known[][2] = {
		{ "runtime.chanrecv", "chan receive" },
		{ "runtime.chansend", "chan send" },
		{ "runtime.selectgo", "select" },
		{ "runtime.block", "select (no cases)" },
		{ "runtime.netpollblock", "IO wait" },
		{ "runtime.forcegchelper", "force gc (idle)" },
		{ "runtime.bgsweep", "GC sweep wait" },
		{ "sync.runtime_notifyListWait", "sync.Cond.Wait" },
		{ "time.Sleep", "sleep" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(known); i++)
		if (strcmp(function, known[i][0]) == 0)
			return known[i][1];
	return NULL;
}

/* From where the scheduler left it, to its end; false: it does not come there. */
static bool walk_parked(struct snap_go *go, struct parked *parked)
{
	uint64_t pc = word_of_parked(parked->bytes, SNAP_GO_SAVED_PC),
		 sp = word_of_parked(parked->bytes, SNAP_GO_SAVED_SP),
		 high = word_of_parked(parked->bytes, SNAP_GO_STACK_HIGH);
	bool is_exact = false;

	parked->begun = 0;
	parked->reason = NULL;
	if (sp < word_of_parked(parked->bytes, SNAP_GO_STACK_LOW))
		return false;
	for (unsigned i = 0; i < MOST_OUTER; i++) {
		const struct snap_go_site *site = snap_go_site(go, pc, is_exact);

		if (!site || !site->text)
			return false;
		if (site->function.flags & SNAP_GO_TOP_FRAME)
			return parked->begun != 0;
		parked->begun = site->text->start + site->function.entry;
		if (!parked->reason)
			parked->reason = reason_of(snap_go_site_name(site));
		if (!site->has_size || sp + site->size < sp || sp + site->size + 8 > high ||
		    !snap_runtime_word(go->process, sp + site->size, &pc))
			return false;
		sp += site->size + 8;
		is_exact = site->interrupts;
	}
	return false;
}

static void find_parked(struct derivation *derivation, const uint64_t *goroutines, size_t count)
{
	for (size_t i = 0; i < count && derivation->count < MOST_PARKED; i++) {
		struct parked *parked = &derivation->parked[derivation->count];

		derivation->count +=
			snap_go_read_goroutine(derivation->go, goroutines[i], parked->bytes) &&
			walk_parked(derivation->go, parked);
	}
}

/* ---- fields ---- */

/* The one word that is what nearly all goroutines began with. */
static bool derive_start(struct derivation *derivation)
{
	unsigned found = 0;

	for (unsigned at = FIRST_FIELD; at + 8 <= LAST_FIELD; at += 8) {
		size_t equal = snap_sum(derivation->count, i,
					word_of_parked(derivation->parked[i].bytes, at) ==
						derivation->parked[i].begun);

		if (equal * 10 < derivation->count * 9)
			continue;
		if (found++)
			return false;
		derivation->layout.start = (uint16_t)at;
	}
	return found == 1;
}

static bool reason_fits(const struct derivation *derivation, unsigned at)
{
	const struct snap_go *go = derivation->go;
	const char *first = NULL;
	bool differ = false;

	for (size_t i = 0; i < derivation->count; i++) {
		const struct parked *parked = &derivation->parked[i];
		uint8_t number = parked->bytes[at];

		if (!parked->reason)
			continue;
		if (number >= go->reason_count || !go->reasons[number] ||
		    !snap_begins_with(go->reasons[number], parked->reason))
			return false;
		differ |= first && first != parked->reason;
		first = parked->reason;
	}
	return differ;
}

/* The one byte that says what each waits for. */
static bool derive_reason(struct derivation *derivation)
{
	unsigned found = 0;

	for (unsigned at = FIRST_FIELD + ID_TO_REASON; at < LAST_FIELD; at++) {
		if (!reason_fits(derivation, at))
			continue;
		if (found++)
			return false;
		derivation->layout.wait_reason = (uint16_t)at;
	}
	return found == 1 && derivation->layout.wait_reason % 8 == 0;
}

/* What has not moved, seen from these two. */
static bool fill_neighbours(struct derivation *derivation)
{
	struct snap_go_layout *layout = &derivation->layout;
	const struct snap_go *go = derivation->go;
	bool has_parents = false;

	layout->id = layout->wait_reason - ID_TO_REASON;
	layout->status = layout->id - 8;
	layout->wait_since = layout->id + 16;
	layout->locked_thread = layout->id + (go->minor && go->minor <= 20 ? 80 : 56);
	if (layout->start < FIRST_FIELD + 24 ||
	    layout->start + TEXTS_TO_START + 8 > SNAP_GO_GOROUTINE_BYTES)
		return false;
	layout->creator = layout->start - 16;
	layout->labels = layout->start + TEXTS_TO_START;
	/* The runtime's own are children of the first goroutine. */
	for (size_t i = 0; i < derivation->count && !has_parents; i++) {
		const struct parked *parked = &derivation->parked[i];

		has_parents = parked->reason && strcmp(parked->reason, "force gc (idle)") == 0 &&
			      word_of_parked(parked->bytes, layout->creator - 8) == 1;
	}
	layout->parent = has_parents ? layout->creator - 8 : 0;
	return true;
}

/* ---- fields of those on threads ---- */

static bool call_fits(const struct snap_go *go, const uint8_t *goroutine, unsigned at)
{
	uint64_t sp = word_of_parked(goroutine, at);

	return sp >= word_of_parked(goroutine, SNAP_GO_STACK_LOW) &&
	       sp < word_of_parked(goroutine, SNAP_GO_STACK_HIGH) &&
	       snap_go_text_of(go, word_of_parked(goroutine, at + 8));
}

static bool fits_derived_thread(const struct snap_go *go, const uint8_t *goroutine, unsigned at)
{
	uint64_t thread = word_of_parked(goroutine, SNAP_GO_THREAD), number, signals, back;

	return thread && snap_runtime_word(go->process, thread + at, &number) &&
	       snap_go_thread(go, number) &&
	       snap_runtime_word(go->process, thread + at + 8, &signals) &&
	       snap_runtime_word(go->process, signals + SNAP_GO_THREAD, &back) && back == thread;
}

/* Those offsets that still fit, one bit each, from the first one in words. */
struct on_threads {
	uint64_t calls, threads;
	bool any_call, any_thread;
};

static void look_at_threads(const struct derivation *derivation, const uint64_t *goroutines,
			    size_t count, struct on_threads *ret)
{
	const struct snap_go *go = derivation->go;
	uint8_t goroutine[SNAP_GO_GOROUTINE_BYTES];

	*ret = (struct on_threads){ .calls = UINT64_MAX, .threads = UINT64_MAX };
	for (size_t i = 0; i < count; i++) {
		uint32_t status;

		if (!snap_go_read_goroutine(go, goroutines[i], goroutine))
			continue;
		status = (uint32_t)snap_runtime_field(goroutine, derivation->layout.status, 4) &
			 ~(uint32_t)SNAP_GO_SCANNED;
		if (status != SNAP_GO_SYSCALL && status != SNAP_GO_RUNNING)
			continue;
		ret->any_thread = true;
		for (unsigned at = FIRST_THREAD_FIELD; at < LAST_THREAD_FIELD; at += 8)
			if (!fits_derived_thread(go, goroutine, at))
				ret->threads &= ~(1ull << (at - FIRST_THREAD_FIELD) / 8);
		if (status != SNAP_GO_SYSCALL)
			continue;
		ret->any_call = true;
		for (unsigned at = FIRST_CALL; at < LAST_CALL; at += 8)
			if (!call_fits(go, goroutine, at))
				ret->calls &= ~(1ull << (at - FIRST_CALL) / 8);
	}
	ret->calls &= (1ull << (LAST_CALL - FIRST_CALL) / 8) - 1;
	ret->threads &= (1ull << (LAST_THREAD_FIELD - FIRST_THREAD_FIELD) / 8) - 1;
}

static bool is_single(uint64_t bits)
{
	return bits && !(bits & (bits - 1));
}

/* Where no goroutine needs them, the newest version's are as good as any. */
static bool find_threads(struct derivation *derivation, const uint64_t *goroutines, size_t count)
{
	const struct snap_go_layout *newest = snap_go_layout_of(SNAP_GO_LAST);
	struct snap_go_layout *layout = &derivation->layout;
	struct on_threads on;

	look_at_threads(derivation, goroutines, count, &on);
	if ((on.any_call && !is_single(on.calls)) || (on.any_thread && !is_single(on.threads)))
		return false;
	layout->call_sp = newest->call_sp;
	layout->thread_tid = newest->thread_tid;
	if (on.any_call)
		layout->call_sp = (uint16_t)(FIRST_CALL + 8 * __builtin_ctzll(on.calls));
	if (on.any_thread)
		layout->thread_tid =
			(uint16_t)(FIRST_THREAD_FIELD + 8 * __builtin_ctzll(on.threads));
	layout->thread_signal_stack = layout->thread_tid + 8;
	return true;
}

bool snap_go_derive_layout(struct snap_go *go, const uint64_t *goroutines, size_t count,
			   struct snap_go_layout *ret)
{
	struct derivation derivation = {
		.go = go,
		.layout = { .first = (uint8_t)go->minor, .last = (uint8_t)go->minor },
	};
	bool done = false;

	derivation.layout.labels_are_slices = go->minor == 0 || go->minor >= 24;
	derivation.parked = calloc(MOST_PARKED, sizeof(*derivation.parked));
	if (!derivation.parked) {
		go->no_memory = true;
		return false;
	}
	find_parked(&derivation, goroutines, count);
	if (derivation.count >= LEAST_PARKED && derive_start(&derivation) &&
	    derive_reason(&derivation) && fill_neighbours(&derivation))
		done = find_threads(&derivation, goroutines, count);
	free(derivation.parked);
	if (done)
		*ret = derivation.layout;
	return done;
}
