/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Captures as bytes of a file, for tests that change some of them. */
#pragma once

#include "base/table.h"
#include "store/capture/file.h"
#include "store/codec.h"

#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

struct bytes {
	uint8_t *data;
	size_t size;
};

static inline struct bytes write_capture(const struct snap_capture *capture)
{
	int fd = memfd_create("capture", MFD_CLOEXEC);
	struct bytes bytes;

	assert_true(fd >= 0);
	assert_null(snap_capture_write(capture, fd));
	bytes.size = (size_t)lseek(fd, 0, SEEK_END);
	bytes.data = malloc(bytes.size + 1);
	assert_non_null(bytes.data);
	assert_int_equal(pread(fd, bytes.data, bytes.size, 0), bytes.size);
	close(fd);
	return bytes;
}

static inline struct stacksnap_error *read_capture(const void *data, size_t size,
						   struct snap_capture **ret)
{
	int fd = memfd_create("capture", MFD_CLOEXEC);
	struct stacksnap_error *err;

	assert_true(fd >= 0);
	assert_int_equal(snap_write_all(fd, data, size), 0);
	lseek(fd, 0, SEEK_SET);
	err = snap_capture_read(fd, ret);
	close(fd);
	return err;
}

static inline void refuse(const void *data, size_t size, const char *why)
{
	struct snap_capture *capture = NULL;
	struct stacksnap_error *err = read_capture(data, size, &capture);

	assert_non_null(err);
	assert_null(capture);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	if (!strstr(snap_error_message(err), why))
		fail_msg("\"%s\" does not say \"%s\"", snap_error_message(err), why);
	snap_error_destroy(err);
}

/* Makes the checksum of the section that holds `changed` right again. */
static inline void sign(struct bytes *bytes, size_t changed)
{
	size_t at = 32;

	while (at + 16 <= bytes->size) {
		uint64_t length, payload, whole, hash;

		memcpy(&length, bytes->data + at + 8, sizeof(length));
		length = le64toh(length);
		/* The length itself was changed: no checksum can help. */
		if (length > bytes->size - at - 32)
			return;
		payload = at + 16;
		whole = (length + 15) & ~15ull;
		if (changed < payload + whole) {
			hash = snap_codec_hash(bytes->data + payload, length);
			hash = htole64(snap_hash_bytes(bytes->data + at, 16, hash));
			memcpy(bytes->data + payload + whole, &hash, sizeof(hash));
			return;
		}
		at = payload + whole + 16;
	}
}
