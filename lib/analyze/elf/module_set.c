/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The files of modules: see module.h. A file is one object, however many processes map it. It is
 * opened on first use through the finder, and used only if it is the mapped file.
 */
#include "analyze/elf/internal.h"

#include "base/buffer.h"

#include <string.h>
#include <sys/sysmacros.h>

enum {
	MAX_ATTEMPTS = 64, /* candidates that a finder may offer for one file */
	MOST_OTHERS = 4,   /* processes through which a file is tried again */
};

/* A file with what it is found by. An image opened later may add a build id: for display only. */
struct set_file {
	struct snap_module_file file;
	struct snap_map map; /* its first mapping as it was then: a process's may be read again */
	bool has_captured_id;
	unsigned others; /* processes through which it was tried again */
};

struct stacksnap_error *snap_module_set_create(const struct snap_file_finder *finder,
					       struct snap_arena *arena,
					       struct snap_module_set **ret)
{
	struct snap_module_set *set = calloc(1, sizeof(*set));

	SNAP_TRY(snap_no_memory_unless(set));
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
	snap_hash_table_deinit(&set->table);
	free(set);
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

static uint64_t hash_of_module(const struct snap_map *map, struct snap_bytes build_id)
{
	uint64_t numbers[3] = { map->inode, map->dev_major, map->dev_minor };
	uint64_t hash = snap_hash_bytes(numbers, sizeof(numbers), 0);

	hash = snap_hash_bytes(map->path, strlen(map->path), hash);
	return build_id.size > 0 ? snap_hash_bytes(build_id.data, build_id.size, hash) : hash;
}

static bool is_known_module(const struct set_file *known, const struct snap_map *map,
			    struct snap_bytes build_id)
{
	const struct snap_module_file *file = &known->file;
	const struct snap_map *other = map_of(file);

	if (other->inode != map->inode || other->dev_major != map->dev_major ||
	    other->dev_minor != map->dev_minor || known->has_captured_id != (build_id.size > 0) ||
	    strcmp(file->path, map->path) != 0)
		return false;
	return build_id.size == 0 || (file->build_id_size == build_id.size &&
				      memcmp(file->build_id, build_id.data, build_id.size) == 0);
}

static bool set_build_id(struct snap_module_set *set, struct snap_module_file *file,
			 struct snap_bytes build_id)
{
	char *hex;

	if (build_id.size == 0)
		return true;
	hex = snap_arena_alloc(set->arena, build_id.size * 2 + 1);
	if (!hex)
		return false;
	for (size_t i = 0; i < build_id.size; i++)
		sprintf(hex + 2 * i, "%02x", build_id.data[i]);
	memcpy(file->build_id, build_id.data, build_id.size);
	file->build_id_size = build_id.size;
	file->build_id_hex = hex;
	return true;
}

/* The vDSO is no file: its image is the captured memory. */
static void open_vdso(struct snap_module_file *file, const struct snap_piece *piece)
{
	_cleanup_(snap_error_destroyp) struct stacksnap_error *err = NULL;

	file->tried = true;
	file->trouble = "the vDSO was not captured";
	if (!piece)
		return;
	err = snap_image_open_memory(piece->data, piece->size, &file->image);
	file->trouble = err ? "the captured vDSO is corrupt" : NULL;
}

static struct stacksnap_error *new_file(struct snap_module_set *set,
					const struct snap_process *process,
					const struct snap_module *module,
					struct snap_bytes build_id, struct set_file **ret)
{
	struct set_file *added = snap_arena_new(set->arena, struct set_file);

	if (!added || !snap_reserve_array(set->files, set->capacity, set->count + 1))
		return snap_error_no_memory();
	added->map = process->maps[module->first_map];
	added->map.path = snap_arena_strdup(set->arena, module->path);
	SNAP_TRY(snap_no_memory_unless(added->map.path));
	added->file.path = added->map.path;
	added->file.request = (struct snap_file_request){ .kind = SNAP_FILE_MODULE,
							  .process = process,
							  .map = module->first_map };
	added->has_captured_id = build_id.size > 0;
	SNAP_TRY(snap_no_memory_unless(set_build_id(set, &added->file, build_id)));
	if (module->kind == SNAP_MODULE_VDSO)
		open_vdso(&added->file, snap_process_head(process, module->first_map));
	added->file.index = set->count;
	set->files[set->count++] = added;
	*ret = added;
	return NULL;
}

/*
 * A process may hide a file that it shares with others, from us or by being slow: it is tried again
 * through one of these.
 */
static void try_again(struct set_file *known, const struct snap_process *process,
		      const struct snap_module *module)
{
	struct snap_module_file *file = &known->file;

	if (!file->tried || file->image || module->kind != SNAP_MODULE_FILE ||
	    file->request.process == process || known->others == MOST_OTHERS)
		return;
	known->others++;
	file->request.process = process;
	file->request.map = module->first_map;
	file->tried = false;
	file->trouble = NULL;
}

struct stacksnap_error *snap_module_set_add(struct snap_module_set *set,
					    const struct snap_process *process,
					    struct snap_module *module)
{
	const struct snap_map *map = &process->maps[module->first_map];
	const struct snap_piece *head = snap_process_head(process, module->first_map);
	struct snap_bytes build_id = { 0 };
	struct set_file *added = NULL;
	struct snap_probe probe;
	uint64_t hash;

	if (head)
		build_id = snap_image_build_id_of_head(head->data, head->size);
	hash = hash_of_module(map, build_id);
	probe = snap_hash_table_probe(&set->table, hash);
	while (snap_probe_next(&probe)) {
		if (!is_known_module(set->files[probe.number], map, build_id))
			continue;
		try_again(set->files[probe.number], process, module);
		module->file = &set->files[probe.number]->file;
		return NULL;
	}
	SNAP_TRY(snap_no_memory_unless(snap_hash_table_reserve(&set->table, set->count + 1)));
	SNAP_TRY(new_file(set, process, module, build_id, &added));
	module->file = &added->file;
	return snap_no_memory_unless(snap_hash_table_add(&set->table, hash, set->count - 1));
}

struct stacksnap_error *snap_module_set_add_image(struct snap_module_set *set,
						  const struct snap_module *module,
						  struct snap_image *image,
						  struct snap_module_file **ret)
{
	struct set_file *added;
	struct stacksnap_error *err =
		new_file(set, module->process, module, (struct snap_bytes){ 0 }, &added);

	if (err)
		return err;
	added->file.image = image;
	added->file.tried = true;
	*ret = &added->file;
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
static const char *why_not_mapped(const struct snap_module_file *file,
				  const struct snap_image *image,
				  const struct snap_file_identity *copied)
{
	const struct snap_map *map = map_of(file);
	const struct snap_piece *head = snap_process_head(file->request.process, file->request.map);
	struct snap_bytes found = snap_image_build_id(image);
	uint64_t dev = 0, inode = 0;

	if (file->build_id_size > 0)
		return found.size == file->build_id_size &&
				       memcmp(found.data, file->build_id, found.size) == 0
			       ? NULL
			       : "the build id of the file differs from that of the mapping";
	if (is_embedded_copy(file, image))
		return NULL;
	/* A core tells no device: what is in its memory tells, and without that the name alone. */
	if (map->dev_major == SNAP_NO_DEVICE)
		return !head || head_is_equal(head, image)
			       ? NULL
			       : "the first page of the file differs from that in memory";
	if (copied->is_copy) {
		dev = copied->dev;
		inode = copied->inode;
	} else if (!snap_image_identity(image, &dev, &inode)) {
		inode = 0;
	}
	if (inode != map->inode)
		return "the file is not the mapped one (no build id)";
	if (dev == makedev(map->dev_major, map->dev_minor) || head_is_equal(head, image))
		return NULL;
	return "the file is not on the device of the mapping (no build id)";
}

/* One candidate: true when it became the image; else *trouble_ret says why not. */
static bool take_candidate(struct snap_module_set *set, struct snap_module_file *file, int fd,
			   const struct snap_file_identity *copied, const char **trouble_ret)
{
	_cleanup_(snap_error_destroyp) struct stacksnap_error *err = NULL;
	struct snap_image *image;

	err = snap_image_open(fd, &image);
	if (err) {
		*trouble_ret = snap_arena_strdup(set->arena, snap_error_message(err));
		file->is_data = file->build_id_size == 0 && !snap_image_has_magic(fd);
		return false;
	}
	*trouble_ret = why_not_mapped(file, image, copied);
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

static bool is_end_of_candidates(const struct stacksnap_error *err)
{
	return err && snap_error_code(err) == SNAP_ERROR_NOT_FOUND;
}

bool snap_module_set_open(struct snap_module_set *set, struct snap_module_file *file)
{
	struct snap_file_request request = file->request;
	const char *trouble = NULL;

	if (file->tried)
		return file->image;
	file->tried = true;
	for (request.attempt = 0; request.attempt < MAX_ATTEMPTS && !file->image;
	     request.attempt++) {
		_cleanup_(snap_error_destroyp) struct stacksnap_error *err = NULL;
		struct snap_file_identity copied = { .is_copy = false };
		_cleanup_fd_ int fd = -1;

		request.identity_ret = &copied;
		err = set->finder.find(set->finder.context, &request, &fd);
		if (is_end_of_candidates(err) && !snap_error_says_more(err))
			break;
		if (err)
			trouble = snap_arena_strdup(set->arena, snap_error_message(err));
		else if (take_candidate(set, file, fd, &copied, &trouble))
			trouble = NULL;
		if (is_end_of_candidates(err))
			break;
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
		_cleanup_(snap_error_destroyp) struct stacksnap_error *err = NULL;
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
