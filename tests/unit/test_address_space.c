/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is kept of an address space that is as large as its process likes: texts of maps are made up
 * here, memory is never read.
 */
#include "proc/address_space.h"

#include "base/shared_memory.h"
#include "model/capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { BUFFER = 1 << 16, LONG_PATH = 100000 };

static const size_t MEMORY = (size_t)1 << 28;

struct bed {
	struct snap_region records;
	struct snap_region all; /* records as they were at first */
	struct snap_map *maps;
	char buffer[BUFFER];
	uint64_t taken;
	size_t ranges; /* that were to be read */
};

/* Zeros, as many as are asked for. */
static size_t read_zeros(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	struct bed *bed = context;
	size_t total = 0;

	for (size_t i = 0; i < count; i++)
		total += ranges[i].iov_len;
	memset(bytes, 0, total);
	bed->ranges += count;
	return total;
}

static int setup(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	assert_non_null(bed);
	assert_null(snap_scratch_create(MEMORY, &bed->records));
	bed->all = bed->records;
	bed->maps = snap_region_new_array(&bed->records, SNAP_MAX_MAPS, struct snap_map);
	*state = bed;
	return 0;
}

static int teardown(void **state)
{
	struct bed *bed = *state;

	munmap(bed->all.next, MEMORY);
	free(bed);
	return 0;
}

static struct snap_space_reader reader_of(struct bed *bed)
{
	return (struct snap_space_reader){ .records = &bed->records,
					   .maps = bed->maps,
					   .buffer = bed->buffer,
					   .buffer_size = BUFFER,
					   .read = read_zeros,
					   .context = bed,
					   .taken = &bed->taken };
}

/* `count` mappings of a page; path(i) writes the i-th one's. */
static FILE *make_maps(size_t count, void (*path)(FILE *file, size_t i))
{
	FILE *file = tmpfile();

	assert_non_null(file);
	for (size_t i = 0; i < count; i++) {
		fprintf(file, "%zx-%zx r-xp 00000000 08:01 %zu ", 0x10000 + i * 4096,
			0x11000 + i * 4096, i + 1);
		path(file, i);
		putc('\n', file);
	}
	assert_int_equal(fflush(file), 0);
	rewind(file);
	return file;
}

static struct snap_space read_maps(struct bed *bed, size_t count,
				   void (*path)(FILE *file, size_t i))
{
	_cleanup_fclose_ FILE *file = make_maps(count, path);
	struct snap_space_reader reader = reader_of(bed);
	struct snap_space space = { .maps = NULL };

	assert_int_equal(snap_space_read_maps(&reader, fileno(file), &space), 0);
	return space;
}

static void short_path(FILE *file, size_t i)
{
	fprintf(file, "/usr/lib/lib%zu.so", i);
}

static void two_paths(FILE *file, size_t i)
{
	fprintf(file, "/%04000zu", i % 2);
}

static void no_path(FILE *file, size_t i)
{
	fputs(i == 3 ? "[vdso]" : "", file);
}

static void different_paths(FILE *file, size_t i)
{
	fprintf(file, "/%04000zu", i);
}

static void long_paths(FILE *file, size_t i)
{
	fprintf(file, "/%zu/%0*d", i, LONG_PATH, 0);
}

static void test_an_ordinary_process_is_whole(void **state)
{
	struct bed *bed = *state;
	struct snap_space_reader reader = reader_of(bed);
	struct snap_space space = read_maps(bed, 500, short_path);

	assert_false(space.cut);
	assert_int_equal(space.map_count, 500);
	assert_string_equal(space.maps[499].path, "/usr/lib/lib499.so");
	snap_space_read_pieces(&reader, &space);
	assert_int_equal(space.piece_count, 500);
	assert_int_equal(bed->taken, 500 * (4096 + sizeof(struct snap_map)) +
					     500 * sizeof("/usr/lib/lib.so") + 10 + 2 * 90 +
					     3 * 400);
}

/* The kernel's default limit of mappings, without paths. */
static void test_the_most_mappings_are_whole(void **state)
{
	struct snap_space space = read_maps(*state, 65530, no_path);

	assert_false(space.cut);
	assert_int_equal(space.map_count, 65530);
	assert_string_equal(space.maps[3].path, "[vdso]");
}

static void test_a_path_that_comes_again_is_kept_once(void **state)
{
	struct bed *bed = *state;
	struct snap_space space = read_maps(bed, 2000, two_paths);

	assert_false(space.cut);
	assert_int_equal(space.map_count, 2000);
	assert_ptr_equal(space.maps[0].path, space.maps[1998].path);
	assert_ptr_equal(space.maps[1].path, space.maps[1999].path);
	assert_int_equal(bed->taken, 2000 * sizeof(struct snap_map) + 2 * 4002);
}

static void test_paths_have_a_share(void **state)
{
	struct bed *bed = *state;
	struct snap_space space = read_maps(bed, 6000, different_paths);

	assert_true(space.cut);
	assert_in_range(space.map_count, 4000, 4200);
	assert_in_range(bed->taken, SNAP_SPACE_BYTES - 5000, SNAP_SPACE_BYTES);
}

static void test_text_has_a_bound(void **state)
{
	struct bed *bed = *state;
	struct snap_space space = read_maps(bed, 400, long_paths);

	assert_true(space.cut);
	assert_in_range(space.map_count, SNAP_SPACE_TEXT / LONG_PATH - 2,
			SNAP_SPACE_TEXT / LONG_PATH + 1);
	for (size_t i = 0; i < space.map_count; i++) {
		assert_int_equal(space.maps[i].start, 0x10000 + i * 4096);
		assert_int_equal(strlen(space.maps[i].path), SNAP_MAX_PATH);
	}
}

/* Many that take all they get leave enough for one that needs little. */
static void test_who_comes_late_gets_some(void **state)
{
	struct bed *bed = *state;
	struct snap_space space;

	for (unsigned i = 0; i < 20; i++)
		assert_true(read_maps(bed, 6000, different_paths).cut);
	assert_in_range(bed->taken, SNAP_SPACES_BYTES / 10 * 9,
			SNAP_SPACES_BYTES + 20 * SNAP_SPACE_LEAST);
	space = read_maps(bed, 500, short_path);
	assert_false(space.cut);
	assert_int_equal(space.map_count, 500);
}

/* Heads of files are left out where there is no room, the vDSO is not. */
static void vdso_behind_all(FILE *file, size_t i)
{
	if (i == 5999)
		fputs("[vdso]", file);
	else
		fprintf(file, "/lib/%zu", i);
}

static void test_pieces_have_a_share(void **state)
{
	struct bed *bed = *state;
	struct snap_space_reader reader = reader_of(bed);
	struct snap_space space = read_maps(bed, 6000, vdso_behind_all);

	assert_false(space.cut);
	snap_space_read_pieces(&reader, &space);
	assert_in_range(space.piece_count, 3500, 4096);
	assert_int_equal(bed->ranges, space.piece_count);
	assert_int_equal(space.pieces[space.piece_count - 1].address, space.maps[5999].start);
	assert_in_range(bed->taken, SNAP_SPACE_BYTES - 5000, SNAP_SPACE_BYTES);
}

/* Forked processes take no more than one. */
static void test_equal_spaces_are_kept_once(void **state)
{
	struct bed *bed = *state;
	struct snap_space_reader reader = reader_of(bed);
	struct snap_space first = { .maps = NULL }, space = { .maps = NULL };
	uint64_t taken = 0;

	reader.pool = snap_region_alloc(&bed->records, sizeof(*reader.pool));
	for (unsigned i = 0; i < 1000; i++) {
		_cleanup_fclose_ FILE *file = make_maps(100, short_path);

		assert_int_equal(snap_space_read_maps(&reader, fileno(file), &space), 0);
		snap_space_read_pieces(&reader, &space);
		assert_int_equal(space.map_count, 100);
		assert_int_equal(space.piece_count, 100);
		if (i == 0) {
			first = space;
			taken = bed->taken;
		}
		assert_ptr_equal(space.maps, first.maps);
		assert_ptr_equal(space.pieces[99].data, first.pieces[0].data);
		assert_int_equal(bed->taken, taken);
	}
	/* A page of zeros is one, whose ever it is. */
	assert_true(taken < 3 * 4096 + 100 * (sizeof(struct snap_map) + 20));
	/* The same for what was read elsewhere. */
	reader.maps = snap_region_new_array(&bed->records, SNAP_MAX_MAPS, struct snap_map);
	assert_int_equal(snap_space_keep(&reader, &first, &space), 0);
	assert_ptr_equal(space.maps, first.maps);
	assert_int_equal(space.piece_count, 100);
	assert_int_equal(bed->taken, taken);
}

static unsigned process_at_hand;

static void own_paths(FILE *file, size_t i)
{
	fprintf(file, "/%u/%0200zu", process_at_hand, i);
}

/* Thousands that have nothing in common: each has some, and all together have no more than that. */
static void test_all_together_have_a_bound(void **state)
{
	enum { PROCESSES = 6000 };
	struct bed *bed = *state;
	struct snap_space_reader reader = reader_of(bed);
	unsigned cut = 0;

	reader.pool = snap_region_alloc(&bed->records, sizeof(*reader.pool));
	for (process_at_hand = 0; process_at_hand < PROCESSES; process_at_hand++) {
		struct snap_space space = { .maps = NULL };
		_cleanup_fclose_ FILE *file = make_maps(200, own_paths);

		assert_int_equal(snap_space_read_maps(&reader, fileno(file), &space), 0);
		assert_true(space.map_count > 5);
		snap_space_read_pieces(&reader, &space);
		cut += space.cut;
	}
	assert_true(cut > PROCESSES / 2);
	assert_in_range(bed->taken, SNAP_SPACES_BYTES,
			SNAP_SPACES_MOST + SNAP_SPACE_BYTES + PROCESSES * SNAP_SPACE_FEW);
}

static void test_a_copy_keeps_paths_once(void **state)
{
	struct snap_space space = read_maps(*state, 2000, two_paths), copy;
	struct snap_arena arena;

	snap_arena_init(&arena);
	assert_null(snap_space_copy(&arena, &space, &copy));
	assert_ptr_not_equal(copy.maps[0].path, space.maps[0].path);
	assert_ptr_equal(copy.maps[0].path, copy.maps[1998].path);
	assert_string_equal(copy.maps[1999].path, space.maps[1].path);
	assert_true(arena.total < (size_t)1 << 20);
	snap_arena_deinit(&arena);
}

#define on_a_bed(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_a_bed(test_an_ordinary_process_is_whole),
		on_a_bed(test_the_most_mappings_are_whole),
		on_a_bed(test_a_path_that_comes_again_is_kept_once),
		on_a_bed(test_paths_have_a_share),
		on_a_bed(test_text_has_a_bound),
		on_a_bed(test_who_comes_late_gets_some),
		on_a_bed(test_pieces_have_a_share),
		on_a_bed(test_equal_spaces_are_kept_once),
		on_a_bed(test_all_together_have_a_bound),
		on_a_bed(test_a_copy_keeps_paths_once),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
