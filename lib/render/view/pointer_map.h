/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A map from pointers to pointers: what a renderer has already made of a frame that many stacks
 * share. Knows nothing of what it holds.
 */
#ifndef SNAP_RENDER_VIEW_POINTER_MAP_H
#define SNAP_RENDER_VIEW_POINTER_MAP_H

#include <stddef.h>

struct snap_pointer_map {
	struct snap_pointer_slot *slots;
	size_t slot_count, used;
};

/* Where the value of a key stands, NULL in it at first; valid until the next call. NULL: no memory.
 */
void **snap_pointer_map_slot(struct snap_pointer_map *map, const void *key);
/* Empties the map; `release` is called for each value, unless it is NULL. */
void snap_pointer_map_clear(struct snap_pointer_map *map, void (*release)(void *value));

#endif
