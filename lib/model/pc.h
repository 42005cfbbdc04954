/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program counter of a stack: an address, whether it is a return address, and how it was found,
 * in 64 bits, so that a pc is one number in a log, in a file and between processes. Knows nothing
 * of stacks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * How the pc of a frame was found. A frame pointer is wrong where a function uses the register for
 * something else, and a word of the stack that looks like a return address may be an old one: both
 * are guesses.
 *
 * What call frame information finds from a guessed frame is in doubt as well: it leads on from a
 * wrong place, too. One thing confirms it: that it leads to where the thread began, without another
 * guess. A stack has one such place, its outermost frame. The guessed frame itself stays one, as
 * callers may be missing before it. Nothing else confirms: a return address of zero may be any word
 * of data, and old signal frames remain in a stack as other old frames do.
 */
enum snap_trust {
	SNAP_TRUST_CFI, /* from registers, or by call frame information */
	SNAP_TRUST_FRAME_POINTER,
	SNAP_TRUST_SCAN,        /* the first word of the stack that can be a return address */
	SNAP_TRUST_UNCONFIRMED, /* by call frame information, from a frame in doubt */
	SNAP_TRUST_COUNT,
};

/*
 * The address of an instruction (innermost frame, one interrupted by a signal, the return from a
 * signal handler: "exact"), or a return address, which belongs to the call before it.
 *
 * Bit 63: exact. Bits 62 and 61: an enum snap_trust. What is in doubt can be executed, so it is a
 * user address, below 2^52. An address beyond has bits 62 and 61 itself: a stack that was
 * overwritten with 0x4141414141414141 shows that number.
 */
struct snap_pc {
	uint64_t bits;
};

enum { SNAP_PC_USER_BITS = 52, SNAP_PC_TRUST_SHIFT = 61 };

static const uint64_t SNAP_PC_EXACT = 1ull << 63;

static inline struct snap_pc snap_pc_exact(uint64_t address)
{
	return (struct snap_pc){ address | SNAP_PC_EXACT };
}

static inline struct snap_pc snap_pc_return(uint64_t address)
{
	return (struct snap_pc){ address & ~SNAP_PC_EXACT };
}

static inline bool snap_pc_is_exact(struct snap_pc pc)
{
	return pc.bits >> 63;
}

static inline enum snap_trust snap_pc_trust(struct snap_pc pc)
{
	if (pc.bits << 3 >> (3 + SNAP_PC_USER_BITS))
		return SNAP_TRUST_CFI;
	return (enum snap_trust)(pc.bits >> SNAP_PC_TRUST_SHIFT & 3);
}

/* The pc as unwound. */
static inline uint64_t snap_pc_address(struct snap_pc pc)
{
	return pc.bits & ~(SNAP_PC_EXACT | (uint64_t)snap_pc_trust(pc) << SNAP_PC_TRUST_SHIFT);
}

/* The same pc, found in another way. */
static inline struct snap_pc snap_pc_found_by(struct snap_pc pc, enum snap_trust trust)
{
	uint64_t bits = snap_pc_address(pc) | (pc.bits & SNAP_PC_EXACT);

	if (trust == SNAP_TRUST_CFI || bits << 1 >> (1 + SNAP_PC_USER_BITS))
		return (struct snap_pc){ bits };
	return (struct snap_pc){ bits | (uint64_t)trust << SNAP_PC_TRUST_SHIFT };
}

/* The only place that subtracts 1 before a lookup. */
static inline uint64_t snap_pc_lookup(struct snap_pc pc)
{
	uint64_t address;

	/* A return address by CFI, as nearly all are. */
	if (pc.bits - 1 < 1ull << SNAP_PC_USER_BITS)
		return pc.bits - 1;
	address = snap_pc_address(pc);
	return snap_pc_is_exact(pc) || address == 0 ? address : address - 1;
}
