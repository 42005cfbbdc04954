/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Open addressing, at most half full: see pointer_map.h. */
#include "render/view/pointer_map.h"

#include <stdint.h>
#include <stdlib.h>

enum { FIRST_SLOTS = 256 };

struct snap_pointer_slot {
	const void *key;
	void *value;
};

static struct snap_pointer_slot *find(struct snap_pointer_slot *slots, size_t slot_count,
				      const void *key)
{
	uint64_t hash = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15ull;
	size_t k = (size_t)(hash >> 20) & (slot_count - 1);

	while (slots[k].key && slots[k].key != key)
		k = (k + 1) & (slot_count - 1);
	return &slots[k];
}

static int grow(struct snap_pointer_map *map)
{
	size_t slot_count = map->slot_count ? map->slot_count * 2 : FIRST_SLOTS;
	struct snap_pointer_slot *slots = calloc(slot_count, sizeof(*slots));

	if (!slots)
		return 0;
	for (size_t i = 0; i < map->slot_count; i++)
		if (map->slots[i].key)
			*find(slots, slot_count, map->slots[i].key) = map->slots[i];
	free(map->slots);
	map->slots = slots;
	map->slot_count = slot_count;
	return 1;
}

void **snap_pointer_map_slot(struct snap_pointer_map *map, const void *key)
{
	struct snap_pointer_slot *slot;

	if (map->used * 2 >= map->slot_count && !grow(map))
		return NULL;
	slot = find(map->slots, map->slot_count, key);
	if (!slot->key) {
		slot->key = key;
		map->used++;
	}
	return &slot->value;
}

void snap_pointer_map_clear(struct snap_pointer_map *map, void (*release)(void *value))
{
	for (size_t i = 0; release && i < map->slot_count; i++)
		release(map->slots[i].value);
	free(map->slots);
	*map = (struct snap_pointer_map){ 0 };
}
