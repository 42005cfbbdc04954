/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stubs and calls of two processors: see machine.h. */
#include "analyze/symbol/machine.h"

#include <elf.h>
#include <string.h>

/* ---- x86-64: stubs of 8 or 16 bytes, the jump in the first 8 or behind an endbr64 ---- */

static uint64_t add_displacement(uint64_t address, const uint8_t *bytes)
{
	int32_t displacement;

	memcpy(&displacement, bytes, sizeof(displacement));
	return address + (uint64_t)(int64_t)displacement;
}

/* [endbr64] [bnd] jmp *displacement(%rip) */
static bool stub_slot_x86_64(const uint8_t *code, size_t size, uint64_t address, uint64_t *ret)
{
	enum { JUMP = 6 };
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	size_t at = 0;

	if (size >= sizeof(endbr64) && memcmp(code, endbr64, sizeof(endbr64)) == 0)
		at = sizeof(endbr64);
	at += at < size && code[at] == 0xf2;
	if (at + JUMP > size || code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	*ret = add_displacement(address + at + JUMP, code + at + 2);
	return true;
}

/* call rel32, and call *displacement(%rip): what stands there can be read in two ways. */
static void read_call_x86_64(const uint8_t *code, uint64_t return_address, uint64_t *target_ret,
			     uint64_t *slot_ret)
{
	*target_ret = code[1] == 0xe8 ? add_displacement(return_address, code + 2) : 0;
	*slot_ret =
		code[0] == 0xff && code[1] == 0x15 ? add_displacement(return_address, code + 2) : 0;
}

/* jmp rel32, jcc rel32; jmp rel8, jcc rel8 */
static uint64_t read_jump_x86_64(const uint8_t *code, uint64_t address, size_t *size_ret)
{
	size_t opcode = code[0] == 0x0f && (code[1] & 0xf0) == 0x80 ? 2 : code[0] == 0xe9;

	*size_ret = opcode ? opcode + 4 : 2;
	if (opcode)
		return add_displacement(address + *size_ret, code + opcode);
	return code[0] == 0xeb || (code[0] & 0xf0) == 0x70
		       ? address + 2 + (uint64_t)(int64_t)(int8_t)code[1]
		       : 0;
}

/* IRELATIVE: an indirect function of this very file. */
static bool is_slot_x86_64(unsigned type)
{
	return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT ||
	       type == R_X86_64_IRELATIVE;
}

/* ---- aarch64: stubs of 16 bytes, 24 with BTI or signed addresses ---- */

enum { INSTRUCTION = 4 };

static uint32_t instruction_at(const uint8_t *code, size_t at)
{
	return (uint32_t)code[at] | (uint32_t)code[at + 1] << 8 | (uint32_t)code[at + 2] << 16 |
	       (uint32_t)code[at + 3] << 24;
}

/* Bits `low` and up of an instruction, `count` of them, as a signed number. */
static uint64_t signed_field(uint32_t instruction, unsigned low, unsigned count)
{
	return (uint64_t)((int64_t)((uint64_t)instruction << (64 - low - count)) >> (64 - count));
}

/* [bti c]; adrp x16, page; ldr x17, [x16, offset] … br x17: what lies between is of no interest. */
static bool stub_slot_aarch64(const uint8_t *code, size_t size, uint64_t address, uint64_t *ret)
{
	enum { PAGE_BITS = 12 /* of adrp, whatever the system's pages */ };
	size_t at = size >= INSTRUCTION && (instruction_at(code, 0) & 0xffffff3f) == 0xd503241f
			    ? INSTRUCTION
			    : 0;
	uint32_t adrp, ldr;
	uint64_t pages;

	if (at + 2 * INSTRUCTION > size)
		return false;
	adrp = instruction_at(code, at);
	ldr = instruction_at(code, at + INSTRUCTION);
	if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
		return false;
	pages = signed_field(adrp, 5, 19) << 2 | (adrp >> 29 & 3);
	*ret = ((address + at) >> PAGE_BITS << PAGE_BITS) + (pages << PAGE_BITS) +
	       (ldr >> 10 & 0xfff) * 8;
	return true;
}

/* bl */
static void read_call_aarch64(const uint8_t *code, uint64_t return_address, uint64_t *target_ret,
			      uint64_t *slot_ret)
{
	uint32_t instruction = instruction_at(code, 0);

	*target_ret = 0;
	if ((instruction & 0xfc000000) == 0x94000000)
		*target_ret = return_address - INSTRUCTION +
			      signed_field(instruction, 0, 26) * INSTRUCTION;
	*slot_ret = 0;
}

/* b, b.cond */
static uint64_t read_jump_aarch64(const uint8_t *code, uint64_t address, size_t *size_ret)
{
	uint32_t instruction = instruction_at(code, 0);

	*size_ret = INSTRUCTION;
	if ((instruction & 0xfc000000) == 0x14000000)
		return address + signed_field(instruction, 0, 26) * INSTRUCTION;
	return (instruction & 0xff000010) == 0x54000000
		       ? address + signed_field(instruction, 5, 19) * INSTRUCTION
		       : 0;
}

static bool is_slot_aarch64(unsigned type)
{
	return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT ||
	       type == R_AARCH64_IRELATIVE;
}

/* ---- both ---- */

static const struct snap_machine machines[] = {
	{
		.number = EM_X86_64,
		.step = 8,
		.reach = 16,
		.call_bytes = 6,
		.stub_bytes = 11,
		.stub_slot = stub_slot_x86_64,
		.read_call = read_call_x86_64,
		.read_jump = read_jump_x86_64,
		.jump_sizes = { 5, 6, 2 },
		.is_slot = is_slot_x86_64,
	},
	{
		.number = EM_AARCH64,
		.step = INSTRUCTION,
		.reach = SNAP_MACHINE_BYTES,
		.call_bytes = INSTRUCTION,
		.stub_bytes = 3 * INSTRUCTION,
		.stub_slot = stub_slot_aarch64,
		.read_call = read_call_aarch64,
		.read_jump = read_jump_aarch64,
		.jump_sizes = { INSTRUCTION },
		.is_slot = is_slot_aarch64,
	},
};

const struct snap_machine *snap_machine_find(uint16_t number)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(machines); i++)
		if (machines[i].number == number)
			return &machines[i];
	return NULL;
}
