/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Symbols by name: see symbol.h. */
#include "analyze/runtime/symbol.h"

#include "analyze/elf/image.h"

#include <elf.h>
#include <string.h>

enum { MOST_SYMBOLS = 1 << 20 };

/* A symbol that the table defines; 0: none. */
static uint64_t symbol_in(struct snap_image *image, bool dynamic, const char *name)
{
	struct snap_bytes symbols, strings;
	size_t length = strlen(name) + 1, count;

	if (!snap_image_symbols(image, dynamic, &symbols, &strings))
		return 0;
	count = symbols.size / sizeof(Elf64_Sym);
	for (size_t i = 0; i < count && i < MOST_SYMBOLS; i++) {
		Elf64_Sym symbol;

		memcpy(&symbol, symbols.data + i * sizeof(symbol), sizeof(symbol));
		if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= SHN_LORESERVE ||
		    symbol.st_name >= strings.size || strings.size - symbol.st_name < length)
			continue;
		if (memcmp(strings.data + symbol.st_name, name, length) == 0)
			return symbol.st_value;
	}
	return 0;
}

uint64_t snap_runtime_exported(const struct snap_runtime_process *process,
			       struct snap_module *module, const char *name)
{
	uint64_t vaddr;

	if (!snap_module_open(process->set, module))
		return 0;
	vaddr = symbol_in(module->file->image, true, name);
	return vaddr ? module->bias + vaddr : 0;
}

uint64_t snap_runtime_symbol(const struct snap_runtime_process *process, struct snap_module *module,
			     const char *name)
{
	uint64_t vaddr = 0;

	if (!snap_module_open(process->set, module))
		return 0;
	if (name[0] == '.') {
		if (!snap_image_section_address(module->file->image, name, &vaddr))
			return 0;
	} else {
		vaddr = symbol_in(module->file->image, true, name);
		if (!vaddr)
			vaddr = symbol_in(module->file->image, false, name);
	}
	return vaddr ? module->bias + vaddr : 0;
}

bool snap_runtime_has_code(const struct snap_module *module)
{
	const struct snap_map *first = &module->process->maps[module->first_map];

	for (size_t i = 0; i < module->map_count; i++)
		if (first[i].execute && first[i].inode)
			return true;
	return false;
}
