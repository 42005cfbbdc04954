/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Words of a stack that lead to another one: see other_stacks.h. */
#include "stop/other_stacks.h"

#include "base/bsearch.h"
#include "base/bytes.h"
#include "model/arch/registers.h"

#include <string.h>

enum {
	SCAN_BYTES = 1 << 16, /* of a stack, from its innermost frame on */
	MOST_PLACES = 256,    /* of a thread that are looked at */
	PLACES = 32,          /* at a time */
	PLACE_BYTES = 64,     /* a stack pointer is saved so close to a return address */
	CALL_BYTES = 8,       /* no call is longer */
	ADDRESS_BITS = 52,    /* no address of a process has more */
};

static const struct snap_map *find_lead_map(const struct snap_lead_search *search, uint64_t address)
{
	size_t next = snap_first_not(search->map_count, i, search->maps[i].end <= address);

	return next < search->map_count && search->maps[next].start <= address ? &search->maps[next]
									       : NULL;
}

/* Code that cannot be read may hold a call. */
static bool is_return_address(const struct snap_lead_search *search, uint64_t pc)
{
	const struct snap_map *map = pc ? find_lead_map(search, pc - 1) : NULL;
	struct iovec range = { (void *)(uintptr_t)(pc - CALL_BYTES), CALL_BYTES };
	uint8_t code[CALL_BYTES];
	uint32_t word;

	if (!map || !map->execute || pc - map->start < CALL_BYTES)
		return false;
	if (search->read(search->context, code, &range, 1) < sizeof(code))
		return true;
	if (SNAP_OWN_ARCH == SNAP_ARCH_AARCH64) {
		/* bl, blr and those that check a signature. */
		memcpy(&word, code + sizeof(code) - sizeof(word), sizeof(word));
		return word >> 26 == 0x25 || (word & 0xfefff000) == 0xd63f0000;
	}
	/* call with a distance of 32 bits, and by a register or by memory. */
	for (unsigned size = 2; size < CALL_BYTES; size++)
		if (code[CALL_BYTES - size] == 0xff && (code[CALL_BYTES - size + 1] & 0x38) == 0x10)
			return true;
	return code[CALL_BYTES - 5] == 0xe8;
}

static bool has_return_address(const struct snap_lead_search *search, const uint8_t *bytes,
			       size_t size)
{
	uint64_t word;

	for (size_t at = 0; at + sizeof(word) <= size; at += sizeof(word)) {
		memcpy(&word, bytes + at, sizeof(word));
		if (is_return_address(search, word))
			return true;
	}
	return false;
}

/* Places that a thread's words lead to, for one read. */
struct places {
	struct iovec ranges[PLACES];
	size_t count, total;
};

/* What cannot be read is left out. */
static bool is_any_place_of_a_stack(const struct snap_lead_search *search, struct places *places)
{
	uint8_t bytes[PLACES * PLACE_BYTES];

	for (size_t i = 0; i < places->count; i++) {
		size_t got = search->read(search->context, bytes, &places->ranges[i],
					  places->count - i),
		       at = 0;

		for (; i < places->count && at + places->ranges[i].iov_len <= got; i++) {
			if (has_return_address(search, bytes + at, places->ranges[i].iov_len))
				return true;
			at += places->ranges[i].iov_len;
		}
	}
	places->count = 0;
	return false;
}

static bool is_copied(uint64_t start, size_t size, uint64_t address)
{
	return address >= start && address - start < size;
}

/* Adds what a word leads to; whether there are as many places as are read at a time. */
static bool add_place(const struct snap_lead_search *search, const struct snap_thread *thread,
		      uint64_t word, struct places *places)
{
	const struct snap_map *map;

	/* Most words are no addresses. */
	if (word % sizeof(word) || word >> ADDRESS_BITS || word < SNAP_PAGE ||
	    is_copied(thread->stack_address, thread->stack_size, word) ||
	    is_copied(thread->stack2_address, thread->stack2_size, word))
		return false;
	map = find_lead_map(search, word);
	if (!map || !map->read || !map->write || map->execute || map->inode)
		return false;
	places->ranges[places->count++] =
		(struct iovec){ (void *)(uintptr_t)word,
				SNAP_MIN(map->end - word, (uint64_t)PLACE_BYTES) };
	places->total++;
	return places->count == PLACES;
}

static bool search_words(const struct snap_lead_search *search, const struct snap_thread *thread,
			 const uint8_t *bytes, size_t size, struct places *places)
{
	uint64_t word;

	for (size_t at = 0; at + sizeof(word) <= size && places->total < MOST_PLACES;
	     at += sizeof(word)) {
		memcpy(&word, bytes + at, sizeof(word));
		if (add_place(search, thread, word, places) &&
		    is_any_place_of_a_stack(search, places))
			return true;
	}
	return is_any_place_of_a_stack(search, places);
}

bool snap_stack_leads_on(struct snap_lead_search *search, const struct snap_thread *thread)
{
	struct snap_known_registers registers;
	struct snap_known_lead *known;
	struct places places = { .count = 0 };

	if (!thread->stack_size || !snap_registers_of(SNAP_OWN_ARCH, thread, &registers))
		return false;
	for (unsigned i = 0; i < SNAP_LEADS_KNOWN; i++)
		if (search->known[i].pc == registers.pc &&
		    search->known[i].size == thread->stack_size)
			return search->known[i].leads;
	known = &search->known[search->next++ % SNAP_LEADS_KNOWN];
	*known = (struct snap_known_lead){ registers.pc, thread->stack_size, false };
	known->leads =
		search_words(search, thread, thread->registers, thread->registers_size, &places) ||
		search_words(search, thread, thread->stack,
			     SNAP_MIN(thread->stack_size, (size_t)SCAN_BYTES), &places);
	return known->leads;
}
