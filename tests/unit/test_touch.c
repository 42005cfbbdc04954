/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pages are brought in up to the first that cannot be read, whatever the beginning and the size. */
#include "proc/touch.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGES = 600, DENIED = 530 }; /* more than one call has */

static size_t page;

/* All but one of them may be read; nothing follows them. */
static uint64_t map_pages(void)
{
	uint8_t *memory = mmap(NULL, (PAGES + 1) * page, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	assert_int_equal(munmap(memory + PAGES * page, page), 0);
	assert_int_equal(mprotect(memory + DENIED * page, page, PROT_NONE), 0);
	return (uint64_t)(uintptr_t)memory;
}

static bool is_present(int pagemap_fd, uint64_t address)
{
	uint64_t entry = 0;

	assert_int_equal(
		pread(pagemap_fd, &entry, sizeof(entry), (off_t)(address / page * sizeof(entry))),
		sizeof(entry));
	return entry >> 63;
}

static void check(int pagemap_fd)
{
	uint64_t memory = map_pages(), denied = memory + DENIED * page;
	pid_t self = getpid();

	assert_int_equal(snap_memory_touch(pagemap_fd, self, memory, 0), 0);
	assert_int_equal(snap_memory_touch(pagemap_fd, self, memory, 1), 1);
	assert_int_equal(snap_memory_touch(pagemap_fd, self, memory + 7, page), page);
	assert_int_equal(snap_memory_touch(pagemap_fd, self, denied - 16, 16), 16);
	assert_int_equal(snap_memory_touch(pagemap_fd, self, denied - 16, 17), 16);
	assert_int_equal(snap_memory_touch(pagemap_fd, self, memory + 3, PAGES * page),
			 DENIED * page - 3);
	assert_int_equal(snap_memory_touch(pagemap_fd, self, denied, page), 0);
	assert_int_equal(snap_memory_touch(pagemap_fd, self, denied + 9, 2 * page), 0);
	assert_int_equal(snap_memory_touch(pagemap_fd, self, denied + page, PAGES * page),
			 (PAGES - DENIED - 1) * page);
	assert_int_equal(snap_memory_touch(pagemap_fd, self, UINT64_MAX - 5, 100), 0);
	assert_int_equal(munmap((void *)(uintptr_t)memory, PAGES * page), 0);
	assert_int_equal(snap_memory_touch(pagemap_fd, self, memory, page), 0);
}

static void test_with_pagemap(void **state _unused_)
{
	_cleanup_fd_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	check(fd);
}

static void test_without_pagemap(void **state _unused_)
{
	check(-1);
}

/* Pages of a file are there afterwards that nobody had read. */
static void test_pages_are_brought_in(void **state _unused_)
{
	_cleanup_fd_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int file = memfd_create("pages", MFD_CLOEXEC);
	uint64_t memory;

	assert_int_equal(ftruncate(file, (off_t)(2 * page)), 0);
	memory = (uint64_t)(uintptr_t)mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, file, 0);
	assert_false(is_present(fd, memory + page));
	assert_int_equal(snap_memory_touch(fd, getpid(), memory, 2 * page), 2 * page);
	assert_true(is_present(fd, memory + page));
}

static void test_nobody(void **state _unused_)
{
	int here = 0;

	assert_int_equal(snap_memory_touch(-1, 0x3fffffff, (uintptr_t)&here, sizeof(here)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_with_pagemap),
		cmocka_unit_test(test_without_pagemap),
		cmocka_unit_test(test_pages_are_brought_in),
		cmocka_unit_test(test_nobody),
	};

	page = (size_t)sysconf(_SC_PAGESIZE);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
