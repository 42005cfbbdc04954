/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Partial: a compressed section of which only some units are unpacked.
 *
 * Compressed bytes must be read from their start. But bytes between the wanted units are not kept,
 * and nothing is read behind the last one. Address space is reserved for the whole section, so
 * offsets keep their meaning. Bytes that are not wanted read as zeros and take no memory. Knows
 * nothing of a unit but its length.
 */
#pragma once

#include "analyze/elf/image.h"

struct snap_partial {
	uint8_t *data; /* NULL: not in use */
	size_t size;
	struct snap_bytes packed; /* in the image */
	bool whole;
};

/* False: there is no such section, or it is not compressed by zlib, or it is small. */
bool snap_partial_open(struct snap_image *image, const char *name, struct snap_partial *ret);
void snap_partial_close(struct snap_partial *partial);

/*
 * Unpacks the units (initial length, then so many bytes) at the offsets, which are sorted. What is
 * corrupt stays zero. False without memory.
 */
bool snap_partial_units(struct snap_partial *partial, const uint64_t *offsets, size_t count);
/* Unpacks all of it. */
void snap_partial_whole(struct snap_partial *partial);
