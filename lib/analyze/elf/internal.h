/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The inside of an image, shared by image.c (header, segments) and image_section.c, and that of a set of
 * files, shared by module_set.c and module.c (the modules of a process).
 */
#pragma once

#include "analyze/elf/module.h"
#include "base/table.h"

#include <elf.h>

/* A section's bytes once they were asked for. */
struct section_bytes {
	bool tried;
	struct snap_bytes bytes;
	uint8_t *unpacked; /* malloc'ed, where `bytes` are ours; else NULL */
};

struct snap_image {
	const uint8_t *data;
	size_t size;
	bool is_mapped; /* data is our own mapping of a file */
	uint64_t dev, inode;
	Elf64_Ehdr header;
	Elf64_Phdr *segments; /* copies: a table in the file may lie at an odd address */
	size_t segment_count;
	Elf64_Shdr *sections; /* NULL: no table, or it is corrupt */
	struct section_bytes *section_bytes;
	bool has_too_many_sections;
	size_t section_count, section_names; /* index of the table's strings */
	uint8_t build_id[SNAP_MAX_BUILD_ID];
	size_t build_id_size;
	uint64_t inflated; /* bytes of sections, by their own word */
	void *elf;         /* Elf *, NULL until asked for */
};

/* Whether [offset, offset + size) lies inside `whole` bytes. */
static inline bool range_fits(uint64_t offset, uint64_t size, uint64_t whole)
{
	return offset <= whole && size <= whole - offset;
}

/* Reads the section table; a missing or corrupt one leaves the image without sections. */
struct stacksnap_error *snap_image_load_sections(struct snap_image *image) _must_check_;
/* "": it has none. */
const char *snap_image_section_name(const struct snap_image *image, size_t index);
/* The bytes of section `index`, inflated; cached. */
struct snap_bytes snap_image_section_at(struct snap_image *image, size_t index);
/* .dynsym and .dynstr by PT_DYNAMIC, for an image without section table. */
bool snap_image_dynamic_symbols(const struct snap_image *image, struct snap_bytes *symbols_ret,
				struct snap_bytes *strings_ret);
/* The descriptor of the GNU build id among notes aligned to 4 or 8; size 0: none. */
struct snap_bytes snap_image_find_note(struct snap_bytes notes, uint64_t alignment);

struct snap_module_set {
	struct snap_file_finder finder;
	struct snap_arena *arena;
	void (*destroy_unwind)(void *unwind);
	struct set_file **files;
	size_t count, capacity;
	struct snap_hash_table table; /* of files */
};

/* Finds the module's file among those of the set, or adds it. Fills module->file. */
struct stacksnap_error *snap_module_set_add(struct snap_module_set *set,
					    const struct snap_process *process,
					    struct snap_module *module) _must_check_;
/* A file that is this image, the caller's until it has succeeded. */
struct stacksnap_error *snap_module_set_add_image(struct snap_module_set *set,
						  const struct snap_module *module,
						  struct snap_image *image,
						  struct snap_module_file **ret) _must_check_;
/* Opens and checks the file on first use; false: there is none, file->trouble says why. */
bool snap_module_set_open(struct snap_module_set *set, struct snap_module_file *file);
