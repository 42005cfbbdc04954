/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Image: one ELF file that is mapped read-only and checked, or one in captured memory (vDSO).
 *
 * The only place that uses libelf. All processes that map the same file share it. Knows its
 * segments, its build id, and its sections, which are unpacked once, on demand; nothing of
 * functions, lines or processes. Every offset in the file is hostile: accessors return nothing
 * rather than bytes outside the file.
 */
#pragma once

#include "base/cleanup.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SNAP_MAX_BUILD_ID = 64 };

struct snap_image;

/* Whether a file begins as ELF files do; true where that cannot be read. */
bool snap_image_has_magic(int fd);

/* Maps the file; the descriptor stays the caller's. FORMAT: no ELF of this word size. */
struct stacksnap_error *snap_image_open(int fd, struct snap_image **ret) _must_check_;
/* An ELF image in memory, which must outlive the result. */
struct stacksnap_error *snap_image_open_memory(const void *bytes, size_t size,
					       struct snap_image **ret) _must_check_;
void snap_image_close(struct snap_image *image);

SNAP_POINTER_GUARD(struct snap_image, snap_image_close);

struct snap_bytes {
	const uint8_t *data;
	size_t size; /* 0: there is none, or it is corrupt */
};

/* A section's bytes by name, inflated if compressed (SHF_COMPRESSED and .zdebug_); cached. */
struct snap_bytes snap_image_section(struct snap_image *image, const char *name);
/* One section of several with a name: that behind *index, at first 0, which is set. False: none. */
bool snap_image_next_section(struct snap_image *image, const char *name, size_t *index,
			     struct snap_bytes *ret);
/*
 * Takes the name from sections, and the type (PT_…) from segments, of a mapped file, for us and for
 * libelf and libdw. Does nothing once they know the file.
 */
void snap_image_hide(struct snap_image *image, const char *section, uint32_t segment);
/* As it lies in the file, if it is compressed (SHF_COMPRESSED); else size 0. */
struct snap_bytes snap_image_packed_section(const struct snap_image *image, const char *name);
/* The index of the one section that begins at a place of the file; SIZE_MAX: none, or several. */
size_t snap_image_section_at_offset(const struct snap_image *image, uint64_t offset);
/*
 * Its address (sh_addr), set whenever there is such a section, and whether it has bytes in this
 * file (SHT_NOBITS has none).
 */
bool snap_image_section_address(struct snap_image *image, const char *name, uint64_t *ret);

/* Where the section with an index (st_shndx) ends, if it holds an address; else 0. */
uint64_t snap_image_section_end(const struct snap_image *image, size_t index, uint64_t vaddr);

/* sh_link'ed pair of a symbol table and its strings; `dynamic`: .dynsym instead of .symtab. */
bool snap_image_symbols(struct snap_image *image, bool dynamic, struct snap_bytes *symbols_ret,
			struct snap_bytes *strings_ret);

/* The bytes that the file puts at an unbiased address (p_vaddr), at most to the segment's end. */
struct snap_bytes snap_image_at(const struct snap_image *image, uint64_t vaddr);
/* The beginning of the loadable segment of code that holds an address; false: there is none. */
bool snap_image_code_segment(const struct snap_image *image, uint64_t vaddr, uint64_t *ret);
/* Whether memory there is as in the file: relocation writes to writable segments alone. */
bool snap_image_is_constant(const struct snap_image *image, uint64_t vaddr);

/* Build id by PT_NOTE or .note.gnu.build-id; size 0: none. Borrowed from the image. */
struct snap_bytes snap_image_build_id(const struct snap_image *image);
/* The same from the first page of a module as captured from memory. */
struct snap_bytes snap_image_build_id_of_head(const void *head, size_t size);

/* What to subtract from an address to get p_vaddr, if file offset `offset` is mapped at `start`. */
bool snap_image_bias(const struct snap_image *image, uint64_t start, uint64_t offset,
		     uint64_t *ret);
/* The same from the first page of a module as captured from memory. */
bool snap_image_bias_of_head(const void *head, size_t size, uint64_t start, uint64_t offset,
			     uint64_t *ret);

/* Size and device:inode of the file; false for memory. */
bool snap_image_identity(const struct snap_image *image, uint64_t *dev_ret, uint64_t *inode_ret);
/* Address and place in the file of the first segment of a type (PT_…) that is not empty; false: none. */
bool snap_image_segment(const struct snap_image *image, uint32_t type, uint64_t *vaddr_ret,
			uint64_t *offset_ret);
/* The lowest address of code; 1 where that is unknown or 0. */
uint64_t snap_image_first_code(const struct snap_image *image);
uint64_t snap_image_entry(const struct snap_image *image);   /* e_entry; 0: none */
uint16_t snap_image_machine(const struct snap_image *image); /* e_machine */

/*
 * What all compressed sections together say they inflate to, as libdw does with them when it opens
 * a file; UINT64_MAX: more than is allowed.
 */
uint64_t snap_image_inflated(const struct snap_image *image);

/* libelf's handle (Elf *) for libdw, created on first use; owned by the image. NULL: none. */
void *snap_image_elf(struct snap_image *image);
/*
 * Says that these bytes were read: pages of the mapped file go back to the kernel, which brings
 * them again when they are read. Other bytes stay.
 */
void snap_image_let_go(const struct snap_image *image, struct snap_bytes bytes);
/* The whole file. */
struct snap_bytes snap_image_bytes(const struct snap_image *image);
