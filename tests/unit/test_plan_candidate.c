/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who may have a managed runtime: by the names of mapped files, and by the marks of Go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/options.h"
#include "stop/plan/candidate.h"

enum { PAGE = 4096 };

/* The memory of the process: one page, wherever it is read. */
static uint8_t data[PAGE];
static unsigned reads;

static size_t read_data(void *context _unused_, uint8_t *bytes, const struct iovec *ranges,
			size_t count)
{
	assert_int_equal(count, 1);
	assert_true(ranges->iov_len <= PAGE);
	memcpy(bytes, data, ranges->iov_len);
	reads++;
	return ranges->iov_len;
}

static unsigned look(const struct snap_space *space, unsigned wanted)
{
	uint8_t buffer[PAGE];
	const struct snap_runtime_candidate candidate = {
		.space = space,
		.wanted = wanted,
		.buffer = buffer,
		.buffer_size = sizeof(buffer),
		.read = read_data,
	};

	reads = 0;
	return snap_plan_candidates(&candidate);
}

static unsigned look_at_path(const char *path)
{
	struct snap_map map = { .start = PAGE, .end = 2 * PAGE, .inode = 5, .path = path };
	const struct snap_space space = { .maps = &map, .map_count = 1 };

	return look(&space, SNAP_RUNTIME_ALL);
}

static void test_names(void **state _unused_)
{
	static const struct {
		const char *path;
		unsigned runtimes;
	} rows[] = {
		{ "/usr/bin/python3.11", SNAP_RUNTIME_CPYTHON },
		{ "/root/.pyenv/versions/3.12.1/bin/python3.12", SNAP_RUNTIME_CPYTHON },
		{ "/usr/lib/x86_64-linux-gnu/libpython3.9.so.1.0", SNAP_RUNTIME_CPYTHON },
		{ "/usr/lib/python3/dist-packages/yaml/_yaml.cpython-311-x86_64-linux-gnu.so",
		  SNAP_RUNTIME_CPYTHON },
		{ "/usr/sbin/php-fpm8.2", SNAP_RUNTIME_PHP },
		{ "/usr/bin/php8.2", SNAP_RUNTIME_PHP },
		{ "/usr/lib/apache2/modules/libphp8.2.so", SNAP_RUNTIME_PHP },
		{ "/usr/lib/libphp.so", SNAP_RUNTIME_PHP },
		{ "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so", SNAP_RUNTIME_JAVA },
		{ "/usr/bin/cat", 0 },
		{ "/usr/lib/python3/dist-packages/data.bin", 0 },
		{ "python", SNAP_RUNTIME_CPYTHON },
		{ "[heap]", 0 },
		{ NULL, 0 },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		assert_int_equal(look_at_path(rows[i].path), rows[i].runtimes);
}

/* A note in the first page of a module. */
static void test_go_note(void **state _unused_)
{
	static const uint8_t note[] = { 4, 0, 0, 0, 83, 0, 0, 0, 4, 0, 0, 0, 'G', 'o', 0, 0 };
	uint8_t page[PAGE] = { 0x7f, 'E', 'L', 'F' };
	struct snap_piece piece = { .address = PAGE, .data = page, .size = sizeof(page) };
	const struct snap_space space = { .pieces = &piece, .piece_count = 1 };

	assert_int_equal(look(&space, SNAP_RUNTIME_ALL), 0);
	memcpy(page + 0xf9c, note, sizeof(note));
	assert_int_equal(look(&space, SNAP_RUNTIME_ALL), SNAP_RUNTIME_GO);
	assert_int_equal(look(&space, SNAP_RUNTIME_PHP), 0);
	/* The last word of a piece, and one that it has not. */
	piece.size = 0xf9c + 16;
	assert_int_equal(look(&space, SNAP_RUNTIME_ALL), SNAP_RUNTIME_GO);
	piece.size--;
	assert_int_equal(look(&space, SNAP_RUNTIME_ALL), 0);
}

/* A program or library without that note: by its data, and by that of no library of the system. */
static void test_go_data(void **state _unused_)
{
	struct snap_map maps[] = {
		{ .start = PAGE, .end = 2 * PAGE, .inode = 5, .path = "/usr/bin/tool" },
		{ .start = 2 * PAGE,
		  .end = 4 * PAGE,
		  .inode = 5,
		  .write = true,
		  .path = "/usr/bin/tool" },
		{ .start = 4 * PAGE,
		  .end = 5 * PAGE,
		  .inode = 5,
		  .write = true,
		  .path = "/usr/bin/tool" },
		{ .start = 9 * PAGE,
		  .end = 10 * PAGE,
		  .inode = 6,
		  .write = true,
		  .path = "/lib/libc.so.6" },
		{ .start = 19 * PAGE, .end = 20 * PAGE, .write = true, .path = "[heap]" },
	};
	const struct snap_space space = { .maps = maps, .map_count = SNAP_ARRAY_SIZE(maps) };

	memset(data, 0, sizeof(data));
	assert_int_equal(look(&space, SNAP_RUNTIME_ALL), 0);
	assert_int_equal(reads, 2); /* both pages of one mapping */
	maps[3].path = "/srv/app/code.so";
	assert_int_equal(look(&space, SNAP_RUNTIME_ALL), 0);
	assert_int_equal(reads, 3);
	maps[3].path = "/lib/libc.so.6";
	assert_int_equal(look(&space, SNAP_RUNTIME_PHP), 0);
	assert_int_equal(reads, 0);
	memcpy(data + 0x320, "\xff Go buildinf:\x08\x02", 16);
	assert_int_equal(look(&space, SNAP_RUNTIME_ALL), SNAP_RUNTIME_GO);
	memset(data, 0, sizeof(data));
	memcpy(data + 0x328, "\xff Go buildinf:\x08\x02", 16);
	assert_int_equal(look(&space, SNAP_RUNTIME_ALL), 0);
}

/* Executable memory that no file with a name backs. */
static void test_made_code(void **state _unused_)
{
	static const struct {
		const char *path;
		uint64_t inode;
		bool execute;
		unsigned runtimes;
	} rows[] = {
		{ NULL, 0, true, SNAP_RUNTIME_JIT },
		{ NULL, 0, false, 0 },
		{ "[anon:code]", 0, true, SNAP_RUNTIME_JIT },
		{ "/memfd:code", 7, true, SNAP_RUNTIME_JIT },
		{ "/dev/zero", 7, true, SNAP_RUNTIME_JIT },
		{ "/memfd:data", 7, false, 0 },
		{ "/usr/bin/cat", 7, true, 0 },
		{ "[vdso]", 0, true, 0 },
		{ "[vsyscall]", 0, true, 0 },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		struct snap_map map = { .start = PAGE,
					.end = 2 * PAGE,
					.inode = rows[i].inode,
					.execute = rows[i].execute,
					.path = rows[i].path };
		const struct snap_space space = { .maps = &map, .map_count = 1 };

		assert_int_equal(look(&space, SNAP_RUNTIME_ALL), rows[i].runtimes);
		assert_int_equal(look(&space, SNAP_RUNTIME_ALL & ~SNAP_RUNTIME_JIT), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_go_note),
		cmocka_unit_test(test_go_data),
		cmocka_unit_test(test_made_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
