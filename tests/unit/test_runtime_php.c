/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The reader of PHP: a process made by hand in memory, also with bytes changed. */
#include "analyze/runtime/php/php.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Memory of a PHP 8.2: App->run() was included by main code, and calls sleep(). */
enum {
	BASE = 0x10000,
	SIZE = 0x3000,
	FRAMES = BASE + 0x100,    /* 128 bytes each */
	FUNCTIONS = BASE + 0x800, /* 256 bytes each */
	OPLINES = BASE + 0x1000,  /* 32 bytes each */
	STRINGS = BASE + 0x1400,  /* 64 bytes each */
	CLASS = BASE + 0x1800,
	GENERATORS = BASE + 0x1900, /* 256 bytes each */
	REQUEST = BASE + 0x2000,
	FILE_NAME = 152,
};

struct bed {
	struct snap_arena arena;
	struct snap_interner strings;
	struct snap_options options;
	struct snap_process process;
	struct snap_runtime_memory memory;
	struct snap_runtime_process runtime;
	struct snap_php php;
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

static uint64_t put_string(struct bed *bed, unsigned number, const char *text, size_t length)
{
	uint64_t address = STRINGS + number * 64;

	put(bed, address + 16, length, 8);
	memcpy(bed->bytes + (address + 24 - BASE), text, length);
	return address;
}

static void put_frame(struct bed *bed, unsigned number, uint64_t function, uint32_t type,
		      uint64_t previous)
{
	uint64_t address = FRAMES + number * 128;

	put(bed, address, OPLINES + number * 32, 8);
	put(bed, address + 24, function, 8);
	put(bed, address + 40, type, 4);
	put(bed, address + 48, previous, 8);
	put(bed, OPLINES + number * 32 + 24, 10 + number, 4);
}

static void put_function(struct bed *bed, unsigned number, unsigned type, uint64_t name,
			 uint64_t class)
{
	uint64_t address = FUNCTIONS + number * 256;

	put(bed, address, type, 1);
	put(bed, address + 8, name, 8);
	put(bed, address + 16, class, 8);
	put(bed, address + FILE_NAME, type == 1 ? 0xdead : STRINGS + 64, 8);
}

static void bed_open(struct bed *bed)
{
	memset(bed, 0, sizeof(*bed));
	snap_arena_init(&bed->arena);
	snap_interner_init(&bed->strings, &bed->arena);
	bed->options.lines = true;
	bed->process = (struct snap_process){ .pid = 7 };
	bed->memory = (struct snap_runtime_memory){ .read = read_bytes, .context = bed };
	bed->runtime = (struct snap_runtime_process){ .process = &bed->process,
						      .memory = &bed->memory,
						      .options = &bed->options,
						      .strings = &bed->strings,
						      .arena = &bed->arena };
	bed->php = (struct snap_php){ .process = &bed->runtime,
				      .file_name = FILE_NAME,
				      .innermost = FRAMES };
	put_string(bed, 1, "/srv/index.php", 14);
	put(bed, CLASS + 8, put_string(bed, 2, "App\0of a file", 13), 8);
	put_function(bed, 0, 1, put_string(bed, 3, "sleep", 5), 0);
	put_function(bed, 1, 2, put_string(bed, 4, "run", 3), CLASS);
	put_function(bed, 2, 2, 0, 0);
	put_frame(bed, 0, FUNCTIONS, 0, FRAMES + 128);
	put_frame(bed, 1, FUNCTIONS + 256, 8 | SNAP_PHP_TOP_CALL, FRAMES + 256);
	put_frame(bed, 2, FUNCTIONS + 512, 0, FRAMES + 384);
	put_frame(bed, 3, FUNCTIONS + 512, SNAP_PHP_TOP_CALL, 0);
	put(bed, OPLINES + 3 * 32 + 20, 8, 4); /* require */
	put(bed, OPLINES + 3 * 32 + 28, 73, 1);
}

static void bed_close(struct bed *bed)
{
	snap_interner_deinit(&bed->strings);
	snap_arena_deinit(&bed->arena);
}

static struct snap_runtime_result bed_read(struct bed *bed)
{
	struct snap_runtime_result result = { .name = "php" };

	assert_null(snap_php_frames(&bed->php, &result));
	return result;
}

static void check_frame(const struct snap_runtime_result *result, size_t frame,
			const char *function, const char *file, uint32_t line)
{
	const struct snap_entry *entry = result->threads[0].stack.frames[frame]->entries;

	assert_string_equal(entry->function, function);
	assert_string_equal(entry->file ? entry->file : "", file);
	assert_int_equal(entry->line, line);
	assert_string_equal(entry->language, "php");
}

static void test_frames_have_names_and_places(void **state)
{
	struct bed bed;
	struct snap_runtime_result result;

	(void)state;
	bed_open(&bed);
	result = bed_read(&bed);
	assert_null(result.refused);
	assert_int_equal(result.thread_count, 1);
	assert_int_equal(result.threads[0].tid, 7);
	assert_int_equal(result.threads[0].stack.count, 4);
	assert_int_equal(result.threads[0].stack.end, SNAP_UNWIND_COMPLETE);
	check_frame(&result, 0, "sleep", "", 0);
	check_frame(&result, 1, "App->run", "/srv/index.php", 11);
	check_frame(&result, 2, "require", "/srv/index.php", 12);
	check_frame(&result, 3, "{main}", "/srv/index.php", 13);
	assert_int_equal(result.threads[0].run_count, 2);
	assert_int_equal(result.threads[0].runs[0].count, 2);
	bed_close(&bed);
}

static void test_generators_that_delegate_stand_behind_the_one_that_runs(void **state)
{
	struct bed bed;
	struct snap_runtime_result result;

	(void)state;
	bed_open(&bed);
	/* in place of the included code: a frame of generator 0, which waits for 1, and 1 for 2 */
	put(&bed, FRAMES + 256 + 24, 0, 8);
	put(&bed, FRAMES + 256 + 32, GENERATORS, 8);
	put(&bed, FRAMES + 256 + 40, 8, 4);
	put_function(&bed, 3, 2, put_string(&bed, 5, "outer", 5), 0);
	put_function(&bed, 4, 2, put_string(&bed, 6, "inner", 5), 0);
	put_frame(&bed, 4, FUNCTIONS + 3 * 256, SNAP_PHP_TOP_CALL, 0);
	put_frame(&bed, 5, FUNCTIONS + 4 * 256, SNAP_PHP_TOP_CALL, 0);
	put(&bed, GENERATORS + 56, FRAMES + 4 * 128, 8);
	put(&bed, GENERATORS + 152, GENERATORS + 256, 8);
	put(&bed, GENERATORS + 256 + 56, FRAMES + 5 * 128, 8);
	put(&bed, GENERATORS + 256 + 152, GENERATORS + 512, 8);
	result = bed_read(&bed);
	assert_int_equal(result.threads[0].stack.count, 5);
	check_frame(&result, 2, "inner", "/srv/index.php", 15);
	check_frame(&result, 3, "outer", "/srv/index.php", 14);
	assert_int_equal(result.threads[0].run_count, 2);
	assert_int_equal(result.threads[0].runs[0].count, 4);

	/* each waits for the other: it ends */
	put(&bed, GENERATORS + 256 + 152, GENERATORS, 8);
	bed_read(&bed);
	bed_close(&bed);
}

/* Up to 7.4 generators have a word more, and so the frame inside them lies further back. */
static void test_generators_of_old_versions(void **state)
{
	uint64_t stand_in = GENERATORS + 200;
	struct bed bed;
	struct snap_runtime_result result;

	(void)state;
	bed_open(&bed);
	bed.php.generator = 8;
	put(&bed, FRAMES + 128 + 48, stand_in, 8);
	put(&bed, stand_in + 24, 0, 8);
	put(&bed, stand_in + 32, GENERATORS, 8);
	put(&bed, stand_in + 40, 8, 4);
	put(&bed, stand_in + 48, FRAMES + 3 * 128, 8);
	put_function(&bed, 3, 2, put_string(&bed, 5, "outer", 5), 0);
	put_frame(&bed, 4, FUNCTIONS + 3 * 256, SNAP_PHP_TOP_CALL, 0);
	put(&bed, GENERATORS + 64, FRAMES + 4 * 128, 8);
	put(&bed, GENERATORS + 160, GENERATORS + 512, 8);
	result = bed_read(&bed);
	check_frame(&result, 2, "outer", "/srv/index.php", 14);
	assert_int_equal(result.threads[0].stack.end, SNAP_UNWIND_COMPLETE);
	/* A version whose generators are not as they should be: nothing is left out in silence. */
	bed.php.generator = 0;
	result = bed_read(&bed);
	assert_int_equal(result.threads[0].stack.end, SNAP_UNWIND_FAILED);
	bed_close(&bed);
}

static void test_what_makes_no_sense_is_not_shown(void **state)
{
	struct bed bed;
	struct snap_runtime_result result;

	(void)state;
	bed_open(&bed);
	put(&bed, FUNCTIONS + 256, 3, 1);
	result = bed_read(&bed);
	assert_true(result.torn);
	assert_int_equal(result.threads[0].stack.count, 1);
	assert_int_equal(result.threads[0].stack.end, SNAP_UNWIND_FAILED);
	put(&bed, FUNCTIONS, 9, 1);
	result = bed_read(&bed);
	assert_non_null(result.refused);
	bed_close(&bed);

	bed_open(&bed);
	put(&bed, FRAMES + 128 + 48, FRAMES, 8); /* a chain that bites its tail */
	bed.options.max_frames = 100;            /* what is shown of them is for others to say */
	result = bed_read(&bed);
	assert_int_equal(result.threads[0].stack.count, SNAP_PHP_MOST_FRAMES);
	assert_int_equal(result.threads[0].stack.end, SNAP_UNWIND_LIMIT);
	bed_close(&bed);
}

static void test_texts_end_where_they_end(void **state)
{
	struct bed bed;
	const char *text;

	(void)state;
	bed_open(&bed);
	memcpy(bed.bytes + SIZE - 10, "GET\0 POST", 9);
	assert_true(snap_php_text(&bed.php, BASE + SIZE - 10, &text));
	assert_string_equal(text, "GET");
	memset(bed.bytes + SIZE - 10, 'x', 10);
	assert_true(snap_php_text(&bed.php, BASE + SIZE - 10, &text));
	assert_string_equal(text, "xxxxxxxxxx..."); /* its end was not copied */
	memset(bed.bytes, 'y', SIZE);
	assert_true(snap_php_text(&bed.php, BASE, &text));
	assert_int_equal(strlen(text), SNAP_PHP_MOST_TEXT + 3);
	assert_string_equal(text + SNAP_PHP_MOST_TEXT - 1, "y...");
	assert_true(snap_php_text(&bed.php, 0, &text));
	assert_null(text);
	bed_close(&bed);
}

static void test_changed_bytes_do_no_harm(void **state)
{
	uint64_t random = 88172645463325252ull;
	struct bed bed;

	(void)state;
	for (unsigned round = 0; round < 4000; round++) {
		bed_open(&bed);
		bed.options.max_frames = round % 3 ? 512 : 0;
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
		bed_close(&bed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_have_names_and_places),
		cmocka_unit_test(test_generators_that_delegate_stand_behind_the_one_that_runs),
		cmocka_unit_test(test_generators_of_old_versions),
		cmocka_unit_test(test_what_makes_no_sense_is_not_shown),
		cmocka_unit_test(test_texts_end_where_they_end),
		cmocka_unit_test(test_changed_bytes_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
