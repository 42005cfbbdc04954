/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Plans of memory that a parser was made to write: the input is the plan, as it crosses the border,
 * and the beginning of the memory. Behind that lie pointers, counts and lists that lead nowhere, or
 * to themselves, and pages that cannot be read; with an odd first byte each read finds something
 * else. Whatever a plan says, it is refused, or it ends in time, writes nothing outside, reads
 * nothing that is not there, and leaves an image that holds together.
 */
#include "base/clock.h"
#include "fuzz.h"
#include "stop/plan/execute.h"

#include <string.h>
#include <sys/mman.h>

enum {
	PAGE = 4096,
	PAGES = 1024,
	INPUT_PAGES = 4, /* of the input's own bytes, at most */
	MAPS = 16,
};

#define BASE 0x7f0000000000ull

static const struct snap_plan_budget budget = { .records = 20000, .bytes = 4 << 20 };
static const int64_t most_ns = 50000000;  /* for the plan */
static const int64_t late_ns = 500000000; /* of the processor, and it is a finding */

struct memory {
	uint8_t *bytes;
	uint8_t first[INPUT_PAGES * PAGE]; /* as they are without an input */
	bool is_unsteady;
	uint64_t state;
	struct snap_region room, work;
};

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 16;
}

/* With a page behind it, and one before, that nobody may touch. */
static struct snap_region map_region(size_t size)
{
	uint8_t *memory = mmap(NULL, size + 2 * PAGE, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	fuzz_check(memory != MAP_FAILED && size % PAGE == 0, "memory");
	fuzz_check(mprotect(memory + PAGE, size, PROT_READ | PROT_WRITE) == 0, "memory");
	return (struct snap_region){ memory + PAGE, memory + PAGE + size };
}

static bool is_absent(uint64_t page)
{
	return page % 11 == 7;
}

static uint64_t word_for(uint64_t *state, uint64_t at)
{
	const uint64_t odd[] = { 0,  1,          7,          16,        4096, 1ull << 20,
				 at, 1ull << 62, UINT64_MAX, BASE + at, BASE, 1ull << 56 };
	uint64_t number = next_random(state);

	if (number % 4 == 0)
		return odd[(number >> 8) % SNAP_ARRAY_SIZE(odd)];
	return BASE + (number >> 8) % ((uint64_t)PAGES * PAGE + 65536) - 32768;
}

static void put(struct memory *memory, uint64_t at, uint64_t word)
{
	memcpy(memory->bytes + at, &word, sizeof(word));
}

static void fill(struct memory *memory)
{
	uint64_t state = 1;

	for (uint64_t at = 0; at < (uint64_t)PAGES * PAGE; at += 8)
		put(memory, at, word_for(&state, at));
	/* A list of ten thousand, and one that leads to itself. */
	for (uint64_t i = 0; i < 10000; i++)
		put(memory, 0x100000 + 64 * i, BASE + 0x100000 + 64 * (i + 1));
	put(memory, 0x100000 + 640000, BASE + 0x100000);
	memcpy(memory->first, memory->bytes, sizeof(memory->first));
}

/* ---- the source ---- */

static bool is_within(const struct snap_region *region, const uint8_t *bytes, size_t size)
{
	return bytes >= region->next && bytes <= region->end &&
	       size <= (size_t)(region->end - bytes);
}

static void read_part(struct memory *memory, uint8_t *out, uint64_t offset, size_t size)
{
	memcpy(out, memory->bytes + offset, size);
	if (memory->is_unsteady && size >= 8) {
		uint64_t word = word_for(&memory->state, offset);

		memcpy(out + (next_random(&memory->state) % (size - 7)), &word, sizeof(word));
	}
}

static size_t read_ranges(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	struct memory *memory = context;
	size_t done = 0, asked = 0;

	fuzz_check(count > 0 && count <= SNAP_PLAN_CALL_PIECES, "few pieces a call");
	for (size_t i = 0; i < count; i++)
		asked += ranges[i].iov_len;
	fuzz_check(asked <= SNAP_PLAN_CALL_BYTES, "few bytes a call");
	fuzz_check(is_within(&memory->room, bytes, asked) || is_within(&memory->work, bytes, asked),
		   "bytes go to the room, or to the work memory");
	for (size_t i = 0; i < count; i++) {
		uint64_t at = (uintptr_t)ranges[i].iov_base, left = ranges[i].iov_len;

		while (left) {
			uint64_t page = (at - BASE) / PAGE, part = PAGE - at % PAGE;

			if (at < BASE || page >= PAGES || is_absent(page))
				return done;
			part = part < left ? part : left;
			read_part(memory, bytes + done, at - BASE, part);
			done += part;
			at += part;
			left -= part;
		}
	}
	return done;
}

/* ---- what must hold ---- */

static void check_image(const struct memory *memory, const struct snap_memory_image *image,
			const struct snap_memory_plan *plan)
{
	uint64_t before = 0, bytes = 0, records = 0;

	for (size_t i = 0; i < image->piece_count; i++) {
		const struct snap_memory_piece *piece = &image->pieces[i];

		fuzz_check(piece->size > 0 && piece->address >= before, "pieces are sorted");
		before = piece->address + piece->size;
		fuzz_check(before > piece->address && piece->address >= BASE &&
				   before <= BASE + (uint64_t)PAGES * PAGE,
			   "pieces are of what is there");
		fuzz_check(is_within(&memory->room, piece->bytes, piece->size),
			   "bytes are in the room");
		fuzz_check(memory->is_unsteady ||
				   memcmp(piece->bytes, memory->bytes + (piece->address - BASE),
					  piece->size) == 0,
			   "bytes are as they were");
		bytes += piece->size;
	}
	fuzz_check(bytes == image->bytes && bytes <= budget.bytes, "bytes are counted");
	fuzz_check(image->step_count <= plan->step_count, "steps");
	for (uint32_t i = 0; i < image->step_count; i++) {
		records += image->steps[i].records;
		fuzz_check(image->steps[i].cut <= SNAP_PLAN_CUT_RECORDS, "a cut");
	}
	fuzz_check(records <= budget.records, "records are within the budget");
}

static void execute(struct memory *memory, const struct snap_memory_plan *plan)
{
	static const struct snap_plan_thread threads[] = {
		{ .tid = 1, .rip = BASE, .rsp = BASE + 0x8000, .rbp = BASE + 0x100000 },
		{ .tid = 2, .rsp = BASE + 0x200000, .fs_base = UINT64_MAX },
	};
	struct snap_map maps[MAPS] = { { .start = 0 } };
	struct snap_memory_image image = { .bytes = 0 };
	struct snap_region left = memory->room;
	struct snap_plan_task task = {
		.plan = plan,
		.threads = threads,
		.thread_count = SNAP_ARRAY_SIZE(threads),
		.maps = maps,
		.map_count = MAPS,
		.source = { read_ranges, memory },
		.budget = budget,
		.work = memory->work,
	};
	int64_t begin = snap_clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	for (uint64_t i = 0; i < MAPS; i++)
		maps[i] = (struct snap_map){ .start = BASE + i * PAGES / MAPS * PAGE,
					     .end = BASE + (i + 1) * PAGES / MAPS * PAGE,
					     .read = true,
					     .write = i % 3 != 0,
					     .inode = i % 5 == 0 ? i : 0 };
	task.budget.until_ns = snap_clock_ns(CLOCK_MONOTONIC) + most_ns;
	snap_plan_execute(&task, &left, &image);
	fuzz_check(snap_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin < late_ns, "it ends in time");
	fuzz_check(is_within(&memory->room, left.next, 0) && left.next <= left.end, "the room");
	snap_plan_finish(&image, memory->room.next, left.next);
	check_image(memory, &image, plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct snap_memory_plan plan;
	static struct memory memory;
	struct fuzz_bytes bytes = { data, data + size }, steps;

	if (!memory.bytes) {
		memory.bytes = map_region((size_t)PAGES * PAGE).next;
		memory.room = map_region(budget.bytes + budget.bytes / 4);
		memory.work = map_region(snap_plan_work_bytes(&budget));
		fill(&memory);
	}
	memset(&plan, 0, sizeof(plan));
	plan.has_gaps = fuzz_u8(&bytes);
	memory.is_unsteady = plan.has_gaps & 1;
	memory.state = 2;
	plan.step_count = fuzz_u8(&bytes);
	steps = fuzz_take(&bytes,
			  sizeof(plan.steps[0]) * (plan.step_count & (SNAP_PLAN_MOST_STEPS - 1)));
	memcpy(plan.steps, steps.at, (size_t)(steps.end - steps.at));
	if (!snap_memory_plan_check(&plan))
		return 0;
	bytes = fuzz_take(&bytes, INPUT_PAGES * PAGE);
	memcpy(memory.bytes, bytes.at, (size_t)(bytes.end - bytes.at));
	execute(&memory, &plan);
	memcpy(memory.bytes, memory.first, sizeof(memory.first));
	return 0;
}
