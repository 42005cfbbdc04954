/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that explains waits, of a capture without a stop: each thread's is kept as it was read,
 * one behind the other, in the shared mapping. See nostop_sink.h.
 */
#include "capture/nostop_sink.h"

#include "base/bsearch.h"
#include "model/wait/call.h"
#include "sample/copy_words.h"

#include <errno.h>
#include <stdlib.h>
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

/* ---- once all have been copied ---- */

static struct snap_thread *thread_of(struct snap_nostop *nostop,
				     const struct snap_sampled_thread *thread,
				     struct snap_traced **traced_ret)
{
	struct snap_traced *traced = snap_nostop_traced(nostop, thread->process);

	*traced_ret = traced;
	return traced && thread->user < traced->thread_count ? &traced->threads[thread->user]
							     : NULL;
}

static bool is_in_call(void *context, const struct snap_sampled_thread *thread,
		       struct snap_thread_call *ret)
{
	struct snap_traced *traced;
	const struct snap_thread *mine = thread_of(context, thread, &traced);

	if (!mine || mine->tid != thread->tid || mine->result != SNAP_THREAD_COPIED)
		return false;
	*ret = snap_wait_call_of(traced->arch, mine);
	return ret->known && ret->number >= 0;
}

static int compare_pieces(const void *left, const void *right)
{
	const struct snap_memory_piece *a = left, *b = right;

	return snap_compare(a->address, b->address) ?: snap_compare(a->size, b->size);
}

/* The same lock may have been copied with each of those who wait for it: once is enough. */
static bool read_words_again(void *context, const struct snap_sampled_process *process,
			     snap_words_reader *read, void *memory)
{
	const struct snap_traced *traced = snap_nostop_traced(context, process);
	struct snap_memory_image *image = traced ? traced->words : NULL;
	size_t kept = 0;

	if (!image || !image->piece_count)
		return true;
	qsort(image->pieces, image->piece_count, sizeof(*image->pieces), compare_pieces);
	image->bytes = 0;
	for (size_t i = 0; i < image->piece_count; i++) {
		struct snap_memory_piece piece = image->pieces[i];
		ssize_t got;

		if (kept && compare_pieces(&image->pieces[kept - 1], &piece) == 0)
			continue;
		/* In our own memory, where they were copied to. */
		got = read(memory, piece.address, (uint8_t *)(uintptr_t)piece.bytes, piece.size);
		if (got == -ETIMEDOUT || got == -ESTALE)
			return false;
		piece.size = got > 0 ? (uint64_t)got : 0;
		if (piece.size)
			image->pieces[kept++] = piece;
		image->bytes += piece.size;
	}
	image->piece_count = kept;
	return true;
}

static void note_that_it_stands(void *context, const struct snap_sampled_thread *thread)
{
	struct snap_traced *traced;
	struct snap_thread *mine = thread_of(context, thread, &traced);

	if (mine)
		mine->stands = true;
}

struct stacksnap_error *snap_nostop_confirm(struct snap_nostop *nostop,
					    struct snap_sampler *sampler)
{
	const struct snap_confirm confirm = {
		.context = nostop,
		.in_call = is_in_call,
		.read_words = read_words_again,
		.stands = note_that_it_stands,
	};

	return snap_sampler_confirm(sampler, &confirm);
}
