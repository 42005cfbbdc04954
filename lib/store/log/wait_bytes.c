/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that explains waits in a log: equal pieces of a space are there once. See index.h. Knows
 * nothing of their meaning, nor of their time.
 */
#include "base/bsearch.h"
#include "base/buffer.h"
#include "store/log/index.h"

#include <string.h>

/* A piece has a byte at least. */
enum { MOST_PIECES = SNAP_LOG_MAX_OBJECT_WORDS };

SNAP_ORDER(compare_pieces, struct snap_memory_piece, left, right,
	   snap_compare(left->address, right->address));

/* Those that hold something, in order of their addresses. *count_ret: in index->pieces. */
static bool sort_pieces(struct snap_log_index *index, const struct snap_memory_image *image,
			size_t *count_ret)
{
	size_t most = image->piece_count < MOST_PIECES ? image->piece_count : MOST_PIECES;
	size_t count = 0;
	bool sorted = true;

	if (!snap_reserve_array(index->pieces, index->piece_capacity, most))
		return false;
	for (size_t i = 0; i < most; i++) {
		struct snap_memory_piece piece = image->pieces[i];

		piece.size = SNAP_MIN(piece.size, UINT64_MAX - piece.address);
		if (!piece.size)
			continue;
		sorted = sorted && (!count || index->pieces[count - 1].address <= piece.address);
		index->pieces[count++] = piece;
	}
	if (!sorted)
		qsort(index->pieces, count, sizeof(*index->pieces), compare_pieces);
	*count_ret = count;
	return true;
}

/*
 * Joins pieces that touch or overlap, whose bytes go to index->piece_bytes one after the other. What
 * is beyond the most that an object may have is left out.
 */
static size_t join_futex_pieces(struct snap_log_index *index, size_t count)
{
	struct snap_memory_piece *last = NULL;
	size_t joined = 0, used = 0;

	for (size_t i = 0; i < count; i++) {
		struct snap_memory_piece piece = index->pieces[i];
		uint64_t end = last ? last->address + last->size : 0;
		uint64_t known = last && end > piece.address ? end - piece.address : 0;

		if (known >= piece.size)
			continue;
		piece.address += known;
		piece.bytes += known;
		piece.size -= known;
		piece.size = SNAP_MIN(piece.size, SNAP_LOG_MAX_OBJECT_WORDS - used);
		if (!piece.size)
			break;
		memcpy(index->piece_bytes + used, piece.bytes, piece.size);
		piece.bytes = index->piece_bytes + used;
		used += piece.size;
		if (last && end == piece.address) {
			last->size += piece.size;
			continue;
		}
		last = &index->pieces[joined++];
		*last = piece;
	}
	return joined;
}

uint64_t snap_log_hash_wait_bytes(const struct snap_log_wait_bytes *words)
{
	uint64_t hash = snap_hash_add(words->space, words->piece_count);

	for (uint32_t i = 0; i < words->piece_count; i++) {
		const struct snap_memory_piece *piece = &words->pieces[i];

		hash = snap_hash_add(snap_hash_add(hash, piece->address), piece->size);
		hash = snap_hash_bytes(piece->bytes, piece->size, hash);
	}
	return hash;
}

static bool is_same_words(const struct snap_log_wait_bytes *a, const struct snap_log_wait_bytes *b)
{
	if (a->hash != b->hash || a->space != b->space || a->piece_count != b->piece_count)
		return false;
	return snap_all(a->piece_count, i,
			a->pieces[i].address == b->pieces[i].address &&
				a->pieces[i].size == b->pieces[i].size &&
				memcmp(a->pieces[i].bytes, b->pieces[i].bytes, a->pieces[i].size) ==
					0);
}

bool snap_log_copy_wait_bytes(struct snap_arena *arena, struct snap_log_wait_bytes *words)
{
	struct snap_memory_piece *pieces;
	size_t size = 0, used = 0;
	uint8_t *bytes;

	for (uint32_t i = 0; i < words->piece_count; i++)
		size += words->pieces[i].size;
	pieces = snap_arena_memdup(arena, words->pieces, words->piece_count * sizeof(*pieces));
	bytes = snap_arena_alloc(arena, size);
	if (!pieces || !bytes)
		return false;
	for (uint32_t i = 0; i < words->piece_count; i++) {
		memcpy(bytes + used, pieces[i].bytes, pieces[i].size);
		pieces[i].bytes = bytes + used;
		used += pieces[i].size;
	}
	words->pieces = pieces;
	return true;
}

static struct stacksnap_error *add_futex_words(struct snap_log *log,
					       struct snap_log_wait_bytes *words, uint32_t *ret)
{
	if (log->words_count >= SNAP_LOG_MAX_WORDS ||
	    !snap_log_has_room_for_object(log, words->space)) {
		log->cuts |= SNAP_LOG_CUT_OBJECTS;
		return NULL;
	}
	if (!snap_reserve_array(log->words, log->words_capacity, log->words_count + 1) ||
	    !snap_log_copy_wait_bytes(&log->arena, words) ||
	    !snap_hash_table_add(&log->index->words, words->hash, log->words_count))
		return snap_error_no_memory();
	log->words[log->words_count] = *words;
	snap_log_charge_wait_bytes(log, (uint32_t)log->words_count);
	*ret = (uint32_t)++log->words_count;
	return NULL;
}

struct stacksnap_error *snap_log_find_wait_bytes(struct snap_log *log, uint32_t space,
						 const struct snap_memory_image *image, bool add,
						 uint32_t *ret)
{
	struct snap_log_index *index = log->index;
	struct snap_log_wait_bytes words = { .space = space };
	size_t count = 0;

	*ret = 0;
	if (!image || !image->piece_count)
		return NULL;
	if (!index->piece_bytes)
		index->piece_bytes = malloc(SNAP_LOG_MAX_OBJECT_WORDS);
	SNAP_TRY(snap_no_memory_unless(index->piece_bytes && sort_pieces(index, image, &count)));
	count = join_futex_pieces(index, count);
	if (!count)
		return NULL;
	words.pieces = index->pieces;
	words.piece_count = (uint32_t)count;
	words.hash = snap_log_hash_wait_bytes(&words);
	if (snap_hash_got(&index->words, words.hash, i, is_same_words(&log->words[i], &words),
			  ret)) {
		++*ret;
		return NULL;
	}
	if (!add) {
		*ret = UINT32_MAX;
		return NULL;
	}
	return add_futex_words(log, &words, ret);
}
