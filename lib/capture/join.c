/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One image of several: see join.h. */
#include "capture/join.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_PIECES = 64, ROOM_PARTS = 4 /* of what is left, one part may be taken at a time */ };

static uint64_t end_of_piece(const struct snap_memory_piece *piece)
{
	return piece->address + piece->size;
}

/* Room for one more behind so many, which are kept. */
static bool reserve_joined_piece(struct snap_joined_image *joined,
				 struct snap_shared_memory *shared, size_t used)
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

		if (end_of_piece(&image->pieces[middle]) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Something was left out. */
static void say_cut(struct snap_memory_image *image)
{
	image->steps[image->step_count ? image->step_count - 1 : 0].cut = SNAP_PLAN_CUT_MEMORY;
}

/* Bytes that no piece has; behind those that are sorted, for the time being. */
static void add_bytes(struct snap_joined_image *joined, struct snap_shared_memory *shared,
		      uint64_t address, const uint8_t *bytes, uint64_t size, size_t *added)
{
	struct snap_memory_image *image = &joined->image;
	uint8_t *kept = NULL;

	if (size <= snap_region_room(&shared->stacks) / ROOM_PARTS &&
	    image->bytes + joined->apart + size <= joined->most &&
	    reserve_joined_piece(joined, shared, image->piece_count + *added))
		kept = snap_region_alloc(&shared->stacks, size);
	if (!kept) {
		say_cut(image);
		return;
	}
	memcpy(kept, bytes, size);
	image->pieces[image->piece_count + (*added)++] =
		(struct snap_memory_piece){ address, size, kept };
	image->bytes += size;
}

static void add_joined_piece(struct snap_joined_image *joined, struct snap_shared_memory *shared,
			     const struct snap_memory_piece *piece, size_t *added)
{
	uint64_t at = piece->address, end = end_of_piece(piece);

	for (size_t i = find_piece(&joined->image, at); at < end; i++) {
		const struct snap_memory_piece *next =
			i < joined->image.piece_count ? &joined->image.pieces[i] : NULL;
		uint64_t until = next && next->address < end ? next->address : end;

		if (until > at)
			add_bytes(joined, shared, at, piece->bytes + (at - piece->address),
				  until - at, added);
		if (!next)
			return;
		at = end_of_piece(next);
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

static void join_image(struct snap_joined_image *joined, struct snap_shared_memory *shared,
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
		add_joined_piece(joined, shared, &from->pieces[i], &added);
	merge_pieces(image, added);
}

/* ---- the image of a thread ---- */

/* In how many parts the joined image has a piece, or some of it. */
static size_t count_parts(const struct snap_memory_image *image,
			  const struct snap_memory_piece *piece)
{
	size_t first = find_piece(image, piece->address), i = first;

	while (i < image->piece_count && image->pieces[i].address < end_of_piece(piece))
		i++;
	return i - first;
}

/* Bytes as a thread has them: those of the joined image where they are the same; NULL: no room. */
static const uint8_t *keep_bytes(struct snap_joined_image *joined,
				 struct snap_shared_memory *shared, const uint8_t *joined_bytes,
				 const uint8_t *bytes, uint64_t size)
{
	uint8_t *kept = NULL;

	if (memcmp(joined_bytes, bytes, size) == 0)
		return joined_bytes;
	if (size <= snap_region_room(&shared->stacks) / ROOM_PARTS &&
	    joined->image.bytes + joined->apart + size <= joined->most)
		kept = snap_region_alloc(&shared->stacks, size);
	if (!kept)
		return NULL;
	joined->apart += size;
	return memcpy(kept, bytes, size);
}

/* False: some of it was left out. */
static bool keep_joined_piece(struct snap_joined_image *joined, struct snap_shared_memory *shared,
			      const struct snap_memory_piece *piece, struct snap_memory_image *ret)
{
	const struct snap_memory_image *image = &joined->image;
	uint64_t at = piece->address, end = end_of_piece(piece);
	bool is_whole = true;

	for (size_t i = find_piece(image, at); at < end; i++) {
		const struct snap_memory_piece *part =
			i < image->piece_count ? &image->pieces[i] : NULL;
		uint64_t until = part && end_of_piece(part) < end ? end_of_piece(part) : end;
		const uint8_t *bytes;

		if (!part || part->address >= end)
			return false;
		is_whole &= part->address <= at;
		at = part->address > at ? part->address : at;
		bytes = keep_bytes(joined, shared, part->bytes + (at - part->address),
				   piece->bytes + (at - piece->address), until - at);
		if (bytes) {
			ret->pieces[ret->piece_count++] =
				(struct snap_memory_piece){ at, until - at, bytes };
			ret->bytes += until - at;
		}
		is_whole &= bytes != NULL;
		at = until;
	}
	return is_whole;
}

/* With room for so many pieces; NULL: there is none. */
static struct snap_memory_image *new_image(struct snap_joined_image *joined,
					   struct snap_shared_memory *shared, size_t count)
{
	struct snap_memory_image *image;
	uint64_t size = count * sizeof(*image->pieces);

	if (size > snap_region_room(&shared->records) / ROOM_PARTS ||
	    joined->image.bytes + joined->apart + size > joined->most)
		return NULL;
	image = snap_region_alloc(&shared->records, sizeof(*image));
	if (!image)
		return NULL;
	image->pieces = snap_region_new_array(&shared->records, count, struct snap_memory_piece);
	joined->apart += size;
	return image->pieces ? image : NULL;
}

const struct snap_memory_image *snap_join_image(struct snap_joined_image *joined,
						struct snap_shared_memory *shared,
						const struct snap_memory_image *from)
{
	struct snap_memory_image *image;
	struct snap_memory_piece *pieces;
	bool is_whole = true;
	size_t count = 0;

	join_image(joined, shared, from);
	for (size_t i = 0; i < from->piece_count; i++)
		count += count_parts(&joined->image, &from->pieces[i]);
	image = new_image(joined, shared, count);
	if (!image) {
		say_cut(&joined->image);
		return NULL;
	}
	pieces = image->pieces;
	*image = *from;
	image->pieces = pieces;
	image->piece_count = 0;
	image->bytes = 0;
	for (size_t i = 0; i < from->piece_count; i++)
		is_whole &= keep_joined_piece(joined, shared, &from->pieces[i], image);
	if (!is_whole) {
		say_cut(image);
		say_cut(&joined->image);
	}
	return image;
}
