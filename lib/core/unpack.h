/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Packed cores: as systemd-coredump keeps them (zstd, lz4, xz), or packed by hand (gzip). Bytes in,
 * bytes out, a piece at a time, with bounded memory. Knows nothing of what is packed, nor where the
 * bytes come from.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum snap_packing {
	SNAP_PACKING_NONE,
	SNAP_PACKING_GZIP,
	SNAP_PACKING_XZ,
	SNAP_PACKING_ZSTD,
	SNAP_PACKING_LZ4,
	SNAP_PACKING_COUNT,
};

/* By the first bytes of a file. */
enum snap_packing snap_packing_of(const void *bytes, size_t size);

struct snap_unpacker;

/* FORMAT: this build has no library for it. NO_MEMORY. */
struct stacksnap_error *snap_unpacker_create(enum snap_packing packing,
					     struct snap_unpacker **ret) _must_check_;
void snap_unpacker_destroy(struct snap_unpacker *unpacker);

SNAP_POINTER_GUARD(struct snap_unpacker, snap_unpacker_destroy);

/* Both are moved on by what was used of them. */
struct snap_unpack_step {
	const uint8_t *in;
	size_t in_size;
	uint8_t *out;
	size_t out_size;
};

/* FORMAT: the bytes are damaged; what came out before is right. */
struct stacksnap_error *snap_unpacker_step(struct snap_unpacker *unpacker,
					   struct snap_unpack_step *step) _must_check_;
