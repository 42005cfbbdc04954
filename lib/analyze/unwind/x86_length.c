/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lengths of instructions in 64-bit mode: Intel SDM, volume 2, chapter 2 and appendix A. Knows
 * nothing of what they do.
 */
#include "analyze/unwind/arch.h"

#include <stdbool.h>
#include <string.h>

/* Which table of opcodes; the first three are those of VEX, too. */
enum map { MAP_ONE_BYTE, MAP_0F, MAP_0F38, MAP_0F3A, MAPS };

/* An instruction as far as it was read. */
struct instruction {
	const uint8_t *code;
	size_t size, at;
	bool has_operand_prefix, is_wide; /* 66, REX.W */
};

static bool is_in(uint8_t byte, const char *ranges)
{
	for (; ranges[0] || ranges[1]; ranges += 2)
		if (byte >= (uint8_t)ranges[0] && byte <= (uint8_t)ranges[1])
			return true;
	return false;
}

static bool has_modrm(enum map map, uint8_t opcode)
{
	if (map == MAP_ONE_BYTE)
		return (opcode < 0x40 && (opcode & 7) < 4) ||
		       is_in(opcode, "\x63\x63\x69\x69\x6b\x6b\x80\x8f\xc0\xc1\xc6\xc7\xd0\xd3"
				     "\xd8\xdf\xf6\xf7\xfe\xff\0");
	if (map == MAP_0F)
		return !is_in(opcode, "\x05\x09\x0b\x0b\x0e\x0e\x30\x37\x77\x77\x80\x8f\xa0\xa2"
				      "\xa8\xaa\xc8\xcf\0");
	return true;
}

/* Bytes behind the operands. `modrm`: 0 without one. */
static size_t immediate_size(const struct instruction *instruction, enum map map, uint8_t opcode,
			     uint8_t modrm)
{
	size_t word = instruction->has_operand_prefix && !instruction->is_wide ? 2 : 4;
	bool is_test = (modrm & 0x30) == 0; /* F6 and F7: /0 and /1 */

	if (map == MAP_0F3A)
		return 1;
	if (map == MAP_0F && is_in(opcode, "\x80\x8f\0"))
		return 4;
	if (map == MAP_0F)
		return is_in(opcode, "\x70\x73\xa4\xa4\xac\xac\xba\xba\xc2\xc2\xc4\xc6\0");
	if (map != MAP_ONE_BYTE)
		return 0;
	if ((opcode < 0x40 && (opcode & 7) == 5) ||
	    is_in(opcode, "\x68\x69\x81\x81\xa9\xa9\xc7\xc7\0") || (opcode == 0xf7 && is_test))
		return word;
	if ((opcode & 0xf8) == 0xb8)
		return instruction->is_wide ? 8 : word;
	if (is_in(opcode, "\xe8\xe9\0"))
		return 4;
	if (is_in(opcode, "\xa0\xa3\0"))
		return 8;
	if (opcode == 0xc2 || opcode == 0xca)
		return 2;
	if (opcode == 0xc8)
		return 3;
	return (opcode < 0x40 && (opcode & 7) == 4) || (opcode == 0xf6 && is_test) ||
	       is_in(opcode, "\x6a\x6b\x70\x80\x83\x83\xa8\xa8\xb0\xb7\xc0\xc1\xc6\xc6\xcd\xcd"
			     "\xe0\xe7\xeb\xeb\0");
}

/* Bytes behind ModRM: SIB and displacement. */
static size_t operand_size(uint8_t modrm, uint8_t sib)
{
	unsigned mode = modrm >> 6, rm = modrm & 7;
	size_t has_sib = mode != 3 && rm == 4;

	if (has_sib)
		rm = sib & 7;
	return mode == 1 ? has_sib + 1 : has_sib + (mode == 2 || (mode == 0 && rm == 5) ? 4 : 0);
}

/* Prefixes, and the opcode's table; false: it is cut, or unknown. */
static bool read_map(struct instruction *instruction, enum map *map_ret)
{
	const uint8_t *code = instruction->code;
	size_t size = instruction->size, at = 0, vex;

	while (at < size && is_in(code[at], "\x26\x26\x2e\x2e\x36\x36\x3e\x3e\x64\x67\xf0\xf0"
					    "\xf2\xf3\0"))
		instruction->has_operand_prefix |= code[at++] == 0x66;
	if (at < size && (code[at] & 0xf0) == 0x40)
		instruction->is_wide = code[at++] & 8;
	if (at + 4 >= size && at < size && is_in(code[at], "\x62\x62\xc4\xc5\0"))
		return false;
	*map_ret = MAP_ONE_BYTE;
	if (at < size && is_in(code[at], "\x62\x62\xc4\xc5\0")) {
		vex = code[at] == 0xc5 ? 1 : code[at] == 0xc4 ? 2 : 3;
		*map_ret = vex == 1 ? MAP_0F : (enum map)(code[at + 1] & (vex == 3 ? 7 : 31));
		at += 1 + vex;
	} else if (at < size && code[at] == 0x0f) {
		if (++at == size)
			return false;
		*map_ret = code[at] == 0x38 ? MAP_0F38 : code[at] == 0x3a ? MAP_0F3A : MAP_0F;
		at += *map_ret != MAP_0F;
	}
	instruction->at = at;
	return at < size && *map_ret < MAPS;
}

size_t snap_x86_length(const uint8_t *code, size_t size)
{
	struct instruction instruction = { .code = code, .size = size };
	uint8_t opcode, modrm = 0, sib = 0;
	enum map map;
	size_t length;

	if (!read_map(&instruction, &map))
		return 0;
	length = instruction.at;
	opcode = code[length++];
	if (has_modrm(map, opcode)) {
		if (length >= size)
			return 0;
		modrm = code[length++];
		if (length < size)
			sib = code[length];
		length += operand_size(modrm, sib);
	}
	length += immediate_size(&instruction, map, opcode, modrm);
	return length <= size ? length : 0;
}
