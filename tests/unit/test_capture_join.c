/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images of threads: what they share, what differs, many pieces, and too many. */
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

static const struct snap_memory_image *join(struct snap_joined_image *joined,
					    const struct snap_memory_piece *pieces, size_t count)
{
	struct snap_memory_image image = {
		.pieces = (struct snap_memory_piece *)(uintptr_t)pieces,
		.piece_count = count,
		.step_count = 1,
		.steps = { { .records = count } },
	};

	return snap_join_image(joined, shared, &image);
}

static void check(const struct snap_memory_image *image, uint64_t address, const char *text)
{
	char got[64] = "";

	assert_true(snap_memory_image_read(image, address, got, strlen(text)));
	assert_string_equal(got, text);
}

#define TEXT(address, text)                                        \
	{                                                          \
		address, sizeof(text) - 1, (const uint8_t *)(text) \
	}

static void check_sorted(const struct snap_memory_image *image)
{
	for (size_t i = 1; i < image->piece_count; i++)
		assert_true(image->pieces[i - 1].address + image->pieces[i - 1].size <=
			    image->pieces[i].address);
}

/* Whatever was used again in between, each thread has what was copied with it, and no more. */
static void test_each_has_its_own(void **state _unused_)
{
	struct snap_joined_image joined = { .most = MOST };
	static const struct snap_memory_piece first[] = { TEXT(100, "aaaaaaaa"),
							  TEXT(200, "bbbb") };
	static const struct snap_memory_piece second[] = { TEXT(96, "cccccccccccccccc"),
							   TEXT(150, "dd"), TEXT(202, "bbee") };
	const struct snap_memory_image *one, *two;
	uint8_t byte;

	one = join(&joined, first, 2);
	two = join(&joined, second, 3);
	assert_non_null(one);
	assert_non_null(two);
	check(one, 100, "aaaaaaaa");
	check(one, 200, "bbbb");
	check(two, 96, "cccccccccccccccc");
	check(two, 150, "dd");
	check(two, 202, "bbee");
	assert_false(snap_memory_image_read(one, 150, &byte, 1));
	assert_false(snap_memory_image_read(one, 204, &byte, 1));
	assert_false(snap_memory_image_read(two, 201, &byte, 1));
	assert_int_equal(one->bytes, 12);
	assert_int_equal(two->bytes, 22);
	/* What they share is there once: of an address what came first. */
	check(&joined.image, 96, "ccccaaaaaaaacccc");
	check(&joined.image, 200, "bbbbee");
	assert_ptr_equal(snap_memory_image_bytes(one, 202, 2),
			 snap_memory_image_bytes(two, 202, 2));
	assert_ptr_equal(snap_memory_image_bytes(two, 150, 2),
			 snap_memory_image_bytes(&joined.image, 150, 2));
	assert_int_equal(joined.image.bytes, 16 + 2 + 6);
	assert_int_equal(joined.image.steps[0].records, 5);
	check_sorted(one);
	check_sorted(two);
	check_sorted(&joined.image);
}

static void test_many_pieces(void **state _unused_)
{
	enum { PIECES = 1000 };
	static struct snap_memory_piece even[PIECES], odd[PIECES];
	struct snap_joined_image joined = { .most = MOST };
	static uint16_t numbers[2 * PIECES];

	for (uint16_t i = 0; i < 2 * PIECES; i++) {
		numbers[i] = i;
		(i % 2 ? odd : even)[i / 2] =
			(struct snap_memory_piece){ 1000 + 8 * i, sizeof(*numbers),
						    (const uint8_t *)&numbers[i] };
	}
	join(&joined, even, PIECES);
	join(&joined, odd, PIECES);
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
	static const struct snap_memory_piece other[] = { TEXT(100, "aaaaaaab") };
	struct snap_joined_image joined = { .most = 10 + sizeof(struct snap_memory_piece) };
	const struct snap_memory_image *image;

	joined.apart = sizeof(struct snap_memory_piece);
	image = join(&joined, pieces, 2);
	assert_null(image);
	check(&joined.image, 100, "aaaaaaaa");
	assert_int_equal(joined.image.piece_count, 1);
	assert_int_equal(joined.image.steps[0].cut, SNAP_PLAN_CUT_MEMORY);
	/* There is room for what is the same, but not for what differs. */
	joined.apart = 0;
	image = join(&joined, pieces, 1);
	assert_non_null(image);
	check(image, 100, "aaaaaaaa");
	assert_int_equal(image->steps[0].cut, SNAP_PLAN_WHOLE);
	joined.apart = 0;
	image = join(&joined, other, 1);
	assert_non_null(image);
	assert_int_equal(image->piece_count, 0);
	assert_int_equal(image->steps[0].cut, SNAP_PLAN_CUT_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_has_its_own, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many_pieces, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_much, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
