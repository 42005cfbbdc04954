/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The hash table, linear probing: see table.h. Knows nothing of the elements. */
#include "base/table.h"

#include "base/buffer.h"

#include <string.h>

enum { FIRST_SLOTS = 128 };

uint64_t snap_hash_bytes(const void *bytes, size_t size, uint64_t seed)
{
	const unsigned char *p = bytes;
	uint64_t hash = seed ^ (size * 0x9e3779b97f4a7c15ull), word;

	for (; size >= 8; p += 8, size -= 8) {
		memcpy(&word, p, 8);
		hash = (hash ^ word) * 0xff51afd7ed558ccdull;
		hash ^= hash >> 32;
	}
	word = 0;
	if (size)
		memcpy(&word, p, size);
	hash = (hash ^ word) * 0xff51afd7ed558ccdull;
	hash ^= hash >> 33;
	hash *= 0xc4ceb9fe1a85ec53ull;
	return hash ^ (hash >> 33);
}

uint64_t snap_hash_pattern(const char *text, uint64_t seed)
{
	static const char digits[] = "0123456789";
	uint64_t hash = snap_hash_text(text ? "" : NULL, seed);

	while (text && *text) {
		size_t length = strcspn(text, digits);

		hash = snap_hash_bytes(text, length, hash);
		text += length;
		text += strspn(text, digits);
	}
	return hash;
}

void snap_hash_table_deinit(struct snap_hash_table *table)
{
	free(table->slots);
	*table = (struct snap_hash_table){ 0 };
}

void snap_hash_table_clear(struct snap_hash_table *table)
{
	if (table->count)
		memset(table->slots, 0, snap_hash_table_bytes(table));
	table->count = 0;
}

static void enter_slot(struct snap_hash_table *table, struct snap_hash_slot slot)
{
	size_t mask = table->slot_count - 1, k = slot.hash & mask;

	while (table->slots[k].number)
		k = (k + 1) & mask;
	table->slots[k] = slot;
}

bool snap_hash_table_reserve(struct snap_hash_table *table, size_t count)
{
	struct snap_hash_table grown = { .slot_count = table->slot_count, .count = table->count };

	if (count > SNAP_HASH_TABLE_MOST)
		return false;
	if (!grown.slot_count)
		grown.slot_count = FIRST_SLOTS;
	while (grown.slot_count / 2 < count)
		grown.slot_count *= 2;
	if (grown.slot_count == table->slot_count)
		return true;
	grown.slots = calloc(grown.slot_count, sizeof(*grown.slots));
	if (!grown.slots)
		return false;
	for (size_t i = 0; i < table->slot_count; i++)
		if (table->slots[i].number)
			enter_slot(&grown, table->slots[i]);
	free(table->slots);
	*table = grown;
	return true;
}

bool snap_hash_table_add(struct snap_hash_table *table, uint64_t hash, size_t number)
{
	if (number >= SNAP_HASH_TABLE_MOST || !snap_hash_table_reserve(table, table->count + 1))
		return false;
	enter_slot(table, (struct snap_hash_slot){ (uint32_t)hash, (uint32_t)number + 1 });
	table->count++;
	return true;
}

/* ---- pointers as keys ---- */

void snap_pointer_table_deinit(struct snap_pointer_table *table)
{
	free(table->entries);
	snap_hash_table_deinit(&table->table);
	*table = (struct snap_pointer_table){ 0 };
}

void snap_pointer_table_release(struct snap_pointer_table *table, void (*release)(void *pointer))
{
	for (size_t i = 0; i < table->count; i++)
		release(table->entries[i].pointer);
	snap_pointer_table_deinit(table);
}

void snap_pointer_table_clear(struct snap_pointer_table *table)
{
	snap_hash_table_clear(&table->table);
	table->count = 0;
}

bool snap_pointer_table_reserve(struct snap_pointer_table *table, size_t count)
{
	return snap_hash_table_reserve(&table->table, count) &&
	       snap_reserve_array(table->entries, table->capacity, count);
}

struct snap_pointer_entry *snap_pointer_table_find(const struct snap_pointer_table *table,
						   const void *key)
{
	return snap_hash_find_in(&table->table, snap_hash_pointer(key), table->entries, at,
				 at->key == key);
}

struct snap_pointer_entry *snap_pointer_table_get(struct snap_pointer_table *table, const void *key)
{
	struct snap_pointer_entry *entry = snap_pointer_table_find(table, key);

	if (entry)
		return entry;
	if (!snap_pointer_table_reserve(table, table->count + 1) ||
	    !snap_hash_table_add(&table->table, snap_hash_pointer(key), table->count))
		return NULL;
	entry = &table->entries[table->count++];
	memset(entry, 0, sizeof(*entry));
	entry->key = key;
	return entry;
}
