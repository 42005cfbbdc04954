/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The hash table: finds elements of an array, which is the caller's, by a hash of their keys.
 *
 * Open addressing, at most half full. A slot holds a hash and the number of an element, so that the
 * table grows without asking for hashes again; whether an element is the wanted one is for the
 * caller to say. Nothing is ever removed. Also: a table with pointers as keys, and the hashes.
 * Knows nothing of the elements; is not safe against keys that were chosen to collide.
 */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- hashes ---- */

/*
 * The hash of a number. The factor is 2^64 divided by the golden ratio, which spreads numbers at
 * equal distances, as addresses are, better than others do.
 */
static inline uint64_t snap_hash_mix(uint64_t word)
{
	word = (word ^ word >> 32) * 0x9e3779b97f4a7c15ull;
	return word ^ word >> 32;
}

/* The hash of the data that has `hash`, followed by `word`; `hash` may be a plain number, too. */
static inline uint64_t snap_hash_add(uint64_t hash, uint64_t word)
{
	return snap_hash_mix(hash * 0xff51afd7ed558ccdull + word);
}

static inline uint64_t snap_hash_pointer(const void *pointer)
{
	return snap_hash_mix((uintptr_t)pointer);
}

/*
 * The hash of bytes, seeded. Files and the ids of groups hold such hashes: the same bytes give the
 * same hash in every version.
 */
uint64_t snap_hash_bytes(const void *bytes, size_t size, uint64_t seed);

static inline uint64_t snap_hash_number(uint64_t number, uint64_t seed)
{
	return snap_hash_bytes(&number, sizeof(number), seed);
}

/* NULL is another text than "". */
static inline uint64_t snap_hash_text(const char *text, uint64_t seed)
{
	return text ? snap_hash_bytes(text, strlen(text), seed) : snap_hash_bytes("", 0, ~seed);
}

/* The same for texts that differ in their numbers alone: "worker-1", "worker-12". */
uint64_t snap_hash_pattern(const char *text, uint64_t seed);

/* ---- the table ---- */

enum { SNAP_HASH_TABLE_MOST = 1 << 30 }; /* elements */

struct snap_hash_slot {
	uint32_t hash, number; /* number: of the element plus 1; 0: the slot is free */
};

/* All zero: empty. */
struct snap_hash_table {
	struct snap_hash_slot *slots;
	size_t slot_count; /* a power of two, or 0 */
	size_t count;      /* elements */
};

/* Releases the memory; the table is then empty and may be used again. */
void snap_hash_table_deinit(struct snap_hash_table *table);
/* Empties the table, whose memory stays. */
void snap_hash_table_clear(struct snap_hash_table *table);

/*
 * Makes room for `count` elements in all; adding as many then cannot fail. False without memory, or
 * when `count` is more than SNAP_HASH_TABLE_MOST; the table is then as it was.
 */
bool snap_hash_table_reserve(struct snap_hash_table *table, size_t count) _must_check_;

/*
 * Adds element `number`, which must be below SNAP_HASH_TABLE_MOST, and not be in the table. Only
 * the lower half of `hash` counts. Grows the table as needed; false when it cannot: see
 * snap_hash_table_reserve(). Ends all probes.
 */
bool snap_hash_table_add(struct snap_hash_table *table, uint64_t hash, size_t number) _must_check_;

/* The bytes of memory that the table holds. */
static inline size_t snap_hash_table_bytes(const struct snap_hash_table *table)
{
	return table->slot_count * sizeof(*table->slots);
}

/*
 * A search for one hash. It stands in front of the first element; each snap_probe_next() that is
 * true puts an element with this hash into `number`:
 *
 *	struct snap_probe probe = snap_hash_table_probe(&table, hash);
 *
 *	while (snap_probe_next(&probe))
 *		if (is_same(&elements[probe.number], key))
 *			return &elements[probe.number];
 */
struct snap_probe {
	uint32_t number;
	/* inside */
	uint32_t hash;
	const struct snap_hash_slot *slots;
	size_t at, mask;
};

static inline struct snap_probe snap_hash_table_probe(const struct snap_hash_table *table,
						      uint64_t hash)
{
	static const struct snap_hash_slot free_slot;
	struct snap_probe probe = { .hash = (uint32_t)hash, .slots = &free_slot };

	if (table->slot_count) {
		probe.slots = table->slots;
		probe.mask = table->slot_count - 1;
		probe.at = probe.hash & probe.mask;
	}
	return probe;
}

/* False: there are no more. It ends, as half of the slots are free. */
static inline bool snap_probe_next(struct snap_probe *probe)
{
	while (probe->slots[probe->at].number) {
		const struct snap_hash_slot *slot = &probe->slots[probe->at];

		probe->at = (probe->at + 1) & probe->mask;
		if (slot->hash == probe->hash) {
			probe->number = slot->number - 1;
			return true;
		}
	}
	return false;
}

/*
 * The number of the first element with a hash for which the expression is true; SIZE_MAX: there is
 * none. It uses `i`, the number of an element, which exists in it alone:
 *
 *	return snap_hash_find(&table, hash, i, tasks[i].id == id);
 */
#define snap_hash_find(table, hash, i, holds)                                      \
	({                                                                         \
		struct snap_probe _probe = snap_hash_table_probe((table), (hash)); \
		size_t _found = SIZE_MAX;                                          \
		while (_found == SIZE_MAX && snap_probe_next(&_probe)) {           \
			const uint32_t i = _probe.number;                          \
			if (holds)                                                 \
				_found = i;                                        \
		}                                                                  \
		_found;                                                            \
	})
/* Whether there is one; its number is then in *ret, which else stays as it was. */
#define snap_hash_got(table, hash, i, holds, ret)                                \
	({                                                                       \
		const size_t _got = snap_hash_find((table), (hash), i, (holds)); \
		if (_got != SIZE_MAX)                                            \
			*(ret) = (__typeof__(*(ret)))_got;                       \
		_got != SIZE_MAX;                                                \
	})
/* A pointer to it, `at` in the expression; NULL: there is none. */
#define snap_hash_find_in(table, hash, array, at, holds)                           \
	({                                                                         \
		struct snap_probe _probe = snap_hash_table_probe((table), (hash)); \
		__typeof__((array) + 0) _found = NULL;                             \
		while (!_found && snap_probe_next(&_probe)) {                      \
			__typeof__(_found) at = &(array)[_probe.number];           \
			if (holds)                                                 \
				_found = at;                                       \
		}                                                                  \
		_found;                                                            \
	})

/* ---- pointers as keys ---- */

/* A key and what belongs to it: one of the two, as its user likes. */
struct snap_pointer_entry {
	const void *key;
	union {
		void *pointer;
		uint64_t number;
	};
};

/* All zero: empty. The entries stand in the order in which their keys came. */
struct snap_pointer_table {
	struct snap_pointer_entry *entries;
	size_t count;
	/* inside */
	size_t capacity;
	struct snap_hash_table table;
};

/* Does not touch what the entries point to. */
void snap_pointer_table_deinit(struct snap_pointer_table *table);
/* The same, and calls `release` for the pointer of each entry before, which may be NULL. */
void snap_pointer_table_release(struct snap_pointer_table *table, void (*release)(void *pointer));
/* Empties the table, whose memory stays. Does not touch what the entries point to. */
void snap_pointer_table_clear(struct snap_pointer_table *table);

/* Makes room for `count` keys in all: see snap_hash_table_reserve(). */
bool snap_pointer_table_reserve(struct snap_pointer_table *table, size_t count) _must_check_;
/*
 * The entry of a key; it is added, with NULL and 0, if it is not there. Valid until the next key is
 * added. NULL without memory, or with SNAP_HASH_TABLE_MOST keys.
 */
struct snap_pointer_entry *snap_pointer_table_get(struct snap_pointer_table *table,
						  const void *key);
/* The entry of a key; NULL: it has none. */
struct snap_pointer_entry *snap_pointer_table_find(const struct snap_pointer_table *table,
						   const void *key);

/* ---- texts that come again ---- */

/*
 * One place among a few for each text, by its hash. A place remembers the text that came last, so a
 * text that another one has displaced is not found. Two passes over the same texts in the same order
 * find the same ones: a copy of a list takes no more than the list did.
 */
enum { SNAP_RECENT_PLACES = 1024 };

static inline size_t snap_recent_place(const char *text, size_t length)
{
	return snap_hash_bytes(text, length, 0) % SNAP_RECENT_PLACES;
}
