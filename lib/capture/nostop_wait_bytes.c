/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that explains waits, of a capture without a stop: each thread's is kept as it was read,
 * one behind the other, in the shared mapping. See nostop_sink.h.
 */
#include "capture/nostop_sink.h"

#include "base/bsearch.h"
#include "model/wait/call.h"
#include "sample/copy_wait_bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	FIRST_PIECES = 64,
	LEAST_BYTES = 1 << 16, /* of a process … */
	BYTES_A_THREAD = 656,  /* … and as much for each of its threads */
	FIRST_NAP_NS = 100000, /* between two moments, then twice as long … */
	LAST_NAP_NS = 3200000, /* … up to this */
	MOST_MOVED = 16,       /* threads; of more, one always moves */
};

/* The same as the last thread's: many wait for one lock. */
static bool is_piece_known(const struct snap_memory_image *image,
			   const struct snap_memory_piece *piece)
{
	const struct snap_memory_piece *last =
		image->piece_count ? &image->pieces[image->piece_count - 1] : NULL;

	return last && last->address == piece->address && last->size == piece->size &&
	       memcmp(last->bytes, piece->bytes, piece->size) == 0;
}

/* Whether there is room for one more piece. */
static bool reserve_nostop_piece(struct snap_nostop *nostop, struct snap_traced *traced)
{
	struct snap_nostop_wait_bytes *words = &nostop->words[traced->index];
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

static void keep_nostop_piece(struct snap_nostop *nostop, struct snap_traced *traced,
			      const struct snap_memory_piece *piece)
{
	uint64_t most = LEAST_BYTES + traced->thread_count * (uint64_t)BYTES_A_THREAD;
	struct snap_memory_image *image = traced->words;
	uint8_t *bytes;

	if (is_piece_known(image, piece) || image->bytes + piece->size > most ||
	    !reserve_nostop_piece(nostop, traced))
		return;
	bytes = snap_region_alloc(&nostop->shared->stacks, piece->size);
	if (!bytes)
		return;
	memcpy(bytes, piece->bytes, piece->size);
	image->pieces[image->piece_count++] =
		(struct snap_memory_piece){ piece->address, piece->size, bytes };
	image->bytes += piece->size;
}

void snap_nostop_keep_wait_bytes(struct snap_nostop *nostop, struct snap_traced *traced,
				 const struct snap_memory_image *words)
{
	if (!words->piece_count)
		return;
	if (!traced->words)
		traced->words = snap_region_alloc(&nostop->shared->records, sizeof(*traced->words));
	for (size_t i = 0; traced->words && i < words->piece_count; i++)
		keep_nostop_piece(nostop, traced, &words->pieces[i]);
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

/* The threads that stood still at one instant; of several instants the last one counts. */
struct moment {
	struct snap_nostop *nostop;
	struct snap_copied_wait_bytes *copied; /* of one thread; NULL: words of all are known */
	size_t waiting, standing;              /* of the threads that wait for a lock */
};

/* Or in what it goes on with behind a stop. */
static bool is_in_futex(const struct snap_traced *traced, const struct snap_thread_call *call)
{
	enum snap_wait_call kind = snap_wait_call_row(traced->arch, call->number)->call;

	return kind == SNAP_CALL_FUTEX || kind == SNAP_CALL_RESTART;
}

static bool is_thread_in_call(void *context, const struct snap_sampled_thread *thread,
			      struct snap_thread_call *ret)
{
	struct moment *moment = context;
	struct snap_traced *traced;
	struct snap_thread *mine = thread_of(moment->nostop, thread, &traced);

	if (!mine || mine->tid != thread->tid || mine->result != SNAP_THREAD_COPIED)
		return false;
	mine->confirmed = false;
	*ret = snap_wait_call_of(traced->arch, mine);
	if (!ret->known || ret->number < 0)
		return false;
	moment->waiting += is_in_futex(traced, ret);
	return true;
}

/* Of a stopped thread only the stack was read. False: nothing more can be read. */
static bool add_nostop_words(struct moment *moment, struct snap_traced *traced,
			     const struct snap_confirm_memory *memory)
{
	for (size_t i = 0; moment->copied && i < traced->thread_count; i++) {
		struct snap_thread copy = traced->threads[i];

		if (copy.result != SNAP_THREAD_COPIED || copy.taken != SNAP_TAKEN_ALONE)
			continue;
		copy.call = snap_wait_call_of(traced->arch, &copy);
		if (!copy.call.known || copy.call.number < 0)
			continue;
		if (snap_copy_wait_bytes(traced->arch, &copy, memory->read, memory->context,
					 moment->copied) ||
		    moment->copied->stalled)
			return false;
		snap_nostop_keep_wait_bytes(moment->nostop, traced, &moment->copied->image);
	}
	return true;
}

SNAP_ORDER(compare_pieces, struct snap_memory_piece, a, b, snap_compare(a->address, b->address),
	   snap_compare(a->size, b->size));

/* The same lock may have been copied with each thread that waits for it: once is enough. */
static void leave_out_doubles(struct snap_memory_image *image)
{
	size_t kept = 0;

	qsort(image->pieces, image->piece_count, sizeof(*image->pieces), compare_pieces);
	for (size_t i = 0; i < image->piece_count; i++)
		if (!kept || compare_pieces(&image->pieces[kept - 1], &image->pieces[i]) != 0)
			image->pieces[kept++] = image->pieces[i];
	image->piece_count = kept;
}

/* As many from one on as can be read with one hand-over; how many. */
static size_t list_batch(const struct snap_memory_image *image, size_t first,
			 struct snap_sampled_bytes batch[SNAP_SAMPLED_WORDS_MOST])
{
	size_t count = 0;
	uint64_t bytes = 0;

	while (first + count < image->piece_count && count < SNAP_SAMPLED_WORDS_MOST) {
		const struct snap_memory_piece *piece = &image->pieces[first + count];

		uint64_t size = piece->size < SNAP_SAMPLED_WORDS_BYTES ? piece->size
								       : SNAP_SAMPLED_WORDS_BYTES;

		bytes += size;
		if (bytes > SNAP_SAMPLED_WORDS_BYTES)
			break;
		/* In our own memory, where they were copied to. */
		batch[count++] = (struct snap_sampled_bytes){
			.address = piece->address,
			.size = (uint32_t)size,
			.bytes = (uint8_t *)(uintptr_t)piece->bytes,
		};
	}
	return count;
}

static bool read_words_again(void *context, const struct snap_sampled_process *process,
			     const struct snap_confirm_memory *memory)
{
	struct moment *moment = context;
	struct snap_traced *traced = snap_nostop_traced(moment->nostop, process);
	struct snap_sampled_bytes batch[SNAP_SAMPLED_WORDS_MOST];
	struct snap_memory_image *image;
	size_t kept = 0, count;

	if (traced && !add_nostop_words(moment, traced, memory))
		return false;
	image = traced ? traced->words : NULL;
	if (!image || !image->piece_count)
		return true;
	leave_out_doubles(image);
	image->bytes = 0;
	for (size_t i = 0; i < image->piece_count; i += count) {
		count = list_batch(image, i, batch);
		if (memory->read_all(memory->context, batch, count))
			return false;
		for (size_t k = 0; k < count; k++) {
			if (!batch[k].got)
				continue;
			image->pieces[kept++] =
				(struct snap_memory_piece){ batch[k].address, batch[k].got,
							    batch[k].bytes };
			image->bytes += batch[k].got;
		}
	}
	image->piece_count = kept;
	return true;
}

static void note_confirmed(void *context, const struct snap_sampled_thread *thread)
{
	struct moment *moment = context;
	struct snap_traced *traced;
	struct snap_thread *mine = thread_of(moment->nostop, thread, &traced);
	struct snap_thread_call call;

	if (!mine)
		return;
	call = snap_wait_call_of(traced->arch, mine);
	mine->confirmed = true;
	moment->standing += is_in_futex(traced, &call);
}

/*
 * A thread that wakes up all the time to check its lock, as waiters for Python's lock do, may do so
 * at this very moment, so another one is tried, a little later; not where many move.
 */
static bool try_another(const struct moment *moment, int64_t nap_ns)
{
	const struct timespec nap = { .tv_nsec = nap_ns };
	size_t moved = moment->waiting - moment->standing;

	if (!moved || moved > MOST_MOVED)
		return false;
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	return true;
}

struct stacksnap_error *snap_nostop_confirm(struct snap_nostop *nostop,
					    struct snap_sampler *sampler)
{
	_cleanup_free_ struct snap_copied_wait_bytes *copied = calloc(1, sizeof(*copied));
	struct moment moment = { .nostop = nostop, .copied = copied };
	const struct snap_confirm confirm = {
		.context = &moment,
		.in_call = is_thread_in_call,
		.read_words = read_words_again,
		.confirmed = note_confirmed,
	};
	struct stacksnap_error *err = copied ? NULL : snap_error_no_memory();

	for (int64_t nap_ns = FIRST_NAP_NS; nap_ns <= LAST_NAP_NS && !err; nap_ns *= 2) {
		moment.waiting = moment.standing = 0;
		err = snap_sampler_confirm(sampler, &confirm);
		moment.copied = NULL;
		if (err || !try_another(&moment, nap_ns))
			break;
	}
	return err;
}
