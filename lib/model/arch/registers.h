/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Registers of a thread as a capture keeps them: NT_PRSTATUS of its processor as the kernel gives
 * it (ptrace(2), PTRACE_GETREGSET), and on aarch64 the thread pointer behind it, which is a set of
 * its own there (NT_ARM_TLS).
 *
 * This file has the facts that all processors share. They depend on the processor of the capture, not
 * of the machine that reads it. Facts for unwinding alone are in analyze/unwind/arch.h.
 */
#pragma once

#include "model/capture.h"

/* Of x86-64, in the order of struct user_regs_struct (sys/user.h). */
struct snap_x86_64_registers {
	uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	uint64_t orig_rax, rip, cs, eflags, rsp, ss, fs_base, gs_base, ds, es, fs, gs;
};

/* Of aarch64: struct user_pt_regs (asm/ptrace.h), and tpidr_el0; a core file has it elsewhere. */
struct snap_aarch64_registers {
	uint64_t x[31], sp, pc, pstate;
	uint64_t thread_pointer;
};

enum {
	/* The largest plausible number of a system call. */
	SNAP_MOST_CALL = 1023,
};

/* Of the machine that this program was built for. */
#if defined(__x86_64__)
#define SNAP_OWN_ARCH SNAP_ARCH_X86_64
enum { SNAP_OWN_PRSTATUS = sizeof(struct snap_x86_64_registers) };
enum { SNAP_OWN_REGISTERS = sizeof(struct snap_x86_64_registers) };
#elif defined(__aarch64__)
#define SNAP_OWN_ARCH SNAP_ARCH_AARCH64
enum { SNAP_OWN_PRSTATUS = offsetof(struct snap_aarch64_registers, thread_pointer) };
enum { SNAP_OWN_REGISTERS = sizeof(struct snap_aarch64_registers) };
#else
#error "add the processor to enum snap_arch, its registers here, and see CONTRIBUTING.md"
#endif

struct snap_known_registers {
	uint64_t pc, sp, fp;
	uint64_t thread_pointer; /* 0: unknown */
	/*
	 * The system call that the thread is in, -1: none, and its arguments. On aarch64 no register
	 * says whether it is in one: there a thread that sleeps, or may have slept, may
	 * be in one (see analyze/unwind/in_call.h).
	 */
	int32_t call;
	uint64_t call_pc; /* where procfs has it then: behind the instruction that made the call */
	uint64_t arguments[SNAP_CALL_ARGUMENTS];
	/* The stop ended the call with EINTR, which is in the register of the first argument. */
	bool interrupted;
};

/*
 * What the registers say; `state` is the letter of the thread's state (see struct snap_thread).
 * False: their size is not that of the processor.
 */
bool snap_registers_read(enum snap_arch arch, const void *raw, size_t size, char state,
			 struct snap_known_registers *ret);

/* Of a thread of a capture; false: it has none. */
static inline bool snap_registers_of(enum snap_arch arch, const struct snap_thread *thread,
				     struct snap_known_registers *ret)
{
	return thread->registers && snap_registers_read(arch, thread->registers,
							thread->registers_size, thread->state, ret);
}

/* Whether a thread with such registers runs code of 64 bits (user_64bit_mode() of the kernel). */
bool snap_registers_are_wide(enum snap_arch arch, const void *raw);

/*
 * The registers of which only these are known, all others 0, into SNAP_MAX_REGISTERS bytes; how
 * many bytes they are, 0: the processor is not known.
 */
size_t snap_registers_write(enum snap_arch arch, const struct snap_known_registers *known,
			    void *ret);
