/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An address space as procfs shows it: see address_space.h. What a process maps changes while it
 * is read, so what must hold for mappings is made to hold here.
 */
#include "proc/address_space.h"

#include "base/bsearch.h"

#include <errno.h>
#include <string.h>

enum {
	PAGE = 4096,
	PIECES_A_CALL = 64,
	LARGEST_VDSO = 1 << 20,
};

static const char *keep_path(struct snap_region *region, const struct snap_map *before,
			     const char *path, size_t length)
{
	if (length == 0)
		return NULL;
	if (length > SNAP_MAX_PATH)
		length = SNAP_MAX_PATH;
	/* The mappings of a file follow each other. */
	if (before && before->path && strlen(before->path) == length &&
	    memcmp(before->path, path, length) == 0)
		return before->path;
	return snap_region_text(region, path, length);
}

int snap_space_read_maps(const struct snap_space_reader *reader, int maps_fd,
			 struct snap_space *ret)
{
	struct snap_lines lines;
	struct snap_map *maps;
	size_t count = 0, length;
	char *line;
	int more;

	snap_lines_init(&lines, maps_fd, reader->buffer, reader->buffer_size);
	while ((more = snap_lines_next(&lines, &line, &length)) > 0 && count < SNAP_MAX_MAPS) {
		struct snap_map *map = &reader->maps[count];
		const struct snap_map *before = count ? map - 1 : NULL;
		const char *path;
		size_t path_length;

		if (!snap_parse_map(line, length, map, &path, &path_length))
			continue;
		/* What must hold for maps, whatever changed while they were read. */
		if (map->start >= map->end || (before && map->start < before->end))
			continue;
		map->path = keep_path(reader->records, before, path, path_length);
		count++;
	}
	if (more < 0)
		return more;
	if (count == 0)
		return -ESRCH;
	maps = snap_region_new_array(reader->records, count, struct snap_map);
	if (!maps)
		return -ENOMEM;
	memcpy(maps, reader->maps, count * sizeof(*maps));
	ret->maps = maps;
	ret->map_count = count;
	return 0;
}

static bool is_vdso(const struct snap_map *map)
{
	return map->path && strcmp(map->path, "[vdso]") == 0;
}

static bool same_file(const struct snap_map *a, const struct snap_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

/*
 * The first mapping of a file that has code: its head holds the build id. The walk ends where the
 * file begins again, so all walks together pass each mapping once.
 */
static bool is_head(const struct snap_map *maps, size_t count, size_t index)
{
	const struct snap_map *map = &maps[index];

	if (map->inode == 0 || map->offset != 0 || !map->read)
		return false;
	for (size_t i = index; i < count && same_file(map, &maps[i]); i++) {
		if (i > index && maps[i].offset == 0)
			return false;
		if (maps[i].execute)
			return true;
	}
	return false;
}

static size_t piece_size(const struct snap_map *maps, size_t count, size_t index)
{
	size_t size = maps[index].end - maps[index].start;

	if (is_vdso(&maps[index]))
		return size < LARGEST_VDSO ? size : LARGEST_VDSO;
	if (!is_head(maps, count, index))
		return 0;
	return size < PAGE ? size : PAGE;
}

/* Reads as many whole pieces as can be read from the front; how many. */
static size_t read_some(const struct snap_space_reader *reader, uint8_t *bytes,
			struct snap_piece *pieces, size_t count)
{
	struct iovec remote[PIECES_A_CALL];
	size_t done = 0, total = 0, got;

	if (count > PIECES_A_CALL)
		count = PIECES_A_CALL;
	for (size_t i = 0; i < count; i++) {
		remote[i] = (struct iovec){ (void *)(uintptr_t)pieces[i].address, pieces[i].size };
		pieces[i].data = bytes + total;
		total += pieces[i].size;
	}
	got = reader->read(reader->context, bytes, remote, count);
	for (total = 0; done < count; done++) {
		total += pieces[done].size;
		if (got < total)
			break;
	}
	return done;
}

void snap_space_read_pieces(const struct snap_space_reader *reader, struct snap_space *space)
{
	size_t wanted = 0, bytes = 0, kept = 0;
	struct snap_piece *pieces;
	uint8_t *data;

	for (size_t i = 0; i < space->map_count; i++) {
		size_t size = piece_size(space->maps, space->map_count, i);

		wanted += size != 0;
		bytes += size;
	}
	pieces = snap_region_new_array(reader->records, wanted, struct snap_piece);
	data = snap_region_alloc(reader->records, bytes);
	if (!pieces || !data)
		return;
	wanted = 0;
	for (size_t i = 0; i < space->map_count; i++) {
		size_t size = piece_size(space->maps, space->map_count, i);

		if (size)
			pieces[wanted++] = (struct snap_piece){ .address = space->maps[i].start,
								.size = size };
	}
	for (size_t i = 0; i < wanted;) {
		size_t whole = read_some(reader, data, pieces + i, wanted - i);

		for (size_t k = 0; k < whole; k++) {
			pieces[kept] = pieces[i + k];
			data += pieces[kept++].size;
		}
		/* When none could be read, the first cannot. */
		i += whole + (whole == 0);
	}
	space->pieces = pieces;
	space->piece_count = kept;
}

struct stacksnap_error *snap_space_copy(struct snap_arena *arena, const struct snap_space *from,
					struct snap_space *ret)
{
	struct snap_space space = *from;
	const char *path = NULL, *kept = NULL;

	space.maps = snap_arena_memdup(arena, from->maps, from->map_count * sizeof(*from->maps));
	space.pieces =
		snap_arena_memdup(arena, from->pieces, from->piece_count * sizeof(*from->pieces));
	if (!space.maps || (!space.pieces && from->piece_count))
		return snap_error_no_memory();
	for (size_t i = 0; i < space.map_count; i++) {
		if (space.maps[i].path && space.maps[i].path != path) {
			path = space.maps[i].path;
			kept = snap_arena_strdup(arena, path);
			if (!kept)
				return snap_error_no_memory();
		}
		if (space.maps[i].path)
			space.maps[i].path = kept;
	}
	for (size_t i = 0; i < space.piece_count; i++) {
		space.pieces[i].data =
			snap_arena_memdup(arena, space.pieces[i].data, space.pieces[i].size);
		if (!space.pieces[i].data)
			return snap_error_no_memory();
	}
	*ret = space;
	return NULL;
}

size_t snap_space_find(const struct snap_map *maps, size_t count, uint64_t address)
{
	return snap_first_not(count, i, maps[i].end <= address);
}
