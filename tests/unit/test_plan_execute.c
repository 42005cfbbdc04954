/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Plans, executed on memory that is made up: each op, each modifier, what is read once, in one
 * piece, or not at all, memory that cannot be read, and budgets. Live: on a child process.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "patience.h"
#include "plan_bed.h"

static struct bed bed;

static int set_up(void **state _unused_)
{
	bed_init(&bed);
	return 0;
}

static int tear_down(void **state _unused_)
{
	bed_deinit(&bed);
	return 0;
}

static uint64_t at(uint64_t offset)
{
	return BED_BASE + offset;
}

static struct snap_plan_step read_at(uint64_t offset, uint32_t len)
{
	return (struct snap_plan_step){
		.op = SNAP_PLAN_READ, .source = SNAP_PLAN_LITERAL, .address = at(offset), .len = len
	};
}

/* ---- ops ---- */

static void test_read(void **state _unused_)
{
	bed_put(&bed, 0x108, at(0x5000));
	bed_put(&bed, 0x5000, 42);
	bed_add(&bed, read_at(0x100, 16));
	bed_add(&bed, (struct snap_plan_step){
			      .op = SNAP_PLAN_READ, .source = 1, .field = 8, .len = 32 });
	/* The field does not lie in the record; it would, of memory. */
	bed_add(&bed, (struct snap_plan_step){
			      .op = SNAP_PLAN_READ, .source = 1, .field = 9, .len = 32 });
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_int_equal(bed.image.step_count, 3);
	assert_int_equal(bed.image.steps[0].records, 1);
	assert_int_equal(bed.image.steps[1].records, 1);
	assert_int_equal(bed.image.steps[1].bytes, 32);
	assert_int_equal(bed.image.steps[2].records, 0);
	assert_int_equal(bed.image.bytes, 48);
	assert_true(bed_has(&bed, 0x100, 16));
	assert_true(bed_has(&bed, 0x5000, 32));
	assert_false(bed_has(&bed, 0x5000, 33));
}

/* Pointers of threads' registers. */
static void test_threads(void **state _unused_)
{
	const struct snap_plan_thread threads[] = {
		{ .tid = 1, .fs_base = at(0x1000) },
		{ .tid = 2, .fs_base = at(0x3000) },
		{ .tid = 3, .fs_base = 0 },
		{ .tid = 4, .fs_base = at(0x3000) },
	};

	bed.task.threads = threads;
	bed.task.thread_count = 4;
	bed_add(&bed, (struct snap_plan_step){
			      .op = SNAP_PLAN_READ,
			      .field = offsetof(struct snap_plan_thread, fs_base),
			      .len = 8,
		      });
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[0].records, 2);
	assert_true(bed_has(&bed, 0x1000, 8) && bed_has(&bed, 0x3000, 8));
}

static void test_walk(void **state _unused_)
{
	/* 0x1000 -> 0x2000 -> 0x3000 -> 0x1000; 0x4000 -> 0x2000; 0x5000 -> 0 */
	bed_put(&bed, 0x100, at(0x1000));
	bed_put(&bed, 0x108, at(0x4000));
	bed_put(&bed, 0x110, at(0x5000));
	bed_put(&bed, 0x1018, at(0x2000));
	bed_put(&bed, 0x2018, at(0x3000));
	bed_put(&bed, 0x3018, at(0x1000));
	bed_put(&bed, 0x4018, at(0x2000));
	bed_add(&bed, read_at(0x100, 24));
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_WALK,
					       .source = 1,
					       .rep = 3,
					       .rep_step = 8,
					       .next = 24,
					       .len = 32,
					       .max = 100 });
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_int_equal(bed.image.steps[1].records, 5);
	/* All lists at a time: 1, 4, 5; 2 (once); 3. */
	assert_int_equal(bed.calls, 4);
}

/* The next pointer lies where a pointer into the record says: on a stack inside of it. */
static void test_walk_inside(void **state _unused_)
{
	bed_put(&bed, 0x100, at(0x1000));
	bed_put(&bed, 0x1010, at(0x1030)); /* its top; below it the next, tagged */
	bed_put(&bed, 0x1028, at(0x2000) | 1);
	bed_put(&bed, 0x2010, at(0x2020));
	bed_put(&bed, 0x2018, at(0x3000));
	bed_put(&bed, 0x3010, at(0x9000)); /* not inside */
	bed_put(&bed, 0x3018, at(0x4000));
	bed_add(&bed, read_at(0x100, 8));
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_WALK,
					       .flags = SNAP_PLAN_INSIDE,
					       .source = 1,
					       .mask = ~3ull,
					       .next = 0x10,
					       .next_add = -8,
					       .len = 0x40,
					       .max = 100 });
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_int_equal(bed.image.steps[1].records, 3);
	assert_true(bed_has(&bed, 0x3000, 0x40));
	assert_false(bed_has(&bed, 0x4000, 8));
}

/* The next pointer is the last of those that lie in the record, as a number in it says. */
static void test_walk_by_count(void **state _unused_)
{
	bed_put(&bed, 0x100, at(0x1000));
	bed_put(&bed, 0x1008, 3);
	bed_put(&bed, 0x1010, at(0x7000));
	bed_put(&bed, 0x1020, at(0x2000));
	bed_put(&bed, 0x2008, 1);
	bed_put(&bed, 0x2010, at(0x3000));
	bed_put(&bed, 0x3008, 1000); /* not inside */
	bed_put(&bed, 0x3010, at(0x7000));
	bed_add(&bed, read_at(0x100, 8));
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_WALK,
					       .flags = SNAP_PLAN_SKIP_NEXT,
					       .source = 1,
					       .next = 0x8,
					       .skip = 0x8,
					       .skip_width = 4,
					       .skip_factor = 8,
					       .len = 0x40,
					       .max = 100 });
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_int_equal(bed.image.steps[1].records, 3);
	assert_true(bed_has(&bed, 0x3000, 0x40));
	assert_false(bed_has(&bed, 0x7000, 8));
}

/* A step may take the records of several tables; what two of them lead to is one record. */
static void test_tables_together(void **state _unused_)
{
	struct snap_plan_step *both;

	bed_put(&bed, 0x100, at(0x1000));
	bed_put(&bed, 0x108, at(0x2000));
	bed_put(&bed, 0x1000, at(0x3000));
	bed_put(&bed, 0x2000, at(0x4000));
	bed_put(&bed, 0x1008, at(0x5000));
	bed_put(&bed, 0x2008, at(0x5000));
	bed_add(&bed, read_at(0x100, 8));
	bed_add(&bed, read_at(0x108, 8));
	both = bed_add(&bed, (struct snap_plan_step){
				     .op = SNAP_PLAN_READ, .source = 1, .sources = 2, .len = 16 });
	bed_add(&bed,
		(struct snap_plan_step){
			.op = SNAP_PLAN_READ, .source = 3, .rep = 2, .rep_step = 8, .len = 8 });
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_int_equal(bed.image.steps[2].records, 2);
	assert_int_equal(bed.image.steps[3].records, 3);
	assert_true(bed_has(&bed, 0x4000, 8));
	/* Tables that are not there yet. */
	both->sources = 3;
	assert_false(snap_memory_plan_check(&bed.plan));
}

/* As many steps as there may be; what had no room beside them is a lack of the image. */
static void test_most_steps(void **state _unused_)
{
	for (unsigned i = 0; i < SNAP_PLAN_MOST_STEPS; i++) {
		assert_true(snap_memory_plan_has_room(&bed.plan, 1));
		bed_put(&bed, 0x100 + 8 * i, at(0x100 + 8 * (i + 1)));
		bed_add(&bed, i ? (struct snap_plan_step){ .op = SNAP_PLAN_READ,
							   .source = (uint8_t)i,
							   .len = 8 }
				: read_at(0x100, 8));
	}
	bed_execute(&bed);
	bed_check_image(&bed);
	for (unsigned i = 0; i < SNAP_PLAN_MOST_STEPS; i++) {
		assert_int_equal(bed.image.steps[i].records, 1);
		assert_int_equal(bed.image.steps[i].cut, SNAP_PLAN_WHOLE);
	}
	assert_false(snap_memory_plan_has_room(&bed.plan, 1));
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[SNAP_PLAN_MOST_STEPS - 2].cut, SNAP_PLAN_WHOLE);
	assert_int_equal(bed.image.steps[SNAP_PLAN_MOST_STEPS - 1].cut, SNAP_PLAN_CUT_MEMORY);
}

/* A list ends at `max`, and at its head, be that the field or what holds it. */
static void test_walk_ends(void **state _unused_)
{
	struct snap_plan_step *walk;

	for (uint64_t i = 1; i < 20; i++)
		bed_put(&bed, i * 0x1000, at((i + 1) * 0x1000));
	bed_put(&bed, 0x108, at(0x1000));
	bed_add(&bed, read_at(0x100, 16));
	walk = bed_add(&bed,
		       (struct snap_plan_step){
			       .op = SNAP_PLAN_WALK, .source = 1, .field = 8, .len = 8, .max = 7 });
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 7);
	walk->max = 1000;
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 20);
	bed_put(&bed, 0x5000, at(0x108));
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 5);
	bed_put(&bed, 0x4000, at(0x100));
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 4);
	/* Without a record in between, from a literal. */
	*walk = (struct snap_plan_step){ .op = SNAP_PLAN_WALK,
					 .source = SNAP_PLAN_LITERAL,
					 .address = at(0x2000),
					 .len = 8,
					 .max = 2 };
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 2);
}

/* Frames of deep recursion: a page of them at a time, whichever way the list goes. */
static void test_walk_of_neighbours(void **state _unused_)
{
	enum { FRAMES = 1000, FRAME = 96 };

	bed_put(&bed, 0x100, at(0x10000 + (FRAMES - 1) * FRAME));
	for (uint64_t i = 1; i < FRAMES; i++)
		bed_put(&bed, 0x10000 + i * FRAME + 8, at(0x10000 + (i - 1) * FRAME));
	/* The page before it cannot be read. */
	bed.absent[0xf] = true;
	bed_add(&bed, read_at(0x100, 8));
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_WALK,
					       .source = 1,
					       .next = 8,
					       .len = FRAME - 8,
					       .max = 100000 });
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_int_equal(bed.image.steps[1].records, FRAMES);
	assert_int_equal(bed.image.steps[1].bytes, FRAMES * (FRAME - 8));
	assert_true(bed.calls < 60);
	/* Without room for pages there are fewer at a time. */
	bed.task.budget.bytes = 2000;
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].cut, SNAP_PLAN_CUT_MEMORY);
	assert_true(bed.image.steps[1].records > 10);
}

static void test_array(void **state _unused_)
{
	struct snap_plan_step *array;

	bed_put(&bed, 0x100, at(0x4000));
	bed_put(&bed, 0x108, 10);
	bed_add(&bed, read_at(0x100, 16));
	array = bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_ARRAY,
						       .source = 1,
						       .count = 8,
						       .count_width = 8,
						       .len = 100,
						       .max = 1000 });
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 1);
	assert_int_equal(bed.image.steps[1].bytes, 1000);
	array->max = 3;
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].bytes, 300);
	array->max = 1 << 20;
	array->flags = SNAP_PLAN_SHIFT;
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].bytes, 102400);
	array->flags = 0;
	array->mul = 2;
	array->plus = 5;
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].bytes, 2500);
	/* Numbers that no machine has: as much as there is. */
	bed_put(&bed, 0x108, 1ull << 62);
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].cut, SNAP_PLAN_WHOLE);
	assert_int_equal(bed.image.steps[1].bytes, (uint64_t)BED_PAGES * BED_PAGE - 0x4000);
	bed_check_image(&bed);
}

static void test_each(void **state _unused_)
{
	struct snap_plan_step *each;

	bed_put(&bed, 0x100, at(0x2000));
	bed_put(&bed, 0x108, 6);
	for (uint64_t i = 0; i < 8; i++)
		bed_put(&bed, 0x2000 + 8 * i, at(0x8000 + 0x1000 * i));
	bed_put(&bed, 0x2008, 0);
	bed_put(&bed, 0x2010, at(0x8000) | 1);
	bed_add(&bed, read_at(0x100, 16));
	each = bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_EACH,
						      .source = 1,
						      .count = 8,
						      .count_width = 4,
						      .len = 16,
						      .max = 100,
						      .mask = ~7ull });
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ, .source = 2, .len = 8 });
	bed_execute(&bed);
	bed_check_image(&bed);
	/* 0x8000 twice, and one that is 0. */
	assert_int_equal(bed.image.steps[1].records, 4);
	assert_true(bed_has(&bed, 0x2000, 48) && bed_has(&bed, 0xd000, 16));
	assert_false(bed_has(&bed, 0xe000, 1));
	each->max = 1;
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 1);
}

static void test_range(void **state _unused_)
{
	struct snap_plan_step *range;

	bed_put(&bed, 0x100, at(0x4000)); /* base */
	bed_put(&bed, 0x108, at(0x6000)); /* high */
	bed_put(&bed, 0x110, at(0x5800));
	bed_put(&bed, 0x118, at(0x5900));
	bed_add(&bed, read_at(0x100, 32));
	range = bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_RANGE,
						       .source = 1,
						       .base = 0,
						       .high = 8,
						       .low = { 16, 24 },
						       .low_count = 2,
						       .cap = 1 << 20 });
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].bytes, 0x800);
	bed_put(&bed, 0x110, at(0x6000));
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].bytes, 0x700);
	range->cap = 0x10;
	bed_execute(&bed);
	assert_true(bed_has(&bed, 0x5900, 16));
	assert_int_equal(bed.image.steps[1].bytes, 0x10);
	range->low_count = 1;
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 0);
}

static void test_bytes(void **state _unused_)
{
	bed_put(&bed, 0x100, at(0x4000));
	bed_put(&bed, 0x108, 77);
	bed_put(&bed, 0x110, at(0x5000));
	bed_put(&bed, 0x118, 3000);
	bed_put(&bed, 0x120, at(0x6000));
	bed_add(&bed, read_at(0x100, 48));
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_BYTES,
					       .source = 1,
					       .count = 8,
					       .count_width = 8,
					       .rep = 3,
					       .rep_step = 16,
					       .cap = 512 });
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 2);
	assert_int_equal(bed.image.steps[1].bytes, 77 + 512);
}

/* ---- modifiers ---- */

static void test_every(void **state _unused_)
{
	/* Four buckets of 32 bytes: a flag, and two pointers. */
	for (uint64_t i = 0; i < 4; i++) {
		bed_put(&bed, 0x100 + 32 * i, i % 2);
		bed_put(&bed, 0x108 + 32 * i, at(0x2000 + 0x1000 * i));
		bed_put(&bed, 0x110 + 32 * i, at(0x8000 + 0x1000 * i));
	}
	bed_add(&bed, read_at(0x100, 128));
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
					       .source = 1,
					       .field = 8,
					       .rep = 2,
					       .rep_step = 8,
					       .every = 32,
					       .len = 8 });
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
					       .source = 1,
					       .field = 8,
					       .every = 32,
					       .len = 8,
					       .if_width = 1,
					       .flags = SNAP_PLAN_IF_EQUAL,
					       .if_mask = 0xff,
					       .if_value = 1 });
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
					       .source = 1,
					       .field = 8,
					       .every = 32,
					       .len = 8,
					       .if_width = 1,
					       .flags = SNAP_PLAN_IF_NOT_EQUAL,
					       .if_mask = 0,
					       .if_value = 1 });
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 8);
	assert_int_equal(bed.image.steps[2].records, 2);
	assert_int_equal(bed.image.steps[3].records, 4);
}

/* Of records of all threads, those of the threads at hand: by any number that they have. */
static void test_of_thread(void **state _unused_)
{
	const struct snap_plan_thread threads[] = {
		{ .tid = 100, .ns_tid = 7, .fs_base = 0x7f1234567000 },
	};
	const uint64_t numbers[] = { 100, 7, 0x7f1234567000, 0, 8, 101 };
	struct snap_plan_step *step;

	for (uint64_t i = 0; i < 6; i++) {
		bed_put(&bed, 0x100 + 32 * i, numbers[i]);
		bed_put(&bed, 0x108 + 32 * i, at(0x2000 + 0x1000 * i));
	}
	bed.task.threads = threads;
	bed.task.thread_count = 1;
	bed_add(&bed, read_at(0x100, 6 * 32));
	step = bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
						      .source = 1,
						      .field = 8,
						      .every = 32,
						      .len = 8,
						      .if_width = 8,
						      .flags = SNAP_PLAN_IF_THREAD });
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 3);
	assert_true(bed_has(&bed, 0x2000, 8) && bed_has(&bed, 0x3000, 8) &&
		    bed_has(&bed, 0x4000, 8));
	step->if_width = 4;
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 2);
	step->flags |= SNAP_PLAN_IF_EQUAL;
	assert_false(snap_memory_plan_check(&bed.plan));
	step->flags = SNAP_PLAN_IF_THREAD;
	step->if_width = 3;
	assert_false(snap_memory_plan_check(&bed.plan));
}

static void test_skip(void **state _unused_)
{
	bed_put(&bed, 0x100, 3);
	bed_put(&bed, 0x108, at(0x2000));
	bed_put(&bed, 0x108 + 48, at(0x3000));
	bed_add(&bed, read_at(0x100, 64));
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
					       .source = 1,
					       .field = 8,
					       .skip = 0,
					       .skip_width = 1,
					       .skip_factor = 16,
					       .len = 8 });
	bed_execute(&bed);
	assert_true(bed_has(&bed, 0x3000, 8));
	assert_false(bed_has(&bed, 0x2000, 8));
	bed_put(&bed, 0x100, UINT64_MAX);
	bed.plan.steps[1].skip_width = 8;
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 0);
}

static void test_pointers(void **state _unused_)
{
	bed_put(&bed, 0x100, at(0x2003));
	bed_add(&bed, read_at(0x100, 8));
	bed_add(&bed,
		(struct snap_plan_step){
			.op = SNAP_PLAN_READ, .source = 1, .mask = ~3ull, .add = -16, .len = 8 });
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
					       .source = 1,
					       .add = 0x40,
					       .flags = SNAP_PLAN_RELATIVE,
					       .len = 8 });
	/* 0 is nowhere, whatever is added. */
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
					       .source = 1,
					       .mask = 3 << 4,
					       .add = (int64_t)at(0x7000),
					       .len = 8 });
	bed_execute(&bed);
	assert_true(bed_has(&bed, 0x1ff0, 8) && bed_has(&bed, 0x140, 8));
	assert_int_equal(bed.image.steps[3].records, 0);
}

/* ---- what is read, and how ---- */

/* Near each other: in one piece. Read before: not again. */
static void test_near_and_known(void **state _unused_)
{
	bed_put(&bed, 0x100, at(0x4000));
	bed_put(&bed, 0x108, at(0x4200));
	bed_put(&bed, 0x110, at(0x4080));
	bed_put(&bed, 0x118, at(0x9000));
	bed_add(&bed, read_at(0x100, 32));
	bed_add(&bed,
		(struct snap_plan_step){
			.op = SNAP_PLAN_READ, .source = 1, .rep = 4, .rep_step = 8, .len = 8 });
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
					       .source = 1,
					       .rep = 4,
					       .rep_step = 8,
					       .add = 0,
					       .len = 4 });
	bed_add(&bed, read_at(0x4100, 16));
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_int_equal(bed.calls, 2);
	assert_int_equal(bed.image.steps[1].records, 4);
	assert_int_equal(bed.image.steps[2].records, 4);
	assert_int_equal(bed.copied, 32 + 0x208 + 8);
	assert_true(bed_has(&bed, 0x4000, 0x208));
}

/* What overlaps is there once, though two steps have read it. */
static void test_overlap(void **state _unused_)
{
	for (size_t i = 0; i < 0x3000; i++)
		bed.bytes[i] = (uint8_t)(i * 7);
	bed_add(&bed, read_at(0x800, 0x100));
	bed_add(&bed, read_at(0x880, 0x1000));
	bed_add(&bed, read_at(0x400, 0x2000));
	bed_add(&bed, read_at(0x200, 0x280));
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_int_equal(bed.image.bytes, 0x2400 - 0x200);
	assert_true(bed_has(&bed, 0x200, 0x2200));
}

/* Of files, only what no file holds. */
static void test_files(void **state _unused_)
{
	const struct snap_map maps[] = {
		{ .start = at(0), .end = at(0x2000), .read = true, .execute = true, .inode = 5 },
		{ .start = at(0x2000),
		  .end = at(0x4000),
		  .offset = 0x2000,
		  .read = true,
		  .inode = 5 },
		/* relocated: its other half is writable */
		{ .start = at(0x4000),
		  .end = at(0x5000),
		  .offset = 0x3000,
		  .read = true,
		  .inode = 5 },
		{ .start = at(0x5000),
		  .end = at(0x6000),
		  .offset = 0x4000,
		  .read = true,
		  .write = true,
		  .inode = 5 },
		{ .start = at(0x6000),
		  .end = at(0x7000),
		  .read = true,
		  .inode = 6,
		  .shared = true },
		{ .start = at(0x7000), .end = at(0x8000), .read = true },
		{ .start = at(0x9000), .end = at(0xa000), .read = true, .inode = 7 },
	};
	static const bool kept[] = {
		false, false, false, false, true, true, true, true, true, false
	};

	bed.task.maps = maps;
	bed.task.map_count = SNAP_ARRAY_SIZE(maps);
	for (uint64_t i = 0; i < 10; i++)
		bed_put(&bed, 0x20000 + 8 * i, at(i * 0x1000 + 0x10));
	bed_add(&bed, read_at(0x20000, 80));
	bed_add(&bed,
		(struct snap_plan_step){
			.op = SNAP_PLAN_READ, .source = 1, .rep = 10, .rep_step = 8, .len = 8 });
	/* They are in the table, but lead nowhere. */
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ, .source = 2, .len = 8 });
	bed_execute(&bed);
	assert_int_equal(bed.image.steps[1].records, 10);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(bed_has(&bed, i * 0x1000 + 0x10, 8), kept[i]);
}

static void test_faults(void **state _unused_)
{
	/* Neighbours, pages 16 to 47, every third of which cannot be read. */
	for (uint64_t i = 0; i < 256; i++)
		bed_put(&bed, 0x100 + 8 * i, at(0x10000 + 512 * i));
	for (uint64_t page = 16; page < 48; page += 3)
		bed.absent[page] = true;
	bed_add(&bed, read_at(0x100, 2048));
	bed_add(&bed,
		(struct snap_plan_step){
			.op = SNAP_PLAN_READ, .source = 1, .rep = 256, .rep_step = 8, .len = 256 });
	/* From a page that is there to one that is not. */
	bed_add(&bed, read_at(0x12f80, 256));
	/* Larger than a call, with a hole. */
	bed_add(&bed, read_at(0x100000, 12 << 20));
	bed.absent[0x100 + 1500] = true;
	bed_execute(&bed);
	bed_check_image(&bed);
	for (uint64_t i = 0; i < 256; i++) {
		uint64_t offset = 0x10000 + 512 * i;

		assert_int_equal(bed_has(&bed, offset, 256), !bed.absent[offset / BED_PAGE]);
	}
	assert_int_equal(bed.image.steps[1].records, 256);
	assert_true(bed.faults <= 11 + 1 + 1);
	assert_int_equal(bed.image.steps[2].bytes, 0x80);
	assert_int_equal(bed.image.steps[3].bytes, 1500 * BED_PAGE);
}

/* Bytes that took several calls are one record. */
static void test_long(void **state _unused_)
{
	bed_put(&bed, 0x100000 + (11 << 20), at(0x40));
	bed_add(&bed, read_at(0x100000, 12 << 20));
	bed_add(&bed, (struct snap_plan_step){
			      .op = SNAP_PLAN_READ, .source = 1, .every = 1 << 20, .len = 8 });
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_int_equal(bed.calls, 4);
	assert_int_equal(bed.image.piece_count, 2);
	assert_int_equal(bed.image.steps[1].records, 1);
	assert_true(bed_has(&bed, 0x40, 8));
}

/* More requests than are sorted at a time, from far apart. */
static void test_many(void **state _unused_)
{
	enum { MANY = 300000 };
	uint64_t random = 1;

	for (uint64_t i = 0; i < MANY; i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		bed_put(&bed, 0x1000 + 8 * i,
			at(0x400000 + (random >> 33) % ((BED_PAGES - 0x400) * (uint64_t)BED_PAGE)));
	}
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
					       .source = SNAP_PLAN_LITERAL,
					       .address = at(0x1000),
					       .len = 8 * MANY });
	bed_add(&bed,
		(struct snap_plan_step){ .op = SNAP_PLAN_READ, .source = 1, .every = 8, .len = 8 });
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_true(bed.image.steps[1].records > MANY * 9 / 10);
	assert_int_equal(bed.image.steps[1].cut, SNAP_PLAN_WHOLE);
	for (uint64_t i = 0; i < MANY; i += 97) {
		uint64_t address;

		memcpy(&address, bed.bytes + 0x1000 + 8 * i, 8);
		if (address < at((uint64_t)BED_PAGES * BED_PAGE - 8))
			assert_true(bed_has(&bed, address - BED_BASE, 8));
	}
}

/* ---- budgets ---- */

static void test_budget_of_records(void **state _unused_)
{
	for (uint64_t i = 0; i < 500; i++)
		bed_put(&bed, 0x1000 + 8 * i, at(0x100000 + 0x1000 * i));
	bed.task.budget.records = 101;
	bed_add(&bed, read_at(0x1000, 4000));
	bed_add(&bed,
		(struct snap_plan_step){
			.op = SNAP_PLAN_READ, .source = 1, .rep = 500, .rep_step = 8, .len = 8 });
	bed_add(&bed, read_at(0x2000, 8));
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_int_equal(bed.image.steps[0].cut, SNAP_PLAN_WHOLE);
	assert_int_equal(bed.image.steps[1].cut, SNAP_PLAN_CUT_RECORDS);
	assert_int_equal(bed.image.steps[1].records, 100);
	assert_int_equal(bed.image.steps[1].bytes, 800);
	assert_int_equal(bed.image.steps[2].cut, SNAP_PLAN_CUT_RECORDS);
	assert_int_equal(bed.image.steps[2].records, 0);
}

static void test_budget_of_bytes(void **state _unused_)
{
	bed.task.budget.bytes = 5 << 20;
	bed_add(&bed, read_at(0x1000, 4 << 20));
	bed_add(&bed, read_at(0x500000, 4 << 20));
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_int_equal(bed.image.steps[0].cut, SNAP_PLAN_WHOLE);
	assert_int_equal(bed.image.steps[1].cut, SNAP_PLAN_CUT_MEMORY);
	assert_int_equal(bed.image.bytes, 5 << 20);
}

/* There is less room than the budget says. */
static void test_little_room(void **state _unused_)
{
	struct snap_region whole = bed.room;

	bed.room.end = bed.room.next + (1 << 20) + 4;
	bed_add(&bed, read_at(0x1000, 4 << 20));
	bed_execute(&bed);
	bed_check_image(&bed);
	assert_int_equal(bed.image.steps[0].cut, SNAP_PLAN_CUT_MEMORY);
	assert_true(bed.image.bytes > 1000000 && bed.image.bytes < 1 << 20);
	bed.room.end = bed.room.next + 100;
	bed_execute(&bed);
	assert_int_equal(bed.image.piece_count, 0);
	bed.room = whole;
}

static void test_budget_of_time(void **state _unused_)
{
	int64_t begin;

	/* Turns without end that lead nowhere, and no call in between. */
	bed_add(&bed, read_at(0x1000, 8 << 20));
	for (int i = 0; i < 20; i++)
		bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
						       .source = 1,
						       .rep = 4096,
						       .rep_step = 8,
						       .every = 8,
						       .len = 8 });
	begin = snap_clock_ns(CLOCK_MONOTONIC);
	/* So much that the first step is whole on a busy machine, too. */
	bed_execute_for(&bed, 1000000000);
	assert_int_equal(bed.image.steps[0].cut, SNAP_PLAN_WHOLE);
	assert_int_equal(bed.image.steps[1].cut, SNAP_PLAN_CUT_TIME);
	assert_int_equal(bed.image.steps[19].cut, SNAP_PLAN_CUT_TIME);
	assert_true(snap_clock_ns(CLOCK_MONOTONIC) - begin < with_patience(30000000000));
	bed_execute_for(&bed, -1);
	assert_int_equal(bed.image.steps[0].cut, SNAP_PLAN_CUT_TIME);
	assert_int_equal(bed.image.piece_count, 0);
}

/* An image whose maker was lost may hold anything. */
static void test_finish(void **state _unused_)
{
	static const uint8_t bytes[100];
	struct snap_memory_piece pieces[] = {
		{ .address = 50, .size = 10, .bytes = bytes },
		{ .address = 10, .size = 200, .bytes = bytes },
		{ .address = 10, .size = 60, .bytes = bytes },
		{ .address = 65, .size = 10, .bytes = bytes + 90 },
		{ .address = UINT64_MAX - 5, .size = 10, .bytes = bytes },
		{ .address = 500, .size = 10, .bytes = bytes + 100 },
		{ .address = 600, .size = 10, .bytes = NULL },
		{ .address = 700, .size = 0, .bytes = bytes },
	};
	struct snap_memory_image image = { .pieces = pieces,
					   .piece_count = SNAP_ARRAY_SIZE(pieces) };

	snap_plan_finish(&image, bytes, bytes + sizeof(bytes));
	assert_int_equal(image.piece_count, 2);
	assert_int_equal(image.pieces[0].address, 10);
	assert_int_equal(image.pieces[0].size, 60);
	assert_int_equal(image.pieces[1].address, 70);
	assert_int_equal(image.pieces[1].size, 5);
	assert_ptr_equal(image.pieces[1].bytes, bytes + 95);
	assert_int_equal(image.bytes, 65);
}

/* ---- live ---- */

static size_t read_child(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	struct iovec local = { bytes, 0 };
	ssize_t got;

	for (size_t i = 0; i < count; i++)
		local.iov_len += ranges[i].iov_len;
	got = process_vm_readv(*(const pid_t *)context, &local, 1, ranges, count, 0);
	return got < 0 ? 0 : (size_t)got;
}

struct node {
	struct node *next;
	char text[56];
};

/* A list in memory of a process, every fourth node on a page that cannot be read. */
static void test_live(void **state _unused_)
{
	enum { NODES = 64 };
	uint8_t *pages = bed_map(3 * BED_PAGE);
	struct node *nodes[NODES];
	uint64_t arrays[] = { (uintptr_t)nodes, NODES };
	pid_t child;

	for (size_t i = 0; i < NODES; i++) {
		nodes[i] = (struct node *)(void *)(pages + (i % 4 == 3 ? BED_PAGE : 0) + 64 * i);
		snprintf(nodes[i]->text, sizeof(nodes[i]->text), "node %zu", i);
	}
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		mprotect(pages + BED_PAGE, BED_PAGE, PROT_NONE);
		pause();
		_exit(0);
	}
	bed.task.source = (struct snap_plan_source){ .read = read_child, .context = &child };
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
					       .source = SNAP_PLAN_LITERAL,
					       .address = (uintptr_t)arrays,
					       .len = 16 });
	bed_add(&bed, (struct snap_plan_step){ .op = SNAP_PLAN_EACH,
					       .source = 1,
					       .count = 8,
					       .count_width = 8,
					       .len = 64,
					       .max = NODES });
	/* Until the child has protected its page. */
	do
		bed_execute(&bed);
	while (bed.image.steps[1].bytes == (uint64_t)64 * NODES);
	assert_int_equal(bed.image.steps[1].records, NODES);
	assert_int_equal(bed.image.steps[1].bytes, 64 * NODES * 3 / 4);
	for (size_t i = 0; i < NODES; i++) {
		struct node node;

		assert_int_equal(snap_memory_image_read(&bed.image, (uintptr_t)nodes[i], &node,
							sizeof(node)),
				 i % 4 != 3);
		if (i % 4 != 3)
			assert_string_equal(node.text, nodes[i]->text);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(pages, 3 * BED_PAGE);
}

#define A_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_TEST(test_read),
		A_TEST(test_threads),
		A_TEST(test_walk),
		A_TEST(test_walk_inside),
		A_TEST(test_walk_by_count),
		A_TEST(test_tables_together),
		A_TEST(test_most_steps),
		A_TEST(test_walk_ends),
		A_TEST(test_walk_of_neighbours),
		A_TEST(test_array),
		A_TEST(test_each),
		A_TEST(test_range),
		A_TEST(test_bytes),
		A_TEST(test_every),
		A_TEST(test_of_thread),
		A_TEST(test_skip),
		A_TEST(test_pointers),
		A_TEST(test_near_and_known),
		A_TEST(test_overlap),
		A_TEST(test_files),
		A_TEST(test_faults),
		A_TEST(test_long),
		A_TEST(test_many),
		A_TEST(test_budget_of_records),
		A_TEST(test_budget_of_bytes),
		A_TEST(test_little_room),
		A_TEST(test_budget_of_time),
		A_TEST(test_finish),
		A_TEST(test_live),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
