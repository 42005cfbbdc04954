/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images of threads, joined to one: what they share, what is one's own, and many pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "capture/join.h"

enum { MOST = 1 << 20 };

static struct snap_shared_memory *shared;

static int set_up(void **state _unused_)
{
	return snap_error_ignore(snap_shared_memory_create(16 << 20, &shared)) ? -1 : 0;
}

static int tear_down(void **state _unused_)
{
	snap_shared_memory_destroy(shared);
	return 0;
}

static void join(struct snap_joined_image *joined, const struct snap_memory_piece *pieces,
		 size_t count, struct snap_memory_own own)
{
	struct snap_memory_image image = {
		.pieces = (struct snap_memory_piece *)(uintptr_t)pieces,
		.piece_count = count,
		.step_count = 1,
		.steps = { { .records = count } },
		.own = { own },
		.own_count = own.size != 0,
	};

	snap_join_image(joined, shared, &image);
}

static void check(const struct snap_joined_image *joined, uint64_t address, const char *text)
{
	char got[64] = "";

	assert_true(snap_memory_image_read(&joined->image, address, got, strlen(text)));
	assert_string_equal(got, text);
}

#define TEXT(address, text)                                        \
	{                                                          \
		address, sizeof(text) - 1, (const uint8_t *)(text) \
	}

static void test_first_counts_and_own_more(void **state _unused_)
{
	struct snap_joined_image joined = { .most = MOST };
	static const struct snap_memory_piece first[] = { TEXT(100, "aaaaaaaa"),
							  TEXT(200, "bbbb") };
	static const struct snap_memory_piece second[] = { TEXT(96, "cccccccccccccccc"),
							   TEXT(150, "dd"), TEXT(202, "eeee") };
	static const struct snap_memory_own none, own = { 104, 8 };

	join(&joined, first, 2, none);
	join(&joined, second, 3, own);
	check(&joined, 96, "ccccaaaacccccccc");
	check(&joined, 150, "dd");
	check(&joined, 200, "bbbbee");
	assert_int_equal(joined.image.bytes, 16 + 2 + 6);
	assert_int_equal(joined.image.steps[0].records, 5);
	for (size_t i = 1; i < joined.image.piece_count; i++)
		assert_true(joined.image.pieces[i - 1].address + joined.image.pieces[i - 1].size <=
			    joined.image.pieces[i].address);
	/* What is another one's own stays. */
	join(&joined, first, 2, none);
	check(&joined, 96, "ccccaaaacccccccc");
}

static void test_many_pieces(void **state _unused_)
{
	enum { PIECES = 1000 };
	static struct snap_memory_piece even[PIECES], odd[PIECES];
	struct snap_joined_image joined = { .most = MOST };
	static const struct snap_memory_own none;
	static uint16_t numbers[2 * PIECES];

	for (uint16_t i = 0; i < 2 * PIECES; i++) {
		numbers[i] = i;
		(i % 2 ? odd : even)[i / 2] =
			(struct snap_memory_piece){ 1000 + 8 * i, sizeof(*numbers),
						    (const uint8_t *)&numbers[i] };
	}
	join(&joined, even, PIECES, none);
	join(&joined, odd, PIECES, none);
	assert_int_equal(joined.image.piece_count, 2 * PIECES);
	for (uint16_t i = 0; i < 2 * PIECES; i++) {
		uint16_t got = 0;

		assert_true(snap_memory_image_read(&joined.image, 1000 + 8 * i, &got, sizeof(got)));
		assert_int_equal(got, i);
	}
}

static void test_too_much(void **state _unused_)
{
	static const struct snap_memory_piece pieces[] = { TEXT(100, "aaaaaaaa"),
							   TEXT(200, "bbbb") };
	static const struct snap_memory_own none;
	struct snap_joined_image joined = { .most = 10 };

	join(&joined, pieces, 2, none);
	check(&joined, 100, "aaaaaaaa");
	assert_int_equal(joined.image.piece_count, 1);
	assert_int_equal(joined.image.steps[0].cut, SNAP_PLAN_CUT_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first_counts_and_own_more, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many_pieces, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_much, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
