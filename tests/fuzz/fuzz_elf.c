/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ELF files around sections that a fuzzer made up. The headers are right, so that what is in the
 * sections is reached; damaged headers are what fuzz_symbols.c and mutants.c are for.
 */
#include "fuzz.h"

#include <elf.h>
#include <string.h>

enum { HEADERS = FUZZ_TEXT, SEGMENTS = 3 };

static uint64_t aligned(uint64_t size)
{
	return (size + 15) & ~15ull;
}

/* File offsets and addresses are the same. */
uint64_t fuzz_elf_address(const struct fuzz_section *sections, size_t index)
{
	uint64_t at = HEADERS + FUZZ_TEXT_SIZE;

	for (size_t i = 0; i < index; i++)
		at += aligned(sections[i].size);
	return at;
}

static void put_segments(uint8_t *file, const struct fuzz_section *sections, size_t count)
{
	Elf64_Phdr *segments = (Elf64_Phdr *)(file + sizeof(Elf64_Ehdr));
	uint64_t data = HEADERS + FUZZ_TEXT_SIZE, size = fuzz_elf_address(sections, count) - data;

	segments[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
				    .p_flags = PF_R | PF_X,
				    .p_filesz = data,
				    .p_memsz = data,
				    .p_align = 4096 };
	segments[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
				    .p_flags = PF_R,
				    .p_offset = data,
				    .p_vaddr = data,
				    .p_filesz = size,
				    .p_memsz = size,
				    .p_align = 4096 };
	for (size_t i = 0; i < count; i++)
		if (strcmp(sections[i].name, ".eh_frame_hdr") == 0)
			segments[2] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME,
						    .p_flags = PF_R,
						    .p_offset = fuzz_elf_address(sections, i),
						    .p_vaddr = fuzz_elf_address(sections, i),
						    .p_filesz = sections[i].size,
						    .p_memsz = sections[i].size };
}

/* Null, the code, those of the list, the names. */
static void put_sections(uint8_t *file, const struct fuzz_section *sections, size_t count,
			 uint64_t headers, uint64_t names)
{
	Elf64_Shdr *out = (Elf64_Shdr *)(file + headers);
	char *name = (char *)file + names + 1;

	out[1] = (Elf64_Shdr){ .sh_name = 1,
			       .sh_type = SHT_PROGBITS,
			       .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			       .sh_addr = FUZZ_TEXT,
			       .sh_offset = FUZZ_TEXT,
			       .sh_size = FUZZ_TEXT_SIZE };
	name = stpcpy(name, ".text") + 1;
	for (size_t i = 0; i < count; i++) {
		uint64_t at = fuzz_elf_address(sections, i);

		fuzz_check(strlen(sections[i].name) < 32, "a short name");
		out[2 + i] = (Elf64_Shdr){
			.sh_name = (uint32_t)(name - (char *)file - names),
			.sh_type = sections[i].type,
			.sh_flags = sections[i].flags,
			.sh_addr = sections[i].flags & SHF_ALLOC ? at : 0,
			.sh_offset = at,
			.sh_size = sections[i].size,
			.sh_link = sections[i].link ? sections[i].link + 1 : 0,
			.sh_info = sections[i].info,
			.sh_addralign = 1,
			.sh_entsize = sections[i].entry_size,
		};
		name = stpcpy(name, sections[i].name) + 1;
	}
	out[2 + count] = (Elf64_Shdr){ .sh_name = (uint32_t)(name - (char *)file - names),
				       .sh_type = SHT_STRTAB,
				       .sh_offset = names,
				       .sh_size = headers - names };
	memcpy(name, ".shstrtab", sizeof(".shstrtab"));
}

uint8_t *fuzz_elf(const struct fuzz_section *sections, size_t count, size_t *size_ret)
{
	uint64_t names = fuzz_elf_address(sections, count);
	uint64_t headers = names + aligned(32 * (count + 3));
	size_t size = headers + (count + 3) * sizeof(Elf64_Shdr);
	uint8_t *file = calloc(1, size);

	fuzz_check(file && count <= FUZZ_MAX_SECTIONS, "room for a file");
	memset(file + FUZZ_TEXT, 0x90, FUZZ_TEXT_SIZE);
	*(Elf64_Ehdr *)file = (Elf64_Ehdr){
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_shoff = headers,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = SEGMENTS,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = (uint16_t)(count + 3),
		.e_shstrndx = (uint16_t)(count + 2),
	};
	put_segments(file, sections, count);
	for (size_t i = 0; i < count; i++)
		if (sections[i].size)
			memcpy(file + fuzz_elf_address(sections, i), sections[i].data,
			       sections[i].size);
	put_sections(file, sections, count, headers, names);
	*size_ret = size;
	return file;
}
