/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mappings of a core: program headers say where memory was and with which protection, NT_FILE (or
 * images.c) which files were mapped. Neither device nor inode is known (SNAP_NO_DEVICE): files are
 * distinguished by their paths, and compared by build ids and first pages.
 */
#include "base/bsearch.h"
#include "base/table.h"
#include "core/notes.h"

#include <stdlib.h>
#include <string.h>

SNAP_ORDER(by_address, struct snap_core_range, a, b,
	   snap_compare(a->segment.address, b->segment.address),
	   snap_compare(b->segment.size, a->segment.size));

SNAP_ORDER(by_start, struct snap_core_file, a, b, snap_compare(a->start, b->start),
	   snap_compare(b->end, a->end));

static void sort(struct snap_core_notes *notes)
{
	size_t kept = 0;
	uint64_t end = 0;

	if (notes->range_count)
		qsort(notes->ranges, notes->range_count, sizeof(*notes->ranges), by_address);
	for (size_t i = 0; i < notes->range_count; i++) {
		const struct snap_core_segment *segment = &notes->ranges[i].segment;

		if (segment->address < end)
			continue;
		end = segment->address + segment->size;
		notes->ranges[kept++] = notes->ranges[i];
	}
	notes->range_count = kept;
	if (notes->file_count)
		qsort(notes->files, notes->file_count, sizeof(*notes->files), by_start);
	kept = 0;
	end = 0;
	for (size_t i = 0; i < notes->file_count; i++) {
		if (notes->files[i].start < end)
			continue;
		end = notes->files[i].end;
		notes->files[kept++] = notes->files[i];
	}
	notes->file_count = kept;
}

/* ---- paths ---- */

/* A number a path, from 1 on: in place of the inode. */
struct paths {
	struct snap_interner strings;
	struct snap_hash_table table;
	const char **texts;
	size_t count;
};

static void paths_deinit(struct paths *paths)
{
	snap_interner_deinit(&paths->strings);
	snap_hash_table_deinit(&paths->table);
	free(paths->texts);
}

/* 0 without memory. There are no more paths than files. */
static uint64_t number_of_path(struct paths *paths, const char *path)
{
	uint64_t hash = snap_hash_mix((uintptr_t)path);
	struct snap_probe probe = snap_hash_table_probe(&paths->table, hash);

	while (snap_probe_next(&probe))
		if (paths->texts[probe.number] == path)
			return probe.number + 1;
	if (!snap_hash_table_reserve(&paths->table, paths->count + 1) ||
	    !snap_hash_table_add(&paths->table, hash, paths->count))
		return 0;
	paths->texts[paths->count] = path;
	return ++paths->count;
}

/* False without memory. */
static bool set_file(struct paths *paths, const struct snap_core_file *file, uint64_t start,
		     struct snap_map *map)
{
	static const char deleted[] = " (deleted)";
	size_t length = strnlen(file->path, SNAP_MAX_PATH - 1), tail = sizeof(deleted) - 1;

	if (length > tail && memcmp(file->path + length - tail, deleted, tail) == 0) {
		map->deleted = true;
		length -= tail;
	}
	map->path = snap_intern(&paths->strings, file->path, length);
	map->inode = map->path ? number_of_path(paths, map->path) : 0;
	map->dev_major = map->dev_minor = SNAP_NO_DEVICE;
	map->offset = file->offset + (start - file->start);
	return map->inode != 0;
}

/* ---- mappings ---- */

struct making {
	struct snap_core_notes *notes;
	struct paths paths;
	struct snap_map *maps;
	size_t count, capacity;
	bool no_memory;
};

/* A mapping, of a file where there is one. */
static void add_map(struct making *making, uint64_t start, uint64_t end,
		    const struct snap_core_range *range, const struct snap_core_file *file)
{
	const struct snap_core_aux *aux = &making->notes->aux;
	/* What no program header tells of was not written, as it were: code and constants. */
	struct snap_map map = {
		.start = start,
		.end = end,
		.read = range ? range->read : true,
		.write = range && range->write,
		.execute = range ? range->execute : true,
	};

	if (start >= end || making->count == making->capacity)
		return;
	if (file && file->path[0])
		making->no_memory |= !set_file(&making->paths, file, start, &map);
	else if (aux->vdso >= start && aux->vdso < end)
		map.path = "[vdso]";
	else if (aux->random >= start && aux->random < end)
		map.path = "[stack]";
	making->maps[making->count++] = map;
}

/* Both lists are sorted: cut where either begins or ends. */
static void merge_core_maps(struct making *making)
{
	const struct snap_core_notes *notes = making->notes;
	size_t range = 0, file = 0;
	uint64_t at = 0;

	while (range < notes->range_count || file < notes->file_count) {
		const struct snap_core_range *r =
			range < notes->range_count ? &notes->ranges[range] : NULL;
		const struct snap_core_file *f =
			file < notes->file_count ? &notes->files[file] : NULL;
		uint64_t r_start = r ? r->segment.address : UINT64_MAX;
		uint64_t r_end = r ? r->segment.address + r->segment.size : UINT64_MAX;
		uint64_t f_start = f ? f->start : UINT64_MAX, f_end = f ? f->end : UINT64_MAX;
		bool in_range, in_file;
		uint64_t end;

		if (at < r_start && at < f_start)
			at = r_start < f_start ? r_start : f_start;
		in_range = at >= r_start;
		in_file = at >= f_start;
		end = in_range ? r_end : r_start;
		if ((in_file ? f_end : f_start) < end)
			end = in_file ? f_end : f_start;
		add_map(making, at, end, in_range ? r : NULL, in_file ? f : NULL);
		at = end;
		range += in_range && at == r_end;
		file += in_file && at == f_end;
	}
}

static bool keep_segments(const struct snap_core_notes *notes, struct snap_core *core)
{
	core->segments = snap_arena_new_array(&core->capture->arena, notes->range_count + 1,
					      struct snap_core_segment);
	if (!core->segments)
		return false;
	for (size_t i = 0; i < notes->range_count; i++)
		core->segments[i] = notes->ranges[i].segment;
	core->segment_count = notes->range_count;
	return true;
}

static void making_deinit(struct making *making)
{
	paths_deinit(&making->paths);
}

struct stacksnap_error *snap_core_make_maps(struct snap_core_notes *notes, int fd,
					    struct snap_core *core)
{
	_cleanup_(making_deinit) struct making making = { .notes = notes };
	struct snap_arena *arena = &core->capture->arena;
	struct snap_process *process = core->capture->processes;

	snap_interner_init(&making.paths.strings, arena);
	sort(notes);
	SNAP_TRY(snap_no_memory_unless(keep_segments(notes, core)));
	if (!notes->file_count) {
		SNAP_TRY(snap_core_find_files(notes, fd, core));
		sort(notes);
	}
	making.paths.texts = calloc(notes->file_count + 1, sizeof(*making.paths.texts));
	making.capacity = 2 * (notes->range_count + notes->file_count) + 1;
	if (making.capacity > SNAP_MAX_MAPS)
		making.capacity = SNAP_MAX_MAPS;
	making.maps = snap_arena_new_array(arena, making.capacity, struct snap_map);
	SNAP_TRY(snap_no_memory_unless(making.paths.texts && making.maps));
	merge_core_maps(&making);
	SNAP_TRY(snap_no_memory_unless(!making.no_memory));
	process->maps = making.maps;
	process->map_count = making.count;
	return NULL;
}

struct stacksnap_error *snap_core_set_program(struct snap_core *core, const char *path)
{
	struct snap_process *process = core->capture->processes;
	struct snap_arena *arena = &core->capture->arena;
	_cleanup_free_ char *resolved = realpath(path, NULL);
	_cleanup_free_ char *directory = get_current_dir_name();
	bool is_bare = process->exe && process->exe[0] != '/'; /* see program_unnamed */
	const char *kept = NULL;

	/* Of one that is not there it is said where it was looked for. */
	if (resolved || path[0] == '/')
		kept = snap_arena_strdup(arena, resolved ? resolved : path);
	else if (directory)
		kept = snap_arena_printf(arena, "%s/%s", directory, path);

	SNAP_TRY(snap_no_memory_unless(kept));
	if (!process->exe)
		snap_capture_warn(
			core->capture, "core_without_program", process->pid, 0,
			"the core does not tell where its program was mapped: %s cannot be "
			"used",
			path);
	for (size_t i = 0; process->exe && i < process->map_count; i++) {
		struct snap_map *map = &process->maps[i];

		if (map->inode && map->path &&
		    strcmp(map->path + (is_bare && map->path[0] == '/'), process->exe) == 0) {
			map->path = kept;
			map->deleted = false;
			map->is_callers = true;
		}
	}
	if (is_bare)
		process->exe = kept;
	return NULL;
}
