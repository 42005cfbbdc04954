/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that nobody serves: uffd disk | stack.
 *
 * disk: a thread that the kernel makes wait for such a page until it is killed: state D. stack: a
 * thread whose stack goes on in such a page above its stack pointer; reading it would wait for
 * ever.
 */
#include "instructions.h"
#include "victim.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>

static char *unserved;
static atomic_int in_position;

static void *disk_main(void *unused)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { unserved, 1 };

	prctl(PR_SET_NAME, "in-disk", 0, 0, 0);
	in_position = 1;
	process_vm_readv(getpid(), &here, 1, &there, 1, 0);
	return unused;
}

static void *stack_main(void *unused)
{
	prctl(PR_SET_NAME, "on-stack", 0, 0, 0);
	in_position = 1;
	(void)unused;
	stand_spinning(unserved - 256);
}

int main(int argc, char **argv)
{
	bool disk = argc < 2 || !strcmp(argv[1], "disk");
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	char *memory =
		mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		victim_cannot("userfaultfd");
	memset(memory, 1, 4 * 4096);
	unserved = memory + 4 * 4096;
	/* One mapping: what is there already never faults. */
	range.range.start = (uint64_t)memory;
	range.range.len = 8 * 4096;
	if (ioctl(fd, UFFDIO_REGISTER, &range))
		victim_cannot("userfaultfd register");
	victim_thread(disk ? disk_main : stack_main, NULL, 0);
	while (!in_position)
		sched_yield();
	victim_ready("uffd");
	victim_hold();
}
