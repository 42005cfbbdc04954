/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The lines of waits: one of each kind, times of several, names that are long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wait_rows.h"

#include <stdlib.h>
#include <string.h>

static void test_rows(void **state _unused_)
{
	const struct wait_rows *rows = all_wait_rows();
	bool kinds[SNAP_WAIT_KINDS] = { false };

	for (size_t i = 0; i < rows->count; i++) {
		const struct wait_row *row = &rows->rows[i];
		_cleanup_free_ char *line = snap_wait_line(&row->wait, row->all);
		_cleanup_free_ char *object = snap_wait_object(&row->wait);

		assert_non_null(line);
		assert_string_equal(line, row->line);
		if (row->object)
			assert_string_equal(object, row->object);
		assert_true(snap_wait_same(&row->wait, &row->wait));
		for (size_t k = 0; k < i; k++)
			if (strcmp(rows->rows[k].line, row->line) != 0 && k + 1 != i)
				assert_false(snap_wait_same(&row->wait, &rows->rows[k].wait));
		kinds[row->wait.kind] = true;
	}
	/* Whatever kind it is, it has a line. */
	for (int kind = SNAP_WAIT_NONE + 1; kind < SNAP_WAIT_KINDS; kind++) {
		struct snap_wait wait = snap_wait_init(kind, SNAP_WAIT_IS_LIKELY);
		_cleanup_free_ char *line = snap_wait_line(&wait, true);
		_cleanup_free_ char *object = snap_wait_object(&wait);

		assert_non_null(line);
		assert_true(*line || kinds[kind]);
		assert_non_null(object);
		for (int other = SNAP_WAIT_NONE; other < kind; other++)
			assert_string_not_equal(snap_wait_kind_word(kind),
						snap_wait_kind_word(other));
	}
}

static void check_line(const struct snap_wait *wait, const char *expected)
{
	_cleanup_free_ char *line = snap_wait_line(wait, true);

	assert_non_null(line);
	assert_string_equal(line, expected);
}

/* Whose stack has an address is another thing than who was at a queue last. */
static void test_hints(void **state _unused_)
{
	struct snap_wait_party sender = party_of(508, "sender", 'S', NULL, NULL);
	struct snap_wait wait = snap_wait_init(SNAP_WAIT_MSGQUEUE, SNAP_WAIT_IS_CERTAIN);

	wait.id = 2;
	wait.hints = &sender;
	wait.hint_count = 1;
	wait.mode = SNAP_WAIT_READ;
	check_line(&wait, "read on message queue 2 (last sent by 508 sender)");
	wait.mode = SNAP_WAIT_WRITE;
	check_line(&wait, "write to message queue 2 (last received by 508 sender)");
	wait.kind = SNAP_WAIT_SYSV_SEMAPHORE;
	wait.mode = 0;
	check_line(&wait, "waits on semaphore set 2 (last changed by 508 sender)");
}

/* What the kernel has for a name or a state of something that has none. */
static void test_words_of_the_kernel(void **state _unused_)
{
	struct snap_wait event = snap_wait_init(SNAP_WAIT_EVENTFD, SNAP_WAIT_IS_CERTAIN),
			 udp = snap_wait_init(SNAP_WAIT_UDP, SNAP_WAIT_IS_CERTAIN);

	event.call = "read";
	event.fd = 5;
	event.path = "anon_inode:[eventfd]";
	check_line(&event, "read on eventfd 5");
	udp.call = "recv";
	udp.local = "127.0.0.1:37226";
	udp.socket_state = "close";
	udp.recv_queue = 0;
	check_line(&udp, "recv on udp 127.0.0.1:37226, 0 bytes queued");
}

/* In D not everybody waits for a disk. */
static void test_functions_of_the_kernel(void **state _unused_)
{
	static const struct {
		const char *wchan, *variant, *line;
	} rows[] = {
		{ "jbd2_log_wait_commit", NULL, "fsync of /m/f, DISK in jbd2_log_wait_commit" },
		{ "rpc_wait_bit_killable", NULL, "fsync of /m/f, NFS in rpc_wait_bit_killable" },
		{ "nfs_wb_folio", NULL, "fsync of /m/f, NFS in nfs_wb_folio" },
		{ "rwsem_down_write_slowpath", NULL,
		  "fsync of /m/f, lock of a memory map or an inode in rwsem_down_write_slowpath" },
		{ "balance_dirty_pages", NULL,
		  "fsync of /m/f, slowed down for writing too fast in balance_dirty_pages" },
		{ "request_wait_answer", "fuse",
		  "fsync of /m/f: the server of its FUSE file system does not answer" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct snap_wait wait = snap_wait_init(SNAP_WAIT_DISK, SNAP_WAIT_IS_CERTAIN);

		wait.call = "fsync";
		wait.path = "/m/f";
		wait.wchan = rows[i].wchan;
		wait.variant = rows[i].variant;
		check_line(&wait, rows[i].line);
	}
}

static void test_times(void **state _unused_)
{
	static const struct {
		int64_t since[2];
		const char *line;
	} rows[] = {
		{ { -1, -1 }, "waits for mutex m" },
		{ { 999999999, 1000000000 }, "waits for mutex m" },
		{ { 1000000001, 1000000002 }, "waits 1.0 s for mutex m" },
		{ { 5000000000, -1 }, "waits 5.0 s for mutex m" },
		{ { 500000000, 5000000000 }, "waits 500 ms to 5.0 s for mutex m" },
		{ { 61000000000, 3 * 86400000000000 + 4 * 3600000000000 },
		  "waits 1 min to 3d04h for mutex m" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct snap_wait a = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_CERTAIN), b;
		struct snap_wait_times times;
		_cleanup_free_ char *line = NULL, *without = NULL;

		a.symbol = "m";
		b = a;
		a.since_ns = rows[i].since[0];
		b.since_ns = rows[i].since[1];
		assert_true(snap_wait_same(&a, &b));
		times = snap_wait_times_of(&a);
		snap_wait_times_add(&times, &b);
		line = snap_wait_line_of(&a, &times, true);
		without = snap_wait_line_of(&a, &times, false);
		assert_string_equal(line, rows[i].line);
		assert_string_equal(without, "waits for mutex m");
	}
}

static void test_long_names(void **state _unused_)
{
	char name[5000], path[5000];
	struct snap_wait wait = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_CERTAIN);
	struct snap_wait file = snap_wait_init(SNAP_WAIT_FILE_LOCK, SNAP_WAIT_IS_CERTAIN);
	_cleanup_free_ char *line = NULL, *other = NULL;

	memset(name, 'x', sizeof(name));
	/* A character of two bytes lies across the place where it is cut. */
	memcpy(name + 63, "\xc3\xa9", 2);
	name[sizeof(name) - 1] = '\0';
	memset(path, '/', sizeof(path));
	memcpy(path + sizeof(path) - 6, "/LOCK", 6);
	wait.symbol = name;
	file.path = path;
	line = snap_wait_line(&wait, true);
	other = snap_wait_line(&file, true);
	assert_true(strlen(line) < 100);
	assert_string_equal(line + strlen(line) - 4, "x...");
	assert_true(strlen(other) < 100);
	assert_non_null(strstr(other, "///LOCK"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_hints),
		cmocka_unit_test(test_words_of_the_kernel),
		cmocka_unit_test(test_functions_of_the_kernel),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_long_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
