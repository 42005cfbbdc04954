/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams of gzip: render/gzip.h, held against zlib's own reader. */
#include "render/gzip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

/* `count` pieces of `size` bytes that compress badly; the file's bytes are the caller's. */
static char *compress_pieces(size_t count, size_t size, size_t *length_ret)
{
	_cleanup_(snap_gzip_destroyp) struct snap_gzip *gzip = NULL;
	_cleanup_free_ char *piece = malloc(size + 1);
	char *file = NULL;
	FILE *out = open_memstream(&file, length_ret);
	uint32_t noise = 1;

	assert_non_null(out);
	assert_non_null(piece);
	assert_null(snap_gzip_create(out, &gzip));
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < size; k++)
			piece[k] = (char)((noise = noise * 1664525 + 1013904223) >> 24);
		snap_gzip_write(gzip, piece, size);
	}
	assert_null(snap_gzip_finish(gzip));
	assert_int_equal(fclose(out), 0);
	return file;
}

static size_t unpacked_size(char *file, size_t length)
{
	z_stream stream = { .next_in = (Bytef *)file, .avail_in = (uInt)length };
	unsigned char room[4096];
	int result = Z_OK;
	size_t size;

	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	while (result == Z_OK) {
		stream.next_out = room;
		stream.avail_out = sizeof(room);
		result = inflate(&stream, Z_NO_FLUSH);
	}
	/* The trailer's sum of the bytes was checked on the way. */
	assert_int_equal(result, Z_STREAM_END);
	assert_int_equal(stream.avail_in, 0);
	size = stream.total_out;
	inflateEnd(&stream);
	return size;
}

static void test_what_goes_in_comes_out(void **state _unused_)
{
	static const size_t sizes[][2] = {
		{ 0, 1 }, { 1, 0 }, { 1, 1 }, { 3, 400000 }, { 5000, 7 }
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(sizes); i++) {
		size_t length;
		_cleanup_free_ char *file = compress_pieces(sizes[i][0], sizes[i][1], &length);

		assert_int_equal(unpacked_size(file, length), sizes[i][0] * sizes[i][1]);
	}
}

static void test_the_header_tells_no_name_and_no_time(void **state _unused_)
{
	size_t length, again_length;
	_cleanup_free_ char *file = compress_pieces(10, 100, &length);
	_cleanup_free_ char *again = compress_pieces(10, 100, &again_length);

	assert_memory_equal(file, "\x1f\x8b\x08\0\0\0\0\0", 8);
	assert_int_equal(length, again_length);
	assert_memory_equal(file, again, length);
}

static void test_a_stream_that_was_not_finished_is_cut(void **state _unused_)
{
	struct snap_gzip *gzip = NULL;
	char *file = NULL;
	size_t length;
	FILE *out = open_memstream(&file, &length);

	assert_null(snap_gzip_create(out, &gzip));
	snap_gzip_write(gzip, "abc", 3);
	snap_gzip_destroy(gzip);
	snap_gzip_destroy(NULL);
	assert_int_equal(fclose(out), 0);
	assert_true(length < 18);
	free(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_goes_in_comes_out),
		cmocka_unit_test(test_the_header_tells_no_name_and_no_time),
		cmocka_unit_test(test_a_stream_that_was_not_finished_is_cut),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
