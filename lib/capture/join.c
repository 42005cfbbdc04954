/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One image of several: see join.h. */
#include "capture/join.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_PIECES = 64, ROOM_PARTS = 4 /* of what is left, one part may be taken at a time */ };

static uint64_t end_of(const struct snap_memory_piece *piece)
{
	return piece->address + piece->size;
}

/* Room for one more behind so many, which are kept. */
static bool reserve_piece(struct snap_joined_image *joined, struct snap_shared_memory *shared,
			  size_t used)
{
	size_t capacity = 2 * used + FIRST_PIECES;
	struct snap_memory_piece *pieces;

	if (used < joined->capacity)
		return true;
	pieces = snap_region_new_array(&shared->records, capacity, struct snap_memory_piece);
	if (!pieces)
		return false;
	if (used)
		memcpy(pieces, joined->image.pieces, used * sizeof(*pieces));
	joined->image.pieces = pieces;
	joined->capacity = capacity;
	return true;
}

/* The first piece that ends behind an address. */
static size_t find_piece(const struct snap_memory_image *image, uint64_t address)
{
	size_t low = 0, high = image->piece_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (end_of(&image->pieces[middle]) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Bytes that no piece has; behind those that are sorted, for the time being. */
static void add_bytes(struct snap_joined_image *joined, struct snap_shared_memory *shared,
		      uint64_t address, const uint8_t *bytes, uint64_t size, size_t *added)
{
	struct snap_memory_image *image = &joined->image;
	uint8_t *kept = NULL;

	if (size <= snap_region_room(&shared->stacks) / ROOM_PARTS &&
	    image->bytes + size <= joined->most &&
	    reserve_piece(joined, shared, image->piece_count + *added))
		kept = snap_region_alloc(&shared->stacks, size);
	if (!kept) {
		image->steps[image->step_count ? image->step_count - 1 : 0].cut =
			SNAP_PLAN_CUT_MEMORY;
		return;
	}
	memcpy(kept, bytes, size);
	image->pieces[image->piece_count + (*added)++] =
		(struct snap_memory_piece){ address, size, kept };
	image->bytes += size;
}

static void add_piece(struct snap_joined_image *joined, struct snap_shared_memory *shared,
		      const struct snap_memory_piece *piece, size_t *added)
{
	uint64_t at = piece->address, end = end_of(piece);

	for (size_t i = find_piece(&joined->image, at); at < end; i++) {
		const struct snap_memory_piece *next =
			i < joined->image.piece_count ? &joined->image.pieces[i] : NULL;
		uint64_t until = next && next->address < end ? next->address : end;

		if (until > at)
			add_bytes(joined, shared, at, piece->bytes + (at - piece->address),
				  until - at, added);
		if (!next)
			return;
		at = end_of(next);
	}
}

/* Those that were added are sorted, as the others are, and overlap with none. */
static void merge_pieces(struct snap_memory_image *image, size_t added)
{
	struct snap_memory_piece *pieces = image->pieces;
	size_t left = image->piece_count, right = added, to = image->piece_count + added;
	_cleanup_free_ struct snap_memory_piece *fresh = NULL;

	if (!added)
		return;
	fresh = malloc(added * sizeof(*fresh));
	if (!fresh)
		return;
	memcpy(fresh, pieces + left, added * sizeof(*fresh));
	image->piece_count += added;
	while (right) {
		bool is_left = left && pieces[left - 1].address > fresh[right - 1].address;

		pieces[--to] = is_left ? pieces[--left] : fresh[--right];
	}
}

/* ---- what is a thread's own ---- */

/* Writes over what another thread's copy has of it. */
static void take_own(struct snap_joined_image *joined, const struct snap_memory_image *from,
		     const struct snap_memory_own *own)
{
	const struct snap_memory_image *image = &joined->image;
	uint64_t at = own->address, end = own->address + own->size;

	for (size_t i = find_piece(image, at); i < image->piece_count && at < end; i++) {
		const struct snap_memory_piece *piece = &image->pieces[i];
		uint64_t until = end_of(piece) < end ? end_of(piece) : end;

		at = piece->address > at ? piece->address : at;
		/* All pieces are in memory of ours. */
		if (at < until)
			(void)snap_memory_image_read(from, at,
						     (uint8_t *)(uintptr_t)piece->bytes +
							     (at - piece->address),
						     until - at);
		at = until;
	}
}

void snap_join_image(struct snap_joined_image *joined, struct snap_shared_memory *shared,
		     const struct snap_memory_image *from)
{
	struct snap_memory_image *image = &joined->image;
	size_t added = 0;

	if (image->step_count < from->step_count)
		image->step_count = from->step_count;
	for (uint32_t i = 0; i < from->step_count; i++) {
		image->steps[i].records += from->steps[i].records;
		image->steps[i].bytes += from->steps[i].bytes;
		if (!image->steps[i].cut)
			image->steps[i].cut = from->steps[i].cut;
	}
	for (size_t i = 0; i < from->piece_count; i++)
		add_piece(joined, shared, &from->pieces[i], &added);
	merge_pieces(image, added);
	for (uint32_t i = 0; i < from->own_count; i++)
		take_own(joined, from, &from->own[i]);
}
