/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Modules: a process's maps cut into runs of one file each; see module.h. The set of files and how
 * they are opened and checked is in module_set.c. Decided by the maps alone: no file is looked at
 * before somebody asks for it.
 */
#include "analyze/elf/module_internal.h"

#include <string.h>

enum { NO_MODULE = UINT32_MAX };

struct snap_modules {
	struct snap_module_set *set;
	const struct snap_process *process;
	struct snap_module *list;
	size_t count;
	uint32_t *of_map; /* index in list for each map, NO_MODULE: none */
};

static bool is_file(const struct snap_map *map)
{
	return map->inode != 0 && map->path && map->path[0] == '/';
}

static bool is_vdso(const struct snap_map *map)
{
	return map->path && strcmp(map->path, "[vdso]") == 0;
}

static bool same_file(const struct snap_map *a, const struct snap_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && strcmp(a->path, b->path) == 0;
}

/*
 * A file's run goes on while its offsets do not go back, with anonymous mappings (bss, guard
 * pages) in between. Offset 0 once more is another copy of the file, unless it is the second
 * segment of a program smaller than a page.
 */
static bool continues(const struct snap_process *process, const struct snap_module *module,
		      size_t map)
{
	const struct snap_map *last = &process->maps[module->first_map + module->map_count - 1];
	const struct snap_map *next = &process->maps[map];

	if (module->kind != SNAP_MODULE_FILE || !same_file(last, next))
		return false;
	return next->offset > last->offset ||
	       (next->offset == last->offset && next->start == last->end);
}

const struct snap_piece *snap_process_piece(const struct snap_process *process, uint64_t address)
{
	size_t low = 0, high = process->piece_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (process->pieces[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || address - process->pieces[low - 1].address >= process->pieces[low - 1].size)
		return NULL;
	return &process->pieces[low - 1];
}

const struct snap_piece *snap_process_head(const struct snap_process *process, size_t map)
{
	const struct snap_map *line = &process->maps[map];
	const struct snap_piece *piece = snap_process_piece(process, line->start);

	return piece && piece->address == line->start && line->offset == 0 ? piece : NULL;
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
	struct snap_module *open = NULL; /* the newest module of a file */

	for (size_t i = 0; i < process->map_count; i++) {
		const struct snap_map *map = &process->maps[i];

		modules->of_map[i] = NO_MODULE;
		if (!is_file(map)) {
			if (is_vdso(map) || map->execute)
				add_module(modules, i);
			continue;
		}
		if (open && continues(process, open, i)) {
			open->end = map->end;
			open->map_count = i - open->first_map + 1;
			modules->of_map[i] = (uint32_t)(open - modules->list);
			continue;
		}
		open = &modules->list[modules->count];
		add_module(modules, i);
	}
}

struct snap_error *snap_modules_create(struct snap_module_set *set,
				       const struct snap_process *process,
				       struct snap_modules **ret)
{
	struct snap_arena *arena = snap_module_set_arena(set);
	struct snap_modules *modules = snap_arena_new(arena, struct snap_modules);

	if (!modules)
		return snap_error_no_memory();
	modules->set = set;
	modules->process = process;
	modules->list = snap_arena_new_array(arena, process->map_count, struct snap_module);
	modules->of_map = snap_arena_new_array(arena, process->map_count, uint32_t);
	if (!modules->list || !modules->of_map)
		return snap_error_no_memory();
	cut_maps(modules);
	for (size_t i = 0; i < modules->count; i++) {
		struct snap_error *err;

		if (modules->list[i].kind == SNAP_MODULE_ANON)
			continue;
		err = snap_module_set_add(set, process, &modules->list[i]);
		if (err)
			return err;
	}
	*ret = modules;
	return NULL;
}

struct snap_module *snap_modules_list(const struct snap_modules *modules, size_t *count_ret)
{
	*count_ret = modules->count;
	return modules->list;
}

struct snap_module *snap_modules_find(const struct snap_modules *modules, uint64_t address)
{
	const struct snap_map *map = snap_process_map(modules->process, address);
	uint32_t index;

	if (!map)
		return NULL;
	index = modules->of_map[map - modules->process->maps];
	return index == NO_MODULE ? NULL : &modules->list[index];
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
			if (first[i].execute && is_file(&first[i]))
				return &first[i];
	return first;
}

static bool bias_of_image(struct snap_module *module)
{
	const struct snap_map *map = telling_map(module);
	uint64_t offset = module->kind == SNAP_MODULE_FILE ? map->offset : 0;

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
	module->usable = snap_module_file_open(set, module->file) && bias_of_image(module);
	module->has_bias = module->usable || bias_of_head(module);
	return module->usable;
}

static bool read_piece(const struct snap_process *process, uint64_t address, void *out, size_t size)
{
	const struct snap_piece *piece = snap_process_piece(process, address);

	if (!piece || piece->size - (address - piece->address) < size)
		return false;
	memcpy(out, piece->data + (address - piece->address), size);
	return true;
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

	if (read_piece(modules->process, address, out, size))
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
