/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads memory of a running process by a worker, as the server of a page may never answer. Knows
 * nothing of what the bytes mean.
 */
#include "roles/runtime_probe/messages.h"

#include "base/workers.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>

/* One read of a megabyte takes less than one millisecond. */
static const int64_t PATIENCE_NS = 100000000;

struct snap_peeker {
	struct snap_workers workers;
};

/* In the workers' area. */
struct peek {
	uint64_t address;
	uint32_t size;
	pid_t pid;
	uint32_t got; /* out */
	uint8_t bytes[SNAP_PEEK_MOST];
};

static void read_peek_memory(void *area, uint32_t item)
{
	struct peek *peek = area;
	struct iovec local = { peek->bytes, peek->size };
	struct iovec remote = { (void *)(uintptr_t)peek->address, peek->size };
	ssize_t got = process_vm_readv(peek->pid, &local, 1, &remote, 1, 0);

	(void)item;
	peek->got = got < 0 ? 0 : (uint32_t)got;
}

struct snap_peeker *snap_peeker_create(void)
{
	struct snap_peeker *peeker = calloc(1, sizeof(*peeker));

	if (peeker &&
	    snap_workers_init(&peeker->workers, sizeof(struct peek), -1, SNAP_WORKERS_AWAKE)) {
		free(peeker);
		return NULL;
	}
	return peeker;
}

void snap_peeker_destroy(struct snap_peeker *peeker)
{
	if (!peeker)
		return;
	snap_workers_deinit(&peeker->workers);
	free(peeker);
}

static int file_of(const void *bytes, size_t size)
{
	_cleanup_fd_ int fd = memfd_create("stacksnap-memory", MFD_CLOEXEC);

	return fd >= 0 && write(fd, bytes, size) == (ssize_t)size ? snap_take_fd(&fd) : -1;
}

int snap_peek(struct snap_peeker *peeker, pid_t pid, uint64_t address, uint32_t size,
	      uint32_t *size_ret, bool *late_ret)
{
	struct peek *peek = snap_workers_area(&peeker->workers);
	struct snap_work work = { .run = read_peek_memory, .patience_ns = PATIENCE_NS };
	uint32_t got;

	*late_ret = true;
	if (!peek)
		return -1;
	peek->pid = pid;
	peek->address = address;
	peek->size = size < SNAP_PEEK_MOST ? size : SNAP_PEEK_MOST;
	peek->got = 0;
	size = peek->size;
	if (!snap_workers_call(&peeker->workers, &work))
		return -1;
	*late_ret = false;
	got = peek->got < size ? peek->got : size;
	*size_ret = got;
	return got ? file_of(peek->bytes, got) : -1;
}

int snap_peek_with(size_t (*read)(void *context, uint8_t *bytes, const struct iovec *ranges,
				  size_t count),
		   void *context, uint64_t address, uint32_t size, uint32_t *size_ret)
{
	const struct iovec range = { (void *)(uintptr_t)address, size };
	_cleanup_free_ uint8_t *bytes = malloc(size ? size : 1);

	*size_ret = bytes ? (uint32_t)read(context, bytes, &range, 1) : 0;
	return *size_ret ? file_of(bytes, *size_ret) : -1;
}
