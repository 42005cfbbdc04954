/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Makes the image that snap_plan_execute() left readable: sorts its pieces, and removes what was
 * read twice. Done when the process runs again.
 */
#include "base/bsearch.h"
#include "stop/plan/execute.h"

#include <stdlib.h>

SNAP_ORDER(by_address, struct snap_memory_piece, left, right,
	   snap_compare(left->address, right->address), snap_compare(right->size, left->size));

static bool is_sound(const struct snap_memory_piece *piece, const uint8_t *begin,
		     const uint8_t *end)
{
	return piece->size && piece->address + piece->size > piece->address &&
	       piece->bytes >= begin && piece->bytes < end &&
	       piece->size <= (uint64_t)(end - piece->bytes);
}

void snap_plan_finish(struct snap_memory_image *image, const uint8_t *begin, const uint8_t *end)
{
	struct snap_memory_piece *pieces = image->pieces;
	size_t sound = 0, kept = 0;
	uint64_t done = 0;

	for (size_t i = 0; i < image->piece_count; i++)
		if (is_sound(&pieces[i], begin, end))
			pieces[sound++] = pieces[i];
	if (sound)
		qsort(pieces, sound, sizeof(*pieces), by_address);
	image->bytes = 0;
	for (size_t i = 0; i < sound; i++) {
		struct snap_memory_piece piece = pieces[i];
		uint64_t over = done > piece.address ? done - piece.address : 0;

		if (over >= piece.size)
			continue;
		piece.address += over;
		piece.bytes += over;
		piece.size -= over;
		done = piece.address + piece.size;
		image->bytes += piece.size;
		pieces[kept++] = piece;
	}
	image->piece_count = kept;
}
