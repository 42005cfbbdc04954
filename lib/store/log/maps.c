/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Joins known mappings with those that are there now: addresses that were recorded earlier must still
 * lead to their file when it has been unmapped since.
 *
 * This is for modules only: files with executable mappings and the vDSO, as program counters lie
 * nowhere else. For all other mappings the newest replace the old ones.
 */
#include "store/log/index.h"

#include <string.h>

/* Mappings of unmapped files that are kept before a space begins anew. */
enum { MOST_LEFT_OVER = 4096 };

static bool is_code_file(const struct snap_map *map)
{
	return map->path && (map->inode || strcmp(map->path, "[vdso]") == 0);
}

static bool same_map_file(const struct snap_map *a, const struct snap_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && a->deleted == b->deleted &&
	       strcmp(a->path, b->path) == 0;
}

static bool same_mapping(const struct snap_map *a, const struct snap_map *b)
{
	return is_code_file(a) && is_code_file(b) && same_map_file(a, b) &&
	       (a->inode == 0 || a->start - a->offset == b->start - b->offset);
}

/* Which mappings belong to a file that has executable ones: they follow each other. */
static bool *find_modules(const struct snap_process *process)
{
	bool *is_module = calloc(process->map_count + 1, sizeof(*is_module));
	size_t first = 0, last = SIZE_MAX; /* of the current file */
	bool execute = false;

	for (size_t i = 0; is_module && i < process->map_count; i++) {
		const struct snap_map *map = &process->maps[i];

		if (!is_code_file(map))
			continue;
		if (last == SIZE_MAX || !same_map_file(&process->maps[last], map)) {
			first = i;
			execute = false;
		}
		last = i;
		execute = execute || map->execute;
		for (size_t k = first; execute && k <= i; k++)
			is_module[k] = is_code_file(&process->maps[k]);
		if (execute)
			first = i;
	}
	return is_module;
}

struct join {
	struct snap_map *maps;
	const struct snap_map *last; /* of which maps[count - 1] is a part */
	size_t count, left_over;
	bool fits;
};

/* The part of a mapping in [start, end); goes on with the part before it where it can. */
static void add_part(struct join *join, const struct snap_map *map, uint64_t start, uint64_t end)
{
	struct snap_map *part;

	if (join->last == map && join->maps[join->count - 1].end == start) {
		join->maps[join->count - 1].end = end;
		return;
	}
	part = &join->maps[join->count++];
	*part = *map;
	part->start = start;
	part->end = end;
	if (map->inode)
		part->offset += start - map->start;
	join->last = map;
}

/* An old mapping of a module that a new one overlaps: true where the new one takes its room. */
static bool map_gives_way(struct join *join, const struct snap_map *old, const struct snap_map *new,
			  bool new_is_module)
{
	if (same_mapping(old, new))
		return true;
	if (is_code_file(new) && same_map_file(old, new) && !old->execute && !new->execute)
		return true;
	if (new->execute || new_is_module)
		join->fits = false;
	return false;
}

/* A list of mappings while it is walked. */
struct side {
	const struct snap_process *process;
	const bool *is_module;
	size_t next;
	bool modules_only;
};

/* The first mapping that ends behind an address, NULL if there is none. */
static const struct snap_map *advance_side(struct side *side, uint64_t at)
{
	const struct snap_process *process = side->process;

	while (side->next < process->map_count &&
	       (process->maps[side->next].end <= at ||
		(side->modules_only && !side->is_module[side->next])))
		side->next++;
	return side->next < process->map_count ? &process->maps[side->next] : NULL;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Cuts the address space where a mapping of either side begins or ends. */
static void join_sides(struct join *join, struct side *known, struct side *now)
{
	const struct snap_map *a, *b;
	uint64_t at = 0;

	while ((a = advance_side(known, at)), (b = advance_side(now, at)), join->fits && (a || b)) {
		bool in_a = a && a->start <= at, in_b = b && b->start <= at;
		uint64_t end = smaller(a ? in_a ? a->end : a->start : UINT64_MAX,
				       b ? in_b ? b->end : b->start : UINT64_MAX);

		if (in_b && (!in_a || map_gives_way(join, a, b, now->is_module[now->next]))) {
			add_part(join, b, at, end);
		} else if (in_a) {
			add_part(join, a, at, end);
			join->left_over++;
		}
		at = end;
	}
}

struct stacksnap_error *snap_log_join_maps(const struct snap_process *known,
					   const struct snap_process *now, struct snap_map **ret,
					   size_t *count_ret, bool *fits_ret)
{
	_cleanup_free_ bool *known_modules = find_modules(known), *now_modules = find_modules(now);
	struct join join = { .fits = true };
	struct side old, new;

	SNAP_TRY(snap_no_memory_unless(known_modules && now_modules));
	/* Each step ends a mapping or begins one. */
	join.maps = malloc((2 * (known->map_count + now->map_count) + 1) * sizeof(*join.maps));
	SNAP_TRY(snap_no_memory_unless(join.maps));
	old = (struct side){ known, known_modules, 0, true };
	new = (struct side){ now, now_modules, 0, false };
	join_sides(&join, &old, &new);
	if (join.count > SNAP_MAX_MAPS || join.left_over > now->map_count + MOST_LEFT_OVER)
		join.fits = false;
	*ret = join.maps;
	*count_ret = join.count;
	*fits_ret = join.fits;
	return NULL;
}
