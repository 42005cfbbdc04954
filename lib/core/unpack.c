/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The libraries that unpack, behind one table: see unpack.h. Each goes on with what follows the end
 * of a stream, as files are put together.
 */
#include "core/unpack.h"

#include <lzma.h>
#include <string.h>
#include <zlib.h>

#ifdef SNAP_WITH_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif
#ifdef SNAP_WITH_LZ4
#include <lz4frame.h>
#endif

/* The most that one of them takes for itself. */
static const uint64_t MOST_MEMORY = 128u << 20;

struct snap_unpacker {
	enum snap_packing packing;
	z_stream gzip;
	bool needs_more; /* than MOST_MEMORY */
	lzma_stream xz;
#ifdef SNAP_WITH_ZSTD
	ZSTD_DStream *zstd;
#endif
#ifdef SNAP_WITH_LZ4
	LZ4F_dctx *lz4;
#endif
};

static const struct {
	const char *name, *library; /* library: of which a build may do without; NULL: of none */
	size_t size;
	uint8_t magic[6];
} packings[SNAP_PACKING_COUNT] = {
	[SNAP_PACKING_NONE] = { NULL, NULL, 0, { 0 } },
	[SNAP_PACKING_GZIP] = { "gzip", NULL, 3, { 0x1f, 0x8b, 8 } },
	[SNAP_PACKING_XZ] = { "xz", NULL, 6, { 0xfd, '7', 'z', 'X', 'Z', 0 } },
	[SNAP_PACKING_ZSTD] = { "zstd", "libzstd", 4, { 0x28, 0xb5, 0x2f, 0xfd } },
	[SNAP_PACKING_LZ4] = { "lz4", "liblz4", 4, { 0x04, 0x22, 0x4d, 0x18 } },
};

enum snap_packing snap_packing_of(const void *bytes, size_t size)
{
	for (enum snap_packing i = SNAP_PACKING_GZIP; i < SNAP_PACKING_COUNT; i++)
		if (size >= packings[i].size &&
		    memcmp(bytes, packings[i].magic, packings[i].size) == 0)
			return i;
	return SNAP_PACKING_NONE;
}

/* ---- gzip ---- */

static bool begin_gzip(struct snap_unpacker *unpacker)
{
	enum { WINDOW_BITS = 15, WITH_GZIP = 16 };

	return inflateInit2(&unpacker->gzip, WINDOW_BITS + WITH_GZIP) == Z_OK;
}

static bool step_gzip(struct snap_unpacker *unpacker, struct snap_unpack_step *step)
{
	z_stream *stream = &unpacker->gzip;
	size_t in = step->in_size < UINT32_MAX ? step->in_size : UINT32_MAX;
	size_t out = step->out_size < UINT32_MAX ? step->out_size : UINT32_MAX;
	int result;

	stream->next_in = (Bytef *)(uintptr_t)step->in;
	stream->avail_in = (uInt)in;
	stream->next_out = step->out;
	stream->avail_out = (uInt)out;
	result = inflate(stream, Z_NO_FLUSH);
	step->in += in - stream->avail_in;
	step->in_size -= in - stream->avail_in;
	step->out += out - stream->avail_out;
	step->out_size -= out - stream->avail_out;
	if (result == Z_STREAM_END)
		return inflateReset(stream) == Z_OK;
	return result == Z_OK || result == Z_BUF_ERROR;
}

/* ---- xz ---- */

static bool begin_xz(struct snap_unpacker *unpacker)
{
	unpacker->xz = (lzma_stream)LZMA_STREAM_INIT;
	return lzma_stream_decoder(&unpacker->xz, MOST_MEMORY, LZMA_CONCATENATED) == LZMA_OK;
}

static bool step_xz(struct snap_unpacker *unpacker, struct snap_unpack_step *step)
{
	lzma_stream *stream = &unpacker->xz;
	lzma_ret result;

	stream->next_in = step->in;
	stream->avail_in = step->in_size;
	stream->next_out = step->out;
	stream->avail_out = step->out_size;
	result = lzma_code(stream, LZMA_RUN);
	step->in = stream->next_in;
	step->in_size = stream->avail_in;
	step->out = stream->next_out;
	step->out_size = stream->avail_out;
	unpacker->needs_more = result == LZMA_MEMLIMIT_ERROR;
	return result == LZMA_OK || result == LZMA_BUF_ERROR || result == LZMA_STREAM_END;
}

/* ---- zstd ---- */

#ifdef SNAP_WITH_ZSTD

static bool begin_zstd(struct snap_unpacker *unpacker)
{
	enum { LARGEST_WINDOW = 27 }; /* its logarithm: 128 MiB */

	unpacker->zstd = ZSTD_createDStream();
	return unpacker->zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(
					 unpacker->zstd, ZSTD_d_windowLogMax, LARGEST_WINDOW));
}

static bool step_zstd(struct snap_unpacker *unpacker, struct snap_unpack_step *step)
{
	ZSTD_inBuffer in = { step->in, step->in_size, 0 };
	ZSTD_outBuffer out = { step->out, step->out_size, 0 };
	size_t result = ZSTD_decompressStream(unpacker->zstd, &out, &in);

	step->in += in.pos;
	step->in_size -= in.pos;
	step->out += out.pos;
	step->out_size -= out.pos;
	unpacker->needs_more =
		ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge;
	return !ZSTD_isError(result);
}

static void end_zstd(struct snap_unpacker *unpacker)
{
	ZSTD_freeDStream(unpacker->zstd);
}

#else

static bool begin_zstd(struct snap_unpacker *unpacker _unused_)
{
	return false;
}

static bool step_zstd(struct snap_unpacker *unpacker _unused_,
		      struct snap_unpack_step *step _unused_)
{
	return false;
}

static void end_zstd(struct snap_unpacker *unpacker _unused_)
{
}

#endif

/* ---- lz4 ---- */

#ifdef SNAP_WITH_LZ4

static bool begin_lz4(struct snap_unpacker *unpacker)
{
	return !LZ4F_isError(LZ4F_createDecompressionContext(&unpacker->lz4, LZ4F_VERSION));
}

static bool step_lz4(struct snap_unpacker *unpacker, struct snap_unpack_step *step)
{
	size_t in = step->in_size, out = step->out_size;
	size_t result = LZ4F_decompress(unpacker->lz4, step->out, &out, step->in, &in, NULL);

	if (LZ4F_isError(result))
		return false;
	step->in += in;
	step->in_size -= in;
	step->out += out;
	step->out_size -= out;
	return true;
}

static void end_lz4(struct snap_unpacker *unpacker)
{
	LZ4F_freeDecompressionContext(unpacker->lz4);
}

#else

static bool begin_lz4(struct snap_unpacker *unpacker _unused_)
{
	return false;
}

static bool step_lz4(struct snap_unpacker *unpacker _unused_,
		     struct snap_unpack_step *step _unused_)
{
	return false;
}

static void end_lz4(struct snap_unpacker *unpacker _unused_)
{
}

#endif

/* ---- all of them ---- */

static bool is_built(enum snap_packing packing)
{
	switch (packing) {
	case SNAP_PACKING_ZSTD:
#ifdef SNAP_WITH_ZSTD
		return true;
#else
		return false;
#endif
	case SNAP_PACKING_LZ4:
#ifdef SNAP_WITH_LZ4
		return true;
#else
		return false;
#endif
	case SNAP_PACKING_GZIP:
	case SNAP_PACKING_XZ:
		return true;
	case SNAP_PACKING_NONE:
	case SNAP_PACKING_COUNT:
		break;
	}
	return false;
}

static bool begin_unpacking(struct snap_unpacker *unpacker)
{
	switch (unpacker->packing) {
	case SNAP_PACKING_GZIP:
		return begin_gzip(unpacker);
	case SNAP_PACKING_XZ:
		return begin_xz(unpacker);
	case SNAP_PACKING_ZSTD:
		return begin_zstd(unpacker);
	case SNAP_PACKING_LZ4:
		return begin_lz4(unpacker);
	case SNAP_PACKING_NONE:
	case SNAP_PACKING_COUNT:
		break;
	}
	return false;
}

struct stacksnap_error *snap_unpacker_create(enum snap_packing packing, struct snap_unpacker **ret)
{
	_cleanup_(snap_unpacker_destroyp) struct snap_unpacker *unpacker = NULL;

	if (!is_built(packing))
		return snap_error_format(SNAP_ERROR_FORMAT,
					 "the core is packed by %s, and this stacksnap was built "
					 "without %s: unpack it first",
					 packings[packing].name, packings[packing].library);
	unpacker = calloc(1, sizeof(*unpacker));
	SNAP_TRY(snap_no_memory_unless(unpacker));
	unpacker->packing = packing;
	SNAP_TRY(snap_no_memory_unless(begin_unpacking(unpacker)));
	*ret = snap_take_ptr(unpacker);
	return NULL;
}

void snap_unpacker_destroy(struct snap_unpacker *unpacker)
{
	if (!unpacker)
		return;
	switch (unpacker->packing) {
	case SNAP_PACKING_GZIP:
		inflateEnd(&unpacker->gzip);
		break;
	case SNAP_PACKING_XZ:
		lzma_end(&unpacker->xz);
		break;
	case SNAP_PACKING_ZSTD:
		end_zstd(unpacker);
		break;
	case SNAP_PACKING_LZ4:
		end_lz4(unpacker);
		break;
	case SNAP_PACKING_NONE:
	case SNAP_PACKING_COUNT:
		break;
	}
	free(unpacker);
}

struct stacksnap_error *snap_unpacker_step(struct snap_unpacker *unpacker,
					   struct snap_unpack_step *step)
{
	bool fine = false;

	switch (unpacker->packing) {
	case SNAP_PACKING_GZIP:
		fine = step_gzip(unpacker, step);
		break;
	case SNAP_PACKING_XZ:
		fine = step_xz(unpacker, step);
		break;
	case SNAP_PACKING_ZSTD:
		fine = step_zstd(unpacker, step);
		break;
	case SNAP_PACKING_LZ4:
		fine = step_lz4(unpacker, step);
		break;
	case SNAP_PACKING_NONE:
	case SNAP_PACKING_COUNT:
		break;
	}
	if (unpacker->needs_more)
		return snap_error_format(SNAP_ERROR_FORMAT,
					 "unpacking the core takes more than %llu MiB of memory "
					 "(%s): unpack it first",
					 (unsigned long long)(MOST_MEMORY >> 20),
					 packings[unpacker->packing].name);
	return fine ? NULL
		    : snap_error_format(SNAP_ERROR_FORMAT, "the packed core is damaged (%s)",
					packings[unpacker->packing].name);
}
