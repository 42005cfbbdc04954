/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What was read, by address, and which addresses a table has: see internal.h. Both are hash tables
 * in memory that was laid out before. An adversary who makes addresses collide only causes some to
 * be read twice: no search is longer than a few slots.
 */
#include "base/bytes.h"
#include "base/table.h"
#include "stop/plan/internal.h"

#include <string.h>

enum {
	MOST_PROBES = 32,
	ADDRESS_BITS = 56, /* of user space; the rest has room for two numbers a step */
};

/* ---- pieces by page ---- */

/* Neighbouring pages are in neighbouring slots, as requests are sorted. */
static size_t slot_of(uint64_t page, size_t size)
{
	return (snap_hash_mix(page / 8) * 8 + page % 8) & (size - 1);
}

static void note_page(struct snap_plan_run *run, uint64_t page, uint32_t piece)
{
	size_t slot = slot_of(page, run->page_size);

	for (unsigned i = 0; i < MOST_PROBES; i++) {
		struct snap_plan_page *entry = &run->pages[(slot + i) & (run->page_size - 1)];

		if (entry->page)
			continue;
		*entry = (struct snap_plan_page){ page + 1, piece };
		run->page_count++;
		return;
	}
}

/* False: the time is up. */
static bool note_pages(struct snap_plan_run *run, uint32_t index)
{
	const struct snap_memory_piece *piece = &run->after[-1 - (ptrdiff_t)index];
	uint64_t first = piece->address / SNAP_PAGE;
	uint64_t last = (piece->address + piece->size - 1) / SNAP_PAGE;

	for (uint64_t page = first; page <= last; page++) {
		if (snap_plan_is_late(run))
			return false;
		note_page(run, page, index);
	}
	return true;
}

void snap_plan_index_pieces(struct snap_plan_run *run)
{
	for (; run->paged_pieces < run->piece_count; run->paged_pieces++) {
		if (run->page_count > run->page_size / 2 && run->page_size < run->most_pages) {
			run->page_size *= 4;
			if (run->page_size > run->most_pages)
				run->page_size = run->most_pages;
			memset(run->pages, 0, run->page_size * sizeof(*run->pages));
			run->page_count = 0;
			run->paged_pieces = 0;
		}
		if (!note_pages(run, (uint32_t)run->paged_pieces))
			return;
	}
}

bool snap_plan_known(const struct snap_plan_run *run, uint64_t address, uint32_t size,
		     uint32_t *offset_ret)
{
	uint64_t page = address / SNAP_PAGE;
	size_t slot = slot_of(page, run->page_size);

	for (unsigned i = 0; i < MOST_PROBES; i++) {
		const struct snap_plan_page *entry = &run->pages[(slot + i) & (run->page_size - 1)];
		const struct snap_memory_piece *piece;

		if (!entry->page)
			return false;
		if (entry->page != page + 1)
			continue;
		piece = &run->after[-1 - (ptrdiff_t)entry->piece];
		if (piece->address <= address && address - piece->address < piece->size &&
		    size <= piece->size - (address - piece->address)) {
			*offset_ret = (uint32_t)(piece->bytes - run->begin +
						 (ptrdiff_t)(address - piece->address));
			return true;
		}
	}
	return false;
}

bool snap_plan_add_piece(struct snap_plan_run *run, uint64_t address, const uint8_t *bytes,
			 size_t size)
{
	struct snap_memory_piece *last = run->after - run->piece_count;

	run->bytes += size;
	run->image->bytes = run->bytes;
	/* The rest of a request that took more than one call. */
	if (run->piece_count > run->paged_pieces && last->address + last->size == address &&
	    last->bytes + last->size == bytes) {
		__atomic_store_n(&last->size, last->size + size, __ATOMIC_RELEASE);
		return true;
	}
	if ((uint8_t *)(last - 1) < run->room->next)
		return false;
	last[-1] = (struct snap_memory_piece){ address, size, bytes };
	run->piece_count++;
	run->room->end = (uint8_t *)(last - 1);
	run->image->pieces = last - 1;
	__atomic_store_n(&run->image->piece_count, run->piece_count, __ATOMIC_RELEASE);
	return true;
}

/* ---- addresses of a table ---- */

static bool put_address(struct snap_plan_run *run, uint64_t key)
{
	size_t slot = snap_hash_mix(key) & (run->seen_size - 1);
	uint64_t generation = key >> ADDRESS_BITS;

	/* Slots of other tables count as free. */
	for (unsigned i = 0; i < MOST_PROBES; i++) {
		uint64_t *entry = &run->seen[(slot + i) & (run->seen_size - 1)];

		if (*entry == key)
			return false;
		if (*entry && *entry >> ADDRESS_BITS == generation)
			continue;
		*entry = key;
		run->seen_count++;
		return true;
	}
	/* The address may be there already: then it is taken twice, and read once. */
	return true;
}

/* Makes a table of twice the size behind the old one: room for all sizes was laid out. */
static void grow_seen(struct snap_plan_run *run)
{
	const uint64_t *before = run->seen;
	size_t size = run->seen_size;

	if (size * 2 > run->most_seen)
		return;
	run->seen += size;
	run->seen_size = size * 2;
	memset(run->seen, 0, run->seen_size * sizeof(*run->seen));
	run->seen_count = 0;
	for (size_t i = 0; i < size; i++)
		if (before[i] && before[i] >> ADDRESS_BITS == run->generation)
			put_address(run, before[i]);
}

bool snap_plan_see(struct snap_plan_run *run, uint64_t address)
{
	if (run->seen_count > run->seen_size / 2)
		grow_seen(run);
	return put_address(run, (uint64_t)run->generation << ADDRESS_BITS | address);
}
