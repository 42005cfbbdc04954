/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The bytes of a file: see contents.h. */
#include "store/contents.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

void snap_contents_deinit(struct snap_contents *contents)
{
	if (contents->bytes)
		munmap(contents->bytes, contents->capacity);
}

/* Room that is not used takes no memory, however large. */
static struct stacksnap_error *resize_contents(struct snap_contents *contents, size_t capacity)
{
	void *bytes = contents->bytes ? mremap(contents->bytes, contents->capacity, capacity,
					       MREMAP_MAYMOVE)
				      : mmap(NULL, capacity, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	SNAP_TRY(snap_no_memory_unless(bytes != MAP_FAILED));
	contents->bytes = bytes;
	contents->capacity = capacity;
	return NULL;
}

static struct stacksnap_error *too_large(const struct snap_contents *contents)
{
	return snap_error_format(SNAP_ERROR_FORMAT, "the %s is too large", contents->what);
}

struct stacksnap_error *snap_contents_init(struct snap_contents *contents, int fd, const char *what,
					   size_t first_size, uint64_t largest)
{
	size_t capacity = first_size;
	struct stat status;

	*contents = (struct snap_contents){ .what = what, .fd = fd, .largest = largest };
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= 0) {
		if ((uint64_t)status.st_size >= largest)
			return too_large(contents);
		contents->is_file = true;
		contents->total = (size_t)status.st_size;
		capacity = SNAP_MAX(capacity, contents->total);
	}
	return resize_contents(contents, capacity);
}

struct stacksnap_error *snap_contents_map(struct snap_contents *contents, int fd, const char *what)
{
	struct stat status;
	void *bytes;

	*contents = (struct snap_contents){ .what = what, .fd = -1 };
	if (fstat(fd, &status) < 0)
		return snap_error_os(errno, "cannot stat the %s", what);
	if (status.st_size <= 0)
		return snap_error_format(SNAP_ERROR_FORMAT, "the %s is empty", what);
	bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return snap_error_os(errno, "cannot map the %s", what);
	contents->bytes = bytes;
	contents->capacity = contents->size = contents->total = (size_t)status.st_size;
	return NULL;
}

struct stacksnap_error *snap_contents_load(struct snap_contents *contents, size_t wanted)
{
	if (contents->is_file)
		wanted = SNAP_MIN(wanted, contents->total);
	else if (contents->size)
		wanted = SIZE_MAX;
	while (contents->fd >= 0 && contents->size < wanted) {
		size_t part = contents->capacity - contents->size;
		ssize_t got;

		if (part == 0) {
			if (contents->capacity >= contents->largest)
				return too_large(contents);
			SNAP_TRY(resize_contents(contents, contents->capacity * 2));
			continue;
		}
		part = SNAP_MIN(part, wanted - contents->size);
		got = read(contents->fd, contents->bytes + contents->size, part);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return snap_error_os(errno, "cannot read the %s", contents->what);
		if (got == 0)
			contents->fd = -1;
		contents->size += (size_t)got;
		contents->total = SNAP_MAX(contents->total, contents->size);
	}
	return NULL;
}

void *snap_contents_take(struct snap_contents *contents, size_t *size_ret)
{
	*size_ret = contents->capacity;
	return snap_take_ptr(contents->bytes);
}
