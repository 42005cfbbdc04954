/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the unwinder's fixtures and their tests know of the processor that they are built for: where
 * registers lie, which are saved, what a call leaves behind. Written down here once more, as none
 * of it may come from the tables that are tested.
 */
#pragma once

#if defined(__x86_64__)
enum {
	/* Words of the registers as a capture has them (sys/user.h). */
	FP_WORD = 4,
	SP_WORD = 19,
	PC_WORD = 16,
	LINK_WORD = 0,    /* there is none */
	HOLDER_WORD = 12, /* rdx, which holds the return address of `in_register` */
	/* By DWARF number (psABI, 3.6.2): rbp, and rbx and r12, which fixtures save. */
	FP = 6,
	SAVED = 3,
	ALSO_SAVED = 12,
	CALL_PUSHES = 1, /* words */
	NOP_BYTES = 1,
	/* Bytes in the kernel's frame of a signal (asm/sigcontext.h). */
	SIGNAL_FP = 120,
	SIGNAL_SP = 160,
	SIGNAL_PC = 168,
};
#define SIGNATURE 0ull /* in return addresses */
#define VDSO_CLOCK "__vdso_clock_gettime"
#elif defined(__aarch64__)
enum {
	/* asm/ptrace.h */
	FP_WORD = 29,
	SP_WORD = 31,
	PC_WORD = 32,
	LINK_WORD = 30,
	HOLDER_WORD = 9, /* x9 */
	/* AADWARF64, 4.1: x29, and x19 and x20. */
	FP = 29,
	SAVED = 19,
	ALSO_SAVED = 20,
	CALL_PUSHES = 0, /* it writes the link register */
	NOP_BYTES = 4,
	/* Behind siginfo_t and the head of struct ucontext (asm/ucontext.h, asm/sigcontext.h). */
	SIGNAL_FP = 128 + 176 + 8 + 8 * FP_WORD,
	SIGNAL_SP = 128 + 176 + 8 + 8 * SP_WORD,
	SIGNAL_PC = 128 + 176 + 8 + 8 * PC_WORD,
};
#define SIGNATURE 0x0055000000000000ull /* as paciasp writes it above 48 bits */
#define VDSO_CLOCK "__kernel_clock_gettime"
#else
#error "add the processor here, and its fixtures beside the others"
#endif
