/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Images of made code as modules: see made.h. What is read later is a copy, in which the sections
 * that describe code are relocated and all others are gone.
 */
#include "analyze/elf/made.h"

#include "analyze/elf/internal.h"
#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/text.h"

#include <string.h>

enum {
	MOST_SECTIONS = 1 << 16,    /* with code, of a process */
	MOST_RELOCATIONS = 1 << 22, /* of an image */
};

/* The code of one section. */
struct made_section {
	struct snap_module module;
	const struct snap_piece *piece; /* its image */
};

struct snap_made_code {
	struct snap_module_set *set;
	struct made_section *list; /* sorted by address */
	size_t count;
};

/* ---- which code ---- */

/* At the beginning of a mapping of a file is its head. */
static bool is_registered_image(const struct snap_process *process, const struct snap_piece *piece)
{
	const struct snap_map *map = snap_process_map(process, piece->address);

	if (map && map->start == piece->address && map->path && (map->inode || !map->write))
		return false;
	return piece->size > sizeof(Elf64_Ehdr) && memcmp(piece->data, ELFMAG, SELFMAG) == 0;
}

static bool is_code_section(const Elf64_Shdr *section)
{
	const uint64_t flags = SHF_ALLOC | SHF_EXECINSTR;

	return (section->sh_flags & flags) == flags && section->sh_addr && section->sh_size &&
	       section->sh_size <= UINT64_MAX - section->sh_addr;
}

struct finding {
	const struct snap_process *process;
	struct made_section *list;
	size_t count, capacity;
};

static struct stacksnap_error *find_code(struct finding *finding, const struct snap_piece *piece)
{
	_cleanup_(snap_image_closep) struct snap_image *image = NULL;
	const struct snap_process *process = finding->process;
	struct stacksnap_error *err = snap_image_open_memory(piece->data, piece->size, &image);

	if (err && snap_error_code(err) == SNAP_ERROR_FORMAT)
		return snap_error_ignore(err), NULL;
	for (size_t i = 0; !err && i < image->section_count; i++) {
		const Elf64_Shdr *section = &image->sections[i];
		const struct snap_map *map = snap_process_map(process, section->sh_addr);

		if (!is_code_section(section) || !map || finding->count == MOST_SECTIONS)
			continue;
		if (!snap_reserve_array(finding->list, finding->capacity, finding->count + 1))
			return snap_error_no_memory();
		finding->list[finding->count++] = (struct made_section){
			.module = { .kind = SNAP_MODULE_MADE,
				    .start = section->sh_addr,
				    .end = section->sh_addr + section->sh_size,
				    .path = "[jit]",
				    .process = process,
				    .first_map = (size_t)(map - process->maps),
				    .map_count = 1 },
			.piece = piece,
		};
	}
	return err;
}

SNAP_ORDER(compare_sections, struct made_section, a, b,
	   snap_compare(a->module.start, b->module.start),
	   snap_compare(a->module.end, b->module.end), snap_compare(a->piece, b->piece));

struct stacksnap_error *snap_made_code_find(struct snap_module_set *set,
					    const struct snap_process *process,
					    struct snap_made_code **ret)
{
	struct finding finding = { .process = process };
	struct stacksnap_error *err = NULL;

	*ret = NULL;
	for (size_t i = 0; i < process->piece_count && !err; i++)
		if (is_registered_image(process, &process->pieces[i]))
			err = find_code(&finding, &process->pieces[i]);
	if (!err && finding.count) {
		struct snap_made_code *code = snap_arena_new(set->arena, struct snap_made_code);

		qsort(finding.list, finding.count, sizeof(*finding.list), compare_sections);
		if (code)
			code->list = snap_arena_memdup(set->arena, finding.list,
						       finding.count * sizeof(*finding.list));
		if (!code || !code->list)
			err = snap_error_no_memory();
		else
			*code = (struct snap_made_code){ set, code->list, finding.count };
		*ret = code;
	}
	free(finding.list);
	return err;
}

/* ---- an image as a loaded file ---- */

/* What lies in the image as it is; size 0: nothing. */
static struct snap_bytes bytes_of_section(const struct snap_image *image, size_t index)
{
	const Elf64_Shdr *section = &image->sections[index];

	if (index >= image->section_count || section->sh_flags & SHF_COMPRESSED ||
	    section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL ||
	    !range_fits(section->sh_offset, section->sh_size, image->size))
		return (struct snap_bytes){ 0 };
	return (struct snap_bytes){ image->data + section->sh_offset, section->sh_size };
}

/* A section that says something of code. */
static bool is_description(const struct snap_image *image, size_t index)
{
	const char *name =
		index < image->section_count ? snap_image_section_name(image, index) : "";

	return strcmp(name, ".eh_frame") == 0 || snap_begins_with(name, ".debug_");
}

static uint64_t address_of_symbol(const struct snap_image *image, const Elf64_Sym *symbol)
{
	if (image->header.e_type != ET_REL || symbol->st_shndx >= image->section_count)
		return symbol->st_value;
	return image->sections[symbol->st_shndx].sh_addr + symbol->st_value;
}

/*
 * Bytes that a relocation writes (System V ABI, AMD64 supplement, 4.4.1; AAELF64, 5.7), and whether
 * it counts from its own place; 0: it is of another kind, as none of these sections has.
 */
static unsigned width_of_relocation(uint16_t machine, uint64_t type, bool *is_relative_ret)
{
	static const struct {
		uint16_t machine, type;
		uint8_t width;
		bool is_relative;
	} rows[] = {
		{ EM_X86_64, R_X86_64_64, 8, false },
		{ EM_X86_64, R_X86_64_32, 4, false },
		{ EM_X86_64, R_X86_64_32S, 4, false },
		{ EM_X86_64, R_X86_64_PC32, 4, true },
		{ EM_X86_64, R_X86_64_PC64, 8, true },
		{ EM_AARCH64, R_AARCH64_ABS64, 8, false },
		{ EM_AARCH64, R_AARCH64_ABS32, 4, false },
		{ EM_AARCH64, R_AARCH64_PREL64, 8, true },
		{ EM_AARCH64, R_AARCH64_PREL32, 4, true },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		if (rows[i].machine == machine && rows[i].type == type) {
			*is_relative_ret = rows[i].is_relative;
			return rows[i].width;
		}
	return 0;
}

/* Section `index` has relocations, of a section that describes code, to be done in `copy`. */
static void relocate_section(struct snap_image *image, size_t index, uint8_t *copy)
{
	const Elf64_Shdr *from = &image->sections[index];
	struct snap_bytes all = bytes_of_section(image, index),
			  symbols = bytes_of_section(image, from->sh_link),
			  target = bytes_of_section(image, from->sh_info);

	if (!is_description(image, from->sh_info))
		return;
	for (size_t i = 0; i < all.size / sizeof(Elf64_Rela) && i < MOST_RELOCATIONS; i++) {
		Elf64_Rela relocation;
		uint64_t number, value;
		bool is_relative;
		Elf64_Sym symbol;
		unsigned width;

		memcpy(&relocation, all.data + i * sizeof(relocation), sizeof(relocation));
		number = ELF64_R_SYM(relocation.r_info);
		width = width_of_relocation(image->header.e_machine,
					    ELF64_R_TYPE(relocation.r_info), &is_relative);
		if (!width || !range_fits(relocation.r_offset, width, target.size) ||
		    number >= symbols.size / sizeof(symbol))
			continue;
		memcpy(&symbol, symbols.data + number * sizeof(symbol), sizeof(symbol));
		value = address_of_symbol(image, &symbol) + (uint64_t)relocation.r_addend;
		if (is_relative)
			value -= image->sections[from->sh_info].sh_addr + relocation.r_offset;
		memcpy(copy + (target.data - image->data) + relocation.r_offset, &value, width);
	}
}

static void place_symbols(struct snap_image *image, size_t index, uint8_t *copy)
{
	struct snap_bytes symbols = bytes_of_section(image, index);

	for (size_t i = 0; i < symbols.size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym symbol;

		memcpy(&symbol, symbols.data + i * sizeof(symbol), sizeof(symbol));
		symbol.st_value = address_of_symbol(image, &symbol);
		memcpy(copy + (symbols.data - image->data) + i * sizeof(symbol), &symbol,
		       sizeof(symbol));
	}
}

/* What is of no use is hidden: search tables, links to other files, what is packed. */
static void keep_section(const struct snap_image *image, size_t index, Elf64_Shdr *section)
{
	bool is_description_of_code = is_description(image, index);

	if (section->sh_flags & SHF_COMPRESSED ||
	    !(is_description_of_code || is_code_section(section) ||
	      section->sh_type == SHT_SYMTAB || section->sh_type == SHT_STRTAB)) {
		*section = (Elf64_Shdr){ .sh_type = SHT_NULL };
		return;
	}
	/* LLVM gives .eh_frame a type of its own. */
	if (is_description_of_code && section->sh_type != SHT_NOBITS)
		section->sh_type = SHT_PROGBITS;
}

/*
 * Writes to the copy what a linker would have written, and the tables last, as hostile sections may
 * lie over these. The first section has numbers of the file.
 */
static void link_image(struct snap_image *image, uint8_t *copy)
{
	Elf64_Ehdr header = image->header;

	for (size_t i = 1; i < image->section_count; i++)
		keep_section(image, i, &image->sections[i]);
	for (size_t i = 1; i < image->section_count; i++)
		if (image->sections[i].sh_type == SHT_SYMTAB)
			place_symbols(image, i, copy);
	memcpy(copy + header.e_shoff, image->sections,
	       image->section_count * sizeof(*image->sections));
	header.e_type = ET_DYN;
	header.e_phnum = 0;
	header.e_phoff = header.e_entry = 0;
	memcpy(copy, &header, sizeof(header));
}

/* NULL: it cannot be used. */
static struct snap_image *load_made_image(struct snap_module_set *set,
					  const struct made_section *of)
{
	_cleanup_(snap_image_closep) struct snap_image *image = NULL;
	uint8_t *copy = snap_arena_memdup(set->arena, of->piece->data, of->piece->size);
	struct snap_image *loaded = NULL;

	if (!copy ||
	    snap_error_ignore(snap_image_open_memory(of->piece->data, of->piece->size, &image)))
		return NULL;
	/* What was not loaded may be anywhere near its code. */
	for (size_t i = 1; i < image->section_count; i++)
		if (image->sections[i].sh_flags & SHF_ALLOC && !image->sections[i].sh_addr)
			image->sections[i].sh_addr = of->module.start;
	for (size_t i = 1; i < image->section_count; i++)
		if (image->sections[i].sh_type == SHT_RELA)
			relocate_section(image, i, copy);
	link_image(image, copy);
	return snap_error_ignore(snap_image_open_memory(copy, of->piece->size, &loaded)) ? NULL
											 : loaded;
}

/* All sections of an image have one file. */
static void open_made(const struct snap_made_code *code, struct made_section *section)
{
	struct snap_module_file *file = NULL;
	struct snap_image *image = load_made_image(code->set, section);

	if (image && !snap_error_ignore(
			     snap_module_set_add_image(code->set, &section->module, image, &file)))
		image = NULL;
	snap_image_close(image);
	for (size_t i = 0; i < code->count; i++) {
		struct snap_module *module = &code->list[i].module;

		if (code->list[i].piece != section->piece)
			continue;
		module->file = file;
		module->opened = true;
		module->usable = module->has_bias = file != NULL;
	}
}

struct snap_module *snap_made_code_module(const struct snap_made_code *code, uint64_t address)
{
	size_t next = snap_first_not(code->count, i, code->list[i].module.start <= address);
	struct made_section *section = next ? &code->list[next - 1] : NULL;

	if (!section || address >= section->module.end)
		return NULL;
	if (!section->module.opened)
		open_made(code, section);
	return section->module.usable ? &section->module : NULL;
}
