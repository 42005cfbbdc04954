/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The base: arena, interner, errors and the escape function, without any process. */
#include "base/arena.h"
#include "base/error.h"
#include "base/escape.h"
#include "base/text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_arena_zeroes_and_keeps(void **state _unused_)
{
	struct snap_arena arena;
	unsigned char *blocks[300];

	snap_arena_init(&arena);
	for (size_t i = 0; i < 300; i++) {
		size_t size = i * 97 % 5000 + 1;

		blocks[i] = snap_arena_alloc(&arena, size);
		assert_non_null(blocks[i]);
		assert_int_equal((uintptr_t)blocks[i] % 16, 0);
		for (size_t k = 0; k < size; k++)
			assert_int_equal(blocks[i][k], 0);
		memset(blocks[i], (int)(i & 255), size);
	}
	for (size_t i = 0; i < 300; i++)
		assert_int_equal(blocks[i][i * 97 % 5000], i & 255);
	assert_null(snap_arena_alloc(&arena, SIZE_MAX - 4));
	assert_null(snap_arena_array(&arena, SIZE_MAX / 2, 3));
	snap_arena_deinit(&arena);
}

static void test_interner_gives_one_pointer(void **state _unused_)
{
	struct snap_interner interner;
	struct snap_arena arena;
	const char *first[2000];
	char text[32];

	snap_arena_init(&arena);
	snap_interner_init(&interner, &arena);
	for (int i = 0; i < 2000; i++) {
		int n = snprintf(text, sizeof(text), "name-%d", i);

		first[i] = snap_intern(&interner, text, (size_t)n);
		assert_string_equal(first[i], text);
	}
	for (int i = 0; i < 2000; i++) {
		int n = snprintf(text, sizeof(text), "name-%d", i);

		assert_ptr_equal(snap_intern(&interner, text, (size_t)n), first[i]);
	}
	assert_int_equal(interner.count, 2000);
	snap_interner_deinit(&interner);
	snap_arena_deinit(&arena);
}

static void test_error_wraps(void **state _unused_)
{
	struct stacksnap_error *err = snap_error_os(ENOENT, "open %s", "x");

	err = snap_error_wrap(err, "while reading %d", 7);
	assert_string_equal(snap_error_message(err),
			    "while reading 7: open x: No such file or directory");
	assert_int_equal(snap_error_errno(err), ENOENT);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_OS);
	snap_error_destroy(err);
	assert_null(snap_error_wrap(NULL, "nothing"));
}

static void check_escape(const char *bytes, size_t length, unsigned flags, const char *wanted)
{
	char out[256], back[256];

	assert_int_equal(snap_escape(bytes, length, flags, out, sizeof(out)), strlen(wanted));
	assert_string_equal(out, wanted);
	assert_int_equal(snap_unescape(out, strlen(out), back), length);
	assert_memory_equal(back, bytes, length);
	assert_int_equal(snap_escape_is_clean(bytes, length, flags),
			 strlen(wanted) == length && memcmp(wanted, bytes, length) == 0);
}

static void test_escape_table(void **state _unused_)
{
	check_escape("plain", 5, 0, "plain");
	check_escape("a\033[31m", 6, 0, "a\\x1b[31m");
	check_escape("nul\0x", 5, 0, "nul\\x00x");
	check_escape("back\\x41", 8, 0, "back\\\\x41");
	check_escape("\x7f", 1, 0, "\\x7f");
	check_escape("\xc2\x9b", 2, 0, "\\xc2\\x9b");
	check_escape("\xc3\xa9", 2, 0, "\xc3\xa9");
	check_escape("\xc3\xa9", 2, SNAP_ESCAPE_ASCII, "\\xc3\\xa9");
	check_escape("\xe2\x80\xae", 3, 0, "\\xe2\\x80\\xae");
	check_escape("\xe2\x81\xa6", 3, 0, "\\xe2\\x81\\xa6");
	check_escape("\xd8\x9c", 2, 0, "\\xd8\\x9c");
	check_escape("\xef\xbb\xbf", 3, 0, "\\xef\\xbb\\xbf");
	check_escape("\xef\xbf\xbe", 3, 0, "\\xef\\xbf\\xbe");
	check_escape("\xef\xb7\x90", 3, 0, "\\xef\\xb7\\x90");
	check_escape("\xf0\x9f\xbf\xbf", 4, 0, "\\xf0\\x9f\\xbf\\xbf");
	check_escape("\xff\xfe", 2, 0, "\\xff\\xfe");
	check_escape("\xc0\xaf", 2, 0, "\\xc0\\xaf");
	check_escape("\xed\xa0\x80", 3, 0, "\\xed\\xa0\\x80");
	check_escape("\xf4\x90\x80\x80", 4, 0, "\\xf4\\x90\\x80\\x80");
	check_escape("\xe2\x82", 2, 0, "\\xe2\\x82");
	check_escape("a;b", 3, 0, "a;b");
	check_escape("a;b", 3, SNAP_ESCAPE_SEMICOLON, "a\\x3bb");
}

/* Each byte at each place of a text: whether it is clean is looked at eight at a time. */
static void test_escape_finds_each_byte(void **state _unused_)
{
	for (size_t length = 1; length <= 17; length++) {
		for (size_t at = 0; at < length; at++) {
			for (unsigned value = 0; value < 512; value++) {
				unsigned flags = value & 256 ? SNAP_ESCAPE_SEMICOLON : 0;
				char bytes[17], out[80];
				size_t made;

				memset(bytes, '~', length);
				bytes[at] = (char)value;
				made = snap_escape(bytes, length, flags, out, sizeof(out));
				assert_int_equal(snap_escape_is_clean(bytes, length, flags),
						 made == length && memcmp(out, bytes, made) == 0);
			}
		}
	}
}

static void test_escape_random_bytes_come_back(void **state _unused_)
{
	uint32_t seed = 12345;

	for (int round = 0; round < 5000; round++) {
		char bytes[40], out[161], again[161], back[161];
		size_t length = round % 40;

		for (size_t i = 0; i < length; i++) {
			seed = seed * 1664525 + 1013904223;
			bytes[i] = (char)(seed >> 24);
		}
		assert_in_range(snap_escape(bytes, length, 0, out, sizeof(out)), length, 160);
		assert_int_equal(snap_unescape(out, strlen(out), back), length);
		assert_memory_equal(back, bytes, length);
		/* nothing but the backslashes changes in what is escaped already */
		snap_escape(out, strlen(out), 0, again, sizeof(again));
		for (char *p = out; *p; p++)
			assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
	}
}

static void test_escape_cuts_at_a_boundary(void **state _unused_)
{
	char out[8];

	assert_int_equal(snap_escape("ab\033\033", 4, 0, out, sizeof(out)), 6);
	assert_string_equal(out, "ab\\x1b");
	assert_int_equal(snap_escape("\xc3\xa9\xc3\xa9", 4, 0, out, 4), 2);
	assert_int_equal(snap_escape("x", 1, 0, out, 0), 0);
}

/* UTF-8 as RFC 3629 has it, and as it must not be. */
static size_t encode(uint32_t code, char *out)
{
	static const unsigned char marks[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

	for (size_t i = length; i-- > 1; code >>= 6)
		out[i] = (char)(0x80 | (code & 0x3f));
	out[0] = (char)(marks[length] | code);
	return length;
}

static bool is_forbidden(uint32_t code)
{
	static const uint32_t ranges[][2] = {
		{ 0, 0x1f },        { '\\', '\\' },     { 0x7f, 0x9f },     { 0x61c, 0x61c },
		{ 0x200e, 0x200f }, { 0x2028, 0x202e }, { 0x2066, 0x2069 }, { 0xd800, 0xdfff },
		{ 0xfdd0, 0xfdef }, { 0xfeff, 0xfeff }, { 0xfffe, 0xffff }, { 0x110000, 0x1fffff },
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (code >= ranges[i][0] && code <= ranges[i][1])
			return true;
	return (code & 0xffff) >= 0xfffe;
}

/* Each character there is, and what is none: surrogates, beyond the last one. */
static void test_escape_every_character(void **state _unused_)
{
	for (uint32_t code = 0; code<0x200000; code += code> 0x120000 ? 977 : 1) {
		char bytes[8], out[40], back[40];
		size_t length = encode(code, bytes), made;

		made = snap_escape(bytes, length, 0, out, sizeof(out));
		assert_int_equal(made == length, !is_forbidden(code));
		if (made != length)
			assert_int_equal(made, code == '\\' ? 2 : 4 * length);
		assert_int_equal(snap_unescape(out, made, back), length);
		assert_memory_equal(back, bytes, length);
		made = snap_escape(bytes, length, SNAP_ESCAPE_ASCII, out, sizeof(out));
		for (size_t i = 0; i < made; i++)
			assert_in_range(out[i], 0x20, 0x7e);
		assert_int_equal(snap_unescape(out, made, back), length);
		assert_memory_equal(back, bytes, length);
	}
}

/* A result that does not fit ends between two units: it is the escape of a part of the text. */
static void test_escape_of_any_room(void **state _unused_)
{
	static const char text[] = "a\\\x1b\033\xe2\x80\xae\xf0\x9f\x98\x80\xff;\xc3\xa9\\";
	char whole[128], out[128], back[128];
	size_t length = snap_escape(text, sizeof(text) - 1, 0, whole, sizeof(whole));

	for (size_t size = 1; size < sizeof(whole); size++) {
		size_t made = snap_escape(text, sizeof(text) - 1, 0, out, size), at = 0, step;

		assert_in_range(made, 0, size - 1);
		assert_int_equal(out[made], '\0');
		assert_memory_equal(out, whole, made);
		assert_int_equal(made == length, size > length);
		assert_memory_equal(back, text, snap_unescape(out, made, back));
		while ((step = snap_escape_unit(whole + at, length - at)) && at + step <= made)
			at += step;
		assert_int_equal(at, made);
	}
}

static void test_text_cut(void **state _unused_)
{
	static const char text[] = "ab\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
	static const size_t wanted[] = { 0, 1, 2, 2, 4, 4, 4, 7, 7, 7, 7, 11, 12, 12 };

	for (size_t max = 0; max < sizeof(wanted) / sizeof(wanted[0]); max++)
		assert_int_equal(snap_text_cut(text, sizeof(text) - 1, max), wanted[max]);
	/* Bytes that are no character are cut anywhere. */
	for (size_t max = 0; max < 6; max++)
		assert_int_equal(snap_text_cut("\x80\x80\x80\x80\x80\x80\x80", 7, max), max);
	assert_int_equal(snap_text_cut("\xe2\x82", 2, 1), 1);
}

static void test_texts_are_compared_and_paths_cut(void **state _unused_)
{
	char a[] = "text";

	assert_true(snap_same_text(a, "text"));
	assert_true(snap_same_text(NULL, NULL));
	assert_false(snap_same_text(a, NULL));
	assert_false(snap_same_text(NULL, ""));
	assert_false(snap_same_text(a, "texts"));
	assert_string_equal(snap_base_name("/usr/lib/libc.so.6"), "libc.so.6");
	assert_string_equal(snap_base_name("[vdso]"), "[vdso]");
	assert_string_equal(snap_base_name("dir/"), "dir/");
	assert_string_equal(snap_base_name("/"), "/");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arena_zeroes_and_keeps),
		cmocka_unit_test(test_interner_gives_one_pointer),
		cmocka_unit_test(test_error_wraps),
		cmocka_unit_test(test_escape_table),
		cmocka_unit_test(test_escape_finds_each_byte),
		cmocka_unit_test(test_escape_random_bytes_come_back),
		cmocka_unit_test(test_escape_cuts_at_a_boundary),
		cmocka_unit_test(test_escape_every_character),
		cmocka_unit_test(test_escape_of_any_room),
		cmocka_unit_test(test_text_cut),
		cmocka_unit_test(test_texts_are_compared_and_paths_cut),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
