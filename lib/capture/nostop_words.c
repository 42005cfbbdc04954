/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that explains waits, of a capture without a stop: each thread's is kept as it was read,
 * one behind the other, in the shared mapping. See nostop_sink.h.
 */
#include "capture/nostop_sink.h"

#include <string.h>

enum {
	FIRST_PIECES = 64,
	LEAST_BYTES = 1 << 16, /* of a process … */
	BYTES_A_THREAD = 656,  /* … and as much for each of its threads */
};

/* The same as the last thread's: many wait for one lock. */
static bool is_known(const struct snap_memory_image *image, const struct snap_memory_piece *piece)
{
	const struct snap_memory_piece *last =
		image->piece_count ? &image->pieces[image->piece_count - 1] : NULL;

	return last && last->address == piece->address && last->size == piece->size &&
	       memcmp(last->bytes, piece->bytes, piece->size) == 0;
}

/* Whether there is room for one more piece. */
static bool reserve_piece(struct snap_nostop *nostop, struct snap_traced *traced)
{
	struct snap_nostop_words *words = &nostop->words[traced->index];
	struct snap_memory_image *image = traced->words;
	size_t capacity = image->piece_count ? 2 * image->piece_count : FIRST_PIECES;
	struct snap_memory_piece *pieces;

	if (image->piece_count < words->capacity)
		return true;
	pieces =
		snap_region_new_array(&nostop->shared->records, capacity, struct snap_memory_piece);
	if (!pieces)
		return false;
	if (image->piece_count)
		memcpy(pieces, image->pieces, image->piece_count * sizeof(*pieces));
	image->pieces = pieces;
	words->capacity = capacity;
	return true;
}

static void keep_piece(struct snap_nostop *nostop, struct snap_traced *traced,
		       const struct snap_memory_piece *piece)
{
	uint64_t most = LEAST_BYTES + traced->thread_count * (uint64_t)BYTES_A_THREAD;
	struct snap_memory_image *image = traced->words;
	uint8_t *bytes;

	if (is_known(image, piece) || image->bytes + piece->size > most ||
	    !reserve_piece(nostop, traced))
		return;
	bytes = snap_region_alloc(&nostop->shared->stacks, piece->size);
	if (!bytes)
		return;
	memcpy(bytes, piece->bytes, piece->size);
	image->pieces[image->piece_count++] =
		(struct snap_memory_piece){ piece->address, piece->size, bytes };
	image->bytes += piece->size;
}

void snap_nostop_keep_words(struct snap_nostop *nostop, struct snap_traced *traced,
			    const struct snap_memory_image *words)
{
	if (!words->piece_count)
		return;
	if (!traced->words)
		traced->words = snap_region_alloc(&nostop->shared->records, sizeof(*traced->words));
	for (size_t i = 0; traced->words && i < words->piece_count; i++)
		keep_piece(nostop, traced, &words->pieces[i]);
}
