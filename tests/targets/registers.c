/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Loads the code of an object file (argument 1: registered.c, compiled) into anonymous memory and
 * registers it with GDB's JIT interface, as compilers do: the object with the addresses of its
 * sections, and without relocations. Then the code calls back into C. Argument 2 is what else is
 * registered: honest, ring, sizes, nonsense, over.
 */
#include "victim.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct jit_code_entry {
	struct jit_code_entry *next, *previous;
	const void *image;
	uint64_t size;
};

struct jit_descriptor {
	uint32_t version, action;
	struct jit_code_entry *relevant, *first;
};

struct jit_descriptor __jit_debug_descriptor = { .version = 1 };

/* A debugger that is there has its breakpoint here. */
NOINLINE void __jit_debug_register_code(void)
{
	__asm__ volatile("" ::: "memory");
}

static void register_image(const void *image, uint64_t size)
{
	struct jit_code_entry *entry = calloc(1, sizeof(*entry));

	entry->image = image;
	entry->size = size;
	entry->next = __jit_debug_descriptor.first;
	if (entry->next)
		entry->next->previous = entry;
	__jit_debug_descriptor.first = __jit_debug_descriptor.relevant = entry;
	__jit_debug_descriptor.action = 1;
	__jit_debug_register_code();
}

static uint8_t *read_object(const char *path, size_t *size_ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat info;
	uint8_t *bytes;

	if (fd < 0 || fstat(fd, &info))
		victim_cannot("open");
	/* Not at the beginning of a mapping, as of a compiler's heap. */
	bytes = (uint8_t *)malloc((size_t)info.st_size + 64) + 64;
	if (read(fd, bytes, (size_t)info.st_size) != info.st_size)
		victim_cannot("read");
	close(fd);
	*size_ret = (size_t)info.st_size;
	return bytes;
}

/* Gives the sections addresses; where the code is. */
static uint8_t *load(uint8_t *object, uint64_t *entry_ret)
{
	Elf64_Ehdr *header = (Elf64_Ehdr *)object;
	Elf64_Shdr *sections = (Elf64_Shdr *)(object + header->e_shoff);
	uint8_t *room = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *at = room, *code = NULL;

	for (unsigned i = 1; i < header->e_shnum; i++) {
		if (!(sections[i].sh_flags & SHF_ALLOC) || !sections[i].sh_size)
			continue;
		memcpy(at, object + sections[i].sh_offset, sections[i].sh_size);
		sections[i].sh_addr = (uintptr_t)at;
		if (sections[i].sh_flags & SHF_EXECINSTR)
			code = at;
		at += (sections[i].sh_size + 63) & ~63ull;
	}
	for (unsigned i = 1; i < header->e_shnum; i++) {
		const Elf64_Sym *symbols = (const Elf64_Sym *)(object + sections[i].sh_offset);

		for (size_t k = 0; sections[i].sh_type == SHT_SYMTAB &&
				   k < sections[i].sh_size / sizeof(*symbols);
		     k++)
			if (ELF64_ST_BIND(symbols[k].st_info) == STB_GLOBAL)
				*entry_ret = (uintptr_t)code + symbols[k].st_value;
	}
	__builtin___clear_cache((char *)room, (char *)at);
	return code;
}

/* A copy of the object whose code says that it lies over that of this program, and of libraries. */
static void register_over(const uint8_t *object, size_t size, uint64_t address)
{
	uint8_t *lies = (uint8_t *)malloc(size + 64) + 64;
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)lies;
	Elf64_Shdr *sections;

	memcpy(lies, object, size);
	sections = (Elf64_Shdr *)(lies + header->e_shoff);
	for (unsigned i = 1; i < header->e_shnum; i++) {
		if (sections[i].sh_flags & SHF_EXECINSTR) {
			sections[i].sh_addr = address;
			sections[i].sh_size = 1ull << 60;
		}
	}
	register_image(lies, size);
}

static void register_others(const char *mode, const uint8_t *object, size_t size)
{
	static uint8_t page[1 << 16];

	if (!strcmp(mode, "ring")) {
		register_image(page, sizeof(page));
		register_image(page, sizeof(page));
		__jit_debug_descriptor.first->next->next = __jit_debug_descriptor.first;
	} else if (!strcmp(mode, "sizes")) {
		register_image(object, 1ull << 60);
		register_image(NULL, 0);
		register_image((void *)-8, 16);
		register_image(page, 0);
		register_image(page, UINT32_MAX);
	} else if (!strcmp(mode, "nonsense")) {
		memset(page, 0xff, sizeof(page));
		memcpy(page, object, sizeof(Elf64_Ehdr));
		register_image(page, sizeof(page));
		register_image(page + 100, 1000);
		register_image(object + size / 2, size / 2);
	} else if (!strcmp(mode, "over")) {
		register_over(object, size, (uintptr_t)victim_hold & ~4095ull);
		register_over(object, size, 4096);
	}
}

NOINLINE static int called_back(void)
{
	victim_ready("by=%s", "registered");
	victim_hold();
	return 0;
}

NOINLINE static int run(uint64_t entry)
{
	int (*made)(int (*)(void));

	memcpy(&made, &entry, sizeof(made));
	return made(called_back) + 1;
}

int main(int argc, char **argv)
{
	uint64_t entry = 0;
	uint8_t *object;
	size_t size;

	if (argc < 3)
		return 2;
	object = read_object(argv[1], &size);
	if (!load(object, &entry))
		victim_cannot("load");
	register_others(argv[2], object, size);
	register_image(object, size);
	if (!strcmp(argv[2], "ring")) /* the ring is behind it */
		__jit_debug_descriptor.first->next->previous = NULL;
	return run(entry);
}
