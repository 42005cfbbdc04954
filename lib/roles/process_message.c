/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processes for parsers that stay: see process_message.h. The codec is that of captures. */
#include "roles/process_message.h"

#include "roles/role.h"
#include "store/capture/model.h"

#include <errno.h>
#include <sys/mman.h>

/* Precedes the bytes; the message carries their descriptor. */
struct header {
	uint64_t size;
};

static struct stacksnap_error *encode(const struct snap_process *process, int *fd_ret,
				      uint64_t *size_ret)
{
	struct snap_process sent = *process;
	struct snap_capture alone = { .processes = &sent, .process_count = 1 };
	struct snap_codec codec = { .mode = SNAP_CODEC_COUNT };
	_cleanup_fd_ int fd = memfd_create("stacksnap-process", MFD_CLOEXEC);
	void *bytes;

	if (fd < 0)
		return snap_error_os(errno, "cannot pass a process to the parser");
	sent.thread_count = sent.threads_missed = sent.embedded_count = sent.ancestor_count = 0;
	sent.args_size = 0;
	sent.memory = NULL;
	sent.parent = SIZE_MAX;
	snap_code_process(&codec, &alone, 0);
	if (ftruncate(fd, (off_t)codec.position) < 0)
		return snap_error_os(errno, "cannot pass a process to the parser");
	*size_ret = codec.position;
	bytes = mmap(NULL, *size_ret, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		return snap_error_os(errno, "cannot pass a process to the parser");
	codec = (struct snap_codec){ .mode = SNAP_CODEC_WRITE, .memory = bytes };
	snap_code_process(&codec, &alone, 0);
	munmap(bytes, *size_ret);
	*fd_ret = snap_take_fd(&fd);
	return NULL;
}

struct stacksnap_error *snap_process_send(int channel, const struct snap_process *process)
{
	struct header header = { 0 };
	_cleanup_fd_ int fd = -1;

	return encode(process, &fd, &header.size)
		       ?: snap_wire_send(channel, &header, sizeof(header), fd);
}

static bool decode(struct snap_arena *arena, struct snap_process *ret,
		   const struct snap_process_bytes *bytes)
{
	struct snap_codec codec = {
		.mode = SNAP_CODEC_READ, .size = bytes->size, .bytes = bytes->bytes, .arena = arena
	};
	/* The codec needs a capture around the process; the receiver knows the real one. */
	struct snap_capture alone = { .processes = ret, .process_count = 1 };

	*ret = (struct snap_process){ 0 };
	snap_code_process(&codec, &alone, 0);
	return !codec.problem;
}

bool snap_process_receive(int channel, struct snap_arena *arena, struct snap_process *ret,
			  struct snap_process_bytes *bytes_ret)
{
	struct snap_process_bytes bytes;
	struct header header;
	_cleanup_fd_ int fd = -1;
	size_t size;

	if (snap_error_ignore(snap_wire_receive(channel, &header, sizeof(header), &size, &fd)) ||
	    size != sizeof(header) || fd < 0 || header.size == 0)
		return false;
	bytes.size = header.size;
	bytes.bytes = mmap(NULL, bytes.size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes.bytes == MAP_FAILED)
		return false;
	if (!decode(arena, ret, &bytes)) {
		munmap(bytes.bytes, bytes.size);
		return false;
	}
	*bytes_ret = bytes;
	return true;
}
