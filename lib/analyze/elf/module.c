/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Modules of a process: see module.h. Its mappings are cut into runs of one file each, by the mappings
 * alone. The files are in module_set.c.
 */
#include "analyze/elf/internal.h"
#include "analyze/elf/made.h"

#include "base/bytes.h"
#include "base/text.h"

#include <string.h>

enum { NO_MODULE = UINT32_MAX };

/* Between code that was moved and what is left of its file. */
enum {
	MOST_PARTS = 64,      /* mappings of memory */
	WIDEST_GAP = 4 << 20, /* of segments that are aligned to huge pages of 2 MiB */
};

struct snap_modules {
	struct snap_module_set *set;
	const struct snap_process *process;
	struct snap_module *list;
	size_t count;
	uint32_t *of_map;            /* index in list for each map, NO_MODULE: none */
	struct snap_made_code *made; /* NULL: none */
};

static bool is_file(const struct snap_map *map)
{
	return map->inode != 0 && map->path && map->path[0] == '/';
}

/* A file that has no name: of memfd_create(2), of huge pages, of shared anonymous memory. */
static bool is_memory_file(const struct snap_map *map)
{
	return is_file(map) && (snap_begins_with(map->path, "/memfd:") ||
				snap_begins_with(map->path, "/anon_hugepage") ||
				snap_begins_with(map->path, "/dev/zero"));
}

static bool is_vdso(const struct snap_map *map)
{
	return map->path && strcmp(map->path, "[vdso]") == 0;
}

static bool same_module_file(const struct snap_map *a, const struct snap_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && strcmp(a->path, b->path) == 0;
}

/*
 * A file's run goes on while its offsets do not go back, with anonymous mappings (bss, guard
 * pages) in between. Offset 0 once more is another copy of the file, unless it is the second
 * segment of a program smaller than a page.
 */
static bool continues_module(const struct snap_process *process, const struct snap_module *module,
			     size_t map)
{
	const struct snap_map *last = &process->maps[module->first_map + module->map_count - 1];
	const struct snap_map *next = &process->maps[map];

	if (module->kind != SNAP_MODULE_FILE || !same_module_file(last, next))
		return false;
	return next->offset > last->offset ||
	       (next->offset == last->offset && next->start == last->end);
}

static void add_module(struct snap_modules *modules, size_t map)
{
	const struct snap_map *line = &modules->process->maps[map];
	struct snap_module *module = &modules->list[modules->count];

	module->kind = is_file(line)   ? SNAP_MODULE_FILE
		       : is_vdso(line) ? SNAP_MODULE_VDSO
				       : SNAP_MODULE_ANON;
	module->start = line->start;
	module->end = line->end;
	module->path = is_file(line) || is_vdso(line) ? line->path : NULL;
	module->process = modules->process;
	module->first_map = map;
	module->map_count = 1;
	modules->of_map[map] = (uint32_t)modules->count++;
}

/* Fills list and of_map; files are not asked for yet. */
static void cut_maps(struct snap_modules *modules)
{
	const struct snap_process *process = modules->process;
	struct snap_module *open = NULL;   /* the newest module of a file */
	struct snap_module *around = NULL; /* the one before, if that may go on behind memory */

	for (size_t i = 0; i < process->map_count; i++) {
		const struct snap_map *map = &process->maps[i];

		modules->of_map[i] = NO_MODULE;
		if (!is_file(map)) {
			if (is_vdso(map) || map->execute)
				add_module(modules, i);
			continue;
		}
		if (around && continues_module(process, around, i))
			open = around;
		if (open && continues_module(process, open, i)) {
			open->end = map->end;
			open->map_count = i - open->first_map + 1;
			modules->of_map[i] = (uint32_t)(open - modules->list);
			continue;
		}
		around = is_memory_file(map) ? open : NULL;
		open = &modules->list[modules->count];
		add_module(modules, i);
	}
}

struct stacksnap_error *snap_modules_create(struct snap_module_set *set,
					    const struct snap_process *process,
					    struct snap_modules **ret)
{
	struct snap_arena *arena = set->arena;
	struct snap_modules *modules = snap_arena_new(arena, struct snap_modules);

	SNAP_TRY(snap_no_memory_unless(modules));
	modules->set = set;
	modules->process = process;
	modules->list = snap_arena_new_array(arena, process->map_count, struct snap_module);
	modules->of_map = snap_arena_new_array(arena, process->map_count, uint32_t);
	SNAP_TRY(snap_no_memory_unless(modules->list && modules->of_map));
	cut_maps(modules);
	for (size_t i = 0; i < modules->count; i++)
		if (modules->list[i].kind != SNAP_MODULE_ANON)
			SNAP_TRY(snap_module_set_add(set, process, &modules->list[i]));
	*ret = modules;
	return snap_made_code_find(set, process, &modules->made);
}

struct snap_module *snap_modules_list(const struct snap_modules *modules, size_t *count_ret)
{
	*count_ret = modules->count;
	return modules->list;
}

/*
 * The executable mapping tells the bias best: where two segments share a page of the file, the
 * image takes the executable one.
 */
static const struct snap_map *telling_map(const struct snap_module *module)
{
	const struct snap_map *first = &module->process->maps[module->first_map];

	if (module->kind == SNAP_MODULE_FILE)
		for (size_t i = 0; i < module->map_count; i++)
			if (first[i].execute && is_file(&first[i]) &&
			    same_module_file(&first[i], first))
				return &first[i];
	return first;
}

static bool bias_of_image(struct snap_module *module)
{
	const struct snap_map *map = telling_map(module);
	const struct snap_map *first = &module->process->maps[module->first_map];
	uint64_t offset = module->kind == SNAP_MODULE_FILE ? map->offset : 0, vaddr, begin;

	/*
	 * Offsets of a core without its list of files may be guessed, as distances from the
	 * beginning of the file in memory: then that beginning tells.
	 */
	if (map->dev_major == SNAP_NO_DEVICE &&
	    !snap_process_head(module->process, module->first_map) && first->offset == 0 &&
	    offset == map->start - first->start &&
	    snap_image_segment(module->file->image, PT_LOAD, &vaddr, &begin) && begin < SNAP_PAGE) {
		module->bias = first->start - (vaddr - begin);
		return true;
	}
	return snap_image_bias(module->file->image, map->start, offset, &module->bias);
}

/* The process's own memory says where a file was put that cannot be had, or is another by now. */
static bool bias_of_head(struct snap_module *module)
{
	const struct snap_piece *head = snap_process_head(module->process, module->first_map);
	const struct snap_map *map = telling_map(module);
	uint64_t offset = module->kind == SNAP_MODULE_FILE ? map->offset : 0;

	return head &&
	       snap_image_bias_of_head(head->data, head->size, map->start, offset, &module->bias);
}

bool snap_module_open(struct snap_module_set *set, struct snap_module *module)
{
	if (module->opened)
		return module->usable;
	module->opened = true;
	if (!module->file)
		return false;
	/* In a recording the process that had the file first may be gone, or be mapped anew. */
	if (!module->file->tried) {
		module->file->request.process = module->process;
		module->file->request.map = module->first_map;
	}
	module->usable = snap_module_set_open(set, module->file) && bias_of_image(module);
	module->has_bias = module->usable || bias_of_head(module);
	return module->usable;
}

/* The nearest mapping of a named file before (-1) or behind (1) a mapping; NULL: none is near. */
static const struct snap_map *file_beside(const struct snap_process *process,
					  const struct snap_map *map, int side)
{
	const struct snap_map *end =
		side < 0 ? process->maps : process->maps + process->map_count - 1;

	for (size_t parts = 0; map != end && parts < MOST_PARTS; parts++) {
		const struct snap_map *next = map + side;
		uint64_t gap = side < 0 ? map->start - next->end : next->start - map->end;

		if (gap >= WIDEST_GAP)
			return NULL;
		if (is_file(next) && !is_memory_file(next))
			return next;
		map = next;
	}
	return NULL;
}

/*
 * Programs move their code to memory of huge pages, at the same addresses. What is left of the file is
 * beside that memory, and the file has a segment of code there. NULL: it is something else.
 */
static struct snap_module *file_of_moved_code(const struct snap_modules *modules,
					      const struct snap_map *map, uint64_t address)
{
	for (int side = -1; side <= 1; side += 2) {
		const struct snap_map *beside = file_beside(modules->process, map, side);
		struct snap_module *module;
		uint64_t start;

		if (!beside)
			continue;
		module = &modules->list[modules->of_map[beside - modules->process->maps]];
		if (snap_module_open(modules->set, module) &&
		    snap_image_code_segment(module->file->image, address - module->bias, &start))
			return module;
	}
	return NULL;
}

struct snap_module *snap_modules_find(const struct snap_modules *modules, uint64_t address)
{
	const struct snap_map *map = snap_process_map(modules->process, address);
	struct snap_module *module = NULL;
	uint32_t index;

	if (!map)
		return NULL;
	if (map->execute && (!is_file(map) || is_memory_file(map)) && !is_vdso(map)) {
		if (modules->made)
			module = snap_made_code_module(modules->made, address);
		if (!module)
			module = file_of_moved_code(modules, map, address);
	}
	index = modules->of_map[map - modules->process->maps];
	return module || index == NO_MODULE ? module : &modules->list[index];
}

/*
 * Memory that is read-only now may have been written before (RELRO), so the segment must be
 * read-only in the file, too.
 */
bool snap_modules_read(struct snap_modules *modules, uint64_t address, void *out, size_t size)
{
	const struct snap_map *map = snap_process_map(modules->process, address);
	struct snap_module *module;
	struct snap_bytes bytes;

	if (snap_process_read(modules->process, address, out, size))
		return true;
	if (!map || map->write || !map->read || size > map->end - address)
		return false;
	module = snap_modules_find(modules, address);
	if (!module || !snap_module_open(modules->set, module) ||
	    !snap_image_is_constant(module->file->image, address - module->bias))
		return false;
	bytes = snap_image_at(module->file->image, address - module->bias);
	if (bytes.size < size)
		return false;
	memcpy(out, bytes.data, size);
	return true;
}
