/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The differences between processors in calls that go through the GOT: the stubs of a PLT, calls of
 * them, and the relocations of their slots. The file's e_machine decides, not the machine that runs
 * this code. Knows no files: it gets bytes of code.
 */
#pragma once

#include "analyze/elf/image.h"

enum { SNAP_MACHINE_BYTES = 24 /* the most of what follows */, SNAP_MACHINE_JUMP = 6 };

struct snap_machine {
	uint16_t number; /* e_machine */
	/*
	 * Stubs may begin at multiples of `step`, and their jump ends within `reach` bytes of it.
	 */
	uint8_t step, reach;
	uint8_t call_bytes; /* of the longest call that is looked at */
	uint8_t stub_bytes; /* of a stub up to the place that names its slot */
	/*
	 * The slot that the stub which begins with `code` jumps through; it lies at `address`.
	 * False: it is no stub, or is cut short.
	 */
	bool (*stub_slot)(const uint8_t *code, size_t size, uint64_t address, uint64_t *ret);
	/*
	 * The call_bytes of code before a return address. *target_ret is where a direct call leads,
	 * *slot_ret the slot of one that goes through it itself; 0: it is no such call.
	 */
	void (*read_call)(const uint8_t *code, uint64_t return_address, uint64_t *target_ret,
			  uint64_t *slot_ret);
	/*
	 * Where the direct jump leads, conditional or not, that `code` begins with, SNAP_MACHINE_JUMP bytes of it at
	 * `address`; *size_ret: its length. 0: it is no such jump.
	 */
	uint64_t (*read_jump)(const uint8_t *code, uint64_t address, size_t *size_ret);
	uint8_t jump_sizes[3]; /* that it may have; 0: none */
	/* Whether the linker lets stubs jump through what such a relocation fills in. */
	bool (*is_slot)(unsigned relocation_type);
};

/* NULL: stubs of this processor are not known. */
const struct snap_machine *snap_machine_find(uint16_t number);
