/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Text on the screen of `stacksnap top`: what it takes of a line, where it is cut, and that nothing
 * that a terminal would obey comes out, whatever goes in. And its keys, where there is nothing to
 * press them on.
 */
#include "../../cli/top/cells.h"
#include "../../cli/top/screen.h"
#include "../../cli/top/view.h"
#include "base/cleanup.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <cmocka.h>

static void check_cut(const char *text, unsigned columns, enum snap_top_keep keep, bool utf8,
		      const char *wanted, unsigned wanted_columns)
{
	char out[SNAP_TOP_CELLS_SIZE];

	assert_int_equal(snap_top_cut(text, columns, keep, utf8, out), wanted_columns);
	assert_string_equal(out, wanted);
}

static void test_what_fits_stays(void **state _unused_)
{
	check_cut("", 0, SNAP_TOP_KEEP_HEAD, true, "", 0);
	check_cut("queue_pop", 9, SNAP_TOP_KEEP_HEAD, true, "queue_pop", 9);
	check_cut("日本", 4, SNAP_TOP_KEEP_TAIL, true, "日本", 4);
	assert_int_equal(snap_top_columns("é日", true), 3);
	assert_int_equal(snap_top_columns("é", false), 8);
}

static void test_what_does_not_is_cut(void **state _unused_)
{
	check_cut("queue_pop", 8, SNAP_TOP_KEEP_HEAD, true, "queue_p…", 8);
	check_cut("queue_pop", 8, SNAP_TOP_KEEP_TAIL, true, "…eue_pop", 8);
	check_cut("queue_pop", 8, SNAP_TOP_KEEP_HEAD, false, "queue...", 8);
	check_cut("queue_pop", 3, SNAP_TOP_KEEP_HEAD, false, "que", 3);
	check_cut("queue_pop", 1, SNAP_TOP_KEEP_HEAD, true, "q", 1);
	check_cut("queue_pop", 0, SNAP_TOP_KEEP_TAIL, true, "", 0);
	/* A wide character is there or not. */
	check_cut("日本語", 4, SNAP_TOP_KEEP_HEAD, true, "日…", 3);
	check_cut("日本語", 4, SNAP_TOP_KEEP_TAIL, true, "…語", 3);
}

static void test_bytes_that_are_no_text_are_escaped(void **state _unused_)
{
	check_cut("\x1b[2J", 40, SNAP_TOP_KEEP_HEAD, true, "\\x1b[2J", 7);
	check_cut("\x1b[2J", 40, SNAP_TOP_KEEP_HEAD, false, "\\x1b[2J", 7);
	check_cut("a\xff\xc3", 40, SNAP_TOP_KEEP_HEAD, true, "a\\xff\\xc3", 9);
	check_cut("\xc2\x9b", 40, SNAP_TOP_KEEP_HEAD, true, "\\xc2\\x9b", 8);
	/* An escape is not cut in the middle. */
	check_cut("ab\x1b", 5, SNAP_TOP_KEEP_HEAD, true, "ab…", 3);
}

/* Marks that stand on one character are few, however many there are. */
static void test_marks_are_bounded(void **state _unused_)
{
	char text[2 * 2000 + 2] = "e", out[SNAP_TOP_CELLS_SIZE];

	for (size_t i = 0; i < 2000; i++)
		memcpy(text + 1 + 2 * i, "\u0301", 2);
	assert_int_equal(snap_top_cut(text, 10, SNAP_TOP_KEEP_HEAD, true, out), 1);
	assert_int_equal(strlen(out), 1 + 4 * 2);
}

/* As a terminal takes it: columns of a text that came out. */
static unsigned columns_on_terminal(const char *text)
{
	wchar_t wide[SNAP_TOP_CELLS_SIZE];
	size_t length = mbstowcs(wide, text, SNAP_TOP_CELLS_SIZE);
	int columns;

	assert_int_not_equal(length, (size_t)-1);
	columns = wcswidth(wide, length);
	assert_true(columns >= 0);
	return (unsigned)columns;
}

static void test_any_bytes_stay_within_their_columns(void **state _unused_)
{
	uint64_t random = 1;
	char text[64], out[SNAP_TOP_CELLS_SIZE];

	for (int round = 0; round < 20000; round++) {
		size_t length = 0;
		unsigned columns = (unsigned)round % 20, used;

		while (length + 1 < sizeof(text)) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			/* Half of them are of the beginnings and ends of long characters. */
			text[length] = (char)(random >> 56 | (random >> 40 & 1 ? 0x80 : 0));
			if (!text[length++])
				break;
		}
		text[length] = '\0';
		used = snap_top_cut(text, columns,
				    round & 1 ? SNAP_TOP_KEEP_HEAD : SNAP_TOP_KEEP_TAIL, true, out);
		assert_in_range(used, 0, columns);
		assert_int_equal(columns_on_terminal(out), used);
	}
}

static void test_keys_without_rows(void **state _unused_)
{
	static const int keys[] = {
		SNAP_TOP_KEY_ENTER,
		SNAP_TOP_KEY_ESCAPE,
		SNAP_TOP_KEY_BACKSPACE,
		SNAP_TOP_KEY_KILL,
		SNAP_TOP_KEY_UP,
		SNAP_TOP_KEY_DOWN,
		SNAP_TOP_KEY_PAGE_UP,
		SNAP_TOP_KEY_HOME,
		SNAP_TOP_KEY_PAGE_DOWN,
		SNAP_TOP_KEY_END,
		SNAP_TOP_KEY_REDRAW,
		SNAP_TOP_KEY_RESIZED,
		SNAP_TOP_KEY_OTHER,
		'\t',
		's',
		'f',
		'(',
		'p',
		'w',
		'm',
		'?',
		0xc3,
		0xa9,
		0,
	};
	struct snap_top_view view = { .page_size = 3 };
	struct snap_top_table table = { .count = 0 };
	uint64_t random = 7;

	for (int i = 0; i < 100000; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		snap_top_view_press(&view, &table,
				    keys[(random >> 33) % (sizeof(keys) / sizeof(keys[0]))]);
		assert_int_equal(view.cursor, 0);
		assert_true(strlen(view.input) < sizeof(view.input));
		assert_true(strlen(view.choice.filter) < sizeof(view.choice.filter));
	}
	assert_int_equal(snap_top_view_press(&view, &table, SNAP_TOP_KEY_INTERRUPT),
			 SNAP_TOP_WISH_QUIT);
	snap_top_view_deinit(&view);
}

static int use_utf8(void **state _unused_)
{
	return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_fits_stays),
		cmocka_unit_test(test_what_does_not_is_cut),
		cmocka_unit_test(test_bytes_that_are_no_text_are_escaped),
		cmocka_unit_test(test_marks_are_bounded),
		cmocka_unit_test(test_any_bytes_stay_within_their_columns),
		cmocka_unit_test(test_keys_without_rows),
	};

	return cmocka_run_group_tests(tests, use_utf8, NULL);
}
