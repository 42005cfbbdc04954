/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The function that a call leads to, where the call goes through a slot of the GOT: the relocation
 * of the slot names it. Reads files alone. machine.c has the differences between processors.
 */
#include "analyze/symbol/function.h"
#include "analyze/symbol/machine.h"
#include "analyze/symbol/symbolizer.h"

#include <elf.h>
#include <string.h>

static const char *const relocation_sections[] = { ".rela.plt", ".rela.dyn" };

/* The slots that the call may go through: what stands before the address can be read in two ways. */
static size_t decode_call(const struct snap_machine *machine, struct snap_modules *modules,
			  uint64_t return_address, uint64_t slots[2])
{
	uint8_t code[SNAP_MACHINE_BYTES], stub[SNAP_MACHINE_BYTES];
	size_t bytes = machine->call_bytes, count = 0;
	uint64_t target, slot;

	if (return_address < bytes ||
	    !snap_modules_read(modules, return_address - bytes, code, bytes))
		return 0;
	machine->read_call(code, return_address, &target, &slot);
	if (target && snap_modules_read(modules, target, stub, machine->stub_bytes) &&
	    machine->stub_slot(stub, machine->stub_bytes, target, &slots[count]))
		count++;
	if (slot)
		slots[count++] = slot;
	return count;
}

static const char *name_of_callee(const struct snap_symtab *table, const Elf64_Rela *relocation,
				  size_t *length_ret)
{
	uint64_t index = ELF64_R_SYM(relocation->r_info);
	Elf64_Sym symbol;

	if (index == 0 || index >= table->count)
		return NULL;
	memcpy(&symbol, table->symbols + index * sizeof(symbol), sizeof(symbol));
	return snap_symtab_name(table, &symbol, length_ret);
}

/* The name of the first relocation of a slot that has one. */
static const char *name_of_slot(struct snap_image *image, uint64_t slot, size_t *length_ret,
				uint64_t *looked_at)
{
	struct snap_symtab table;

	if (!snap_symtab_get(image, true, &table))
		return NULL;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(relocation_sections); i++) {
		struct snap_bytes bytes = snap_image_section(image, relocation_sections[i]);
		size_t count = bytes.size / sizeof(Elf64_Rela);

		for (size_t k = 0; k < count; k++) {
			Elf64_Rela relocation;
			const char *name = NULL;

			memcpy(&relocation, bytes.data + k * sizeof(relocation),
			       sizeof(relocation));
			(*looked_at)++;
			if (relocation.r_offset == slot)
				name = name_of_callee(&table, &relocation, length_ret);
			if (name)
				return name;
		}
	}
	return NULL;
}

const char *snap_function_called(struct snap_module_set *set, struct snap_modules *modules,
				 uint64_t return_address, size_t *length_ret, uint64_t *looked_at)
{
	struct snap_module *module = snap_modules_find(modules, return_address - 1);
	const struct snap_machine *machine;
	const char *name = NULL;
	uint64_t slots[2];
	size_t count;

	if (!module || !snap_module_open(set, module))
		return NULL;
	machine = snap_machine_find(snap_image_machine(module->file->image));
	if (!machine)
		return NULL;
	count = decode_call(machine, modules, return_address, slots);
	for (size_t i = 0; i < count && !name; i++)
		name = name_of_slot(module->file->image, slots[i] - module->bias, length_ret,
				    looked_at);
	return name;
}
