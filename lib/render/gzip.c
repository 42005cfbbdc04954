/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gzip as a stream: see gzip.h. */
#include "render/gzip.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <zlib.h>

enum {
	GZIP_WINDOW = 15 + 16, /* zlib.h: 16 more asks for gzip's header and trailer */
	GZIP_MEMORY = 8,       /* zlib's own default */
	OUT_SIZE = 1 << 16,
};

struct snap_gzip {
	FILE *out;
	z_stream stream;
	bool broken;
	unsigned char buffer[OUT_SIZE];
};

struct stacksnap_error *snap_gzip_create(FILE *out, struct snap_gzip **ret)
{
	_cleanup_free_ struct snap_gzip *gzip = calloc(1, sizeof(*gzip));

	SNAP_TRY(snap_no_memory_unless(gzip));
	gzip->out = out;
	if (deflateInit2(&gzip->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return snap_error_no_memory();
	*ret = snap_take_ptr(gzip);
	return NULL;
}

void snap_gzip_destroy(struct snap_gzip *gzip)
{
	if (!gzip)
		return;
	deflateEnd(&gzip->stream);
	free(gzip);
}

/* Takes all that is in the stream's input; with Z_FINISH the end of the file too. */
static void deflate_all(struct snap_gzip *gzip, int flush)
{
	z_stream *stream = &gzip->stream;

	do {
		int result;

		stream->next_out = gzip->buffer;
		stream->avail_out = OUT_SIZE;
		result = deflate(stream, flush);
		/* Z_BUF_ERROR: there was nothing to do. */
		if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
			gzip->broken = true;
		fwrite_unlocked(gzip->buffer, 1, OUT_SIZE - stream->avail_out, gzip->out);
	} while (!gzip->broken && stream->avail_out == 0);
}

void snap_gzip_write(void *context, const char *bytes, size_t size)
{
	struct snap_gzip *gzip = context;

	while (size && !gzip->broken) {
		uInt piece = size > INT_MAX ? INT_MAX : (uInt)size;

		/* zlib reads through a pointer that is not const only without ZLIB_CONST. */
		gzip->stream.next_in = (Bytef *)(uintptr_t)bytes;
		gzip->stream.avail_in = piece;
		deflate_all(gzip, Z_NO_FLUSH);
		bytes += piece;
		size -= piece;
	}
}

struct stacksnap_error *snap_gzip_finish(struct snap_gzip *gzip)
{
	gzip->stream.avail_in = 0;
	if (!gzip->broken)
		deflate_all(gzip, Z_FINISH);
	if (gzip->broken)
		return snap_error_format(SNAP_ERROR_OTHER, "cannot compress: zlib failed");
	return NULL;
}
