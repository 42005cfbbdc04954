/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Bodies of answers: see body.h. */
#include "serve/body.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static bool take_room(struct snap_serve_body *body, size_t size)
{
	if (atomic_fetch_add(body->all, size) + size <= SNAP_SERVE_MOST_BODIES)
		return true;
	atomic_fetch_sub(body->all, size);
	return false;
}

static ssize_t write_some(void *cookie, const char *bytes, size_t size)
{
	struct snap_serve_body *body = cookie;
	size_t done = 0;

	body->is_full |= size > SNAP_SERVE_MOST_BODY - body->size;
	if (!body->is_full && !take_room(body, size))
		body->is_crowded = true;
	if (body->is_full || body->is_crowded) {
		errno = ENOSPC;
		return 0;
	}
	body->size += size;
	while (done < size) {
		ssize_t put = write(body->fd, bytes + done, size - done);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return 0;
		done += (size_t)put;
	}
	return (ssize_t)size;
}

bool snap_serve_body_open(struct snap_serve_body *body, atomic_size_t *all)
{
	*body = (struct snap_serve_body){ .fd = memfd_create("stacksnap-answer", MFD_CLOEXEC),
					  .all = all };
	if (body->fd < 0)
		return false;
	body->out = fopencookie(body, "w", (cookie_io_functions_t){ .write = write_some });
	return body->out != NULL;
}

bool snap_serve_body_finish(struct snap_serve_body *body)
{
	bool failed = ferror(body->out);
	FILE *out = body->out;

	body->out = NULL;
	return fclose(out) == 0 && !failed;
}

int snap_serve_body_take(struct snap_serve_body *body)
{
	int fd = body->fd;

	body->fd = -1;
	return fd;
}

void snap_serve_body_deinit(struct snap_serve_body *body)
{
	if (body->out)
		fclose(body->out);
	if (body->fd >= 0) {
		close(body->fd);
		atomic_fetch_sub(body->all, body->size);
	}
	body->out = NULL;
	body->fd = -1;
}
