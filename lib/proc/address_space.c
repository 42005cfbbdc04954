/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An address space as procfs shows it: see address_space.h. Mappings change while they are read, so
 * this file makes their rules hold.
 */
#include "proc/address_space.h"

#include "base/bsearch.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/table.h"

#include <errno.h>
#include <string.h>

enum {
	PIECES_A_CALL = 64,
	LARGEST_VDSO = 1 << 20,
	SHARED_BYTES = 256 << 10, /* of pieces that may turn out to be there already */
};

/*
 * The room of a process: half of the room that is left, so that others get some as well. A late process
 * finds enough for an ordinary one. After a thousand of these the next one finds room for a few
 * mappings, and for those that it shares with others.
 */
static size_t share_of_budget(const struct snap_space_reader *reader)
{
	uint64_t taken = reader->taken ? __atomic_load_n(reader->taken, __ATOMIC_RELAXED) : 0;
	uint64_t left = taken < SNAP_SPACES_BYTES ? SNAP_SPACES_BYTES - taken : 0;

	if (taken >= SNAP_SPACES_MOST)
		return SNAP_SPACE_FEW;
	if (left / 2 >= SNAP_SPACE_BYTES)
		return SNAP_SPACE_BYTES;
	return left / 2 > SNAP_SPACE_LEAST ? left / 2 : SNAP_SPACE_LEAST;
}

static void take_budget(const struct snap_space_reader *reader, size_t bytes)
{
	if (reader->taken)
		__atomic_fetch_add(reader->taken, bytes, __ATOMIC_RELAXED);
}

/* Bytes as they are kept: those of another process, or a copy, which takes room. NULL: none. */
static const void *keep_bytes(const struct snap_space_reader *reader, const void *bytes,
			      size_t size)
{
	const void *kept = snap_space_pool_find(reader->pool, bytes, size);

	if (kept)
		return kept;
	take_budget(reader, size);
	return snap_space_pool_add(reader->pool, reader->records, bytes, size);
}

/* Mappings of one process on their way to where they are kept. */
struct reading {
	const struct snap_space_reader *reader;
	size_t count, room;
	const char *paths[SNAP_RECENT_PLACES];
};

static bool is_path(const char *kept, const char *path, size_t length)
{
	return kept && strncmp(kept, path, length) == 0 && kept[length] == '\0';
}

/* NULL: there is no room for it. */
static const char *keep_space_text(struct reading *reading, const char *path, size_t length)
{
	char text[SNAP_MAX_PATH + 1];
	const char *kept;

	memcpy(text, path, length);
	text[length] = 0;
	kept = snap_space_pool_find(reading->reader->pool, text, length + 1);
	if (kept)
		return kept;
	if (length >= reading->room)
		return NULL;
	reading->room -= length + 1;
	return keep_bytes(reading->reader, text, length + 1);
}

/* The mappings of a file follow each other, mostly. False: there is no room for it. */
static bool keep_path(struct reading *reading, struct snap_map *map, const char *path,
		      size_t length)
{
	const char *before = reading->count ? map[-1].path : NULL, **place;

	if (length == 0)
		return true;
	if (length > SNAP_MAX_PATH)
		length = SNAP_MAX_PATH;
	place = is_path(before, path, length) ? &before
					      : &reading->paths[snap_recent_place(path, length)];
	if (!is_path(*place, path, length)) {
		*place = keep_space_text(reading, path, length);
		if (!*place)
			return false;
	}
	map->path = *place;
	return true;
}

/* One clock a buffer of text. */
static void give_sign(const struct snap_space_reader *reader, uint64_t total, uint64_t *reported)
{
	if (!reader->sign || total == *reported)
		return;
	*reported = total;
	__atomic_store_n(reader->sign, snap_clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELAXED);
}

/* False: no more may be kept. */
static bool keep_map(struct reading *reading, const char *line, size_t length)
{
	struct snap_map *map = &reading->reader->maps[reading->count];
	const char *path;
	size_t path_length;

	if (reading->count == SNAP_MAX_MAPS)
		return false;
	if (!snap_parse_map(line, length, map, &path, &path_length))
		return true;
	/* Makes the rules of maps hold, for any changes while they were read. */
	if (map->start >= map->end || (reading->count && map->start < map[-1].end))
		return true;
	if (reading->room < sizeof(*map))
		return false;
	reading->room -= sizeof(*map);
	if (!keep_path(reading, map, path, path_length))
		return false;
	reading->count++;
	return true;
}

/* The mappings that are in reader->maps go where they are kept. */
static int settle_maps(const struct reading *reading, struct snap_space *ret)
{
	const struct snap_space_reader *reader = reading->reader;
	const void *maps = keep_bytes(reader, reader->maps, reading->count * sizeof(*reader->maps));

	if (!maps)
		return -ENOMEM;
	ret->maps = (struct snap_map *)(uintptr_t)maps;
	ret->map_count = reading->count;
	ret->room = reading->room;
	return 0;
}

int snap_space_read_maps(const struct snap_space_reader *reader, int maps_fd,
			 struct snap_space *ret)
{
	struct reading reading = { .reader = reader, .room = share_of_budget(reader) };
	struct snap_lines lines;
	uint64_t reported = 0;
	bool cut = false;
	size_t length;
	char *line;
	int more = 0;

	snap_lines_init(&lines, maps_fd, reader->buffer, reader->buffer_size);
	lines.most = SNAP_SPACE_TEXT;
	while (!cut && (more = snap_lines_next(&lines, &line, &length)) > 0) {
		give_sign(reader, lines.total, &reported);
		cut = lines.limited || !keep_map(&reading, line, length);
	}
	cut |= lines.limited;
	if (!cut && more < 0)
		return more;
	if (reading.count == 0)
		return cut ? -ENOMEM : -ESRCH;
	ret->cut = cut;
	return settle_maps(&reading, ret);
}

static bool is_vdso(const struct snap_map *map)
{
	return map->path && strcmp(map->path, "[vdso]") == 0;
}

static bool is_same_file(const struct snap_map *a, const struct snap_map *b)
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
	for (size_t i = index; i < count && is_same_file(map, &maps[i]); i++) {
		if (i > index && maps[i].offset == 0)
			return false;
		if (maps[i].execute)
			return true;
	}
	return false;
}

static size_t vdso_size(const struct snap_map *map)
{
	size_t size = map->end - map->start;

	return size < LARGEST_VDSO ? size : LARGEST_VDSO;
}

/* Where there is no room for all, there is for the vDSO, which is in no file. */
static size_t room_for_heads(const struct snap_space *space)
{
	size_t room = space->room;

	for (size_t i = 0; i < space->map_count; i++)
		if (is_vdso(&space->maps[i]))
			room -= room < vdso_size(&space->maps[i]) ? room
								  : vdso_size(&space->maps[i]);
	return room;
}

/*
 * 0: there is none, or it is not read, as there is no room for it. A piece that others have, too, needs
 * no room, so a few more are read than there is room for.
 */
static size_t piece_size(const struct snap_space *space, size_t index, size_t *room)
{
	const struct snap_map *map = &space->maps[index];
	size_t size = map->end - map->start < SNAP_PAGE ? map->end - map->start : SNAP_PAGE;

	if (is_vdso(map))
		return vdso_size(map);
	if (!is_head(space->maps, space->map_count, index) || size > *room)
		return 0;
	*room -= size;
	return size;
}

/* How many pieces the next call reads: those for which there is room in the buffer, one at least. */
static size_t fitting_pieces(const struct snap_space_reader *reader,
			     const struct snap_piece *pieces, size_t count)
{
	size_t fitting = 0, total = 0;

	while (fitting < count && fitting < PIECES_A_CALL) {
		total += pieces[fitting].size;
		if (fitting && total > reader->buffer_size)
			break;
		fitting++;
	}
	return fitting;
}

/* Reads as many whole pieces as can be read from the front; how many. */
static size_t read_some(const struct snap_space_reader *reader, uint8_t *bytes,
			struct snap_piece *pieces, size_t count)
{
	struct iovec remote[PIECES_A_CALL] = { { .iov_len = 0 } };
	size_t done = 0, total = 0, got;

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

/* The same bytes where they are kept; false: there is no room for them. */
static bool keep_space_piece(const struct snap_space_reader *reader, const struct snap_space *space,
			     size_t *room, struct snap_piece *piece)
{
	const struct snap_map *map =
		&space->maps[snap_space_find(space->maps, space->map_count, piece->address)];
	const void *kept = snap_space_pool_find(reader->pool, piece->data, piece->size);

	if (!kept && (!is_vdso(map) || share_of_budget(reader) == SNAP_SPACE_FEW)) {
		if (piece->size > *room)
			return false;
		*room -= piece->size;
	}
	piece->data = kept ? kept : keep_bytes(reader, piece->data, piece->size);
	return piece->data;
}

/* Where they are read to: the buffer, or a region where there is one that is larger. */
static uint8_t *buffer_for(const struct snap_space_reader *reader, size_t bytes)
{
	return bytes <= reader->buffer_size ? (uint8_t *)reader->buffer
					    : snap_region_alloc(reader->records, bytes);
}

/* The pieces that are wanted: how many, and where they are. */
static size_t list_pieces(const struct snap_space_reader *reader, const struct snap_space *space,
			  struct snap_piece *pieces)
{
	size_t wanted = 0, room = room_for_heads(space) + (reader->pool ? SHARED_BYTES : 0);

	for (size_t i = 0; i < space->map_count; i++) {
		size_t size = piece_size(space, i, &room);

		if (size && pieces)
			pieces[wanted] = (struct snap_piece){ .address = space->maps[i].start,
							      .size = size };
		wanted += size != 0;
	}
	return wanted;
}

void snap_space_read_pieces(const struct snap_space_reader *reader, struct snap_space *space)
{
	size_t wanted = list_pieces(reader, space, NULL), kept = 0, room = room_for_heads(space);
	struct snap_piece *pieces =
		snap_region_new_array(reader->records, wanted, struct snap_piece);

	if (!pieces)
		return;
	/* Pieces that are read by now stay even if the next read never returns. */
	space->piece_count = 0;
	space->pieces = pieces;
	list_pieces(reader, space, pieces);
	for (size_t i = 0; i < wanted;) {
		size_t count = fitting_pieces(reader, pieces + i, wanted - i);
		uint8_t *bytes = buffer_for(reader, count == 1 ? pieces[i].size : 0);
		size_t whole = bytes ? read_some(reader, bytes, pieces + i, count) : 0;

		for (size_t k = 0; k < whole; k++) {
			pieces[kept] = pieces[i + k];
			kept += keep_space_piece(reader, space, &room, &pieces[kept]);
		}
		__atomic_store_n(&space->piece_count, kept, __ATOMIC_RELEASE);
		/* When none could be read, the first cannot. */
		i += whole + (whole == 0);
	}
}

int snap_space_keep(const struct snap_space_reader *reader, const struct snap_space *from,
		    struct snap_space *ret)
{
	struct reading reading = { .reader = reader, .room = share_of_budget(reader) };
	struct snap_piece *pieces;
	size_t room, kept = 0;
	int error;

	ret->cut = from->cut;
	for (; reading.count < from->map_count; reading.count++) {
		struct snap_map *map = &reader->maps[reading.count];
		const char *path = from->maps[reading.count].path;

		*map = from->maps[reading.count];
		map->path = NULL;
		if (reading.room < sizeof(*map) ||
		    !keep_path(&reading, map, path ? path : "", path ? strlen(path) : 0))
			break;
		reading.room -= sizeof(*map);
	}
	ret->cut |= reading.count < from->map_count;
	error = reading.count ? settle_maps(&reading, ret) : -ENOMEM;
	if (error)
		return error;
	pieces = snap_region_new_array(reader->records, from->piece_count, struct snap_piece);
	room = room_for_heads(ret);
	for (size_t i = 0; pieces && i < from->piece_count; i++) {
		pieces[kept] = from->pieces[i];
		kept += pieces[kept].address < ret->maps[ret->map_count - 1].end &&
			keep_space_piece(reader, ret, &room, &pieces[kept]);
	}
	ret->pieces = pieces;
	ret->piece_count = kept;
	return 0;
}

/* Texts that were kept once are copied once, as far as they are met again soon. */
static bool copy_paths(struct snap_arena *arena, struct snap_space *space)
{
	struct {
		const char *from, *to;
	} places[SNAP_RECENT_PLACES] = { { .from = NULL } }, *place = places;

	for (size_t i = 0; i < space->map_count; i++) {
		const char *path = space->maps[i].path;

		if (!path)
			continue;
		if (place->from != path)
			place = &places[snap_recent_place(path, strlen(path))];
		if (place->from != path) {
			place->from = path;
			place->to = snap_arena_strdup(arena, path);
		}
		if (!place->to)
			return false;
		space->maps[i].path = place->to;
	}
	return true;
}

struct stacksnap_error *snap_space_copy(struct snap_arena *arena, const struct snap_space *from,
					struct snap_space *ret)
{
	struct snap_space space = *from;

	space.maps = snap_arena_memdup(arena, from->maps, from->map_count * sizeof(*from->maps));
	space.pieces =
		snap_arena_memdup(arena, from->pieces, from->piece_count * sizeof(*from->pieces));
	if (!space.maps || (!space.pieces && from->piece_count) || !copy_paths(arena, &space))
		return snap_error_no_memory();
	for (size_t i = 0; i < space.piece_count; i++) {
		space.pieces[i].data =
			snap_arena_memdup(arena, space.pieces[i].data, space.pieces[i].size);
		SNAP_TRY(snap_no_memory_unless(space.pieces[i].data));
	}
	*ret = space;
	return NULL;
}

size_t snap_space_find(const struct snap_map *maps, size_t count, uint64_t address)
{
	return snap_first_not(count, i, maps[i].end <= address);
}
