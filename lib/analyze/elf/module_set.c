/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The files of a snapshot's modules: one object a file however many processes map it, opened on
 * first use through the finder, and believed only if it is what is mapped. See module.h. Knows
 * nothing of addresses.
 */
#include "analyze/elf/module_internal.h"
#include "base/buffer.h"
#include "base/table.h"

#include <string.h>
#include <sys/sysmacros.h>

enum {
	FIRST_SLOTS = 64,
	MAX_ATTEMPTS = 64, /* candidates that a finder may offer for one file */
};

/* A file with what it is found by. An image opened later may add a build id: for display only. */
struct set_file {
	struct snap_module_file file;
	struct snap_map map; /* its first mapping as it was then: a process's may be read again */
	uint64_t hash;
	bool has_captured_id;
};

struct snap_module_set {
	struct snap_file_finder finder;
	struct snap_arena *arena;
	void (*destroy_unwind)(void *unwind);
	struct set_file **files;
	size_t count, capacity;
	uint32_t *slots; /* open addressing; 0: free, else index + 1 */
	size_t slot_count;
};

struct snap_error *snap_module_set_create(const struct snap_file_finder *finder,
					  struct snap_arena *arena, struct snap_module_set **ret)
{
	struct snap_module_set *set = calloc(1, sizeof(*set));

	if (!set)
		return snap_error_no_memory();
	set->finder = *finder;
	set->arena = arena;
	*ret = set;
	return NULL;
}

void snap_module_set_destroy(struct snap_module_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->count; i++) {
		struct snap_module_file *file = &set->files[i]->file;

		if (file->unwind)
			set->destroy_unwind(file->unwind);
		snap_image_close(file->image);
	}
	free(set->files);
	free(set->slots);
	free(set);
}

struct snap_arena *snap_module_set_arena(struct snap_module_set *set)
{
	return set->arena;
}

void snap_module_set_own_unwind(struct snap_module_set *set, void (*destroy)(void *unwind))
{
	set->destroy_unwind = destroy;
}

size_t snap_module_set_count(const struct snap_module_set *set)
{
	return set->count;
}

struct snap_module_file *snap_module_set_file(const struct snap_module_set *set, size_t index)
{
	return &set->files[index]->file;
}

static const struct snap_map *map_of(const struct snap_module_file *file)
{
	return &((const struct set_file *)file)->map;
}

static uint64_t hash_of(const struct snap_map *map, struct snap_bytes build_id)
{
	uint64_t numbers[3] = { map->inode, map->dev_major, map->dev_minor };
	uint64_t hash = snap_hash_bytes(numbers, sizeof(numbers), 0);

	hash = snap_hash_bytes(map->path, strlen(map->path), hash);
	return build_id.size > 0 ? snap_hash_bytes(build_id.data, build_id.size, hash) : hash;
}

static bool is_same(const struct set_file *known, uint64_t hash, const struct snap_map *map,
		    struct snap_bytes build_id)
{
	const struct snap_module_file *file = &known->file;
	const struct snap_map *other = map_of(file);

	if (known->hash != hash || other->inode != map->inode ||
	    other->dev_major != map->dev_major || other->dev_minor != map->dev_minor ||
	    known->has_captured_id != (build_id.size > 0) || strcmp(file->path, map->path) != 0)
		return false;
	return build_id.size == 0 || (file->build_id_size == build_id.size &&
				      memcmp(file->build_id, build_id.data, build_id.size) == 0);
}

static bool grow_slots(struct snap_module_set *set)
{
	size_t slot_count = set->slot_count ? set->slot_count * 2 : FIRST_SLOTS;
	uint32_t *slots = calloc(slot_count, sizeof(*slots));

	if (!slots)
		return false;
	for (size_t i = 0; i < set->count; i++) {
		size_t k = set->files[i]->hash & (slot_count - 1);

		while (slots[k])
			k = (k + 1) & (slot_count - 1);
		slots[k] = (uint32_t)i + 1;
	}
	free(set->slots);
	set->slots = slots;
	set->slot_count = slot_count;
	return true;
}

static bool set_build_id(struct snap_module_set *set, struct snap_module_file *file,
			 struct snap_bytes build_id)
{
	static const char digits[] = "0123456789abcdef";
	char *hex;

	if (build_id.size == 0)
		return true;
	hex = snap_arena_alloc(set->arena, build_id.size * 2 + 1);
	if (!hex)
		return false;
	for (size_t i = 0; i < build_id.size; i++) {
		hex[2 * i] = digits[build_id.data[i] >> 4];
		hex[2 * i + 1] = digits[build_id.data[i] & 15];
	}
	memcpy(file->build_id, build_id.data, build_id.size);
	file->build_id_size = build_id.size;
	file->build_id_hex = hex;
	return true;
}

/* The vDSO is no file: its image is the captured memory. */
static void open_vdso(struct snap_module_file *file, const struct snap_piece *piece)
{
	_cleanup_(snap_error_destroyp) struct snap_error *err = NULL;

	file->tried = true;
	file->trouble = "the vDSO was not captured";
	if (!piece)
		return;
	err = snap_image_open_memory(piece->data, piece->size, &file->image);
	file->trouble = err ? "the captured vDSO is corrupt" : NULL;
}

static struct snap_error *new_file(struct snap_module_set *set, const struct snap_process *process,
				   const struct snap_module *module, struct snap_bytes build_id,
				   struct set_file **ret)
{
	struct set_file *added = snap_arena_new(set->arena, struct set_file);

	if (!added || !snap_reserve_array(set->files, set->capacity, set->count + 1))
		return snap_error_no_memory();
	added->map = process->maps[module->first_map];
	added->map.path = snap_arena_strdup(set->arena, module->path);
	if (!added->map.path)
		return snap_error_no_memory();
	added->file.path = added->map.path;
	added->file.request = (struct snap_file_request){ .kind = SNAP_FILE_MODULE,
							  .process = process,
							  .map = module->first_map };
	added->has_captured_id = build_id.size > 0;
	if (!set_build_id(set, &added->file, build_id))
		return snap_error_no_memory();
	if (module->kind == SNAP_MODULE_VDSO)
		open_vdso(&added->file, snap_process_head(process, module->first_map));
	added->file.index = set->count;
	set->files[set->count++] = added;
	*ret = added;
	return NULL;
}

struct snap_error *snap_module_set_add(struct snap_module_set *set,
				       const struct snap_process *process,
				       struct snap_module *module)
{
	const struct snap_map *map = &process->maps[module->first_map];
	const struct snap_piece *head = snap_process_head(process, module->first_map);
	struct snap_bytes build_id = { 0 };
	struct set_file *known = NULL;
	struct snap_error *err;
	uint64_t hash;
	size_t k;

	if (head)
		build_id = snap_image_build_id_of_head(head->data, head->size);
	if (set->count * 2 >= set->slot_count && !grow_slots(set))
		return snap_error_no_memory();
	hash = hash_of(map, build_id);
	for (k = hash & (set->slot_count - 1); set->slots[k]; k = (k + 1) & (set->slot_count - 1)) {
		known = set->files[set->slots[k] - 1];
		if (is_same(known, hash, map, build_id)) {
			module->file = &known->file;
			return NULL;
		}
	}
	err = new_file(set, process, module, build_id, &known);
	if (err)
		return err;
	known->hash = hash;
	set->slots[k] = (uint32_t)set->count;
	module->file = &known->file;
	return NULL;
}

static bool head_is_equal(const struct snap_piece *head, const struct snap_image *image)
{
	struct snap_bytes bytes = snap_image_bytes(image);

	return head && head->size <= bytes.size && memcmp(head->data, bytes.data, head->size) == 0;
}

/* Whether the file offered is the copy that rides inside the capture: then it was mapped. */
static bool is_embedded_copy(const struct snap_module_file *file, const struct snap_image *image)
{
	const struct snap_process *process = file->request.process;
	struct snap_bytes bytes = snap_image_bytes(image);

	for (size_t i = 0; i < process->embedded_count; i++) {
		const struct snap_embedded *copy = &process->embedded[i];

		if (copy->kind == SNAP_FILE_MODULE && copy->map == file->request.map &&
		    copy->size == bytes.size && memcmp(copy->data, bytes.data, bytes.size) == 0)
			return true;
	}
	return false;
}

/*
 * Why this file is not the one that is mapped, NULL if it is. By build id where memory shows one;
 * else by device and inode. On overlayfs and btrfs the device in maps is not that of stat(2): there
 * the inode and the captured first page must be equal.
 */
static const char *mismatch(const struct snap_module_file *file, const struct snap_image *image)
{
	const struct snap_map *map = map_of(file);
	const struct snap_piece *head = snap_process_head(file->request.process, file->request.map);
	struct snap_bytes found = snap_image_build_id(image);
	uint64_t dev, inode;

	if (file->build_id_size > 0)
		return found.size == file->build_id_size &&
				       memcmp(found.data, file->build_id, found.size) == 0
			       ? NULL
			       : "the build id of the file differs from that of the mapping";
	if (is_embedded_copy(file, image))
		return NULL;
	if (!snap_image_identity(image, &dev, &inode) || inode != map->inode)
		return "the file is not the mapped one (no build id)";
	if (dev == makedev(map->dev_major, map->dev_minor) || head_is_equal(head, image))
		return NULL;
	return "the file is not on the device of the mapping (no build id)";
}

/* One candidate: true when it became the image; else *trouble_ret says why not. */
static bool take_candidate(struct snap_module_set *set, struct snap_module_file *file, int fd,
			   const char **trouble_ret)
{
	_cleanup_(snap_error_destroyp) struct snap_error *err = NULL;
	struct snap_image *image;

	err = snap_image_open(fd, &image);
	if (err) {
		*trouble_ret = snap_arena_strdup(set->arena, snap_error_message(err));
		return false;
	}
	*trouble_ret = mismatch(file, image);
	if (*trouble_ret ||
	    (file->build_id_size == 0 && !set_build_id(set, file, snap_image_build_id(image)))) {
		snap_image_close(image);
		return false;
	}
	file->image = image;
	return true;
}

void snap_module_set_note(const struct snap_module_set *set, const struct snap_module_file *file)
{
	snap_file_finder_note(&set->finder, &file->request);
}

bool snap_module_file_open(struct snap_module_set *set, struct snap_module_file *file)
{
	struct snap_file_request request = file->request;
	const char *trouble = NULL;

	if (file->tried)
		return file->image;
	file->tried = true;
	for (request.attempt = 0; request.attempt < MAX_ATTEMPTS && !file->image;
	     request.attempt++) {
		_cleanup_(snap_error_destroyp) struct snap_error *err = NULL;
		_cleanup_fd_ int fd = -1;

		err = set->finder.find(set->finder.context, &request, &fd);
		if (err && snap_error_code(err) == SNAP_ERROR_NOT_FOUND)
			break;
		if (err)
			trouble = snap_arena_strdup(set->arena, snap_error_message(err));
		else if (take_candidate(set, file, fd, &trouble))
			trouble = NULL;
	}
	if (!file->image)
		file->trouble = trouble ? trouble : "the file cannot be found";
	return file->image;
}

struct snap_image *snap_module_file_debug(struct snap_module_set *set,
					  const struct snap_module_file *file)
{
	struct snap_file_request request = file->request;

	if (file->build_id_size == 0)
		return NULL;
	request.kind = SNAP_FILE_DEBUG;
	request.build_id = file->build_id;
	request.build_id_size = file->build_id_size;
	for (request.attempt = 0; request.attempt < MAX_ATTEMPTS; request.attempt++) {
		_cleanup_(snap_error_destroyp) struct snap_error *err = NULL;
		struct snap_image *image = NULL;
		struct snap_bytes found;
		_cleanup_fd_ int fd = -1;

		err = set->finder.find(set->finder.context, &request, &fd);
		if (err && snap_error_code(err) == SNAP_ERROR_NOT_FOUND)
			return NULL;
		if (err || snap_error_ignore(snap_image_open(fd, &image)))
			continue;
		found = snap_image_build_id(image);
		if (found.size == file->build_id_size &&
		    memcmp(found.data, file->build_id, found.size) == 0)
			return image;
		snap_image_close(image);
	}
	return NULL;
}
