/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Searches memory piece by piece, and the segments and symbols of a file. Knows nothing of Go. */
#include "analyze/runtime/go/internal.h"

#include "base/bytes.h"

#include <elf.h>
#include <string.h>

enum { PIECE = 256 << 10, MOST_SYMBOLS = 1 << 24 };

/* Where the next bytes are, and how many; without a way to tell all of them may be there. */
static bool next_range(const struct snap_runtime_memory *memory, uint64_t at, uint64_t end,
		       uint64_t *start_ret, uint64_t *end_ret)
{
	uint64_t start, size;

	if (!memory->next) {
		*start_ret = at;
		*end_ret = end;
		return at < end;
	}
	if (!memory->next(memory->context, at, &start, &size) || start < at || start >= end)
		return false;
	*start_ret = start;
	*end_ret = size < end - start ? start + size : end;
	return *start_ret < *end_ret;
}

void snap_go_scan(const struct snap_runtime_process *process, uint64_t start, uint64_t end,
		  size_t overlap,
		  bool (*visit)(void *context, uint64_t address, const uint8_t *bytes, size_t size),
		  void *context)
{
	_cleanup_free_ uint8_t *bytes = malloc(PIECE);
	uint64_t at = (start + 7) & ~7ull, range_end = at;
	bool is_next = true; /* `at` is behind what was visited */

	while (bytes && !snap_options_cancelled(process->options)) {
		size_t size;

		if (is_next && !next_range(process->memory, at, end, &at, &range_end))
			return;
		at = (at + 7) & ~7ull;
		if (at >= range_end) {
			is_next = true;
			continue;
		}
		size = range_end - at < PIECE ? range_end - at : PIECE;
		if (!snap_runtime_read(process, at, bytes, size)) {
			/* A page that is not there hides no others. */
			if (size > SNAP_PAGE)
				size = SNAP_PAGE - at % SNAP_PAGE;
			if (!snap_runtime_read(process, at, bytes, size)) {
				at += size;
				is_next = at >= range_end;
				continue;
			}
		}
		if (!visit(context, at, bytes, size))
			return;
		is_next = at + size >= range_end;
		at += is_next || size <= overlap ? size : size - overlap;
	}
}

static bool read_go_elf_header(const struct snap_image *image, Elf64_Ehdr *ret)
{
	struct snap_bytes file = snap_image_bytes(image);

	if (file.size < sizeof(*ret))
		return false;
	memcpy(ret, file.data, sizeof(*ret));
	return ret->e_ident[EI_CLASS] == ELFCLASS64;
}

bool snap_go_has_sections(const struct snap_image *image)
{
	Elf64_Ehdr header;

	return read_go_elf_header(image, &header) && header.e_shoff != 0 && header.e_shnum != 0;
}

bool snap_go_next_segment(const struct snap_image *image, size_t *index,
			  struct snap_go_segment *ret)
{
	struct snap_bytes file = snap_image_bytes(image);
	Elf64_Ehdr header;
	Elf64_Phdr one;

	if (!read_go_elf_header(image, &header) || header.e_phentsize != sizeof(one))
		return false;
	for (; *index < header.e_phnum; ++*index) {
		uint64_t at = header.e_phoff + *index * sizeof(one);

		if (header.e_phoff > file.size || at > file.size || file.size - at < sizeof(one))
			return false;
		memcpy(&one, file.data + at, sizeof(one));
		if (one.p_type != PT_LOAD)
			continue;
		*ret = (struct snap_go_segment){ .address = one.p_vaddr,
						 .file_size = one.p_filesz,
						 .memory_size = one.p_memsz,
						 .write = one.p_flags & PF_W,
						 .execute = one.p_flags & PF_X };
		++*index;
		return true;
	}
	return false;
}

bool snap_go_symbol(struct snap_image *image, const char *name, uint64_t *ret)
{
	struct snap_bytes symbols, strings;
	size_t length = strlen(name) + 1;

	if (!snap_image_symbols(image, false, &symbols, &strings))
		return false;
	for (size_t i = 0; i < symbols.size / sizeof(Elf64_Sym) && i < MOST_SYMBOLS; i++) {
		Elf64_Sym one;

		memcpy(&one, symbols.data + i * sizeof(one), sizeof(one));
		if (ELF64_ST_TYPE(one.st_info) != STT_OBJECT || one.st_name >= strings.size ||
		    strings.size - one.st_name < length ||
		    memcmp(strings.data + one.st_name, name, length) != 0)
			continue;
		*ret = one.st_value;
		return true;
	}
	return false;
}
