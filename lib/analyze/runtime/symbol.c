/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Symbols by name: see symbol.h. */
#include "analyze/runtime/symbol.h"

#include "analyze/elf/image.h"
#include "base/buffer.h"

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

/* ---- what was found ---- */

struct snap_runtime_found {
	const struct snap_module *module;
	const char *name;
	bool is_exported; /* it was asked for as one that is */
	uint64_t address;
};

void snap_runtime_symbols_deinit(struct snap_runtime_symbols *symbols)
{
	free(symbols->found);
	*symbols = (struct snap_runtime_symbols){ 0 };
}

static const struct snap_runtime_found *find_known(const struct snap_runtime_process *process,
						   const struct snap_module *module,
						   const char *name, bool is_exported)
{
	const struct snap_runtime_symbols *symbols = process->symbols;

	for (size_t i = 0; symbols && i < symbols->count; i++) {
		const struct snap_runtime_found *found = &symbols->found[i];

		if (found->module == module && found->is_exported == is_exported &&
		    strcmp(found->name, name) == 0)
			return found;
	}
	return NULL;
}

/* Without memory it is looked for again. */
static uint64_t keep_module_symbol(const struct snap_runtime_process *process,
				   const struct snap_module *module, const char *name,
				   bool is_exported, uint64_t address)
{
	struct snap_runtime_symbols *symbols = process->symbols;

	if (symbols && snap_reserve_array(symbols->found, symbols->capacity, symbols->count + 1))
		symbols->found[symbols->count++] =
			(struct snap_runtime_found){ module, name, is_exported, address };
	return address;
}

/* ---- both ---- */

static uint64_t find_exported(const struct snap_runtime_process *process,
			      struct snap_module *module, const char *name)
{
	uint64_t vaddr;

	if (!snap_module_open(process->set, module))
		return 0;
	vaddr = symbol_in(module->file->image, true, name);
	return vaddr ? module->bias + vaddr : 0;
}

static uint64_t find_symbol(const struct snap_runtime_process *process, struct snap_module *module,
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

	return snap_any(module->map_count, i, first[i].execute && first[i].inode);
}

uint64_t snap_runtime_exported(const struct snap_runtime_process *process,
			       struct snap_module *module, const char *name)
{
	const struct snap_runtime_found *known = find_known(process, module, name, true);

	return known ? known->address
		     : keep_module_symbol(process, module, name, true,
					  find_exported(process, module, name));
}

uint64_t snap_runtime_symbol(const struct snap_runtime_process *process, struct snap_module *module,
			     const char *name)
{
	const struct snap_runtime_found *known = find_known(process, module, name, false);

	return known ? known->address
		     : keep_module_symbol(process, module, name, false,
					  find_symbol(process, module, name));
}
