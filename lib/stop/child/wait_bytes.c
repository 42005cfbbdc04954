/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Words that explain waits (stop/wait_bytes.h), and arguments: finds which of them are wanted of each
 * process, each once, and makes an image of them. They become further wants in the list of stacks, so
 * they need no hand-over of their own. Words in the copied stack of the thread itself are not wanted.
 *
 * A want never crosses a page, so one unreadable page costs only its own words.
 */
#include "stop/wait_bytes.h"
#include "base/bytes.h"
#include "stop/child/internal.h"

#include "model/wait/call.h"

#include <string.h>

enum {
	RANGES_A_THREAD = 2,
	WANTS_A_RANGE = 2,
	SPARE_RANGES = 256,
	LEAST_BYTES = 1 << 16, /* of a process … */
	BYTES_A_THREAD = 656,  /* … and for each of its threads: 64 KiB for a hundred */
	STACK_BYTES = 128,     /* in a list, at most, for a stack with an item of its own … */
	ITEM_BYTES = 16,       /* … and for the sign and the mark of an item */
	SPARE_BYTES = 1 << 16,
	ROOM_PARTS = 16,    /* one such part of the room for stacks may be words */
	MOST_FUTEXES = 128, /* in one call (futex_waitv(2)) */
	MOST_ARRAY = MOST_FUTEXES * 24,
	/*
	 * The gap between two ranges that are read as one: one read costs as much as some hundred
	 * bytes. It is less than a page, so no other page is touched; and with it a futex takes no
	 * more than its share of the room.
	 */
	MOST_GAP = 256,
};

/* A wanted range, while ranges are collected. */
struct snap_wait_span {
	uint64_t address;
	uint32_t size;
	uint32_t tracee; /* the thread whose call names it */
};

static bool wants_words(const struct snap_tracer *tracer)
{
	return tracer->options->explain != SNAP_EXPLAIN_NO;
}

uint64_t snap_tracer_wait_room(const struct snap_tracer *tracer, uint64_t room)
{
	uint64_t most = LEAST_BYTES + tracer->count * (uint64_t)BYTES_A_THREAD;

	if (!wants_words(tracer))
		return 0;
	return most < room / ROOM_PARTS ? most : room / ROOM_PARTS;
}

struct snap_expected_wait_bytes snap_tracer_expect_wait_bytes(const struct snap_tracer *tracer)
{
	uint64_t count = wants_words(tracer) ? tracer->count : 0, args = 0;

	for (uint32_t i = 0; count && i < tracer->stop->process_count; i++)
		args += tracer->stop->processes[i].args_size;
	return (struct snap_expected_wait_bytes){
		.bytes = count * (SNAP_WORDS_BEFORE + SNAP_WORDS_BEHIND) + args,
		.list_bytes = count * (RANGES_A_THREAD * sizeof(struct snap_wait_span) +
				       sizeof(struct snap_wait_span) +
				       (WANTS_A_RANGE + 1) * sizeof(struct snap_want)),
		.record_bytes = count * sizeof(struct snap_memory_piece),
	};
}

/* Whether there is room for so many things, besides that for the list of stacks. */
static bool has_list_room(const struct snap_tracer *tracer, size_t count, size_t size)
{
	uint64_t stacks = tracer->count * (uint64_t)STACK_BYTES + SPARE_BYTES;

	return snap_region_room(&tracer->lists) >= stacks + count * (uint64_t)size;
}

/* ---- which ---- */

static uint32_t process_of(const struct snap_tracer *tracer, const struct snap_wait_span *range)
{
	return tracer->tracees[range->tracee].process;
}

/* The order of processes and addresses. */
static bool is_range_before(const struct snap_tracer *tracer, const struct snap_wait_span *a,
			    const struct snap_wait_span *b)
{
	uint32_t left = process_of(tracer, a), right = process_of(tracer, b);

	return left != right ? left < right : a->address < b->address;
}

/* Merges two sorted runs next to each other, [from, middle) and [middle, end). */
static void merge_runs(const struct snap_tracer *tracer, const struct snap_wait_span *ranges,
		       size_t from, size_t middle, size_t end, struct snap_wait_span *to)
{
	size_t left = from, right = middle;

	for (size_t i = from; i < end; i++) {
		bool is_right =
			left == middle ||
			(right < end && is_range_before(tracer, &ranges[right], &ranges[left]));

		to[i] = ranges[is_right ? right++ : left++];
	}
}

/* Sorts into `ranges` or `spare`, and returns which. qsort(3) may allocate. */
static struct snap_wait_span *sort_ranges(const struct snap_tracer *tracer,
					  struct snap_wait_span *ranges,
					  struct snap_wait_span *spare, size_t count)
{
	bool is_sorted = true;

	for (size_t i = 1; i < count && is_sorted; i++)
		is_sorted = !is_range_before(tracer, &ranges[i], &ranges[i - 1]);
	for (size_t run = 1; !is_sorted && run < count; run *= 2) {
		struct snap_wait_span *from = ranges;

		for (size_t at = 0; at < count; at += 2 * run) {
			size_t middle = at + run < count ? at + run : count;
			size_t end = middle + run < count ? middle + run : count;

			merge_runs(tracer, from, at, middle, end, spare);
		}
		ranges = spare;
		spare = from;
	}
	return ranges;
}

/* Whether the copy of the thread's own stack will include it. */
static bool is_in_copied_stack(const struct snap_need *need, uint64_t most,
			       const struct snap_wait_range *range)
{
	uint64_t size = need->size < most ? need->size : most;

	return range->address >= need->address && range->address - need->address <= size &&
	       size - (range->address - need->address) >= range->size;
}

/* A process may say in its arguments what it does at this moment. */
static size_t add_arguments(const struct snap_tracer *tracer, uint32_t leader,
			    struct snap_wait_span *ret)
{
	const struct snap_tracee *tracee = &tracer->tracees[leader];
	const struct snap_traced *traced = snap_tracer_process(tracer, tracee);

	if (tracee->tid != traced->pid || !traced->args_size)
		return 0;
	*ret = (struct snap_wait_span){ traced->args_start, (uint32_t)traced->args_size, leader };
	return 1;
}

/* Collects arguments, and all ranges that calls name, in no order; returns their number. */
static size_t collect_ranges(struct snap_tracer *tracer, uint64_t most,
			     struct snap_wait_span *ranges, size_t capacity)
{
	size_t count = 0;

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_tracee *tracee = &tracer->tracees[i];
		const struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
		enum snap_arch arch = snap_tracer_process(tracer, tracee)->arch;
		struct snap_wait_range named[SNAP_MOST_WAIT_RANGES];
		struct snap_thread_call call;
		size_t named_count;

		if (count < capacity)
			count += add_arguments(tracer, i, &ranges[count]);
		if (!thread->registers_size)
			continue;
		call = snap_wait_call_of(arch, thread);
		named_count = snap_wait_ranges(arch, &call, named, SNAP_MOST_WAIT_RANGES);
		tracer->wait_spans_lead_on |= snap_wait_ranges_lead_on(arch, &call);
		for (size_t k = 0; k < named_count && count < capacity; k++) {
			struct snap_wait_span *last = count ? &ranges[count - 1] : NULL;

			if (is_in_copied_stack(&tracer->needs[i], most, &named[k]))
				continue;
			/* Many threads in a row wait for one lock. */
			if (last && last->address == named[k].address &&
			    last->size == named[k].size &&
			    process_of(tracer, last) == tracee->process)
				continue;
			ranges[count++] =
				(struct snap_wait_span){ named[k].address, named[k].size, i };
		}
	}
	return count;
}

/* ---- wants ---- */

struct wants {
	struct snap_tracer *tracer;
	struct snap_want *wants;
	size_t count, capacity;
	uint64_t bytes, most; /* of the current process */
};

static void add_want(struct wants *wants, uint64_t address, uint64_t size, uint32_t tracee)
{
	if (wants->count == wants->capacity || wants->bytes + size > wants->most)
		return;
	wants->wants[wants->count++] = (struct snap_want){
		.address = address, .size = size, .tracee = tracee, .is_words = true
	};
	wants->bytes += size;
}

/*
 * Adds wants page by page. Of several pages the unmapped ones are left out, as a failure delays the
 * rest of the list. A single page is always tried: the maps may be slightly out of date.
 */
static void add_wants(struct wants *wants, uint64_t start, uint64_t end, uint32_t tracee)
{
	uint32_t process = wants->tracer->tracees[tracee].process;
	bool is_single = start / SNAP_PAGE == (end - 1) / SNAP_PAGE;

	while (start < end) {
		uint64_t next = (start / SNAP_PAGE + 1) * SNAP_PAGE,
			 until = next < end ? next : end;
		const struct snap_map *map =
			is_single ? NULL : snap_tracer_find_map(wants->tracer, process, start);

		if (is_single || (map && map->read))
			add_want(wants, start, until - start, tracee);
		start = until;
	}
}

/* Joins ranges of one process that overlap or are near each other. */
static size_t join_ranges(struct wants *wants, const struct snap_wait_span *ranges, size_t count)
{
	uint32_t process = process_of(wants->tracer, &ranges[0]);
	uint64_t start = ranges[0].address, end = start + ranges[0].size;
	size_t i = 1;

	for (; i < count && process_of(wants->tracer, &ranges[i]) == process &&
	       ranges[i].address <= end + MOST_GAP;
	     i++)
		if (ranges[i].address + ranges[i].size > end)
			end = ranges[i].address + ranges[i].size;
	add_wants(wants, start, end, ranges[0].tracee);
	return i;
}

static void begin_futex_process(struct wants *wants, uint32_t process)
{
	const struct snap_traced *traced = &wants->tracer->stop->processes[process];

	wants->bytes = traced->words ? traced->words->bytes : 0;
	wants->most = LEAST_BYTES + traced->thread_count * (uint64_t)BYTES_A_THREAD;
}

static void list_words(struct snap_tracer *tracer, const struct snap_wait_span *ranges,
		       size_t count)
{
	struct snap_wait_spans *words = &tracer->words;
	/* A range may be on two pages, and a joined one on as many as its size needs. */
	size_t capacity = WANTS_A_RANGE * count + SPARE_RANGES;
	struct wants wants = { .tracer = tracer, .capacity = capacity };
	uint32_t process = UINT32_MAX;

	/* They are copied into the list of stacks, in items. */
	if (has_list_room(tracer, capacity,
			  2 * sizeof(*wants.wants) + sizeof(struct snap_copy_item) + ITEM_BYTES))
		wants.wants = snap_region_new_array(&tracer->lists, capacity, struct snap_want);
	if (!wants.wants)
		return;
	for (size_t i = 0; i < count;) {
		if (process_of(tracer, &ranges[i]) != process) {
			process = process_of(tracer, &ranges[i]);
			begin_futex_process(&wants, process);
			words->item_count++;
		}
		i += join_ranges(&wants, &ranges[i], count - i);
	}
	words->wants = wants.wants;
	words->want_count = (uint32_t)wants.count;
}

void snap_tracer_find_wait_bytes(struct snap_tracer *tracer, uint64_t most)
{
	size_t capacity = (size_t)tracer->count * RANGES_A_THREAD + SPARE_RANGES, count;
	struct snap_wait_span *ranges, *spare;

	tracer->words = (struct snap_wait_spans){ .want_count = 0 };
	if (!wants_words(tracer))
		return;
	if (!has_list_room(tracer, capacity, 2 * sizeof(*ranges)))
		return;
	ranges = snap_region_new_array(&tracer->lists, capacity, struct snap_wait_span);
	count = ranges ? collect_ranges(tracer, most, ranges, capacity) : 0;
	spare = count ? snap_region_new_array(&tracer->lists, count, struct snap_wait_span) : NULL;
	if (!spare)
		return;
	ranges = sort_ranges(tracer, ranges, spare, count);
	list_words(tracer, ranges, count);
}

/* ---- what leads further ---- */

/* Finds the copied array of a call that waits for several futexes; returns its size. */
static size_t read_array(const struct snap_tracer *tracer, const struct snap_tracee *tracee,
			 const struct snap_thread_call *call, uint8_t *ret, size_t most)
{
	const struct snap_traced *process = snap_tracer_process(tracer, tracee);
	const struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	struct snap_wait_range range;
	uint64_t offset;

	if (snap_wait_ranges(process->arch, call, &range, 1) == 0 || range.size > most)
		return 0;
	offset = range.address - thread->stack_address;
	if (range.address >= thread->stack_address && offset <= thread->stack_size &&
	    thread->stack_size - offset >= range.size)
		memcpy(ret, thread->stack + offset, range.size);
	else if (!process->words ||
		 !snap_memory_image_read(process->words, range.address, ret, range.size))
		return 0;
	return range.size;
}

/* Collects the ranges around futexes that arrays name; returns their number. */
static size_t collect_named(struct snap_tracer *tracer, struct snap_wait_span *ranges,
			    size_t capacity)
{
	uint8_t array[MOST_ARRAY];
	uint64_t futexes[MOST_FUTEXES];
	size_t count = 0;

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_tracee *tracee = &tracer->tracees[i];
		enum snap_arch arch = snap_tracer_process(tracer, tracee)->arch;
		const struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
		struct snap_thread_call call;
		size_t size, named;

		/* A process that stalled once would stall again. */
		if (!thread->registers_size || snap_tracer_process(tracer, tracee)->stalled)
			continue;
		call = snap_wait_call_of(arch, thread);
		if (!snap_wait_ranges_lead_on(arch, &call))
			continue;
		size = read_array(tracer, tracee, &call, array, sizeof(array));
		named = snap_futexes_of_array(array, size, futexes, MOST_FUTEXES);
		for (size_t k = 0; k < named && count < capacity; k++) {
			struct snap_wait_range range = snap_wait_range_of_futex(futexes[k]);

			ranges[count++] = (struct snap_wait_span){ range.address, range.size, i };
		}
	}
	return count;
}

bool snap_tracer_find_more_wait_bytes(struct snap_tracer *tracer)
{
	size_t capacity = SPARE_RANGES * RANGES_A_THREAD, count;
	struct snap_wait_span *ranges, *spare;

	tracer->words = (struct snap_wait_spans){ .want_count = 0 };
	if (!tracer->wait_spans_lead_on)
		return false;
	ranges = snap_region_new_array(&tracer->lists, capacity, struct snap_wait_span);
	spare = snap_region_new_array(&tracer->lists, capacity, struct snap_wait_span);
	count = ranges && spare ? collect_named(tracer, ranges, capacity) : 0;
	if (!count)
		return false;
	for (uint32_t i = 0; i < tracer->count; i++)
		tracer->needs[i].size = 0;
	list_words(tracer, sort_ranges(tracer, ranges, spare, count), count);
	return tracer->words.want_count != 0;
}

/* ---- what came of it ---- */

/* An image with the pieces of the first list, and room for more; they are sorted later. */
static struct snap_memory_image *image_with_room(struct snap_tracer *tracer,
						 struct snap_traced *traced, uint32_t more)
{
	struct snap_memory_image *image = traced->words;
	struct snap_memory_piece *pieces;

	if (!image)
		image = snap_region_alloc(&tracer->memory->records, sizeof(*image));
	pieces = image ? snap_region_new_array(&tracer->memory->records, image->piece_count + more,
					       struct snap_memory_piece)
		       : NULL;
	if (!pieces)
		return NULL;
	if (image->piece_count)
		memcpy(pieces, image->pieces, image->piece_count * sizeof(*pieces));
	image->pieces = pieces;
	return image;
}

void snap_tracer_take_wait_bytes(struct snap_tracer *tracer, const struct snap_copy_list *list,
				 const struct snap_copy_item *item, uint32_t done)
{
	struct snap_traced *traced = &tracer->stop->processes[item->process];
	struct snap_memory_image *image = image_with_room(tracer, traced, done);
	struct snap_memory_piece *last = NULL;

	if (!image)
		return;
	for (uint32_t i = item->first; i < item->first + done; i++) {
		const struct snap_want *want = &list->wants[i];

		if (!want->got)
			continue;
		image->bytes += want->got;
		if (last && last->address + last->size == want->address &&
		    last->bytes + last->size == want->bytes) {
			last->size += want->got;
			continue;
		}
		last = &image->pieces[image->piece_count++];
		*last = (struct snap_memory_piece){ want->address, want->got, want->bytes };
	}
	traced->wait_bytes_missing |= done < item->count;
	traced->words = image;
}
