/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tracing child's view of an address space: the mappings, the first page of each module, the
 * vDSO. Read while the target runs; again inside the pause only where they turn out to be stale.
 */
#include "base/clock.h"
#include "proc/address_space.h"
#include "proc/fuse_maps.h"
#include "stop/child/internal.h"

#include <errno.h>
#include <string.h>

enum { NEAR_MAPS = 3 }; /* the stack of the next thread lies so near */

/*
 * A page that nobody serves (userfaultfd, a filesystem in user space) blocks process_vm_readv until
 * SIGKILL; a read of the file of the memory fails at once, but there is one call a range, which
 * makes the pause a tenth longer.
 */
static size_t read_carefully(struct snap_tracer *tracer, uint32_t process, pid_t tid,
			     uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	_cleanup_fd_ int fd = snap_procfs_task_open_file(tracer->task_fds[process], tid, "mem");
	size_t total = 0;

	for (size_t i = 0; fd >= 0 && i < count; i++) {
		ssize_t got = pread(fd, bytes + total, ranges[i].iov_len,
				    (off_t)(uintptr_t)ranges[i].iov_base);

		total += got > 0 ? (size_t)got : 0;
		if (got != (ssize_t)ranges[i].iov_len)
			break;
	}
	return total;
}

size_t snap_tracer_read(struct snap_tracer *tracer, uint32_t process, pid_t tid, uint8_t *bytes,
			const struct iovec *ranges, size_t count)
{
	struct iovec local = { bytes, 0 };
	ssize_t got;

	if (tracer->stop->careful)
		return read_carefully(tracer, process, tid, bytes, ranges, count);
	for (size_t i = 0; i < count; i++)
		local.iov_len += ranges[i].iov_len;
	/* The parent looks at this clock, as a call that blocks cannot. */
	__atomic_store_n(&tracer->stop->reading_ns, snap_clock_ns(CLOCK_MONOTONIC),
			 __ATOMIC_RELEASE);
	got = process_vm_readv(tid, &local, 1, ranges, count, 0);
	__atomic_store_n(&tracer->stop->reading_ns, 0, __ATOMIC_RELEASE);
	return got < 0 ? 0 : (size_t)got;
}

struct memory {
	struct snap_tracer *tracer;
	uint32_t process;
	pid_t tid;
};

static size_t read_memory(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	const struct memory *memory = context;

	return snap_tracer_read(memory->tracer, memory->process, memory->tid, bytes, ranges, count);
}

static void hide_fuse_maps(const struct snap_tracer *tracer, uint32_t process, pid_t tid,
			   const struct snap_space_reader *reader, struct snap_space *space)
{
	_cleanup_fd_ int fd = -1;

	if (!snap_fuse_maps_possible(space))
		return;
	fd = snap_procfs_task_open_file(tracer->task_fds[process], tid, "mountinfo");
	snap_fuse_maps_hide(reader, fd, space);
}

int snap_tracer_read_maps(struct snap_tracer *tracer, uint32_t process, pid_t tid)
{
	_cleanup_fd_ int fd = snap_procfs_task_open_file(tracer->task_fds[process], tid, "maps");
	struct snap_traced *traced = &tracer->stop->processes[process];
	struct memory memory = { tracer, process, tid };
	const struct snap_space_reader reader = {
		.records = &tracer->memory->records,
		.maps = tracer->maps,
		.buffer = tracer->buffer,
		.buffer_size = SNAP_TRACER_BUFFER,
		.read = read_memory,
		.context = &memory,
		.taken = &tracer->memory->spaces,
	};
	struct snap_space space = { .pieces = traced->pieces, .piece_count = traced->piece_count };
	int error = fd < 0 ? fd : snap_space_read_maps(&reader, fd, &space);

	if (error)
		return error;
	hide_fuse_maps(tracer, process, tid, &reader, &space);
	snap_space_read_pieces(&reader, &space);
	traced->maps = space.maps;
	traced->map_count = space.map_count;
	traced->maps_cut = space.cut;
	traced->pieces = space.pieces;
	traced->piece_count = space.piece_count;
	return 0;
}

const struct snap_map *snap_tracer_find_map(struct snap_tracer *tracer, uint32_t process,
					    uint64_t address)
{
	const struct snap_traced *traced = &tracer->stop->processes[process];
	size_t from = tracer->last_map > NEAR_MAPS ? tracer->last_map - NEAR_MAPS : 0;
	size_t low, high = traced->map_count;

	/* Threads that were made one after the other have their stacks near each other. */
	for (size_t i = from; i < high && i <= tracer->last_map + NEAR_MAPS; i++) {
		const struct snap_map *map = &traced->maps[i];

		if (map->start <= address && address < map->end) {
			tracer->last_map = i;
			return map;
		}
	}
	low = snap_space_find(traced->maps, high, address);
	if (low == traced->map_count || traced->maps[low].start > address)
		return NULL;
	tracer->last_map = low;
	return &traced->maps[low];
}
