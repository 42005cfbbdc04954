/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The function that a call leads to, where the call goes through a slot of the GOT: the relocation
 * of the slot names it. Files alone are read. Only the decoding of the call knows a machine.
 */
#include "analyze/symbol/function.h"
#include "analyze/symbol/symbolizer.h"

#include <elf.h>
#include <string.h>

enum {
	DIRECT_BYTES = 5,   /* call rel32 */
	INDIRECT_BYTES = 6, /* call *displacement(%rip) */
	STUB_BYTES = 11,    /* [endbr64] [bnd] jmp *displacement(%rip) */
};

static const char *const relocation_sections[] = { ".rela.plt", ".rela.dyn" };

static uint64_t add_displacement(uint64_t address, const uint8_t *bytes)
{
	int32_t displacement;

	memcpy(&displacement, bytes, sizeof(displacement));
	return address + (uint64_t)(int64_t)displacement;
}

static bool decode_stub(struct snap_modules *modules, uint64_t address, uint64_t *slot_ret)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	uint8_t code[STUB_BYTES];
	size_t at = 0;

	if (!snap_modules_read(modules, address, code, sizeof(code)))
		return false;
	if (memcmp(code, endbr64, sizeof(endbr64)) == 0)
		at = sizeof(endbr64);
	at += code[at] == 0xf2;
	if (at + INDIRECT_BYTES > sizeof(code) || code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	*slot_ret = add_displacement(address + at + INDIRECT_BYTES, code + at + 2);
	return true;
}

/* The slots that the call may go through: what stands before the address can be read in two ways. */
static size_t decode_call(struct snap_modules *modules, uint64_t return_address, uint64_t slots[2])
{
	uint8_t code[INDIRECT_BYTES];
	const uint8_t *direct = code + INDIRECT_BYTES - DIRECT_BYTES;
	size_t count = 0;

	if (return_address < sizeof(code) ||
	    !snap_modules_read(modules, return_address - sizeof(code), code, sizeof(code)))
		return 0;
	if (direct[0] == 0xe8 &&
	    decode_stub(modules, add_displacement(return_address, direct + 1), &slots[count]))
		count++;
	if (code[0] == 0xff && code[1] == 0x15)
		slots[count++] = add_displacement(return_address, code + 2);
	return count;
}

static const char *name_of(const struct snap_symtab *table, const Elf64_Rela *relocation,
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

	if (snap_image_machine(image) != EM_X86_64 || !snap_symtab_get(image, true, &table))
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
				name = name_of(&table, &relocation, length_ret);
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
	const char *name = NULL;
	uint64_t slots[2];
	size_t count;

	if (!module || !snap_module_open(set, module))
		return NULL;
	count = decode_call(modules, return_address, slots);
	for (size_t i = 0; i < count && !name; i++)
		name = name_of_slot(module->file->image, slots[i] - module->bias, length_ret,
				    looked_at);
	return name;
}
