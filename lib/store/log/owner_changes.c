/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The owners of a futex, as a time line of its bytes: see log.h. An owner change is of the current tick,
 * as changes are, and replaces an earlier one of the same tick.
 */
#include "base/bsearch.h"
#include "base/buffer.h"
#include "store/log/index.h"

#include <assert.h>
#include <string.h>

bool snap_log_make_owners_before(struct snap_log *log)
{
	if (!snap_reserve_array(log->owners_before, log->index->owners_before_capacity,
				log->object_count))
		return false;
	for (size_t i = log->owners_before_count; i < log->object_count; i++)
		log->owners_before[i] = 0;
	log->owners_before_count = log->object_count;
	return true;
}

struct stacksnap_error *snap_log_add_owner_change(struct snap_log *log, uint32_t object,
						  uint32_t words)
{
	struct snap_log_index *index = log->index;
	struct snap_log_last_owner *held = &index->held[object];
	uint64_t begin =
		log->tick_count > 1 ? log->ticks[log->tick_count - 2].owner_end : log->first_owner;

	if (held->words == words)
		return NULL;
	held->words = words;
	if (held->last > begin) {
		log->owners[held->last - 1 - log->first_owner].words = words;
		return NULL;
	}
	if (!snap_log_grow_behind_gap(&log->owners, &index->hold_gap, &log->owner_capacity,
				      log->owner_count, sizeof(*log->owners)))
		return snap_error_no_memory();
	log->owners[log->owner_count++] = (struct snap_log_owner_change){ object, words };
	log->ticks[log->tick_count - 1].owner_end++;
	held->last = log->first_owner + log->owner_count;
	return NULL;
}

/* The bytes of a futex that may name its owner, with their addresses. */
struct clipped {
	struct snap_memory_piece pieces[SNAP_LOG_HOLD_BYTES]; /* each has one of them at least */
	struct snap_memory_image image;
};

static void clip(struct clipped *clipped, const struct snap_memory_image *image, uint64_t address)
{
	uint64_t end = address + SNAP_LOG_HOLD_BYTES;
	size_t count = 0;

	if (end < address)
		end = UINT64_MAX;
	for (size_t i = 0; image && i < image->piece_count && count < SNAP_LOG_HOLD_BYTES; i++) {
		struct snap_memory_piece piece = image->pieces[i];
		uint64_t skipped = piece.address < address ? address - piece.address : 0;

		if (skipped >= piece.size || piece.address >= end)
			continue;
		piece.address += skipped;
		piece.bytes += skipped;
		piece.size -= skipped;
		piece.size = SNAP_MIN(piece.size, end - piece.address);
		clipped->pieces[count++] = piece;
	}
	clipped->image =
		(struct snap_memory_image){ .pieces = clipped->pieces, .piece_count = count };
}

static bool is_clipped_to(const struct snap_log_wait_bytes *words, const struct clipped *clipped,
			  uint64_t address)
{
	const struct snap_memory_image whole = snap_log_wait_image(words);
	struct clipped other;

	clip(&other, &whole, address);
	if (other.image.piece_count != clipped->image.piece_count)
		return false;
	return snap_all(other.image.piece_count, i,
			other.pieces[i].address == clipped->pieces[i].address &&
				other.pieces[i].size == clipped->pieces[i].size &&
				memcmp(other.pieces[i].bytes, clipped->pieces[i].bytes,
				       other.pieces[i].size) == 0);
}

SNAP_ORDER(compare_numbers, uint32_t, a, b, snap_compare(*a, *b));

struct stacksnap_error *snap_log_set_owner(struct snap_log *log, uint32_t object,
					   const struct snap_memory_image *image)
{
	struct snap_log_index *index = log->index;
	struct snap_log_object *of = &log->objects[object];
	struct clipped clipped;
	uint32_t words;

	assert(index->in_tick && object < log->object_count);
	assert(of->is_futex);
	/* The first ones explain the object. */
	if (!of->words) {
		return snap_log_find_wait_bytes(log, of->space, image, true, &of->words)
			       ?: snap_log_add_owner_change(log, object, of->words);
	}
	clip(&clipped, image, of->call.arguments[0]);
	if (index->held[object].words && is_clipped_to(&log->words[index->held[object].words - 1],
						       &clipped, of->call.arguments[0]))
		return NULL;
	return snap_log_find_wait_bytes(log, of->space, &clipped.image, true, &words)
		       ?: snap_log_add_owner_change(log, object, words);
}

struct stacksnap_error *snap_log_set_peers(struct snap_log *log, uint32_t object,
					   const uint32_t *pids, size_t count)
{
	uint32_t sorted[SNAP_LOG_MAX_HOLDERS], words;
	struct snap_memory_piece piece = { .bytes = (uint8_t *)sorted };
	const struct snap_memory_image image = { .pieces = &piece, .piece_count = 1 };

	assert(log->index->in_tick && object < log->object_count);
	assert(!log->objects[object].is_futex && count <= SNAP_LOG_MAX_HOLDERS);
	if (count)
		memcpy(sorted, pids, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_numbers);
	piece.size = count * sizeof(*sorted);
	return snap_log_find_wait_bytes(log, log->objects[object].space, &image, true, &words)
		       ?: snap_log_add_owner_change(log, object, words);
}

const struct snap_log_wait_bytes *snap_log_owner_bytes(const struct snap_log *log, uint32_t object)
{
	uint32_t words;

	assert(object < log->object_count);
	words = log->objects[object].is_futex ? log->index->held[object].words
					      : log->objects[object].words;
	return words ? &log->words[words - 1] : NULL;
}
