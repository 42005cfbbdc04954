/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* procfs: hostile texts through the parsers, and a recorded tree through the readers. */
#include "proc/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void open_tree(struct snap_procfs *procfs)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/tests/unit/fixtures/procfs-names",
		 getenv("STACKSNAP_SOURCE"));
	assert_null(snap_procfs_open(path, procfs));
	assert_false(procfs->live);
}

static int stat_of(const struct snap_procfs *procfs, pid_t pid, struct snap_stat *ret)
{
	_cleanup_fd_ int fd = snap_procfs_open_process(procfs, pid);

	assert_true(fd >= 0);
	return snap_procfs_stat(fd, ret);
}

static void test_stat_of_odd_names(void **state _unused_)
{
	static const struct {
		pid_t pid;
		const char *name;
	} cases[] = {
		{ 101, "a) R 1 (" },
		{ 102, "one\ntwo\\n" },
		{ 103, "\033[31m\377\t\"" },
		{ 104, "kworker/u8:3-events_unbound_with_a_very_long_work_queue_name_xyz" },
		{ 111, "one\ntwo\\n\\" },
		{ 110, "" },
	};
	_cleanup_(snap_procfs_close) struct snap_procfs procfs;
	struct snap_stat stat;

	open_tree(&procfs);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		char expected[SNAP_MAX_COMM] = "";

		memcpy(expected, cases[i].name, strnlen(cases[i].name, SNAP_MAX_COMM - 1));
		assert_int_equal(stat_of(&procfs, cases[i].pid, &stat), 0);
		assert_string_equal(stat.name, expected);
		assert_int_equal(stat.pid, cases[i].pid);
	}
	assert_int_equal(stat.state, 'Z');
	assert_int_equal(stat_of(&procfs, 104, &stat), 0);
	assert_int_equal(stat.state, 'I');
	assert_int_equal(stat.ppid, 2);
	assert_true(stat.flags & SNAP_PF_KTHREAD);
	assert_int_equal(stat_of(&procfs, 101, &stat), 0);
	assert_int_equal(stat.state, 'S');
	assert_int_equal(stat.ppid, 1);
	assert_int_equal(stat.pgrp, 101);
	assert_int_equal(stat.threads, 1);
	assert_int_equal(stat.start_ticks, 5000);
	assert_int_equal(stat.exit_signal, 17);
	assert_int_equal(stat.cpu, 1);
}

static void test_stat_that_is_none(void **state _unused_)
{
	static const pid_t bad[] = { 105, 106, 107, 108, 109 };
	_cleanup_(snap_procfs_close) struct snap_procfs procfs;
	struct snap_stat stat;

	open_tree(&procfs);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bad); i++)
		assert_int_equal(stat_of(&procfs, bad[i], &stat), -EBADMSG);
	assert_int_equal(snap_procfs_open_process(&procfs, 4711), -ENOENT);
	assert_int_equal(snap_procfs_open_process(&procfs, -1), -ENOENT);
}

/* A number that no pid, no count and no signal can be is not cut down to one. */
static void test_stat_numbers_that_do_not_fit(void **state _unused_)
{
	static const char *const wrong[] = {
		"1 (a) S 25362473499 1 1 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 99",
		"1 (a) S 4294967297 1 1 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 99",
		"1 (a) S 2 1 1 0 -1 4 1 2 3 4 5 6 7 8 20 0 4294967297 0 99",
	};
	static const char right[] = "1 (a) S 2147483647 1 1 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 99";
	struct snap_stat stat;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(wrong); i++)
		assert_false(snap_parse_stat(wrong[i], strlen(wrong[i]), &stat));
	assert_true(snap_parse_stat(right, strlen(right), &stat));
	assert_int_equal(stat.ppid, INT32_MAX);
}

/* Every prefix and every single changed byte is either refused or parsed, never read beyond. */
static void test_stat_of_mutations(void **state _unused_)
{
	static const char line[] = "7 (a) b) S 1 7 7 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0 "
				   "1 1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0\n";
	struct snap_stat stat;

	for (size_t length = 0; length < sizeof(line); length++) {
		_cleanup_free_ char *copy = malloc(length + 1);

		memcpy(copy, line, length);
		if (snap_parse_stat(copy, length, &stat)) {
			assert_string_equal(stat.name, "a) b");
			assert_true(stat.start_ticks == 9 || stat.start_ticks == 99);
		}
		for (size_t i = 0; i < length; i++) {
			for (unsigned byte = 0; byte < 256; byte += 5) {
				memcpy(copy, line, length);
				copy[i] = (char)byte;
				(void)snap_parse_stat(copy, length, &stat);
			}
		}
	}
}

static void test_status(void **state _unused_)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs;
	_cleanup_fd_ int fd = -1, long_fd = -1, empty_fd = -1;
	struct snap_status status;

	open_tree(&procfs);
	fd = snap_procfs_open_process(&procfs, 101);
	assert_int_equal(snap_procfs_status(fd, &status), 0);
	assert_int_equal(status.tgid, 101);
	assert_int_equal(status.tracer_pid, 77);
	assert_int_equal(status.uid, 1000);
	assert_int_equal(status.euid, 1001);
	assert_int_equal(status.suid, 1002);
	assert_int_equal(status.gid, 7);
	assert_int_equal(status.egid, 8);
	assert_int_equal(status.sgid, 9);
	assert_int_equal(status.threads, 3);
	assert_int_equal(status.ns_pid, 1);
	assert_int_equal(status.ns_depth, 3);
	assert_int_equal(status.permitted, 0xa80425fb);
	assert_int_equal(status.effective, 0x80000);
	assert_int_equal(status.seccomp, 2);
	assert_int_equal(status.pending, 0x104);
	/* 3000 groups on one line, longer than any buffer; the name looks like a line of its own.
	 */
	long_fd = snap_procfs_open_process(&procfs, 103);
	assert_int_equal(snap_procfs_status(long_fd, &status), 0);
	assert_int_equal(status.threads, 2);
	assert_int_equal(status.ns_pid, 103);
	empty_fd = snap_procfs_open_process(&procfs, 106);
	assert_int_equal(snap_procfs_status(empty_fd, &status), 0);
	assert_int_equal(status.threads, 0);
	assert_true(status.uid == (uid_t)-1);
}

static void test_status_numbers_that_do_not_fit(void **state _unused_)
{
	static const char *const lines[] = {
		"Tgid:\t99999999999",        "Threads:\t-1", "Uid:\tx\ty\tz",
		"NSpid:\t1\t99999999999",    "TracerPid:",   "Tgid",
		"CapPrm:\tfffffffffffffffff"
	};
	struct snap_status status;

	snap_status_init(&status);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(lines); i++)
		snap_parse_status_line(lines[i], strlen(lines[i]), &status);
	assert_int_equal(status.tgid, 0);
	assert_int_equal(status.threads, 0);
	assert_true(status.uid == (uid_t)-1);
	assert_int_equal(status.ns_pid, 1);
	assert_int_equal(status.tracer_pid, 0);
}

static void check_path(const char *path, size_t length, const char *expected)
{
	assert_int_equal(length, strlen(expected));
	assert_memory_equal(path, expected, length);
}

static void test_maps(void **state _unused_)
{
	static const struct {
		bool good, deleted;
		const char *path;
	} expected[] = {
		{ true, false, "/usr/bin/a b\\012c" },
		{ true, true, "/memfd:pool" },
		{ true, true, "/srv/odd (deleted)" },
		{ true, false, "/srv/ends in (deleted)x" },
		{ false, false, "" },
		{ false, false, "" },
		{ true, false, "" },
		{ true, false, "[stack]" },
		{ true, false, "[vdso]" },
		{ true, false, "[vsyscall]" },
	};
	_cleanup_(snap_procfs_close) struct snap_procfs procfs;
	_cleanup_fd_ int process_fd = -1, fd = -1;
	char buffer[128], *line;
	struct snap_lines lines;
	size_t length, count = 0;

	open_tree(&procfs);
	process_fd = snap_procfs_open_process(&procfs, 101);
	fd = snap_procfs_open_file(process_fd, "maps");
	snap_lines_init(&lines, fd, buffer, sizeof(buffer));
	while (snap_lines_next(&lines, &line, &length) > 0) {
		struct snap_map map;
		const char *path;
		size_t path_length;

		assert_true(count < SNAP_ARRAY_SIZE(expected));
		assert_int_equal(snap_parse_map(line, length, &map, &path, &path_length),
				 expected[count].good);
		if (expected[count].good) {
			check_path(path, path_length, expected[count].path);
			assert_int_equal(map.deleted, expected[count].deleted);
			assert_null(map.path);
		}
		if (count == 0) {
			assert_true(map.start == 0x55d0c0000000 && map.end == 0x55d0c0001000);
			assert_true(map.read && !map.write && map.execute && !map.shared);
			assert_int_equal(map.offset, 0x1000);
			assert_int_equal(map.dev_major, 0xfe);
			assert_int_equal(map.inode, 10952978);
		}
		if (count == 1)
			assert_true(map.shared && map.write && !map.execute);
		count++;
	}
	assert_int_equal(count, SNAP_ARRAY_SIZE(expected));
}

static void test_maps_that_are_none(void **state _unused_)
{
	static const char *const lines[] = {
		"",
		"-",
		"1000",
		"1000-",
		"1000-2000",
		"2000-1000 r--p 0 0:0 0",
		"1000-1000 r--p 0 0:0 0",
		"1000-2000 r--",
		"1000-2000 r--x 0 0:0 0",
		"1000-2000 rrrp 0 0:0 0",
		"1000-2000 r--p",
		"1000-2000 r--p 0 0",
		"1000-2000 r--p 0 0:0",
		"1000-2000 r--p 0 100000000:0 0",
		"1000-2000 r--p 0 0:0 0x",
		"1000-2000 r--p 0 0:0 99999999999999999999",
		"10000000000000000-20000000000000000 r--p 0 0:0 0",
		"1000-G000 r--p 0 0:0 0",
		"+1000-2000 r--p 0 0:0 0",
		" 1000-2000 r--p 0 0:0 0",
	};
	struct snap_map map;
	const char *path;
	size_t length;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(lines); i++)
		assert_false(snap_parse_map(lines[i], strlen(lines[i]), &map, &path, &length));
	assert_true(snap_parse_map("1000-2000 r--p 0 0:0 0", 22, &map, &path, &length));
	assert_int_equal(length, 0);
}

/* Every prefix and every single changed byte of the other texts, at the end of a block of its own.
 */
static void test_mutations_of_lines(void **state _unused_)
{
	static const char *const lines[] = {
		"55d0c0000000-55d0c0001000 r-xp 00001000 fe:00 1095 /usr/bin/a (deleted)",
		"NSpid:\t101\t12\t1",
		"Uid:\t0\t1\t2\t3",
		"CapPrm:\t00000000a80425fb",
		"Threads:\t64",
	};

	for (size_t k = 0; k < SNAP_ARRAY_SIZE(lines); k++) {
		for (size_t length = 0; length <= strlen(lines[k]); length++) {
			for (size_t i = 0; i < length * 64; i++) {
				_cleanup_free_ char *copy = malloc(length);
				struct snap_status status;
				struct snap_map map;
				const char *path;
				size_t path_length;

				memcpy(copy, lines[k], length);
				copy[i / 64] = (char)(i % 64 * 4 + k);
				snap_status_init(&status);
				snap_parse_status_line(copy, length, &status);
				if (!snap_parse_map(copy, length, &map, &path, &path_length))
					continue;
				assert_true(map.start < map.end);
				assert_true(path >= copy && path + path_length <= copy + length);
			}
		}
	}
}

/* Directories within directories: what is kept of it is the reader's matter. */
static void test_a_path_of_any_length(void **state _unused_)
{
	static const char head[] = "1000-2000 r--p 00000000 fe:00 1 /";
	enum { SIZE = 1 << 17 };
	_cleanup_free_ char *line = malloc(SIZE);
	struct snap_map map;
	const char *path;
	size_t length;

	memset(line, 'x', SIZE);
	memcpy(line, head, sizeof(head) - 1);
	assert_true(snap_parse_map(line, SIZE, &map, &path, &length));
	assert_int_equal(length, SIZE - (sizeof(head) - 2));
	assert_true(snap_parse_map(line, 4000, &map, &path, &length));
	assert_int_equal(length, 4000 - (sizeof(head) - 2));
}

/* Lines longer than the buffer are cut, and the next one is whole again. */
static void test_lines(void **state _unused_)
{
	static const char text[] = "short\n\n0123456789abcdefghij\nexactly 15 byte\nlast";
	static const char *const expected[] = { "short", "", "0123456789abcde", "exactly 15 byte",
						"last" };
	_cleanup_fclose_ FILE *file = tmpfile();
	char buffer[16], *line;
	struct snap_lines lines;
	size_t length;

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, sizeof(text) - 1, file), sizeof(text) - 1);
	assert_int_equal(fflush(file), 0);
	assert_int_equal(lseek(fileno(file), 0, SEEK_SET), 0);
	snap_lines_init(&lines, fileno(file), buffer, sizeof(buffer));
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(expected); i++) {
		assert_int_equal(snap_lines_next(&lines, &line, &length), 1);
		assert_string_equal(line, expected[i]);
		assert_int_equal(length, strlen(expected[i]));
	}
	assert_int_equal(snap_lines_next(&lines, &line, &length), 0);
	assert_int_equal(snap_lines_next(&lines, &line, &length), 0);
	snap_lines_init(&lines, -1, buffer, sizeof(buffer));
	assert_int_equal(snap_lines_next(&lines, &line, &length), -EBADF);
}

static void test_threads(void **state _unused_)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs;
	_cleanup_fd_ int process_fd = -1, tasks_fd = -1;
	struct snap_status status;
	struct snap_stat stat;
	char text[128];
	pid_t tids[8] = { 0 };

	open_tree(&procfs);
	process_fd = snap_procfs_open_process(&procfs, 101);
	tasks_fd = snap_procfs_open_tasks(process_fd);
	assert_true(tasks_fd >= 0);
	assert_int_equal(snap_procfs_list(tasks_fd, tids, 8), 3);
	assert_int_equal(tids[0] + tids[1] + tids[2], 101 + 111 + 112);
	assert_int_equal(tids[3], 0);
	/* Again, and into less room: the count is that of all. */
	memset(tids, 0, sizeof(tids));
	assert_int_equal(snap_procfs_list(tasks_fd, tids, 1), 3);
	assert_int_equal(tids[1], 0);
	assert_int_equal(snap_procfs_task_stat(tasks_fd, 111, &stat), 0);
	assert_string_equal(stat.name, "worker-1");
	assert_int_equal(stat.state, 'D');
	assert_int_equal(stat.exit_signal, -1);
	assert_int_equal(snap_procfs_task_status(tasks_fd, 111, &status), 0);
	assert_int_equal(status.ns_pid, 3);
	assert_int_equal(snap_procfs_task_stat(tasks_fd, 113, &stat), -ENOENT);
	assert_int_equal(snap_procfs_task_read(tasks_fd, 111, "wchan", text, sizeof(text)), 16);
	assert_string_equal(text, "futex_wait_queue");
	assert_true(snap_procfs_task_read(tasks_fd, 111, "syscall", text, sizeof(text)) > 0);
	assert_string_equal(text, "202 0x7ffd 0x80 0x0 0x0 0x0 0x0 0x7ffee0 0x7f00aa");
	/* Cut to the buffer, still with its NUL. */
	assert_int_equal(snap_procfs_task_read(tasks_fd, 111, "syscall", text, 5), 4);
	assert_string_equal(text, "202 ");
	memset(text, 'n', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(snap_procfs_task_read(tasks_fd, 111, text, text, 5), -ENAMETOOLONG);
}

static void test_processes_and_files(void **state _unused_)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs;
	_cleanup_fd_ int fd = -1;
	char text[128];
	pid_t pids[64];

	open_tree(&procfs);
	/* 101-111; "sys" and a number beyond all pids are no processes. */
	assert_int_equal(snap_procfs_list(procfs.root_fd, pids, 64), 11);
	assert_true(snap_procfs_system_read(&procfs, "sys/kernel/random/boot_id", text,
					    sizeof(text)) > 0);
	assert_memory_equal(text, "c1279347-", 9);
	fd = snap_procfs_open_process(&procfs, 101);
	assert_int_equal(snap_procfs_read(fd, "cmdline", text, sizeof(text)), 20);
	assert_memory_equal(text, "a)\0--flag=1 2\0\0last", 20);
	assert_int_equal(snap_procfs_read(fd, "no such file", text, sizeof(text)), -ENOENT);
	assert_int_equal(snap_procfs_link(fd, "exe", text, sizeof(text)), -ENOENT);
}

static void test_itself(void **state _unused_)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs;
	_cleanup_fd_ int fd = -1;
	struct snap_status status;
	struct snap_stat stat;
	char path[4096], small[4];

	assert_null(snap_procfs_open(NULL, &procfs));
	assert_true(procfs.live);
	assert_int_equal(snap_procfs_self(&procfs), getpid());
	fd = snap_procfs_open_process(&procfs, getpid());
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(snap_procfs_stat(fd, &stat), 0);
	assert_int_equal(stat.pid, getpid());
	assert_int_equal(stat.ppid, getppid());
	assert_int_equal(stat.state, 'R');
	assert_int_equal(snap_procfs_status(fd, &status), 0);
	assert_int_equal(status.tgid, getpid());
	assert_int_equal(status.euid, geteuid());
	assert_int_equal(status.threads, 1);
	assert_true(snap_procfs_link(fd, "exe", path, sizeof(path)) > 0);
	assert_non_null(strstr(path, program_invocation_short_name));
	assert_int_equal(snap_procfs_link(fd, "exe", small, sizeof(small)), -ENAMETOOLONG);
}

static void test_what_is_no_procfs(void **state _unused_)
{
	struct snap_procfs procfs;
	struct stacksnap_error *err = snap_procfs_open("/no/such/directory", &procfs);

	assert_int_equal(snap_error_code(err), SNAP_ERROR_OS);
	assert_int_equal(snap_error_errno(err), ENOENT);
	snap_error_destroy(err);
}

/* A name that looks like the field is none. */
static void test_exec_start(void **state _unused_)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} right[] = {
		{ "a (1, #threads: 1)\n-----\n"
		  "se.exec_start                                :       3578290.878677\n"
		  "se.vruntime : 1.000000\n",
		  3578290878677 },
		{ "\nse.exec_start (7, #threads: 1)\nse.exec_start : 0.000001\n", 1 },
		{ "\nse.exec_start:1 (7, #threads: 1)\nse.exec_start : 2.000000\n", 2000000 },
	};
	static const char *const wrong[] = {
		"",
		"se.exec_start",
		"se.exec_start : ",
		"se.exec_start : -5.000000\n",
		"se.exec_start : 5.00000\n",
		"se.exec_start : 5000000\n",
		"se.exec_start : 5.000000x\n",
		"se.exec_start : 18446744073709551616.000000\n",
		"se.exec_start : 18446744073709551615.000000\n",
		"se.exec_started : 5.000000\n",
	};
	uint64_t ns;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(right); i++) {
		assert_true(snap_parse_exec_start(right[i].text, strlen(right[i].text), &ns));
		assert_int_equal(ns, right[i].ns);
	}
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(wrong); i++)
		assert_false(snap_parse_exec_start(wrong[i], strlen(wrong[i]), &ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stat_of_odd_names),
		cmocka_unit_test(test_stat_that_is_none),
		cmocka_unit_test(test_stat_numbers_that_do_not_fit),
		cmocka_unit_test(test_stat_of_mutations),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_status_numbers_that_do_not_fit),
		cmocka_unit_test(test_maps),
		cmocka_unit_test(test_maps_that_are_none),
		cmocka_unit_test(test_mutations_of_lines),
		cmocka_unit_test(test_a_path_of_any_length),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_processes_and_files),
		cmocka_unit_test(test_itself),
		cmocka_unit_test(test_what_is_no_procfs),
		cmocka_unit_test(test_exec_start),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
