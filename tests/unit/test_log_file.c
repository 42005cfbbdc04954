/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Logs on disk: what is written is read back, at once or as it grows; a disk that is full; and how
 * large an hour is.
 */
#include "base/table.h"
#include "log_story.h"
#include "same_log.h"
#include "skip.h"

#include <errno.h>

/* ---- round trips ---- */

static void test_written_at_once(void **state _unused_)
{
	_cleanup_fd_ int fd = memory_file();
	struct snap_log *log = make_log(), *back;

	log->explains = true;
	begin_story(log);
	tell_rest(log);
	fine(snap_log_write(log, fd));
	lseek(fd, 0, SEEK_SET);
	fine(snap_log_read(fd, &back));
	same_logs(log, back);
	assert_true(back->capture->live == NULL);
	snap_log_destroy(log);
	snap_log_destroy(back);
}

/* What has been read can be written again, byte for byte the same. */
static void test_written_again(void **state _unused_)
{
	_cleanup_fd_ int fd = memory_file(), again_fd = memory_file();
	struct snap_log *log = make_log(), *back;
	_cleanup_free_ uint8_t *bytes = NULL, *again = NULL;
	size_t size, again_size;

	begin_story(log);
	tell_rest(log);
	fine(snap_log_write(log, fd));
	bytes = slurp(fd, &size);
	lseek(fd, 0, SEEK_SET);
	fine(snap_log_read(fd, &back));
	fine(snap_log_write(back, again_fd));
	again = slurp(again_fd, &again_size);
	assert_int_equal(size, again_size);
	assert_memory_equal(bytes, again, size);
	snap_log_destroy(log);
	snap_log_destroy(back);
}

static void test_written_as_it_grows(void **state _unused_)
{
	_cleanup_fd_ int fd = memory_file();
	_cleanup_free_ uint8_t *bytes = NULL;
	struct snap_log *log = make_log(), *back;
	struct snap_log_writer *writer;
	struct stacksnap_error *err;
	struct snap_memory_piece piece = { 0x5000, 4, (uint8_t *)"\1\2\3" };
	const struct snap_memory_image words = { .pieces = &piece, .piece_count = 1 };
	const struct snap_socket socket = { .namespace = 3, .inode = 77, .receive_queue = 9 };
	size_t size;

	fine(snap_log_writer_create(log, fd, &writer));
	fine(snap_log_writer_flush(writer, log));
	begin_story(log);
	fine(snap_log_writer_flush(writer, log));
	/* Somebody reads meanwhile. */
	bytes = slurp(fd, &size);
	back = read_bytes(bytes, size, &err);
	assert_null(err);
	assert_int_equal(back->tick_count, 2);
	assert_int_equal(back->end, SNAP_END_UNFINISHED);
	assert_int_equal(back->stats.hz_asked, 99);
	same_ticks(log, back);
	snap_log_destroy(back);
	go_on(log);
	run_managed(log);
	/* A tick that is not over is not written. */
	fine(snap_log_begin_tick(log, 50000000));
	change_to(log, 0, 0, SNAP_STATE_RUNNING, -1);
	fine(snap_log_writer_flush(writer, log));
	change_to(log, 2, SNAP_LOG_GONE, SNAP_STATE_RUNNING, -1);
	snap_log_end_tick(log, 3);
	run_waits(log);
	/* Nor are its holds. */
	fine(snap_log_begin_tick(log, 125000000));
	fine(snap_log_set_owner(log, 0, NULL));
	stand(log, 2, snap_log_standing(log, 2)->stack, 0);
	fine(snap_log_writer_flush(writer, log));
	fine(snap_log_set_owner(log, 0, &words));
	stand(log, 2, snap_log_standing(log, 2)->stack, 1);
	snap_log_end_tick(log, 0);
	fine(snap_log_writer_flush(writer, log));
	/* A socket is another by now. */
	fine(snap_log_begin_tick(log, 135000000));
	fine(snap_log_add_socket(log, &socket));
	snap_log_end_tick(log, 0);
	name_frames(log, "go");
	explain(log);
	fine(snap_log_writer_finish(writer, log));
	snap_log_writer_destroy(writer);
	lseek(fd, 0, SEEK_SET);
	fine(snap_log_read(fd, &back));
	same_logs(log, back);
	snap_log_destroy(log);
	snap_log_destroy(back);
}

/* Who reads the mappings again and again makes no large file. */
static void test_the_same_mappings_again(void **state _unused_)
{
	_cleanup_fd_ int fd = memory_file();
	struct snap_log *log = make_log();
	struct snap_map now[2] = { maps[0], maps[1] };
	struct snap_process again = facts;
	struct snap_log_writer *writer;
	uint32_t space;
	off_t size, end;

	again.maps = now;
	fine(snap_log_writer_create(log, fd, &writer));
	begin_story(log);
	fine(snap_log_writer_flush(writer, log));
	size = lseek(fd, 0, SEEK_CUR);
	fine(snap_log_writer_flush(writer, log));
	size = lseek(fd, 0, SEEK_CUR) - size;
	end = lseek(fd, 0, SEEK_CUR);
	/* The heap has grown. */
	now[1].end += 0x1000;
	fine(snap_log_map_process(log, 0, &again, NULL, &space));
	assert_int_equal(log->capture->processes[space].maps[1].end, now[1].end);
	fine(snap_log_writer_flush(writer, log));
	assert_int_equal(lseek(fd, 0, SEEK_CUR) - end, size);
	end += size;
	/* There is code now. */
	now[1].execute = true;
	fine(snap_log_map_process(log, 0, &again, NULL, &space));
	fine(snap_log_writer_flush(writer, log));
	assert_true(lseek(fd, 0, SEEK_CUR) - end > size);
	snap_log_writer_destroy(writer);
	snap_log_destroy(log);
}

static void test_ring(void **state _unused_)
{
	_cleanup_fd_ int fd = memory_file();
	struct snap_log *log = make_log(), *back;
	bool renumbered;

	begin_story(log);
	go_on(log);
	run_managed(log);
	run_waits(log);
	fine(snap_log_forget(log, 105000000, &renumbered));
	assert_int_equal(log->tick_count, 2);
	assert_int_equal(log->owners_before_count, 4);
	assert_int_not_equal(log->owners_before[0], 0);
	fine(snap_log_write(log, fd));
	lseek(fd, 0, SEEK_SET);
	fine(snap_log_read(fd, &back));
	assert_int_equal(back->first_tick, 8);
	assert_int_equal(back->before[0].stack, log->before[0].stack);
	same_ticks(log, back);
	same_waits(log, back);
	snap_log_destroy(log);
	snap_log_destroy(back);
}

/* Who has the other end of what is waited with is a time line, too. */
static void test_ends(void **state _unused_)
{
	static const uint32_t many[] = { 812, 30, 4711 }, one[] = { 812 };
	_cleanup_fd_ int fd = memory_file();
	struct snap_log *log = make_log(), *back;
	const struct snap_log_wait_bytes *words;
	struct snap_log_writer *writer;
	uint32_t object, numbers[3];

	log->explains = true;
	fine(snap_log_writer_create(log, fd, &writer));
	begin_story(log);
	go_on(log);
	fine(snap_log_begin_tick(log, 85000000));
	object = object_of(log, 1, 0, 3, true, NULL);
	fine(snap_log_set_peers(log, object - 1, one, 1));
	fine(snap_log_set_peers(log, object - 1, many, 3));
	snap_log_end_tick(log, 0);
	fine(snap_log_begin_tick(log, 95000000));
	fine(snap_log_set_peers(log, object - 1, many, 3));
	snap_log_end_tick(log, 0);
	fine(snap_log_begin_tick(log, 105000000));
	fine(snap_log_set_peers(log, object - 1, NULL, 0));
	snap_log_end_tick(log, 0);
	/* Nothing where nothing changed. */
	assert_int_equal(log->owner_count, 2);
	words = &log->words[log->owners[0].words - 1];
	assert_int_equal(words->piece_count, 1);
	assert_int_equal(words->pieces[0].address, 0);
	assert_int_equal(words->pieces[0].size, sizeof(numbers));
	memcpy(numbers, words->pieces[0].bytes, sizeof(numbers));
	assert_true(numbers[0] == 30 && numbers[1] == 812 && numbers[2] == 4711);
	assert_int_equal(log->owners[1].words, 0);
	assert_int_equal(log->objects[object - 1].words, 0);
	fine(snap_log_writer_finish(writer, log));
	snap_log_writer_destroy(writer);
	lseek(fd, 0, SEEK_SET);
	fine(snap_log_read(fd, &back));
	same_ticks(log, back);
	same_waits(log, back);
	snap_log_destroy(log);
	snap_log_destroy(back);
}

/* ---- formats ---- */

/* Released programs read these bytes: where they change, the version of the format goes up. */
static void test_bytes_stay(void **state _unused_)
{
	size_t size, first_flush;
	_cleanup_free_ uint8_t *bytes = story_bytes(&size, &first_flush);

	assert_int_equal(snap_hash_bytes(bytes, size, 0), 0x2d86a97be338310e);
}

/* ---- writing ---- */

static void test_disk_full(void **state _unused_)
{
	_cleanup_(snap_error_destroyp) struct stacksnap_error *err = NULL, *again = NULL;
	struct snap_log *log = make_log();
	struct snap_log_writer *writer;
	_cleanup_fd_ int fd = memory_file(), full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	_cleanup_fd_ int kept = dup(fd);

	if (full < 0)
		skip_because(NO_DEV_FULL);
	fine(snap_log_writer_create(log, fd, &writer));
	begin_story(log);
	assert_int_equal(dup2(full, fd), fd);
	err = snap_log_writer_flush(writer, log);
	assert_int_equal(snap_error_errno(err), ENOSPC);
	/* Behind half a chunk nothing could be read. */
	assert_int_equal(dup2(kept, fd), fd);
	again = snap_log_writer_flush(writer, log);
	assert_non_null(again);
	snap_log_writer_destroy(writer);
	snap_log_destroy(log);
}

/* ---- size ---- */

enum { THREADS = 1000, RATE = 99, SECONDS = 60, WAYS = 4, MOST_OF_AN_HOUR = 100 << 20 };

static void sample_second(struct snap_log *log, uint32_t space, int second, unsigned *random)
{
	for (int tick = 0; tick < RATE; tick++) {
		fine(snap_log_begin_tick(log,
					 (second * RATE + tick) * 10101010ll + *random % 5000));
		for (uint32_t thread = 0; thread < THREADS; thread++) {
			bool runs = thread < 2;

			*random = *random * 1103515245u + 12345u;
			if (!runs && thread % RATE != (uint32_t)tick)
				continue;
			/* Who runs is mostly somewhere where he has not been before. */
			change_to(log, thread,
				  stack_of(log, space,
					   runs ? 1000 + (*random >> 8) % 5000
						: 10 + (thread + (unsigned)second) % WAYS,
					   30, NULL),
				  runs ? SNAP_STATE_RUNNING : SNAP_STATE_SLEEPING, runs ? -1 : 202);
		}
		snap_log_end_tick(log, 90000 + *random % 50000);
	}
}

static void test_hour_of_a_thousand_threads(void **state _unused_)
{
	_cleanup_fd_ int fd = memory_file();
	struct snap_log *log = make_log();
	struct snap_log_writer *writer;
	uint32_t process, space, thread;
	unsigned random = 5;

	fine(snap_log_add_process(log, 10, 5, UINT32_MAX, UINT32_MAX, true, &process));
	fine(snap_log_map_process(log, process, &facts, NULL, &space));
	for (int i = 0; i < THREADS; i++)
		fine(snap_log_add_thread(log, process, 100 + i, 100 + i, "worker", false, &thread));
	fine(snap_log_writer_create(log, fd, &writer));
	for (int second = 0; second < SECONDS; second++) {
		sample_second(log, space, second, &random);
		fine(snap_log_writer_flush(writer, log));
	}
	fine(snap_log_writer_finish(writer, log));
	assert_true(log->change_count > 60 * THREADS);
	assert_true(lseek(fd, 0, SEEK_CUR) * (3600 / SECONDS) < MOST_OF_AN_HOUR);
	print_message("an hour takes %ld MB\n", (long)lseek(fd, 0, SEEK_CUR) * 60 / 1000000);
	snap_log_writer_destroy(writer);
	snap_log_destroy(log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_at_once),
		cmocka_unit_test(test_written_again),
		cmocka_unit_test(test_written_as_it_grows),
		cmocka_unit_test(test_the_same_mappings_again),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_bytes_stay),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_hour_of_a_thousand_threads),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
