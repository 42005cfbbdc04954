/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For programs of managed runtimes: takes the page away on which an object of theirs lies, and lets
 * nobody have it back. Who reads it from then on sleeps for ever; so nothing of the runtime may run
 * any more, and hold_page() stays.
 */
#include "victim.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096 };

__attribute__((visibility("default"))) uint64_t read_word(uint64_t address);
__attribute__((visibility("default"))) void hold_page(uint64_t object);

uint64_t read_word(uint64_t address)
{
	return *(const uint64_t *)address;
}

NOINLINE void hold_page(uint64_t object)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING,
					 .range = { object & -(uint64_t)PAGE, PAGE } };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	char line[64];
	int size = snprintf(line, sizeof(line), "ready %d holds\n", getpid());

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		victim_cannot("userfaultfd");
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (ioctl(fd, UFFDIO_REGISTER, &range))
		victim_cannot("userfaultfd register");
	if (madvise((void *)range.range.start, PAGE, MADV_DONTNEED))
		victim_cannot("madvise");
	/* Without buffers of the heap, which may be on that page. */
	if (write(STDOUT_FILENO, line, (size_t)size) == size)
		victim_hold();
}
