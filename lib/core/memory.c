/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of a process as its core has it: addresses become places in the file, which is read there
 * and nowhere else. A file may be sparse, and larger than all memory.
 */
#include "base/bsearch.h"
#include "core/notes.h"

#include <errno.h>
#include <string.h>
#include <sys/types.h>

struct snap_core_memory snap_core_memory_of(const struct snap_core *core, int fd)
{
	return (struct snap_core_memory){
		.fd = fd,
		.segments = core->segments,
		.segment_count = core->segment_count,
	};
}

/* Where the bytes at an address are, and how many without a gap; false: they are nowhere. */
static bool find_bytes(const struct snap_core_memory *memory, uint64_t address,
		       uint64_t *offset_ret, uint64_t *size_ret)
{
	size_t next =
		snap_first_not(memory->segment_count, i, memory->segments[i].address <= address);
	const struct snap_core_segment *segment = next ? &memory->segments[next - 1] : NULL;
	uint64_t at = segment ? address - segment->address : 0;

	if (!segment || at >= segment->file_size ||
	    __builtin_add_overflow(segment->offset, at, offset_ret) || *offset_ret > INT64_MAX)
		return false;
	*size_ret = segment->file_size - at;
	return true;
}

size_t snap_core_read_at(int fd, void *bytes, size_t size, uint64_t offset)
{
	size_t done = 0;

	while (done < size && offset <= (uint64_t)INT64_MAX - size) {
		ssize_t got =
			pread(fd, (uint8_t *)bytes + done, size - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

/* A range may lie in several segments, next to each other. */
size_t snap_core_memory_bytes(const struct snap_core_memory *memory, uint64_t address, void *bytes,
			      size_t size)
{
	size_t done = 0;

	while (done < size) {
		uint64_t offset, there;
		size_t part, got;

		if (!find_bytes(memory, address + done, &offset, &there))
			break;
		part = there < size - done ? (size_t)there : size - done;
		got = snap_core_read_at(memory->fd, (uint8_t *)bytes + done, part, offset);
		done += got;
		if (got < part)
			break;
	}
	return done;
}

size_t snap_core_memory_read(void *memory, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	size_t total = 0;

	for (size_t i = 0; i < count; i++) {
		size_t got = snap_core_memory_bytes(memory, (uintptr_t)ranges[i].iov_base,
						    bytes + total, ranges[i].iov_len);

		total += got;
		if (got < ranges[i].iov_len)
			break;
	}
	return total;
}
