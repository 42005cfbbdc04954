/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Modules: the mappings of a process as ELF files at an address.
 *
 * For each mapping it finds the file, its bias and its build id. A file is opened only when its
 * image is requested, through the finder. It is refused when its build id is not that of the
 * mapping. A file without a build id is refused when its device or inode differs. Processes share
 * images. Knows nothing of functions.
 */
#pragma once

#include "analyze/elf/image.h"
#include "base/arena.h"
#include "model/files.h"

enum snap_module_kind {
	SNAP_MODULE_FILE,
	SNAP_MODULE_VDSO, /* from captured memory */
	SNAP_MODULE_ANON, /* executable memory without a file: JIT code */
	SNAP_MODULE_MADE, /* a part of it that an image in captured memory describes: see made.h */
};

/* An ELF file, once per snapshot whatever the number of processes that map it. */
struct snap_module_file {
	const char *path; /* as in the maps of the first process that has it */
	uint8_t build_id[SNAP_MAX_BUILD_ID];
	size_t build_id_size;
	const char *build_id_hex; /* NULL: none */
	struct snap_image *image; /* NULL until opened, or if it cannot be had: see trouble */
	bool tried;
	bool is_data;        /* what was found there is no ELF file, nor was it mapped as one */
	const char *trouble; /* why there is no image; NULL: none, or not tried */
	struct snap_file_request request; /* with which it is asked for */
	void *unwind;                     /* the unwinders' rows and CFI of this file */
	void *symbols;                    /* owned by the symbolizer */
	size_t index;                     /* in the set's list */
};

struct snap_module {
	enum snap_module_kind kind;
	uint64_t start, end;           /* [start, end): all mappings of the file, holes included */
	uint64_t bias;                 /* address - bias = p_vaddr; see has_bias */
	const char *path;              /* as in maps; "[vdso]", "[jit]"; NULL: anonymous */
	struct snap_module_file *file; /* NULL: anonymous */
	const struct snap_process *process;
	size_t first_map, map_count; /* maps from the first to the last one, holes counted */
	bool opened, usable;         /* snap_module_open() was tried, and succeeded */
	bool has_bias; /* known once opened: by the image, or without one by the captured head */
};

/* All module files of a snapshot. */
struct snap_module_set;
struct stacksnap_error *snap_module_set_create(const struct snap_file_finder *finder,
					       struct snap_arena *arena,
					       struct snap_module_set **ret) _must_check_;

/* Tells the finder that what comes next is this file's doing, see struct snap_file_finder. */
void snap_module_set_note(const struct snap_module_set *set, const struct snap_module_file *file);

void snap_module_set_destroy(struct snap_module_set *set);

/* How file->unwind is destroyed, with the set; its images live longer. */
void snap_module_set_own_unwind(struct snap_module_set *set, void (*destroy)(void *unwind));

size_t snap_module_set_count(const struct snap_module_set *set);
struct snap_module_file *snap_module_set_file(const struct snap_module_set *set, size_t index);

/* The modules of one process, sorted by address; in the set's arena. */
struct snap_modules;
struct stacksnap_error *snap_modules_create(struct snap_module_set *set,
					    const struct snap_process *process,
					    struct snap_modules **ret) _must_check_;

/*
 * The module whose executable or file mapping holds the address: by maps alone, but for code that a
 * program has moved to anonymous memory beside its file. NULL: none.
 */
struct snap_module *snap_modules_find(const struct snap_modules *modules, uint64_t address);

/*
 * Opens the image on first use and fills the bias; false: there is no image (file->trouble), and
 * has_bias says whether addresses can still be shown as offsets.
 */
bool snap_module_open(struct snap_module_set *set, struct snap_module *module);

/*
 * A separate debug file with the build id of this file, asked of the finder; NULL: there is none.
 * The caller's, released by snap_image_close().
 */
struct snap_image *snap_module_file_debug(struct snap_module_set *set,
					  const struct snap_module_file *file);

/*
 * Reads bytes of the target that were not copied but are in its files: read-only mappings only.
 * False if they are not to be had.
 */
bool snap_modules_read(struct snap_modules *modules, uint64_t address, void *out, size_t size);

/* All modules of the process, sorted by address. */
struct snap_module *snap_modules_list(const struct snap_modules *modules, size_t *count_ret);
