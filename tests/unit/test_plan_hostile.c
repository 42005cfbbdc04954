/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Plans that nobody would write, on memory that leads them astray: made up from a fixed seed. They
 * end in time, and read nothing but what is there, whatever they are; sanitizers watch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "plan_bed.h"

enum {
	PLANS = 1500,
	MOST_STEPS = 24,
	BUDGET_NS = 4000000,
};

/* On a processor. One look at the clock may come late by a call, and sanitizers are slow. */
static const int64_t LONGEST_NS = 500000000;

static struct bed bed;
static uint64_t seed = 20240607;

static uint64_t random_number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static uint64_t random_below(uint64_t limit)
{
	return random_number() % limit;
}

static uint64_t pick(const uint64_t *numbers, size_t count)
{
	return numbers[random_below(count)];
}

#define PICK(...) pick((const uint64_t[]){ __VA_ARGS__ }, sizeof((uint64_t[]){ __VA_ARGS__ }) / 8)

static uint64_t random_address(void)
{
	return BED_BASE + random_below((uint64_t)BED_PAGES * BED_PAGE + 65536) - 32768;
}

/* Words that are pointers mostly, and counts that are too large. */
static void fill_memory(void)
{
	for (uint64_t at = 0; at < (uint64_t)BED_PAGES * BED_PAGE; at += 8) {
		uint64_t word = random_address();

		if (random_below(4) == 0)
			word = PICK(0, 1, 7, 16, 4096, 1ull << 20, 1ull << 62, UINT64_MAX,
				    BED_BASE + at, BED_BASE, 1ull << 56, 1ull << 57);
		bed_put(&bed, at, word);
	}
	for (size_t i = 0; i < BED_PAGES / 10; i++)
		bed.absent[random_below(BED_PAGES)] = true;
	/* A list of ten thousand, and one that leads to itself. */
	for (uint64_t i = 0; i < 10000; i++)
		bed_put(&bed, 0x100000 + 64 * i, BED_BASE + 0x100000 + 64 * (i + 1));
	bed_put(&bed, 0x100000 + 640000, BED_BASE + 0x100000);
}

static uint16_t random_field(void)
{
	return (uint16_t)PICK(0, 8, 16, 24, 56, 120, 4095, 65528, 65535);
}

static struct snap_plan_step random_step(uint32_t index)
{
	return (struct snap_plan_step){
		.op = (uint8_t)random_below(SNAP_PLAN_OP_COUNT),
		.source =
			random_below(6) == 0 ? SNAP_PLAN_LITERAL : (uint8_t)random_below(index + 1),
		.flags = (uint8_t)PICK(0, 0, 0, 0, 1, 2, 4, 8, 12, 32, 64),
		.count_width = (uint8_t)PICK(1, 2, 4, 8),
		.if_width = (uint8_t)PICK(1, 2, 4, 8),
		.low_count = (uint8_t)PICK(1, 2),
		.sources = (uint8_t)PICK(0, 0, 0, 1, 2, 255),
		.field = random_field(),
		.rep = (uint16_t)PICK(0, 0, 1, 2, 16, 512, 4096),
		.rep_step = (uint16_t)PICK(0, 1, 8, 16, 64, 65535),
		.next = random_field(),
		.count = random_field(),
		.low = { random_field(), random_field() },
		.high = random_field(),
		.base = random_field(),
		.if_field = random_field(),
		.skip = random_field(),
		.skip_width = (uint16_t)PICK(1, 2, 4, 8),
		.skip_factor = (uint16_t)PICK(0, 0, 0, 8, 65535),
		.every = (uint32_t)PICK(0, 0, 0, 8, 64, 4096, UINT32_MAX),
		.len = (uint32_t)PICK(1, 8, 16, 64, 512, 4096, 100000, 16 << 20),
		.max = (uint32_t)PICK(0, 1, 16, 1000, UINT32_MAX),
		.cap = PICK(1, 64, 4096, 1 << 20, 16 << 20),
		.mul = (uint32_t)PICK(0, 0, 1, 4, UINT32_MAX),
		.plus = (uint32_t)PICK(0, 0, 1, UINT32_MAX),
		.address = random_address(),
		.mask = PICK(0, 0, 0, ~7ull, 0xffff, 1),
		.add = (int64_t)PICK(0, 0, 0, 8, -16ull, INT64_MAX, 1ull << 63),
		.if_mask = PICK(0, 1, UINT64_MAX),
		.if_value = PICK(0, 1),
	};
}

static void check_image(void)
{
	uint64_t before = 0;

	for (size_t i = 0; i < bed.image.piece_count; i++) {
		const struct snap_memory_piece *piece = &bed.image.pieces[i];

		assert_true(piece->size > 0 && piece->address >= before);
		before = piece->address + piece->size;
		assert_true(piece->address >= BED_BASE &&
			    before <= BED_BASE + (uint64_t)BED_PAGES * BED_PAGE);
		/* The ends will do. */
		assert_int_equal(piece->bytes[0], bed.bytes[piece->address - BED_BASE]);
		assert_int_equal(piece->bytes[piece->size - 1], bed.bytes[before - 1 - BED_BASE]);
	}
}

static void test_hostile_plans(void **state _unused_)
{
	static const struct snap_plan_thread threads[] = {
		{ .tid = 1, .rip = BED_BASE, .rsp = BED_BASE + 0x8000, .rbp = BED_BASE + 0x100000 },
		{ .tid = 2, .rsp = BED_BASE + 0x200000, .fs_base = UINT64_MAX },
	};
	struct snap_map maps[64] = { { .start = 0 } };
	int64_t longest = 0;
	unsigned cuts[4] = { 0 };
	uint64_t records = 0;

	bed_init(&bed);
	fill_memory();
	for (uint64_t i = 0; i < SNAP_ARRAY_SIZE(maps); i++)
		maps[i] = (struct snap_map){
			.start = BED_BASE + i * 64 * BED_PAGE,
			.end = BED_BASE + (i + 1) * 64 * BED_PAGE,
			.read = true,
			.write = i % 3 != 0,
			.inode = i % 5 == 0 ? i : 0,
		};
	bed.task.maps = maps;
	bed.task.map_count = SNAP_ARRAY_SIZE(maps);
	bed.task.threads = threads;
	bed.task.thread_count = SNAP_ARRAY_SIZE(threads);
	for (unsigned i = 0; i < PLANS; i++) {
		int64_t begin, took;

		bed.task.budget.records = PICK(1000, SNAP_PLAN_RECORDS);
		bed.task.budget.bytes = PICK(1 << 16, 8 << 20, BED_BUDGET);
		bed.plan.step_count = 1 + (uint32_t)random_below(MOST_STEPS);
		for (uint32_t k = 0; k < bed.plan.step_count; k++) {
			struct snap_memory_plan one = { .step_count = k + 1 };

			do {
				bed.plan.steps[k] = random_step(k);
				memcpy(one.steps, bed.plan.steps, sizeof(one.steps));
			} while (!snap_memory_plan_check(&one));
		}
		begin = snap_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		/* Some run out of time on the fastest machine. */
		bed_execute_for(&bed, i % 32 ? BUDGET_NS : 1);
		took = snap_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin;
		longest = took > longest ? took : longest;
		check_image();
		for (uint32_t k = 0; k < bed.plan.step_count; k++) {
			cuts[bed.image.steps[k].cut]++;
			records += bed.image.steps[k].records;
		}
	}
	print_message("longest %.1f ms; steps: %u whole, cut: %u time, %u memory, %u records; %llu "
		      "records\n",
		      (double)longest / 1e6, cuts[SNAP_PLAN_WHOLE], cuts[SNAP_PLAN_CUT_TIME],
		      cuts[SNAP_PLAN_CUT_MEMORY], cuts[SNAP_PLAN_CUT_RECORDS],
		      (unsigned long long)records);
	assert_true(longest < LONGEST_NS);
	/* They were not all refused, or ended at once. */
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cuts); i++)
		assert_true(cuts[i] > 50);
	bed_deinit(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile_plans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
