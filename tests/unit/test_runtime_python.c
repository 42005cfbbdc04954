/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The reader of CPython: line tables against what Python says they mean, strings, and whole
 * processes made by hand in memory, also with bytes changed.
 */
#include "analyze/runtime/python/asyncio.h"

#include "python_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- lines ---- */

struct lines_case {
	enum snap_python_lines kind;
	uint32_t size; /* of the bytecode */
	const uint8_t *table;
	size_t table_size;
	const struct line_run *runs;
	size_t run_count;
};

#define LINES(kind, size, version)                                                    \
	{                                                                             \
		kind, size, table_##version, sizeof(table_##version), runs_##version, \
			SNAP_ARRAY_SIZE(runs_##version)                               \
	}

static const struct lines_case lines_cases[] = {
	LINES(SNAP_PYTHON_LINES_LNOTAB, 136, v3_8),
	LINES(SNAP_PYTHON_LINES_LINETABLE, 168, v3_10),
	LINES(SNAP_PYTHON_LINES_LOCATIONS, 336, v3_11),
	LINES(SNAP_PYTHON_LINES_LOCATIONS, 312, v3_13),
	LINES(SNAP_PYTHON_LINES_LOCATIONS, 352, v3_15),
};

static void test_lines_are_those_that_python_says(void **state)
{
	(void)state;
	for (size_t c = 0; c < SNAP_ARRAY_SIZE(lines_cases); c++) {
		const struct lines_case *one = &lines_cases[c];

		for (uint32_t offset = 0, run = 0; offset < one->size; offset++) {
			uint32_t line;

			while (run + 1 < one->run_count && one->runs[run + 1].offset <= offset)
				run++;
			line = snap_python_line(one->kind, one->table, one->table_size, FIRST_LINE,
						offset);
			if (line != one->runs[run].line)
				fail_msg("case %zu, offset %u: line %u, not %u", c, offset, line,
					 one->runs[run].line);
		}
	}
}

static void test_a_frame_that_has_not_begun_is_on_the_first_line(void **state)
{
	(void)state;
	for (size_t c = 0; c < SNAP_ARRAY_SIZE(lines_cases); c++)
		assert_int_equal(snap_python_line(lines_cases[c].kind, lines_cases[c].table,
						  lines_cases[c].table_size, FIRST_LINE, -2),
				 FIRST_LINE);
}

static void test_tables_that_lie_have_no_lines(void **state)
{
	/* lines before the first one; a number that never ends; a table that ends in a number */
	static const uint8_t back[] = { 0xe8, 0x41, 0x7f, 0x3f };
	static const uint8_t endless[] = { 0xe8, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f,
					   0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f };
	static const uint8_t odd[] = { 10 };

	(void)state;
	assert_int_equal(snap_python_line(SNAP_PYTHON_LINES_LOCATIONS, back, sizeof(back), 7, 0),
			 0);
	assert_int_equal(
		snap_python_line(SNAP_PYTHON_LINES_LOCATIONS, endless, sizeof(endless), 7, 0), 0);
	assert_int_equal(snap_python_line(SNAP_PYTHON_LINES_LOCATIONS, NULL, 0, 7, 0), 0);
	assert_int_equal(snap_python_line(SNAP_PYTHON_LINES_LINETABLE, odd, 1, 7, 0), 0);
	assert_int_equal(snap_python_line(SNAP_PYTHON_LINES_LNOTAB, odd, 1, 7, 0), 7);
	assert_int_equal(snap_python_line(SNAP_PYTHON_LINES_LNOTAB, odd, 1, UINT32_MAX, 0), 0);
}

/* ---- strings ---- */

static const char *utf8_of(const void *characters, size_t count, unsigned width, size_t room)
{
	static char text[64];

	text[snap_python_utf8(characters, count, width, text, room)] = 0;
	return text;
}

static void test_strings_of_all_widths_become_utf8(void **state)
{
	static const uint8_t latin[] = { 'K', 0xe4, 's', 'e' };
	static const uint16_t two[] = { 0x6f22, 'x', 0x20ac };
	static const uint32_t four[] = { 0x1d499, 'y', 0x10ffff };

	(void)state;
	assert_string_equal(utf8_of(latin, 4, 1, 63), "K\xc3\xa4se");
	assert_string_equal(utf8_of(two, 3, 2, 63), "\xe6\xbc\xa2x\xe2\x82\xac");
	assert_string_equal(utf8_of(four, 3, 4, 63), "\xf0\x9d\x92\x99y\xf4\x8f\xbf\xbf");
	assert_string_equal(utf8_of(two, 3, 2, 2), "");
	assert_string_equal(utf8_of(two, 3, 2, 6), "\xe6\xbc\xa2x");
}

static void test_bytes_that_are_no_text_stay_bytes(void **state)
{
	/* os.fsdecode(b"\xff\x80"), a lone surrogate, no character at all, NUL */
	static const uint16_t undecoded[] = { 0xdcff, 0xdc80 };
	static const uint32_t wrong[] = { 0xd800, 0x110000, 0 };

	(void)state;
	assert_string_equal(utf8_of(undecoded, 2, 2, 63), "\xff\x80");
	assert_string_equal(utf8_of(wrong, 3, 4, 63), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

/* ---- a process made by hand ---- */

/*
 * Memory of a CPython 3.11 with two threads, each two functions deep, and one of 3.9. All of it
 * lies at BASE; what is where follows the tables of layout.c.
 */
enum {
	BASE = 0x10000,
	SIZE = 0x6000,
	RUNTIME = BASE,
	INTERPRETER = BASE + 0x800,
	THREADS = BASE + 0x1000, /* 512 bytes each */
	LOOPS = BASE + 0x1800,   /* 64 bytes each */
	FRAMES = BASE + 0x1a00,  /* 128 bytes each */
	CODES = BASE + 0x2000,   /* 512 bytes each */
	STRINGS = BASE + 0x3000, /* 128 bytes each */
	TABLE = BASE + 0x3e00,
	CODE_TYPE = 0x777000,
	STRING_TYPE = 0x778000,
	FIRST_TID = 1001,
	/* of tasks */
	TASK = BASE + 0x2610,       /* behind the codes */
	COROUTINES = BASE + 0x2900, /* 256 bytes each */
	COROUTINE_TYPE = 0x779000,
	NONE = 0x77a000,
	/* of names: a dict is 64 bytes, its keys 256, an object 128, its values and an int 64 */
	DICTS = BASE + 0x4000,
	DICT_KEYS = BASE + 0x4400,
	OBJECTS = BASE + 0x4c00,
	VALUES = BASE + 0x5000,
	INTS = BASE + 0x5200,
	THREAD_TYPE = BASE + 0x5400,
	INT_TYPE = 0x77b000,
	/* where tasks are registered: beside the names */
	TASKS_MODULE = OBJECTS + 5 * 128,
	WEAK_SET = OBJECTS + 6 * 128,
	SET = INTS + 3 * 64,
	SLOTS = INTS + 4 * 64,
	REFERENCE = INTS + 5 * 64,
	SET_TYPE = 0x77c000,
};

struct bed {
	struct snap_arena arena;
	struct snap_interner strings;
	struct snap_options options;
	struct snap_thread threads[2];
	struct snap_process process;
	struct snap_runtime_memory memory;
	struct snap_runtime_process runtime;
	struct snap_python python;
	bool has_tasks;
	char names[256];
	unsigned name_count;
	uint8_t bytes[SIZE];
};

static bool read_bytes(void *context, uint64_t address, void *out, size_t size)
{
	struct bed *bed = context;

	if (address < BASE || address - BASE > SIZE || size > SIZE - (address - BASE))
		return false;
	memcpy(out, bed->bytes + (address - BASE), size);
	return true;
}

static void put(struct bed *bed, uint64_t address, uint64_t value, size_t width)
{
	memcpy(bed->bytes + (address - BASE), &value, width);
}

static uint64_t put_string(struct bed *bed, unsigned number, const char *text)
{
	uint64_t address = STRINGS + number * 128;

	put(bed, address + 8, STRING_TYPE, 8);
	put(bed, address + 16, strlen(text), 8);
	put(bed, address + 32, 1 << 2 | 1 << 5 | 1 << 6, 4);
	memcpy(bed->bytes + (address + 48 - BASE), text, strlen(text));
	return address;
}

static void put_code(struct bed *bed, unsigned number, const char *name)
{
	uint64_t address = CODES + number * 512;

	put(bed, address + 8, CODE_TYPE, 8);
	put(bed, address + 16, 100, 8); /* instructions */
	put(bed, address + 72, 40, 4);  /* first line */
	put(bed, address + 112, put_string(bed, 10, "/srv/app.py"), 8);
	put(bed, address + 128, put_string(bed, number, name), 8);
	put(bed, address + 136, TABLE, 8);
}

static void put_frame(struct bed *bed, unsigned number, unsigned code, uint64_t previous,
		      bool is_entry)
{
	uint64_t address = FRAMES + number * 128;

	put(bed, address + 32, CODES + code * 512, 8);
	put(bed, address + 48, previous, 8);
	put(bed, address + 56, CODES + code * 512 + 184, 8);
	put(bed, address + 68, is_entry, 1);
}

static void put_thread(struct bed *bed, unsigned number, uint64_t next)
{
	uint64_t address = THREADS + number * 512;

	put(bed, address + 8, next, 8);
	put(bed, address + 16, INTERPRETER, 8);
	put(bed, address + 56, LOOPS + number * 64, 8);
	put(bed, address + 160, FIRST_TID + number, 8);
	put(bed, LOOPS + number * 64 + 8, FRAMES + number * 256, 8);
}

static void bed_fill(struct bed *bed)
{
	put(bed, RUNTIME + 40, INTERPRETER, 8);
	put(bed, RUNTIME + 368, THREADS + 512, 8);
	put(bed, RUNTIME + 376, 1, 4);
	put(bed, INTERPRETER + 16, THREADS, 8);
	put(bed, INTERPRETER + 48, 3, 8);
	put_thread(bed, 0, THREADS + 512);
	put_thread(bed, 1, 0);
	put_frame(bed, 0, 0, FRAMES + 128, false);
	put_frame(bed, 1, 1, 0, true);
	put_frame(bed, 2, 2, FRAMES + 384, true);
	put_frame(bed, 3, 1, 0, true);
	put_code(bed, 0, "Reader.wait");
	put_code(bed, 1, "main");
	put_code(bed, 2, "sleep");
	put(bed, TABLE + 16, 3, 8);
	memcpy(bed->bytes + (TABLE + 32 - BASE), "\xe8\x04\x01", 3); /* two lines on, two bytes */
}

static void bed_open(struct bed *bed)
{
	memset(bed, 0, sizeof(*bed));
	snap_arena_init(&bed->arena);
	snap_interner_init(&bed->strings, &bed->arena);
	bed->options.lines = true;
	bed->threads[0] = (struct snap_thread){ .tid = FIRST_TID };
	bed->threads[1] = (struct snap_thread){ .tid = 5, .ns_tid = FIRST_TID + 1 };
	bed->process = (struct snap_process){ .threads = bed->threads, .thread_count = 2 };
	bed->memory = (struct snap_runtime_memory){ .read = read_bytes, .context = bed };
	bed->runtime = (struct snap_runtime_process){ .process = &bed->process,
						      .memory = &bed->memory,
						      .options = &bed->options,
						      .strings = &bed->strings,
						      .arena = &bed->arena };
	bed_fill(bed);
}

static void bed_close(struct bed *bed)
{
	snap_interner_deinit(&bed->strings);
	snap_arena_deinit(&bed->arena);
}

static void bed_describe_tasks(struct bed *bed)
{
	bed->python.registry.is_used = true;
	bed->python.registry.set_type = SET_TYPE;
	bed->python.registry.none = NONE;
	bed->python.asyncio_types[0] = COROUTINE_TYPE;
	bed->python.asyncio =
		(struct snap_python_asyncio){ .coroutine = 136, .name = 144, .size = 152 };
	bed->python.layout.generator.frame = 80;
	bed->python.layout.generator.state = 75;
}

/* The keys of a dict, without values of their own. */
static uint64_t put_keys(struct bed *bed, unsigned number, unsigned count)
{
	uint64_t keys = DICT_KEYS + number * 256;

	put(bed, keys + 9, 3, 1);
	put(bed, keys + 10, 1, 1);
	put(bed, keys + 24, count, 8);
	return keys;
}

static uint64_t put_entry(struct bed *bed, unsigned number, unsigned entry, uint64_t key,
			  uint64_t value)
{
	uint64_t address = DICT_KEYS + number * 256 + 40 + entry * 16;

	put(bed, DICTS + number * 64 + 32, put_keys(bed, number, entry + 1), 8);
	put(bed, address, key, 8);
	put(bed, address + 8, value, 8);
	return DICTS + number * 64;
}

/* A WeakSet with one task, in the module asyncio.tasks; the set has one more, which was removed. */
static void put_registry(struct bed *bed)
{
	uint64_t values = VALUES + 3 * 64, names;

	put(bed, INTERPRETER + 888,
	    put_entry(bed, 0, 2, put_string(bed, 23, "asyncio.tasks"), TASKS_MODULE), 8);
	names = put_entry(bed, 7, 0, put_string(bed, 24, "_all_tasks"), WEAK_SET);
	put(bed, TASKS_MODULE + 16, names, 8);
	put(bed, WEAK_SET - 32, values, 8);
	put(bed, values, SET, 8);
	put(bed, SET + 8, SET_TYPE, 8);
	put(bed, SET + 32, 1, 8);
	put(bed, SET + 40, SLOTS, 8);
	put(bed, SLOTS, NONE, 8);
	put(bed, SLOTS + 8, UINT64_MAX, 8);
	put(bed, SLOTS + 16, REFERENCE, 8);
	put(bed, REFERENCE + 16, TASK, 8);
}

/*
 * A task whose coroutine is suspended, and awaits another one; its frame has one variable and what
 * it awaits on its stack.
 */
static void put_tasks(struct bed *bed)
{
	uint64_t inner = COROUTINES + 256;

	bed->has_tasks = true;
	put_registry(bed);
	put(bed, TASK + 136, COROUTINES, 8);
	put(bed, TASK + 144, put_string(bed, 11, "worker"), 8);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t coroutine = COROUTINES + i * 256, frame = coroutine + 80;

		put(bed, coroutine + 8, COROUTINE_TYPE, 8);
		put(bed, coroutine + 75, 0xff, 1); /* suspended */
		put(bed, frame + 32, CODES + i * 512, 8);
		put(bed, frame + 56, CODES + i * 512 + 184, 8);
		put(bed, frame + 64, 2, 4);
		put(bed, CODES + i * 512 + 184 + 3, 3, 1); /* RESUME, after an await */
	}
	put(bed, COROUTINES + 80 + 72 + 8, inner, 8);
}

static struct snap_runtime_result bed_read(struct bed *bed)
{
	struct snap_runtime_result result = { .name = "cpython" };

	bed->python = (struct snap_python){ .process = &bed->runtime,
					    .runtime = RUNTIME,
					    .code_type = CODE_TYPE,
					    .string_type = STRING_TYPE,
					    .version = 0x030b02f0,
					    .has_micro = true,
					    .frames_left = 100000 };
	assert_null(snap_python_layout_load(&bed->python));
	if (bed->has_tasks)
		bed_describe_tasks(bed);
	assert_true(snap_python_places_create(&bed->python));
	assert_null(snap_python_threads(&bed->python, &result));
	if (bed->has_tasks)
		assert_null(snap_python_tasks(&bed->python, &result));
	snap_python_places_destroy(&bed->python);
	free(bed->python.chains);
	return result;
}

static const struct snap_entry *entry_of(const struct snap_runtime_thread *thread, size_t frame)
{
	return &thread->stack.frames[frame]->entries[0];
}

static void test_threads_have_their_frames(void **state)
{
	struct bed bed;
	struct snap_runtime_result result;

	(void)state;
	bed_open(&bed);
	result = bed_read(&bed);
	assert_null(result.refused);
	assert_false(result.torn);
	assert_int_equal(result.thread_count, 2);
	assert_int_equal(result.threads[0].tid, 5);
	assert_true(result.threads[0].holds_gil);
	assert_int_equal(result.threads[0].interpreter, 3);
	assert_int_equal(result.threads[0].run_count, 2);
	assert_int_equal(result.threads[1].tid, FIRST_TID);
	assert_false(result.threads[1].holds_gil);
	assert_int_equal(result.threads[1].stack.count, 2);
	assert_int_equal(result.threads[1].stack.end, SNAP_UNWIND_COMPLETE);
	assert_string_equal(entry_of(&result.threads[1], 0)->function, "Reader.wait");
	assert_string_equal(entry_of(&result.threads[1], 1)->function, "main");
	assert_string_equal(entry_of(&result.threads[1], 1)->file, "/srv/app.py");
	assert_string_equal(entry_of(&result.threads[1], 1)->language, "python");
	assert_int_equal(entry_of(&result.threads[1], 1)->line, 42);
	/* one loop runs both frames, and is where the thread says */
	assert_int_equal(result.threads[1].run_count, 1);
	assert_int_equal(result.threads[1].runs[0].count, 2);
	assert_int_equal(result.threads[1].runs[0].anchor, LOOPS);
	/* one place is one frame */
	assert_ptr_equal(result.threads[0].stack.frames[1], result.threads[1].stack.frames[1]);
	bed_close(&bed);
}

static void test_stacks_are_whole_and_loops_end(void **state)
{
	struct bed bed;
	struct snap_runtime_result result;

	(void)state;
	bed_open(&bed);
	bed.options.max_frames = 1; /* what is shown of them is for others to say */
	result = bed_read(&bed);
	assert_int_equal(result.threads[1].stack.count, 2);
	assert_int_equal(result.threads[1].stack.end, SNAP_UNWIND_COMPLETE);
	assert_int_equal(result.threads[1].runs[0].anchor, LOOPS);
	bed_close(&bed);

	/* lists of threads, interpreters and frames that bite their tails */
	bed_open(&bed);
	put(&bed, THREADS + 512 + 8, THREADS, 8);
	put(&bed, INTERPRETER, INTERPRETER, 8);
	put(&bed, FRAMES + 128 + 48, FRAMES, 8);
	result = bed_read(&bed);
	assert_true(result.torn);
	bed_close(&bed);
}

static void test_what_makes_no_sense_is_not_shown(void **state)
{
	struct bed bed;
	struct snap_runtime_result result;

	(void)state;
	/* something else than code where a frame says that its code is */
	bed_open(&bed);
	put(&bed, CODES + 8, STRING_TYPE, 8);
	result = bed_read(&bed);
	assert_true(result.torn);
	assert_int_equal(result.thread_count, 1);
	assert_int_equal(result.threads[0].tid, 5);
	bed_close(&bed);

	/* a place outside of the code */
	bed_open(&bed);
	put(&bed, FRAMES + 128 + 56, CODES, 8);
	result = bed_read(&bed);
	assert_int_equal(result.threads[1].stack.count, 1);
	assert_int_equal(result.threads[1].stack.end, SNAP_UNWIND_UNREADABLE);
	bed_close(&bed);

	/* nobody of these threads is there */
	bed_open(&bed);
	bed.threads[0].tid = 7;
	bed.threads[1].ns_tid = 8;
	result = bed_read(&bed);
	assert_non_null(result.refused);
	assert_int_equal(result.thread_count, 0);
	bed_close(&bed);

	bed_open(&bed);
	put(&bed, RUNTIME + 40, 0, 8);
	result = bed_read(&bed);
	assert_non_null(result.refused);
	bed_close(&bed);
}

static void test_versions_that_nobody_knows_are_refused(void **state)
{
	static const uint32_t versions[] = { 0, 0x03070000, 0x03100000, 0x030d0000 };
	struct bed bed;

	(void)state;
	bed_open(&bed);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(versions); i++) {
		bed.python = (struct snap_python){ .process = &bed.runtime,
						   .runtime = RUNTIME,
						   .version = versions[i] };
		assert_non_null(snap_python_layout_load(&bed.python));
	}
	bed_close(&bed);
}

static void test_tasks_have_their_awaits(void **state)
{
	struct bed bed;
	struct snap_runtime_result result;

	(void)state;
	bed_open(&bed);
	put_tasks(&bed);
	result = bed_read(&bed);
	assert_int_equal(result.cut, SNAP_PLAN_WHOLE);
	assert_int_equal(result.task_count, 1);
	assert_string_equal(result.tasks[0].name, "worker");
	assert_int_equal(result.tasks[0].state, SNAP_TASK_RUNNABLE);
	assert_int_equal(result.tasks[0].stack.count, 2);
	assert_string_equal(result.tasks[0].stack.frames[0]->entries->function, "main");
	assert_string_equal(result.tasks[0].stack.frames[1]->entries->function, "Reader.wait");
	assert_ptr_equal(result.tasks[0].start, result.tasks[0].stack.frames[1]->entries);
	bed_close(&bed);
}

/* Its thread has more frames down to its coroutine than are shown. */
static void test_a_task_that_runs_deep(void **state)
{
	struct bed bed;
	struct snap_runtime_result result;

	(void)state;
	bed_open(&bed);
	put_tasks(&bed);
	put(&bed, COROUTINES + 75, 0, 1);
	put(&bed, FRAMES + 128 + 48, COROUTINES + 80, 8);
	put(&bed, FRAMES + 128 + 68, 0, 1);
	put(&bed, COROUTINES + 80 + 68, 1, 1);
	result = bed_read(&bed);
	assert_int_equal(result.tasks[0].state, SNAP_TASK_RUNNING);
	assert_int_equal(result.tasks[0].tid, FIRST_TID);
	assert_int_equal(result.tasks[0].stack.count, 3);
	bed_close(&bed);

	bed_open(&bed);
	put_tasks(&bed);
	put(&bed, COROUTINES + 75, 0, 1);
	put(&bed, FRAMES + 128 + 48, COROUTINES + 80, 8);
	bed.options.max_frames = 2;
	result = bed_read(&bed);
	assert_int_equal(result.tasks[0].state, SNAP_TASK_RUNNING);
	assert_int_equal(result.tasks[0].stack.count, 3);
	assert_int_equal(result.tasks[0].stack.end, SNAP_UNWIND_COMPLETE);
	bed_close(&bed);
}

/* ---- where tasks are registered ---- */

static void locate_tasks(struct bed *bed, uint32_t version)
{
	bed->python = (struct snap_python){ .process = &bed->runtime,
					    .runtime = RUNTIME,
					    .string_type = STRING_TYPE,
					    .version = version };
	assert_null(snap_python_layout_load(&bed->python));
	snap_python_registry_locate(&bed->python);
}

static void test_tasks_are_located_by_their_names(void **state)
{
	struct bed bed;

	(void)state;
	bed_open(&bed);
	put(&bed, INTERPRETER + 888,
	    put_entry(&bed, 0, 2, put_string(&bed, 23, "asyncio.locks"), TASKS_MODULE), 8);
	locate_tasks(&bed, 0x030b02f0);
	assert_false(bed.python.registry.is_wanted);
	put_registry(&bed);
	locate_tasks(&bed, 0x030b02f0);
	assert_true(bed.python.registry.is_wanted);
	assert_int_equal(bed.python.registry.module, 40 + 2 * 16);
	assert_int_equal(bed.python.registry.tasks, 40);
	assert_int_equal(bed.python.registry.eager, 0);
	/* A module that lacks them: then they are said to be missing. */
	put_entry(&bed, 7, 0, put_string(&bed, 24, "_all_asks"), WEAK_SET);
	locate_tasks(&bed, 0x030b02f0);
	assert_true(bed.python.registry.is_wanted);
	assert_int_equal(bed.python.registry.tasks, 0);
	/* So they are where the modules make no sense, and where there is no time to look for them. */
	put_registry(&bed);
	put(&bed, DICT_KEYS + 9, 63, 1);
	locate_tasks(&bed, 0x030b02f0);
	assert_true(bed.python.registry.is_wanted);
	put(&bed, DICT_KEYS + 9, 3, 1);
	bed.runtime.names_until_ns = 1;
	locate_tasks(&bed, 0x030b02f0);
	assert_true(bed.python.registry.is_wanted);
	assert_int_equal(bed.python.registry.tasks, 0);
	bed_close(&bed);
}

/* What has the tasks is not all there, or is something else: that is said, and nothing is shown. */
static void test_tasks_that_are_not_all_there(void **state)
{
	static const struct {
		uint64_t address, value;
	} changes[] = { { WEAK_SET - 32, 0 },      { VALUES + 3 * 64, NONE },
			{ SET + 8, STRING_TYPE },  { SET + 32, UINT64_MAX },
			{ SET + 32, 1 << 19 },     { SET + 40, NONE },
			{ SLOTS + 16, NONE - 16 }, { DICT_KEYS + 7 * 256 + 40, NONE } };
	struct snap_runtime_result result;
	struct bed bed;

	(void)state;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(changes); i++) {
		bed_open(&bed);
		put_tasks(&bed);
		put(&bed, changes[i].address, changes[i].value, 8);
		result = bed_read(&bed);
		assert_int_equal(result.cut, SNAP_PLAN_CUT_MEMORY);
		assert_true(result.has_tasks);
		bed_close(&bed);
	}
	/* Without the module there are none. */
	bed_open(&bed);
	put_tasks(&bed);
	put_entry(&bed, 0, 2, put_string(&bed, 23, "asyncio.locks"), TASKS_MODULE);
	result = bed_read(&bed);
	assert_int_equal(result.cut, SNAP_PLAN_WHOLE);
	assert_false(result.has_tasks);
	bed_close(&bed);
}

/* ---- names ---- */

/* Its attributes _name and _native_id in an array (3.11), or the same in a dict of its own. */
static void put_named_thread(struct bed *bed, unsigned number, const char *name, bool has_dict)
{
	uint64_t object = OBJECTS + (number + 1) * 128, text = put_string(bed, 20 + number, name);
	uint64_t tid = INTS + number * 64, values = VALUES + number * 64;

	put(bed, tid + 8, INT_TYPE, 8);
	put(bed, tid + 16, 1, 8);
	put(bed, tid + 24, FIRST_TID + number, 4);
	put(bed, object + 8, THREAD_TYPE, 8);
	put(bed, values, text, 8);
	put(bed, values + 8, tid, 8);
	put(bed, object - 32, has_dict ? 0 : values, 8);
	if (!has_dict)
		return;
	put_entry(bed, 4 + number, 0, STRINGS + 16 * 128, text);
	put(bed, object - 24, put_entry(bed, 4 + number, 1, STRINGS + 17 * 128, tid), 8);
}

static void put_names(struct bed *bed)
{
	uint64_t active;

	put_entry(bed, 0, 0, put_string(bed, 18, "sys"), NONE);
	put(bed, INTERPRETER + 888, put_entry(bed, 0, 1, put_string(bed, 14, "threading"), OBJECTS),
	    8);
	put(bed, THREAD_TYPE + 288, -48, 8);
	put(bed, THREAD_TYPE + 872, put_keys(bed, 3, 2), 8);
	put(bed, DICT_KEYS + 3 * 256 + 40, put_string(bed, 16, "_name"), 8);
	put(bed, DICT_KEYS + 3 * 256 + 56, put_string(bed, 17, "_native_id"), 8);
	put_named_thread(bed, 0, "reads orders from the queue", false);
	put_named_thread(bed, 1, "writes them to the disk", true);
	put_named_thread(bed, 2, "Dummy-1", false);
	put_entry(bed, 2, 0, NONE, OBJECTS + 128);
	put_entry(bed, 2, 1, NONE, OBJECTS + 256);
	active = put_entry(bed, 2, 2, NONE, OBJECTS + 384);
	put(bed, OBJECTS + 16, put_entry(bed, 1, 0, put_string(bed, 15, "_active"), active), 8);
}

static void take_name(void *context, uint32_t tid, const char *name)
{
	struct bed *bed = context;
	size_t used = strlen(bed->names);

	bed->name_count++;
	snprintf(bed->names + used, sizeof(bed->names) - used, "%u %s\n", tid, name);
}

static const char *names_of(struct bed *bed, uint32_t version)
{
	bed->python = (struct snap_python){ .process = &bed->runtime,
					    .runtime = RUNTIME,
					    .string_type = STRING_TYPE,
					    .int_type = INT_TYPE,
					    .version = version };
	bed->runtime.take_name = take_name;
	bed->runtime.names_until_ns = INT64_MAX;
	bed->runtime.take_context = bed;
	bed->names[0] = '\0';
	bed->name_count = 0;
	assert_null(snap_python_layout_load(&bed->python));
	snap_python_name_threads(&bed->python);
	return bed->names;
}

static void test_names_are_those_of_threading(void **state)
{
	struct bed bed;

	(void)state;
	bed_open(&bed);
	assert_string_equal(names_of(&bed, 0x030b02f0), "");
	put_names(&bed);
	assert_string_equal(names_of(&bed, 0x030b02f0), "1001 reads orders from the queue\n"
							"1002 writes them to the disk\n");
	/* One that has not begun, and one whose name is no text. */
	put(&bed, INTS + 8, STRING_TYPE, 8);
	put(&bed, STRINGS + 21 * 128 + 8, NONE, 8);
	assert_string_equal(names_of(&bed, 0x030b02f0), "");
	bed_close(&bed);
}

static void test_names_that_go_in_circles(void **state)
{
	static const struct {
		uint64_t address, value;
	} changes[] = { { INTERPRETER, INTERPRETER },
			{ OBJECTS + 16, DICTS + 128 },
			{ OBJECTS + 256 - 24, DICTS + 128 },
			{ THREAD_TYPE + 288, 8 },
			{ DICT_KEYS + 2 * 256 + 24, UINT64_MAX },
			{ DICT_KEYS + 2 * 256 + 24, 1 << 20 },
			{ DICT_KEYS + 2 * 256 + 8, 0x01ff00 } };
	struct bed bed;

	(void)state;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(changes); i++) {
		bed_open(&bed);
		put_names(&bed);
		put(&bed, changes[i].address, changes[i].value, 8);
		names_of(&bed, 0x030b02f0);
		assert_in_range(bed.name_count, 0, 2 * 64);
		bed_close(&bed);
	}
}

/* Whatever the bytes say, it ends, and names nothing that is not there. */
static void test_changed_bytes_do_no_harm(void **state)
{
	uint64_t random = 88172645463325252ull;
	struct bed bed;

	(void)state;
	for (unsigned round = 0; round < 4000; round++) {
		bed_open(&bed);
		put_names(&bed);
		if (round % 2)
			put_tasks(&bed);
		for (unsigned i = 0; i <= round % 8; i++) {
			uint64_t at;

			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			at = BASE + (random >> 16) % (SIZE - 8);
			if (random & 1)
				put(&bed, at, random >> 40, 1);
			else if (random & 2)
				put(&bed, at & ~7ull, BASE + (random >> 30) % SIZE, 8);
			else
				put(&bed, at & ~7ull, random, 8);
		}
		bed_read(&bed);
		locate_tasks(&bed, 0x030b02f0);
		names_of(&bed, 0x030802f0 + (round % 5 << 16));
		bed_close(&bed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines_are_those_that_python_says),
		cmocka_unit_test(test_a_frame_that_has_not_begun_is_on_the_first_line),
		cmocka_unit_test(test_tables_that_lie_have_no_lines),
		cmocka_unit_test(test_strings_of_all_widths_become_utf8),
		cmocka_unit_test(test_bytes_that_are_no_text_stay_bytes),
		cmocka_unit_test(test_threads_have_their_frames),
		cmocka_unit_test(test_stacks_are_whole_and_loops_end),
		cmocka_unit_test(test_what_makes_no_sense_is_not_shown),
		cmocka_unit_test(test_versions_that_nobody_knows_are_refused),
		cmocka_unit_test(test_tasks_have_their_awaits),
		cmocka_unit_test(test_a_task_that_runs_deep),
		cmocka_unit_test(test_tasks_are_located_by_their_names),
		cmocka_unit_test(test_tasks_that_are_not_all_there),
		cmocka_unit_test(test_names_are_those_of_threading),
		cmocka_unit_test(test_names_that_go_in_circles),
		cmocka_unit_test(test_changed_bytes_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
