/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Touch: see touch.h. A byte of each page is read, and forgotten. */
#include "proc/touch.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGES = 256 /* of one call */ };

/* By Documentation/admin-guide/mm/pagemap.rst, a number of eight bytes for each page. */
static bool are_present(int pagemap_fd, uint64_t first_page, size_t count)
{
	uint64_t pages[PAGES];
	ssize_t size = (ssize_t)(count * sizeof(*pages));

	if (pagemap_fd < 0 ||
	    pread(pagemap_fd, pages, (size_t)size, (off_t)(first_page * sizeof(*pages))) != size)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!(pages[i] >> 63))
			return false;
	return true;
}

/* How many of these pages, which lie one after the other, may be read. */
static size_t touch_pages(pid_t tid, uint64_t address, size_t page, size_t count)
{
	struct iovec remote[PAGES];
	uint8_t bytes[PAGES];
	const struct iovec local = { bytes, count };
	ssize_t got;

	for (size_t i = 0; i < count; i++)
		remote[i] = (struct iovec){ (void *)(uintptr_t)(address + i * page), 1 };
	got = process_vm_readv(tid, &local, 1, remote, count, 0);
	if (got < 0)
		return errno == ENOSYS ? count : 0;
	return (size_t)got;
}

size_t snap_memory_touch(int pagemap_fd, pid_t tid, uint64_t address, size_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = address / page, at = first, last;

	if (!size || address + (size - 1) < address)
		return 0;
	last = (address + (size - 1)) / page;
	while (at <= last) {
		size_t count = last - at < PAGES ? (size_t)(last - at) + 1 : PAGES, there;

		there = are_present(pagemap_fd, at, count)
				? count
				: touch_pages(tid, at * page, page, count);
		if (there < count)
			return at + there == first ? 0 : (size_t)((at + there) * page - address);
		at += count;
	}
	return size;
}
