/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Offsets of the runtime's fields: a row for each version, x86-64. A version is a hint only: a
 * development version or a vendor's build may have the layout of another one. So a row is used if
 * it fits every goroutine, and the known states of the runtime's own goroutines. If no row fits,
 * debug information (described.c) or the goroutines themselves (derive.c) may give the offsets.
 *
 * A new version of Go: if none of the rows fits (`./dev runtimes` says so), add one as DWARF has
 * the fields of runtime.g and runtime.m, raise SNAP_GO_LAST, and run the matrix.
 */
#include "analyze/runtime/go/internal.h"

#include "base/bsearch.h"
#include "base/text.h"

#include <string.h>

/* As DWARF has them in 1.19.8, 1.21.13, 1.22.12, 1.23.5, 1.24.4, 1.25.12, 1.26.10, 1.27.3. */
/* clang-format off */
static const struct snap_go_layout layouts[] = {
	/* first, last; status, id, wait_since, wait_reason, locked_thread; parent, creator, start, labels,
	 * bubble; call_sp; thread_tid, thread_signal_stack; labels_are_slices */
	{ 18, 20, 144, 152, 168, 176, 232,   0, 296, 312, 360,   0, 112, 72, 80, false },
	{ 21, 22, 144, 152, 168, 176, 208, 272, 280, 296, 344,   0, 112, 72, 80, false },
	{ 23, 23, 152, 160, 176, 184, 216, 280, 288, 304, 352,   0, 112, 72, 80, false },
	{ 24, 24, 152, 160, 176, 184, 216, 280, 288, 304, 352,   0, 112, 72, 80,  true },
	{ 25, 25, 144, 152, 168, 176, 208, 272, 280, 296, 344, 384, 104, 64, 72,  true },
	{ 26, 27, 144, 152, 168, 176, 208, 280, 288, 304, 352, 392, 104, 64, 72,  true },
};
/* clang-format on */

enum { LAYOUTS = SNAP_ARRAY_SIZE(layouts), MOST_OWN_ID = 1000 };

static size_t index_of(unsigned minor)
{
	size_t i = 0;

	while (i + 1 < LAYOUTS && layouts[i].last < minor)
		i++;
	return i;
}

const struct snap_go_layout *snap_go_layout_of(unsigned minor)
{
	return &layouts[index_of(minor)];
}

bool snap_go_read_goroutine(const struct snap_go *go, uint64_t address,
			    uint8_t bytes[SNAP_GO_GOROUTINE_BYTES])
{
	if (snap_runtime_read(go->process, address, bytes, SNAP_GO_GOROUTINE_BYTES))
		return true;
	memset(bytes + SNAP_GO_OLD_GOROUTINE_BYTES, 0,
	       SNAP_GO_GOROUTINE_BYTES - SNAP_GO_OLD_GOROUTINE_BYTES);
	return snap_runtime_read(go->process, address, bytes, SNAP_GO_OLD_GOROUTINE_BYTES);
}

/* ---- whether a layout fits ---- */

static uint64_t word_of_candidate(const uint8_t *goroutine, uint16_t offset)
{
	return snap_runtime_field(goroutine, offset, 8);
}

static bool is_code(const struct snap_go *go, uint64_t pc)
{
	return snap_go_text_of(go, pc) != NULL;
}

static bool is_in_candidate_stack(const uint8_t *goroutine, uint64_t sp)
{
	return sp >= word_of_candidate(goroutine, SNAP_GO_STACK_LOW) &&
	       sp < word_of_candidate(goroutine, SNAP_GO_STACK_HIGH);
}

/*
 * Its thread is one of the process, and has a goroutine for signals that knows it; as far as that is
 * known: a probe knows no threads, and a copy may have been cut.
 */
static bool fits_layout_thread(const struct snap_go *go, const struct snap_go_layout *layout,
			       const uint8_t *goroutine)
{
	uint64_t thread = word_of_candidate(goroutine, SNAP_GO_THREAD), number, signals, back;

	if (!snap_runtime_word(go->process, thread + layout->thread_tid, &number) ||
	    !snap_runtime_word(go->process, thread + layout->thread_signal_stack, &signals))
		return thread != 0;
	return (go->process->process->thread_count == 0 || snap_go_thread(go, number)) &&
	       (!snap_runtime_word(go->process, signals + SNAP_GO_THREAD, &back) || back == thread);
}

static bool status_fits(const struct snap_go *go, const struct snap_go_layout *layout,
			const uint8_t *goroutine, uint32_t status)
{
	if ((status == SNAP_GO_WAITING || status == SNAP_GO_LEAKED) && go->reason_count > 0 &&
	    goroutine[layout->wait_reason] >= go->reason_count)
		return false;
	switch (status) {
	case SNAP_GO_WAITING:
	case SNAP_GO_LEAKED:
	case SNAP_GO_RUNNABLE:
	case SNAP_GO_PREEMPTED:
		return is_code(go, word_of_candidate(goroutine, SNAP_GO_SAVED_PC)) &&
		       is_in_candidate_stack(goroutine,
					     word_of_candidate(goroutine, SNAP_GO_SAVED_SP));
	case SNAP_GO_SYSCALL:
		return is_in_candidate_stack(goroutine,
					     word_of_candidate(goroutine, layout->call_sp)) &&
		       is_code(go, word_of_candidate(goroutine, layout->call_sp + 8)) &&
		       fits_layout_thread(go, layout, goroutine);
	case SNAP_GO_RUNNING:
		return fits_layout_thread(go, layout, goroutine);
	case SNAP_GO_COPYING:
		return true;
	}
	return false;
}

/* A goroutine that each process has, as the runtime starts it. */
static bool own_fits(const struct snap_go *go, const struct snap_go_layout *layout,
		     const uint8_t *goroutine, const char *name, bool *is_own_ret)
{
	const struct snap_go_text *text =
		snap_go_text_of(go, word_of_candidate(goroutine, layout->creator));
	uint64_t id = word_of_candidate(goroutine, layout->id);
	struct snap_go_function creator;
	const char *by;

	*is_own_ret = false;
	if (strcmp(name, "runtime.main") == 0)
		return id == 1;
	if (strcmp(name, "runtime.forcegchelper") != 0 && strcmp(name, "runtime.bgsweep") != 0 &&
	    strcmp(name, "runtime.bgscavenge") != 0 && !snap_begins_with(name, "runtime.gcenable."))
		return true;
	*is_own_ret = true;
	if (!text ||
	    !snap_go_function_find(
		    &text->table,
		    (uint32_t)(word_of_candidate(goroutine, layout->creator) - 1 - text->start),
		    &creator))
		return false;
	by = snap_go_function_name(&text->table, &creator);
	return id <= MOST_OWN_ID &&
	       (snap_begins_with(by, "runtime.init") || strcmp(by, "runtime.gcenable") == 0) &&
	       (layout->parent == 0 || word_of_candidate(goroutine, layout->parent) == 1);
}

/* One look at all goroutines. */
struct look {
	uint64_t *ids;
	size_t id_count, own_count;
};

static bool goroutine_fits(const struct snap_go *go, const struct snap_go_layout *layout,
			   const uint8_t *goroutine, struct look *look)
{
	uint32_t status = (uint32_t)snap_runtime_field(goroutine, layout->status, 4) &
			  ~(uint32_t)SNAP_GO_SCANNED;
	uint64_t id = word_of_candidate(goroutine, layout->id),
		 start = word_of_candidate(goroutine, layout->start),
		 creator = word_of_candidate(goroutine, layout->creator),
		 labels = word_of_candidate(goroutine, layout->labels);
	const struct snap_go_text *text = snap_go_text_of(go, start);
	struct snap_go_function function;
	bool is_own;

	if (status == SNAP_GO_IDLE || status == SNAP_GO_DEAD || status == SNAP_GO_DEAD_EXTRA)
		return true;
	if (id == 0 || id >> 40 != 0 || labels % 8 != 0 || labels >> 47 != 0 ||
	    word_of_candidate(goroutine, layout->wait_since) >> 62 != 0 ||
	    word_of_candidate(goroutine, layout->locked_thread) % 8 != 0 ||
	    !status_fits(go, layout, goroutine, status))
		return false;
	look->ids[look->id_count++] = id;
	if (start == 0) /* borrowed by a thread that C has made */
		return true;
	if (!is_code(go, creator) || !text ||
	    !snap_go_function_find(&text->table, (uint32_t)(start - text->start), &function) ||
	    function.entry != start - text->start ||
	    !own_fits(go, layout, goroutine, snap_go_function_name(&text->table, &function),
		      &is_own))
		return false;
	look->own_count += is_own;
	return true;
}

SNAP_ORDER(compare_numbers, uint64_t, a, b, snap_compare(*a, *b));

static bool ids_differ(struct look *look)
{
	qsort(look->ids, look->id_count, sizeof(*look->ids), compare_numbers);
	for (size_t i = 1; i < look->id_count; i++)
		if (look->ids[i] == look->ids[i - 1])
			return false;
	return true;
}

static bool layout_fits(struct snap_go *go, const struct snap_go_layout *layout,
			const uint64_t *goroutines, size_t count, struct look *look)
{
	uint8_t goroutine[SNAP_GO_GOROUTINE_BYTES];

	look->id_count = look->own_count = 0;
	return snap_all(count, i,
			!snap_go_read_goroutine(go, goroutines[i], goroutine) ||
				goroutine_fits(go, layout, goroutine, look)) &&
	       look->own_count >= 2 && ids_differ(look);
}

const struct snap_go_layout *snap_go_find_layout(struct snap_go *go, const uint64_t *goroutines,
						 size_t count)
{
	struct look look = { .ids = calloc(count ? count : 1, sizeof(uint64_t)) };
	const struct snap_go_layout *found = NULL;
	size_t first = index_of(go->minor);

	go->no_memory |= !look.ids;
	/* The version's own, then its neighbours, the nearest first. */
	for (size_t i = 0; i < 2 * LAYOUTS && look.ids && !found; i++) {
		size_t distance = (i + 1) / 2, at = i % 2 ? first - distance : first + distance;

		if (at < LAYOUTS && layout_fits(go, &layouts[at], goroutines, count, &look))
			found = &layouts[at];
	}
	if (look.ids && !found && snap_go_described_layout(go, &go->own) &&
	    layout_fits(go, &go->own, goroutines, count, &look))
		found = &go->own;
	if (look.ids && !found && snap_go_derive_layout(go, goroutines, count, &go->own) &&
	    layout_fits(go, &go->own, goroutines, count, &look))
		found = &go->own;
	free(look.ids);
	return found;
}
