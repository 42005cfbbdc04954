/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The reader of HotSpot's monitors: a process made by hand in memory, also with bytes changed. */
#include "analyze/runtime/java/java.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum {
	BASE = 0x10000,
	SIZE = 0x8000,
	END = BASE + SIZE,
	POINTER = BASE + 0x100,
	LIST_WORD = BASE + 0x108,
	NAMES = BASE + 0x200, /* 32 bytes each */
	TABLE = BASE + 0x1000,
	HEAP = BASE + 0x4000,
	LIST = HEAP + 0x10,
	ARRAY = HEAP + 0x100,
	THREADS = HEAP + 0x800,     /* 256 bytes each */
	OS_THREADS = HEAP + 0x1800, /* 64 bytes each */
	MONITORS = HEAP + 0x2000,   /* 128 bytes each */
	STACKS = 0x700000,          /* 64 KiB each, none of them copied */
	STACK = 0x10000,
	COUNT = 4,
	FIRST_TID = 100,
};

/* Offsets in objects, unlike those of any JVM. */
enum { LENGTH = 4, ARRAY_AT = 24, OS = 40, PENDING = 72, STACK_BASE = 8, STACK_SIZE = 16 };
enum { TID = 20, OWNER = 64 };

static const struct {
	const char *type, *field;
	uint64_t offset;
	bool is_static;
} rows[] = {
	{ "Klass", "_name", 8, false },
	{ "ThreadsSMRSupport", "_java_thread_list", LIST_WORD, true },
	{ "ThreadsList", "_length", LENGTH, false },
	{ "ThreadsList", "_threads", ARRAY_AT, false },
	{ "JavaThread", "_current_pending_monitor", PENDING, false },
	{ "Thread", "_osthread", OS, false },
	{ "JavaThread", "_stack_base", STACK_BASE, false },
	{ "JavaThread", "_stack_size", STACK_SIZE, false },
	{ "ObjectMonitor", "_owner", OWNER, false },
	{ "OSThread", "_thread_id", TID, false },
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

struct bed {
	struct snap_arena arena;
	struct snap_options options;
	struct snap_map maps[2];
	struct snap_process process;
	struct snap_runtime_memory memory;
	struct snap_runtime_process runtime;
	struct snap_java java;
	struct snap_runtime_result result;
	unsigned reads;
	uint8_t bytes[SIZE];
};

static bool read_bytes(void *context, uint64_t address, void *out, size_t size)
{
	struct bed *bed = context;

	bed->reads++;
	if (address < BASE || address - BASE > SIZE || size > SIZE - (address - BASE))
		return false;
	memcpy(out, bed->bytes + (address - BASE), size);
	return true;
}

static void put(struct bed *bed, uint64_t address, uint64_t value, size_t width)
{
	memcpy(bed->bytes + (address - BASE), &value, width);
}

static uint64_t put_name(struct bed *bed, unsigned number, const char *name)
{
	uint64_t address = NAMES + number * 32;

	memcpy(bed->bytes + (address - BASE), name, strlen(name) + 1);
	return address;
}

static uint64_t entry_of(unsigned row)
{
	return TABLE + row * SNAP_JAVA_ENTRY;
}

static uint64_t thread_of(unsigned number)
{
	return THREADS + number * 256;
}

static uint64_t monitor_of(unsigned number)
{
	return MONITORS + number * 128;
}

static void put_thread(struct bed *bed, unsigned number)
{
	uint64_t thread = thread_of(number), os = OS_THREADS + number * 64;

	put(bed, ARRAY + number * 8, thread, 8);
	put(bed, thread + OS, os, 8);
	put(bed, thread + STACK_BASE, STACKS + (number + 1) * STACK, 8);
	put(bed, thread + STACK_SIZE, STACK, 8);
	put(bed, os + TID, FIRST_TID + number, 4);
}

/* Thread 0 and 1 wait for each other; 2 for what 3 has by a word on its stack. */
static void bed_open(struct bed *bed)
{
	memset(bed, 0, sizeof(*bed));
	snap_arena_init(&bed->arena);
	bed->maps[0] =
		(struct snap_map){ .start = BASE, .end = HEAP, .inode = 5, .path = "libjvm.so" };
	bed->maps[1] = (struct snap_map){ .start = HEAP, .end = END };
	bed->process = (struct snap_process){ .pid = 7, .maps = bed->maps, .map_count = 2 };
	bed->memory = (struct snap_runtime_memory){ .read = read_bytes, .context = bed };
	bed->runtime = (struct snap_runtime_process){ .process = &bed->process,
						      .memory = &bed->memory,
						      .options = &bed->options,
						      .arena = &bed->arena };
	bed->java = (struct snap_java){
		.process = &bed->runtime, .first = BASE, .last = HEAP, .pointer = POINTER
	};
	put(bed, POINTER, TABLE, 8);
	put(bed, LIST_WORD, LIST, 8);
	put(bed, LIST + LENGTH, COUNT, 4);
	put(bed, LIST + ARRAY_AT, ARRAY, 8);
	for (unsigned i = 0; i < ROWS; i++) {
		put(bed, entry_of(i), put_name(bed, 2 * i, rows[i].type), 8);
		put(bed, entry_of(i) + 8, put_name(bed, 2 * i + 1, rows[i].field), 8);
		put(bed, entry_of(i) + 24, rows[i].is_static, 4);
		put(bed, entry_of(i) + (rows[i].is_static ? 40 : 32), rows[i].offset, 8);
	}
	for (unsigned i = 0; i < COUNT; i++)
		put_thread(bed, i);
	for (unsigned i = 0; i < 3; i++)
		put(bed, thread_of(i) + PENDING, monitor_of(i), 8);
	put(bed, monitor_of(0) + OWNER, thread_of(1), 8);
	put(bed, monitor_of(1) + OWNER, thread_of(0), 8);
	put(bed, monitor_of(2) + OWNER, STACKS + 3 * STACK + 0x8000, 8);
}

static void bed_close(struct bed *bed)
{
	snap_arena_deinit(&bed->arena);
}

static bool has_layout(struct bed *bed)
{
	return snap_java_read_layout(&bed->java);
}

static size_t count_monitors(struct bed *bed)
{
	bed->result = (struct snap_runtime_result){ .name = "java" };
	assert_true(has_layout(bed));
	assert_null(snap_java_monitors(&bed->java, &bed->result));
	return bed->result.monitor_count;
}

static void check_monitor(const struct bed *bed, size_t number, uint32_t tid, uint64_t address,
			  uint32_t owner)
{
	const struct snap_runtime_monitor *monitor = &bed->result.monitors[number];

	assert_int_equal(monitor->tid, tid);
	assert_int_equal(monitor->address, address);
	assert_int_equal(monitor->owner, owner);
	assert_false(monitor->is_free);
}

static void test_owners(void **state _unused_)
{
	struct bed bed;

	bed_open(&bed);
	assert_int_equal(count_monitors(&bed), 3);
	check_monitor(&bed, 0, 100, monitor_of(0), 101);
	check_monitor(&bed, 1, 101, monitor_of(1), 100);
	check_monitor(&bed, 2, 102, monitor_of(2), 103);
	/* Just behind a stack, and the first word of one. */
	put(&bed, monitor_of(2) + OWNER, STACKS + 4 * STACK, 8);
	assert_int_equal(count_monitors(&bed), 3);
	check_monitor(&bed, 2, 102, monitor_of(2), 0);
	put(&bed, monitor_of(2) + OWNER, STACKS, 8);
	assert_int_equal(count_monitors(&bed), 3);
	check_monitor(&bed, 2, 102, monitor_of(2), 100);
	bed_close(&bed);
}

static void test_owners_that_are_not_known(void **state _unused_)
{
	static const uint64_t marks[] = { 1, 2, UINT64_MAX, THREADS + 1, BASE, 1ull << 63 };
	struct bed bed;

	bed_open(&bed);
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		put(&bed, monitor_of(0) + OWNER, marks[i], 8);
		assert_int_equal(count_monitors(&bed), 3);
		check_monitor(&bed, 0, 100, monitor_of(0), 0);
	}
	put(&bed, monitor_of(0) + OWNER, 0, 8);
	assert_int_equal(count_monitors(&bed), 3);
	assert_true(bed.result.monitors[0].is_free);
	/* It has it already. */
	put(&bed, monitor_of(0) + OWNER, thread_of(0), 8);
	assert_int_equal(count_monitors(&bed), 2);
	/* The monitor cannot be read. */
	put(&bed, thread_of(0) + PENDING, 1ull << 63, 8);
	assert_int_equal(count_monitors(&bed), 3);
	check_monitor(&bed, 0, 100, 1ull << 63, 0);
	bed_close(&bed);
}

static void test_plan(void **state _unused_)
{
	struct snap_memory_plan plan = { 0 };
	struct bed bed;

	bed_open(&bed);
	assert_true(has_layout(&bed));
	assert_int_equal(bed.java.entry_count, ROWS);
	assert_true(snap_java_plan(&bed.java, &plan));
	assert_true(snap_memory_plan_check(&plan));
	assert_int_equal(plan.steps[1].address, TABLE);
	assert_int_equal(plan.steps[1].len, ROWS * SNAP_JAVA_ENTRY);
	assert_int_equal(plan.steps[4].len, PENDING + 8);
	plan.step_count = SNAP_PLAN_MOST_STEPS;
	assert_false(snap_java_plan(&bed.java, &plan));
	bed_close(&bed);
}

/* Each row is needed, but for the first one, which is another type's. */
static void test_tables_that_lack_something(void **state _unused_)
{
	struct bed bed;

	for (unsigned i = 0; i < ROWS; i++) {
		bed_open(&bed);
		bed.bytes[NAMES + (2 * i + 1) * 32 - BASE]++;
		assert_int_equal(has_layout(&bed), i == 0);
		bed_close(&bed);
		bed_open(&bed);
		put(&bed, entry_of(i) + 24, !rows[i].is_static, 4);
		assert_int_equal(has_layout(&bed), i == 0);
		bed_close(&bed);
		bed_open(&bed);
		put(&bed, entry_of(i), 0, 8);
		assert_false(has_layout(&bed));
		bed_close(&bed);
		bed_open(&bed);
		put(&bed, entry_of(i) + (rows[i].is_static ? 40 : 32), 1ull << 63, 8);
		assert_int_equal(has_layout(&bed), i == 0);
		bed_close(&bed);
	}
}

static void test_pointers_that_lead_elsewhere(void **state _unused_)
{
	static const uint64_t places[] = { 0, 8, END, UINT64_MAX - 7, HEAP - 8, POINTER + 1 };
	struct bed bed;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		bed_open(&bed);
		put(&bed, POINTER, places[i], 8);
		assert_false(has_layout(&bed));
		bed_close(&bed);
		bed_open(&bed);
		bed.java.pointer = places[i];
		assert_false(has_layout(&bed));
		bed_close(&bed);
		/* Of a name. */
		bed_open(&bed);
		put(&bed, entry_of(1), places[i], 8);
		assert_false(has_layout(&bed));
		bed_close(&bed);
	}
	bed_open(&bed);
	bed.maps[1].path = "[heap]";
	put(&bed, entry_of(1) + 40, LIST, 8);
	assert_false(has_layout(&bed));
	bed_close(&bed);
}

/* Names without an end, entries without an end. */
static void test_tables_without_an_end(void **state _unused_)
{
	struct bed bed;

	bed_open(&bed);
	memset(bed.bytes + (NAMES - BASE), 'x', ROWS * 64);
	assert_false(has_layout(&bed));
	bed_close(&bed);
	bed_open(&bed);
	for (uint64_t at = TABLE; at < END; at += 8)
		put(&bed, at, NAMES, 8);
	bed.reads = 0;
	assert_false(has_layout(&bed));
	assert_true(bed.reads <= 3 * SNAP_JAVA_MOST_ENTRIES + 1);
	bed_close(&bed);
}

static void test_hostile_lists(void **state _unused_)
{
	struct bed bed;

	bed_open(&bed);
	put(&bed, LIST + LENGTH, UINT32_MAX, 4);
	assert_int_equal(count_monitors(&bed), 0);
	/* More than there is. */
	put(&bed, LIST + LENGTH, SNAP_JAVA_MOST_THREADS, 4);
	assert_in_range(count_monitors(&bed), 0, SNAP_JAVA_MOST_THREADS);
	put(&bed, LIST + LENGTH, COUNT, 4);
	/* The list leads to itself; one thread twice, which says nothing then. */
	put(&bed, LIST + ARRAY_AT, LIST, 8);
	assert_int_equal(count_monitors(&bed), 0);
	put(&bed, LIST + ARRAY_AT, ARRAY, 8);
	put(&bed, ARRAY + 8, thread_of(0), 8);
	assert_int_equal(count_monitors(&bed), 1);
	put(&bed, ARRAY + 8, thread_of(1), 8);
	/* Stacks that are everywhere: 3 has none of its own at that place any more. */
	put(&bed, thread_of(3) + STACK_SIZE, UINT64_MAX, 8);
	put(&bed, thread_of(3) + STACK_BASE, UINT64_MAX, 8);
	assert_int_equal(count_monitors(&bed), 3);
	check_monitor(&bed, 2, 102, monitor_of(2), 103);
	put(&bed, thread_of(2) + OS, 1ull << 63, 8);
	assert_int_equal(count_monitors(&bed), 2);
	bed_close(&bed);
}

/* Whatever a byte says: at most one monitor a thread, in order, and owners that are threads. */
static void test_changed_bytes(void **state _unused_)
{
	static struct bed bed;

	bed_open(&bed);
	for (size_t i = 0; i < SIZE; i++) {
		uint8_t before = bed.bytes[i];

		bed.bytes[i] = (uint8_t)~before;
		bed.result = (struct snap_runtime_result){ .name = "java" };
		if (has_layout(&bed))
			assert_null(snap_java_monitors(&bed.java, &bed.result));
		for (size_t k = 1; k < bed.result.monitor_count; k++)
			assert_true(bed.result.monitors[k - 1].tid < bed.result.monitors[k].tid);
		bed.bytes[i] = before;
	}
	assert_int_equal(count_monitors(&bed), 3);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_owners),
		cmocka_unit_test(test_owners_that_are_not_known),
		cmocka_unit_test(test_plan),
		cmocka_unit_test(test_tables_that_lack_something),
		cmocka_unit_test(test_pointers_that_lead_elsewhere),
		cmocka_unit_test(test_tables_without_an_end),
		cmocka_unit_test(test_hostile_lists),
		cmocka_unit_test(test_changed_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
