/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads bytes of an image of memory: see memory_image.h. */
#include "model/memory_image.h"

#include "base/bsearch.h"

#include <string.h>

/* The first piece that ends behind an address, or the number of pieces. */
static size_t find_end(const struct snap_memory_image *image, uint64_t address)
{
	size_t next = snap_first_not(image->piece_count, i, image->pieces[i].address <= address);

	if (next > 0 && address - image->pieces[next - 1].address < image->pieces[next - 1].size)
		return next - 1;
	return next;
}

/* The piece that holds an address, or the number of pieces. */
static size_t find_piece(const struct snap_memory_image *image, uint64_t address)
{
	size_t i = find_end(image, address);

	return i < image->piece_count && image->pieces[i].address <= address ? i
									     : image->piece_count;
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

const uint8_t *snap_memory_image_bytes(const struct snap_memory_image *image, uint64_t address,
				       uint64_t size)
{
	size_t i = find_piece(image, address);
	const struct snap_memory_piece *piece = &image->pieces[i];

	if (i == image->piece_count || piece->size - (address - piece->address) < size)
		return NULL;
	return piece->bytes + (address - piece->address);
}

bool snap_memory_image_next(const struct snap_memory_image *image, uint64_t address,
			    uint64_t *start_ret, uint64_t *size_ret)
{
	size_t i = find_end(image, address);
	uint64_t start, end;

	if (i == image->piece_count)
		return false;
	start = image->pieces[i].address > address ? image->pieces[i].address : address;
	end = image->pieces[i].address + image->pieces[i].size;
	while (++i < image->piece_count && image->pieces[i].address == end)
		end += image->pieces[i].size;
	*start_ret = start;
	*size_ret = end - start;
	return true;
}
