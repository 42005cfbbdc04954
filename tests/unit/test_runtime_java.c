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

/* ---- names ---- */

/* Behind what monitors need: words and texts of libjvm.so, classes, objects. */
enum {
	WORDS = BASE + 0x110,       /* 8 bytes each */
	LONG_NAMES = BASE + 0x2000, /* 64 bytes each */
	CLASSES = HEAP + 0x2400,    /* of Thread, and of String */
	STRING_CLASS = CLASSES + 0x80,
	CONSTANTS = HEAP + 0x2500,
	SYMBOLS = HEAP + 0x2600,   /* 64 bytes each */
	DESCRIBED = HEAP + 0x2800, /* 128 bytes each */
	SLOTS = HEAP + 0x2900,
	OBJECTS = HEAP + 0x2a00, /* 256 bytes each */
	STRINGS = HEAP + 0x2e00, /* 64 bytes each */
	ARRAYS = HEAP + 0x3000,  /* 256 bytes each */
	/* offsets */
	OBJECT_AT = 96,
	CONSTANTS_AT = 16,
	FIELDS_AT = 24,
	NAME_AT = 200,
	VALUE_AT = 24,
	CODER_AT = 16,
	LATIN = 0,
	UTF16 = 1,
};

static const struct {
	const char *type, *field;
	uint64_t value; /* of what is static: at its address */
	bool is_static;
} name_rows[] = {
	{ "JavaThread", "_threadObj", OBJECT_AT, false },
	{ "InstanceKlass", "_constants", CONSTANTS_AT, false },
	{ "InstanceKlass", "_fields", FIELDS_AT, false },
	{ "vmClasses", "_klasses[static_cast<int>(vmClassID::Thread_klass_knum)]", CLASSES, true },
	{ "vmClasses", "_klasses[static_cast<int>(vmClassID::String_klass_knum)]", STRING_CLASS,
	  true },
	{ "CompressedOops", "_narrow_oop._base", BASE, true },
	{ "CompressedOops", "_narrow_oop._shift", 3, true },
	{ "CompressedKlassPointers", "_base", HEAP, true },
	{ "CompressedKlassPointers", "_shift", 3, true },
};
enum { NAME_ROWS = sizeof(name_rows) / sizeof(name_rows[0]), FIELDS_ROW = 2 };

static const char *const symbols[] = { "",  "name", "Ljava/lang/String;", "value", "[B", "coder",
				       "B", "other" };

struct named {
	struct bed bed;
	bool is_wide;
	unsigned count;
	char names[4096];
};

static uint64_t put_long_name(struct bed *bed, unsigned number, const char *name)
{
	uint64_t address = LONG_NAMES + number * 64;

	memcpy(bed->bytes + (address - BASE), name, strlen(name) + 1);
	return address;
}

static void put_reference(struct named *named, uint64_t at, uint64_t object)
{
	if (named->is_wide)
		put(&named->bed, at, object, 8);
	else
		put(&named->bed, at, (object - BASE) >> 3, 4);
}

/* Before JDK 21: access, name, signature, value, offset and a tag. */
static void put_field(struct bed *bed, unsigned class, unsigned number, unsigned name,
		      unsigned signature, uint32_t offset)
{
	uint64_t array = DESCRIBED + class * 128, at = array + 4 + number * 12;

	put(bed, array, (number + 1) * 6, 4);
	put(bed, at, 2, 2);
	put(bed, at + 2, name, 2);
	put(bed, at + 4, signature, 2);
	put(bed, at + 8, offset << 2 | 1, 4);
}

/* From JDK 21 on: numbers, of which all but one have a byte. */
static void put_stream(struct bed *bed)
{
	static const uint8_t thread[] = { 3, 1, 8,   7, 13, 3, 2, 10, /* other, with a value */
					  2, 3, 201, 1, 3,  1, 0 };
	static const uint8_t string[] = { 3, 1, 6,  7, 17, 3, 6, 9, 10, /* coder, with two more */
					  4, 5, 25, 3, 1,  0 };

	put(bed, DESCRIBED, sizeof(thread), 4);
	memcpy(bed->bytes + (DESCRIBED + 4 - BASE), thread, sizeof(thread));
	put(bed, DESCRIBED + 128, sizeof(string), 4);
	memcpy(bed->bytes + (DESCRIBED + 132 - BASE), string, sizeof(string));
	put_long_name(bed, 2 * FIELDS_ROW + 1, "_fieldinfo_stream");
}

static void put_java_name(struct named *named, unsigned number, unsigned coder, const void *bytes,
			  size_t size)
{
	uint64_t object = OBJECTS + number * 256, string = STRINGS + number * 64,
		 array = ARRAYS + number * 256;
	struct bed *bed = &named->bed;

	put(bed, thread_of(number) + OBJECT_AT, SLOTS + number * 8, 8);
	put(bed, SLOTS + number * 8, object, 8);
	put_reference(named, object + NAME_AT, string);
	put(bed, string + 8, (STRING_CLASS - HEAP) >> 3, 4);
	put_reference(named, string + VALUE_AT, array);
	put(bed, string + CODER_AT, coder, 1);
	put(bed, array + 12, size, 4);
	memcpy(bed->bytes + (array + 16 - BASE), bytes, size);
}

static void named_open(struct named *named, bool is_wide)
{
	static const uint16_t pairs[] = { 0x6f22, 0xd835, 0xdc99, 0xd800, 'x', 0xdc00, 0, 0xd800 };
	struct bed *bed = &named->bed;

	bed_open(bed);
	named->is_wide = is_wide;
	for (unsigned i = 0; i < NAME_ROWS; i++) {
		uint64_t entry = entry_of(ROWS + i);

		put(bed, entry, put_long_name(bed, 2 * i, name_rows[i].type), 8);
		put(bed, entry + 8, put_long_name(bed, 2 * i + 1, name_rows[i].field), 8);
		put(bed, entry + 24, name_rows[i].is_static, 4);
		put(bed, entry + (name_rows[i].is_static ? 40 : 32),
		    name_rows[i].is_static ? WORDS + i * 8 : name_rows[i].value, 8);
		if (name_rows[i].is_static)
			put(bed, WORDS + i * 8, name_rows[i].value, 8);
	}
	for (unsigned i = 1; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		uint64_t symbol = SYMBOLS + i * 64;

		put(bed, CONSTANTS + 72 + i * 8, symbol, 8);
		put(bed, symbol + 4, strlen(symbols[i]), 2);
		memcpy(bed->bytes + (symbol + 6 - BASE), symbols[i], strlen(symbols[i]));
	}
	for (unsigned i = 0; i < 2; i++) {
		put(bed, CLASSES + i * 0x80 + CONSTANTS_AT, CONSTANTS, 8);
		put(bed, CLASSES + i * 0x80 + FIELDS_AT, DESCRIBED + i * 128, 8);
	}
	put_field(bed, 0, 0, 7, 2, 12);
	put_field(bed, 0, 1, 1, 2, NAME_AT);
	put_field(bed, 1, 0, 5, 6, CODER_AT);
	put_field(bed, 1, 1, 3, 4, VALUE_AT);
	put_java_name(named, 0, LATIN, "reads orders from the queue", 27);
	put_java_name(named, 1, LATIN, "l\xe4tin\0", 6);
	put_java_name(named, 2, UTF16, pairs, sizeof(pairs));
	put_java_name(named, 3, LATIN, "", 0);
}

static void take_name(void *context, uint32_t tid, const char *name)
{
	struct named *named = context;
	size_t used = strlen(named->names);

	assert_true(strlen(name) < SNAP_MAX_THREAD_NAME);
	named->count++;
	snprintf(named->names + used, sizeof(named->names) - used, "%u %s\n", tid, name);
}

static const char *names_of(struct named *named)
{
	named->names[0] = '\0';
	named->count = 0;
	named->bed.runtime.take_name = take_name;
	named->bed.runtime.names_until_ns = INT64_MAX;
	named->bed.runtime.take_context = named;
	snap_java_name_threads(&named->bed.java);
	return named->names;
}

static void test_names(void **state _unused_)
{
	static const char wanted[] = "100 reads orders from the queue\n"
				     "101 l\xc3\xa4tin\xef\xbf\xbd\n"
				     "102 \xe6\xbc\xa2\xf0\x9d\x92\x99\xef\xbf\xbdx\xef\xbf\xbd"
				     "\xef\xbf\xbd\xef\xbf\xbd\n"
				     "103 \n";
	struct named named;

	for (unsigned i = 0; i < 4; i++) {
		named_open(&named, i & 1);
		if (i & 2)
			put_stream(&named.bed);
		assert_string_equal(names_of(&named), wanted);
		bed_close(&named.bed);
	}
}

/* A table that lacks a field, or has a strange one, has no names; monitors are not asked. */
static void test_names_of_other_tables(void **state _unused_)
{
	struct named named;

	for (unsigned i = 0; i < NAME_ROWS; i++) {
		named_open(&named, false);
		named.bed.bytes[LONG_NAMES + (2 * i + 1) * 64 - BASE]++;
		assert_string_equal(names_of(&named), "");
		bed_close(&named.bed);
		named_open(&named, false);
		put(&named.bed, entry_of(ROWS + i) + (name_rows[i].is_static ? 40 : 32), 1ull << 63,
		    8);
		assert_string_equal(names_of(&named), "");
		bed_close(&named.bed);
	}
}

static void test_hostile_names(void **state _unused_)
{
	static const struct {
		uint64_t address, value;
		size_t width;
	} changes[] = { { STRINGS + 8, 7, 4 }, /* it is no String */
			{ STRINGS + CODER_AT, 2, 1 },
			{ ARRAYS + 12, UINT32_MAX, 4 },
			{ OBJECTS + NAME_AT, 0, 4 },
			{ SLOTS, 1ull << 63, 8 },
			{ DESCRIBED + 128, UINT32_MAX, 4 },
			{ DESCRIBED, UINT32_MAX, 4 },
			{ CONSTANTS + 72 + 8, 8, 8 },
			{ SYMBOLS + 64 + 4, 5, 2 },
			{ WORDS + 6 * 8, 64, 4 },
			{ LIST + LENGTH, 0, 4 } };
	struct named named;

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		named_open(&named, false);
		assert_non_null(strstr(names_of(&named), "100 "));
		put(&named.bed, changes[i].address, changes[i].value, changes[i].width);
		assert_null(strstr(names_of(&named), "100 "));
		bed_close(&named.bed);
	}
	/* A long one is cut; the list leads to one thread for ever, of which 1,024 are enough. */
	named_open(&named, false);
	put(&named.bed, ARRAYS + 3 * 256 + 12, 5000, 4);
	memset(named.bed.bytes + (ARRAYS + 3 * 256 + 16 - BASE), 0xe4, 256);
	assert_non_null(strstr(names_of(&named), "103 \xc3\xa4\xc3\xa4"));
	put(&named.bed, LIST + LENGTH, 1 << 20, 4);
	named.bed.reads = 0;
	names_of(&named);
	assert_in_range(named.count, 4, 1024);
	assert_in_range(named.bed.reads, 1024, 1 << 14);
	bed_close(&named.bed);
}

static void test_changed_names(void **state _unused_)
{
	uint64_t random = 88172645463325252ull;
	struct named named;

	for (unsigned round = 0; round < 20000; round++) {
		named_open(&named, round & 1);
		if (round & 2)
			put_stream(&named.bed);
		for (unsigned i = 0; i <= round % 5; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			if (random & 1)
				put(&named.bed, DESCRIBED + (random >> 20) % 256, random >> 40, 1);
			else
				put(&named.bed, HEAP + ((random >> 20) % 0x3f00 & ~7ull),
				    random & 2 ? BASE + (random >> 40) % SIZE : random, 8);
		}
		names_of(&named);
		bed_close(&named.bed);
	}
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
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_names_of_other_tables),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_changed_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
