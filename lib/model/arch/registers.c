/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Registers by the processor of a capture: see registers.h. */
#include "model/arch/registers.h"

#include <errno.h>
#include <string.h>

enum {
	USER_CS = 0x33, /* of code of 64 bits: __USER_CS of the kernel */
	MODE32 = 0x10,  /* of pstate: PSR_MODE32_BIT */
};

static int32_t call_of(uint64_t number)
{
	return (int64_t)number >= 0 && number <= INT32_MAX ? (int32_t)number : -1;
}

/* ---- x86-64 ---- */

static bool read_x86_64(const void *raw, size_t size, struct snap_known_registers *ret)
{
	struct snap_x86_64_registers of;

	if (size != sizeof(of))
		return false;
	memcpy(&of, raw, sizeof(of));
	*ret = (struct snap_known_registers){
		.pc = of.rip,
		.call_pc = of.rip,
		.sp = of.rsp,
		.fp = of.rbp,
		.thread_pointer = of.fs_base,
		.call = call_of(of.orig_rax),
		.arguments = { of.rdi, of.rsi, of.rdx, of.r10, of.r8, of.r9 },
	};
	return true;
}

static size_t write_x86_64(const struct snap_known_registers *known, void *ret)
{
	const uint64_t *arguments = known->arguments;
	const struct snap_x86_64_registers of = {
		.rip = known->pc,
		.rsp = known->sp,
		.rbp = known->fp,
		.fs_base = known->thread_pointer,
		.orig_rax = (uint64_t)(int64_t)known->call,
		.rdi = arguments[0],
		.rsi = arguments[1],
		.rdx = arguments[2],
		.r10 = arguments[3],
		.r8 = arguments[4],
		.r9 = arguments[5],
	};

	memcpy(ret, &of, sizeof(of));
	return sizeof(of);
}

/* ---- aarch64 ---- */

enum { CALL = 8, FRAME_POINTER = 29, /* x8 and x29 */ INSTRUCTION = 4 };

/*
 * A thread that is stopped in a call has been taken out of it before: the kernel lets it stand at
 * the instruction again and forgets the number (arch/arm64/kernel/signal.c, do_signal()), so that
 * NT_ARM_SYSTEM_CALL says -1. Only x8 is left, which a running thread uses for anything. Whether
 * the threads of a core ran is not known.
 */
static bool is_in_call_by_number(char state, uint64_t number)
{
	return (state == 'S' || state == 'D' || state == 0) && number <= SNAP_MOST_CALL;
}

static bool read_aarch64(const void *raw, size_t size, char state, struct snap_known_registers *ret)
{
	struct snap_aarch64_registers of = { .thread_pointer = 0 };

	if (size != sizeof(of) && size != offsetof(struct snap_aarch64_registers, thread_pointer))
		return false;
	memcpy(&of, raw, size);
	*ret = (struct snap_known_registers){
		.pc = of.pc,
		.call_pc = of.pc + INSTRUCTION,
		.sp = of.sp,
		.fp = of.x[FRAME_POINTER],
		.thread_pointer = of.thread_pointer,
		.call = is_in_call_by_number(state, of.x[CALL]) ? (int32_t)of.x[CALL] : -1,
	};
	memcpy(ret->arguments, of.x, sizeof(ret->arguments));
	/* Not at the instruction again: the thread is about to leave a call that is never restarted. */
	ret->interrupted = ret->call >= 0 && of.x[0] == (uint64_t)-EINTR;
	if (ret->interrupted)
		ret->call_pc = of.pc;
	return true;
}

static size_t write_aarch64(const struct snap_known_registers *known, void *ret)
{
	struct snap_aarch64_registers of = {
		.pc = known->pc,
		.sp = known->sp,
		.thread_pointer = known->thread_pointer,
	};

	memcpy(of.x, known->arguments, sizeof(known->arguments));
	of.x[CALL] = (uint64_t)(int64_t)known->call;
	of.x[FRAME_POINTER] = known->fp;
	memcpy(ret, &of, sizeof(of));
	return sizeof(of);
}

/* ---- any ---- */

bool snap_registers_read(enum snap_arch arch, const void *raw, size_t size, char state,
			 struct snap_known_registers *ret)
{
	switch (arch) {
	case SNAP_ARCH_X86_64:
		return read_x86_64(raw, size, ret);
	case SNAP_ARCH_AARCH64:
		return read_aarch64(raw, size, state, ret);
	case SNAP_ARCH_UNKNOWN:
		return false;
	}
	return false;
}

bool snap_registers_are_wide(enum snap_arch arch, const void *raw)
{
	const struct snap_x86_64_registers *x86_64 = raw;
	const struct snap_aarch64_registers *aarch64 = raw;

	return arch == SNAP_ARCH_X86_64 ? x86_64->cs == USER_CS : !(aarch64->pstate & MODE32);
}

size_t snap_registers_write(enum snap_arch arch, const struct snap_known_registers *known,
			    void *ret)
{
	switch (arch) {
	case SNAP_ARCH_X86_64:
		return write_x86_64(known, ret);
	case SNAP_ARCH_AARCH64:
		return write_aarch64(known, ret);
	case SNAP_ARCH_UNKNOWN:
		return 0;
	}
	return 0;
}
