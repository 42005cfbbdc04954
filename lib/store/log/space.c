/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The address spaces of a log: facts, mappings and captured memory of a process, copied, and kept up to
 * date while they agree with the known ones. See log.h. maps.c joins mappings.
 */
#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/table.h"
#include "store/log/index.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>

static const struct snap_live nothing_open = { -1, -1, -1, -1, -1 };

/* ---- blobs: pieces of memory, once for all spaces that have them ---- */

static struct snap_log_blob *get_blob(struct snap_log_index *index, const void *bytes, size_t size)
{
	uint64_t hash = snap_hash_bytes(bytes, size, size);
	struct snap_log_blob **list = &index->blobs[hash % SNAP_LOG_BLOB_LISTS], *blob;

	for (blob = *list; blob; blob = blob->next) {
		if (blob->hash == hash && blob->size == size &&
		    memcmp(blob->bytes, bytes, size) == 0) {
			blob->users++;
			return blob;
		}
	}
	blob = malloc(sizeof(*blob) + size);
	if (!blob)
		return NULL;
	blob->next = *list;
	blob->hash = hash;
	blob->size = size;
	blob->users = 1;
	memcpy(blob->bytes, bytes, size);
	index->blob_bytes += sizeof(*blob) + size;
	*list = blob;
	return blob;
}

static void put_blob(struct snap_log_index *index, struct snap_log_blob *blob)
{
	struct snap_log_blob **at = &index->blobs[blob->hash % SNAP_LOG_BLOB_LISTS];

	if (--blob->users)
		return;
	while (*at != blob)
		at = &(*at)->next;
	*at = blob->next;
	index->blob_bytes -= sizeof(*blob) + blob->size;
	free(blob);
}

/* ---- slots ---- */

struct stacksnap_error *snap_log_grow_spaces(struct snap_log *log)
{
	struct snap_log_index *index = log->index;
	size_t count = index->space_capacity, spaces = count, indices = count, processes = count;

	if (count >= SNAP_LOG_MAX_SPACES)
		return snap_error_format(SNAP_ERROR_OTHER,
					 "the recording has too many address spaces");
	if (!snap_reserve_array_zeroed(log->spaces, spaces, 2 * count) ||
	    !snap_reserve_array_zeroed(index->spaces, indices, 2 * count) ||
	    !snap_reserve_array_zeroed(log->capture->processes, processes, 2 * count))
		return snap_error_no_memory();
	index->space_capacity = 2 * count;
	for (size_t i = 0; i < log->capture->process_count; i++)
		index->spaces[i].strings.arena = &log->spaces[i].arena;
	return NULL;
}

struct stacksnap_error *snap_log_space_add(struct snap_log *log, uint32_t process, uint32_t *ret)
{
	struct snap_log_index *index = log->index;
	struct snap_capture *capture = log->capture;
	uint32_t space = index->free_space;

	while (space < capture->process_count && index->spaces[space].version)
		space++;
	if (space >= index->space_capacity)
		return snap_error_format(SNAP_ERROR_OTHER,
					 "the recording has too many address spaces");
	if (space == capture->process_count) {
		if (capture->live)
			capture->live[space] = nothing_open;
		capture->process_count++;
	}
	index->free_space = space + 1;
	index->space_count++;
	index->spaces[space].version = ++index->version;
	snap_arena_init(&log->spaces[space].arena);
	snap_interner_init(&index->spaces[space].strings, &log->spaces[space].arena);
	log->spaces[space].process = process;
	*ret = space;
	return NULL;
}

static void release_pieces(struct snap_log_index *index, struct snap_log_blob **blobs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		put_blob(index, blobs[i]);
	free(blobs);
}

void snap_log_space_drop(struct snap_log *log, uint32_t space)
{
	struct snap_log_index *index = log->index;
	struct snap_log_space_index *owned = &index->spaces[space];

	assert(owned->version);
	release_pieces(index, owned->blobs, owned->blob_count);
	free(owned->maps);
	free(owned->pieces);
	snap_interner_deinit(&owned->strings);
	snap_arena_deinit(&log->spaces[space].arena);
	if (log->capture->live)
		snap_live_close(&log->capture->live[space]);
	index->space_bytes -= owned->bytes;
	*owned = (struct snap_log_space_index){ 0 };
	log->capture->processes[space] = (struct snap_process){ 0 };
	log->spaces[space].process = UINT32_MAX;
	index->space_count--;
	index->free_space = SNAP_MIN(index->free_space, space);
}

/* ---- facts ---- */

/* They do not change with a process, and copied each time they would pile up. */
static bool copy_facts(struct snap_log_space_index *owned, const struct snap_process *before,
		       const struct snap_process *facts, struct snap_process *ret)
{
	struct snap_process process = *facts;

	if (before->ancestors)
		process.ancestor_count = 0;
	process.usage = (struct snap_usage){ 0 }; /* it changes while it is recorded */
	if (!snap_process_copy(&owned->strings, &process, ret))
		return false;
	if (before->ancestors) {
		ret->ancestors = before->ancestors;
		ret->ancestor_count = before->ancestor_count;
	}
	return true;
}

/* ---- memory ---- */

/* Pieces that were known stay where no new one lies and some mapping still is. */
static bool keeps_piece(const struct snap_piece *piece, const struct snap_process *now,
			const struct snap_process *joined)
{
	size_t next =
		snap_first_not(now->piece_count, i,
			       now->pieces[i].address + now->pieces[i].size <= piece->address);

	if (next < now->piece_count && now->pieces[next].address < piece->address + piece->size)
		return false;
	return snap_process_map(joined, piece->address);
}

struct joined_pieces {
	struct snap_piece *pieces;
	struct snap_log_blob **blobs;
	size_t count;
};

static bool add_space_piece(struct snap_log_index *index, struct joined_pieces *joined,
			    const struct snap_piece *piece)
{
	struct snap_log_blob *blob = get_blob(index, piece->data, piece->size);

	if (!blob)
		return false;
	joined->blobs[joined->count] = blob;
	joined->pieces[joined->count++] =
		(struct snap_piece){ piece->address, blob->bytes, piece->size };
	return true;
}

/* Both are sorted, and so is the result. */
static bool join_space_pieces(struct snap_log_index *index, const struct snap_process *known,
			      const struct snap_process *now, const struct snap_process *with_maps,
			      struct joined_pieces *joined)
{
	size_t old = 0, new = 0, room = known->piece_count + now->piece_count + 1;
	bool fine = true;

	joined->pieces = malloc(room * sizeof(*joined->pieces));
	joined->blobs = malloc(room * sizeof(struct snap_log_blob *));
	if (!joined->pieces || !joined->blobs)
		return false;
	while (fine && (old < known->piece_count || new < now->piece_count)) {
		const struct snap_piece *a = &known->pieces[old], *b = &now->pieces[new];

		if (new == now->piece_count ||
		    (old < known->piece_count && a->address < b->address)) {
			fine = !keeps_piece(a, now, with_maps) || add_space_piece(index, joined, a);
			old++;
		} else {
			fine = add_space_piece(index, joined, b);
			new ++;
		}
	}
	return fine;
}

static uint64_t hash_pointer(const void *pointer, uint64_t hash)
{
	return snap_hash_bytes(&pointer, sizeof(pointer), hash);
}

/* Of the contents of a file; texts and pieces are there once. The state is left out, as it changes. */
static uint64_t hash_content(const struct snap_process *process)
{
	const void *const texts[] = { process->name,      process->exe,
				      process->args,      process->user,
				      process->cgroup,    process->unit,
				      process->container, process->trouble_message };
	uint64_t numbers[] = { process->trouble, process->uid, (uint64_t)process->ppid,
			       process->threads_missed };
	uint64_t hash = snap_hash_bytes(numbers, sizeof(numbers), 0);

	hash = snap_hash_bytes(texts, sizeof(texts), hash);
	for (size_t i = 0; i < process->map_count; i++) {
		const struct snap_map *map = &process->maps[i];
		uint64_t numbers_of_map[] = { map->start, map->end, map->offset, map->inode,
					      (uint64_t)map->execute };

		if (snap_log_tells(map))
			hash = hash_pointer(
				map->path,
				snap_hash_bytes(numbers_of_map, sizeof(numbers_of_map), hash));
	}
	for (size_t i = 0; i < process->piece_count; i++)
		hash = hash_pointer(process->pieces[i].data, hash + process->pieces[i].address);
	return hash;
}

/* The mappings are those of the process from here on; their paths become the space's own. */
static bool set_memory(struct snap_log *log, uint32_t space, const struct snap_process *facts,
		       struct snap_map *maps, size_t map_count)
{
	struct snap_log_index *index = log->index;
	struct snap_log_space_index *owned = &index->spaces[space];
	struct snap_process *process = &log->capture->processes[space], with_maps = { 0 }, kept;
	struct joined_pieces joined = { 0 };
	const char *last = NULL, *last_kept = NULL;

	for (size_t i = 0; i < map_count; i++) {
		if (maps[i].path != last) {
			last = last_kept = maps[i].path;
			if (!snap_intern_text(&owned->strings, &last_kept, SNAP_MAX_PATH))
				return false;
		}
		maps[i].path = last_kept;
	}
	with_maps.maps = maps;
	with_maps.map_count = map_count;
	if (!copy_facts(owned, process, facts, &kept) ||
	    !join_space_pieces(index, process, facts, &with_maps, &joined)) {
		release_pieces(index, joined.blobs, joined.count);
		free(joined.pieces);
		return false;
	}
	release_pieces(index, owned->blobs, owned->blob_count);
	free(owned->pieces);
	free(owned->maps);
	owned->maps = kept.maps = maps;
	kept.map_count = map_count;
	owned->pieces = kept.pieces = joined.pieces;
	kept.piece_count = joined.count;
	owned->blobs = joined.blobs;
	owned->blob_count = joined.count;
	*process = kept;
	snap_log_charge_space(log, space);
	/* Mappings that are read again are mostly the same. */
	if (owned->content != hash_content(process)) {
		owned->content = hash_content(process);
		owned->version = ++index->version;
	}
	return true;
}

struct stacksnap_error *snap_log_add_pieces(struct snap_log *log, uint32_t space,
					    struct snap_piece *pieces, size_t count)
{
	struct snap_process facts = log->capture->processes[space];
	struct snap_map *maps = malloc((facts.map_count + 1) * sizeof(*maps));

	SNAP_TRY(snap_no_memory_unless(maps));
	if (facts.map_count)
		memcpy(maps, facts.maps, facts.map_count * sizeof(*maps));
	facts.pieces = pieces;
	facts.piece_count = count;
	if (set_memory(log, space, &facts, maps, facts.map_count))
		return NULL;
	free(maps);
	return snap_error_no_memory();
}

/* Without descriptors to spare it goes on without: files are then found by their names. */
static void keep_live(struct snap_live *kept, const struct snap_live *live)
{
	const int *from[] = { &live->pidfd, &live->proc_fd, &live->root_fd, &live->exe_fd,
			      &live->files_fd };
	int *to[] = { &kept->pidfd, &kept->proc_fd, &kept->root_fd, &kept->exe_fd,
		      &kept->files_fd };

	snap_live_close(kept);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(from); i++)
		if (*from[i] >= 0)
			*to[i] = fcntl(*from[i], F_DUPFD_CLOEXEC, 3);
}

struct stacksnap_error *snap_log_map_process(struct snap_log *log, uint32_t process,
					     const struct snap_process *facts,
					     const struct snap_live *live, uint32_t *ret)
{
	static const struct snap_process nothing;
	_cleanup_free_ struct snap_map *maps = NULL;
	uint32_t space, before;
	size_t map_count = 0;
	bool fits = false;

	assert(process < log->process_count);
	space = before = log->processes[process].space;
	if (space != UINT32_MAX)
		SNAP_TRY(snap_log_join_maps(&log->capture->processes[space], facts, &maps,
					    &map_count, &fits));
	if (!fits) {
		free(snap_take_ptr(maps));
		SNAP_TRY(snap_log_join_maps(&nothing, facts, &maps, &map_count, &fits));
		SNAP_TRY(snap_log_space_add(log, process, &space));
	}
	if (!set_memory(log, space, facts, maps, map_count)) {
		if (space != before)
			snap_log_space_drop(log, space);
		return snap_error_no_memory();
	}
	maps = NULL;
	if (live && log->capture->live)
		keep_live(&log->capture->live[space], live);
	log->processes[process].space = space;
	*ret = space;
	return NULL;
}
