/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The mappings of sampled processes. Those that are equal, as of processes that were forked, are
 * there once, as long as any process has them.
 */
#include "sample/internal.h"

#include "base/table.h"
#include "base/text.h"

#include <elf.h>
#include <string.h>

/* Without padding, and with what the path is in place of where it is. */
static uint64_t hash_maps(const struct snap_space *space)
{
	uint64_t hash = space->map_count;

	for (size_t i = 0; i < space->map_count; i++) {
		const struct snap_map *map = &space->maps[i];

		hash = snap_hash_add(hash, map->start ^ map->inode);
		hash = snap_hash_add(hash, map->end + map->offset);
	}
	return hash;
}

static bool same_map(const struct snap_map *a, const struct snap_map *b)
{
	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && a->read == b->read && a->write == b->write &&
	       a->execute == b->execute && a->shared == b->shared && a->deleted == b->deleted &&
	       snap_same_text(a->path, b->path);
}

bool snap_sampler_space_is(const struct snap_sampler_space *kept, const struct snap_space *space)
{
	if (!kept || kept->map_count != space->map_count ||
	    kept->piece_count != space->piece_count || kept->cut != space->cut)
		return false;
	return snap_all(space->map_count, i, same_map(&kept->maps[i], &space->maps[i]));
}

/* Its modules say what they are made for. */
static bool is_32_bit(const struct snap_space *space)
{
	for (size_t i = 0; i < space->piece_count; i++) {
		const struct snap_piece *piece = &space->pieces[i];

		if (piece->size > EI_CLASS && memcmp(piece->data, ELFMAG, SELFMAG) == 0)
			return piece->data[EI_CLASS] == ELFCLASS32;
	}
	return false;
}

static struct snap_sampler_space **list_of(struct snap_sampler *sampler, uint64_t hash)
{
	return &sampler->spaces[hash % SNAP_SAMPLER_SPACE_LISTS];
}

struct snap_sampler_space *snap_sampler_space_get(struct snap_sampler *sampler,
						  const struct snap_space *space)
{
	/* What the maps point to besides their paths is not kept. */
	struct snap_space maps_alone = *space, copy;
	uint64_t hash = hash_maps(space);
	struct snap_sampler_space **list = list_of(sampler, hash), *kept;

	for (kept = *list; kept; kept = kept->next) {
		if (kept->hash != hash || !snap_sampler_space_is(kept, space))
			continue;
		kept->users++;
		return kept;
	}
	kept = calloc(1, sizeof(*kept));
	if (!kept)
		return NULL;
	maps_alone.pieces = NULL;
	maps_alone.piece_count = 0;
	snap_arena_init(&kept->arena);
	if (snap_error_ignore(snap_space_copy(&kept->arena, &maps_alone, &copy))) {
		snap_arena_deinit(&kept->arena);
		free(kept);
		return NULL;
	}
	kept->users = 1;
	kept->hash = hash;
	kept->maps = copy.maps;
	kept->map_count = copy.map_count;
	kept->piece_count = space->piece_count;
	kept->cut = space->cut;
	kept->is_32_bit = is_32_bit(space);
	kept->next = *list;
	*list = kept;
	sampler->space_bytes += kept->arena.total;
	return kept;
}

void snap_sampler_space_put(struct snap_sampler *sampler, struct snap_sampler_space *space)
{
	struct snap_sampler_space **link;

	if (!space || --space->users)
		return;
	for (link = list_of(sampler, space->hash); *link != space; link = &(*link)->next)
		;
	*link = space->next;
	sampler->space_bytes -= space->arena.total;
	snap_arena_deinit(&space->arena);
	free(space);
}
