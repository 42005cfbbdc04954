/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The bytes of a file: see contents.h. */
#include "store/contents.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

void snap_contents_deinit(struct snap_contents *contents)
{
	if (contents->bytes)
		munmap(contents->bytes, contents->room);
}

static struct snap_error *make_room(struct snap_contents *contents, size_t room)
{
	void *bytes = contents->bytes
			      ? mremap(contents->bytes, contents->room, room, MREMAP_MAYMOVE)
			      : mmap(NULL, room, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		return snap_error_no_memory();
	contents->bytes = bytes;
	contents->room = room;
	return NULL;
}

struct snap_error *snap_contents_init(struct snap_contents *contents, int fd, const char *what,
				      size_t first_room, uint64_t largest)
{
	size_t room = first_room;
	struct stat status;

	*contents = (struct snap_contents){ .what = what, .largest = largest };
	/* One more than there is: then the end is seen without a growth. */
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= 0 &&
	    (uint64_t)status.st_size >= first_room && (uint64_t)status.st_size < largest)
		room = (size_t)status.st_size + 1;
	return make_room(contents, room);
}

struct snap_error *snap_contents_map(struct snap_contents *contents, int fd, const char *what)
{
	struct stat status;
	void *bytes;

	*contents = (struct snap_contents){ .what = what };
	if (fstat(fd, &status) < 0)
		return snap_error_os(errno, "cannot stat the %s", what);
	if (status.st_size <= 0)
		return snap_error_format(SNAP_ERROR_FORMAT, "the %s is empty", what);
	bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return snap_error_os(errno, "cannot map the %s", what);
	contents->bytes = bytes;
	contents->room = contents->size = (size_t)status.st_size;
	return NULL;
}

struct snap_error *snap_contents_load(struct snap_contents *contents, int fd, size_t wanted)
{
	while (contents->size < wanted) {
		size_t room = contents->room - contents->size;
		struct snap_error *err;
		ssize_t got;

		if (room == 0) {
			if (contents->room >= contents->largest)
				return snap_error_format(SNAP_ERROR_FORMAT, "the %s is too large",
							 contents->what);
			err = make_room(contents, contents->room * 2);
			if (err)
				return err;
			continue;
		}
		if (room > wanted - contents->size)
			room = wanted - contents->size;
		got = read(fd, contents->bytes + contents->size, room);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return snap_error_os(errno, "cannot read the %s", contents->what);
		if (got == 0)
			return NULL;
		contents->size += (size_t)got;
	}
	return NULL;
}

void *snap_contents_take(struct snap_contents *contents, size_t *size_ret)
{
	*size_ret = contents->room;
	return snap_take_ptr(contents->bytes);
}
