/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Bytes out of an image of memory: see memory_image.h. */
#include "model/memory_image.h"

#include <string.h>

/* The piece that holds an address, or the number of pieces. */
static size_t find_piece(const struct snap_memory_image *image, uint64_t address)
{
	size_t low = 0, high = image->piece_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (image->pieces[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || address - image->pieces[low - 1].address >= image->pieces[low - 1].size)
		return image->piece_count;
	return low - 1;
}

bool snap_memory_image_read(const struct snap_memory_image *image, uint64_t address, void *out,
			    size_t size)
{
	uint8_t *to = out;
	size_t i;

	if (size == 0)
		return true;
	for (i = find_piece(image, address); i < image->piece_count; i++) {
		const struct snap_memory_piece *piece = &image->pieces[i];
		uint64_t skipped = address - piece->address, part;

		if (address < piece->address || skipped >= piece->size)
			return false;
		part = piece->size - skipped;
		if (part > size)
			part = size;
		memcpy(to, piece->bytes + skipped, part);
		to += part;
		address += part;
		size -= part;
		if (size == 0)
			return true;
	}
	return false;
}
