/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The differences between processors: registers, the registers that rows follow, names of calls.
 *
 * The capture chooses, not the machine: a capture of aarch64 is unwound on x86-64 as it is on
 * aarch64. Knows registers and the instructions that it gets, and nothing of how a row or a caller
 * is found.
 *
 * To add one: write unwind/arch_NAME.c with one struct snap_arch_ops and add it to the switch in
 * snap_arch_ops(); CONTRIBUTING.md ("A processor") has the other places.
 */
#pragma once

#include "model/capture.h"

enum {
	SNAP_MAX_DWARF_REGISTERS = 33,
	SNAP_MAX_SAVED = 12,  /* registers that a row may restore, beside the pc */
	SNAP_CALL_BYTES = 7,  /* the longest call instruction */
	SNAP_MAX_PUSHED = 16, /* registers that it pushes there */
	/* The most of what each may ask for, see below. */
	SNAP_PROLOGUE_BYTES = 512, /* where frames are made; to follow them takes 4 us, nops 12 */
	SNAP_RETURN_BYTES = 4,
	SNAP_STUB_BYTES = 20,
	SNAP_SIGNAL_RETURN_BYTES = 16, /* what is_signal_return() looks at */
};

/* What instruction there can be before a return address: bytes may be read in two ways. */
struct snap_call {
	bool is_direct, is_indirect;
	uint64_t target; /* of the direct one */
};

/* What the instructions of a function do up to a place, in the order in which they lie there. */
struct snap_prologue {
	bool sets_frame_pointer; /* it leads to where its old value and the return address lie */
	bool sets_frame_pointer_later; /* the same if no branch led around that code */
	/* Of what a call pushes the return address of: DWARF numbers of what comes next, in order. */
	uint8_t pushed[SNAP_MAX_PUSHED];
	unsigned pushed_count;
	/*
	 * With a link register: the frame record, which is the old frame pointer and the return
	 * address, was written, so many bytes below the caller's stack pointer. 0: it was not.
	 */
	uint32_t record_depth;
	/* The return address was written, and the frame pointer was not, which is the caller's yet. */
	uint32_t link_depth;
	/* How far the stack pointer is below that; without a link register, below what a call pushes. */
	uint32_t sp_depth;
	bool has_depth; /* the latter is known */
};

/* What code of which nothing else is known has on the stack. */
enum snap_stub {
	SNAP_STUB_NONE,   /* it is no stub of a PLT */
	SNAP_STUB_BARE,   /* nothing: the return address is in the link register */
	SNAP_STUB_PUSHED, /* a word, and the return address above it, right below the caller's sp */
};
enum { SNAP_STUB_AROUND = 32 /* bytes before and behind an address, for stub_at */ };

struct snap_arch_ops {
	unsigned dwarf_registers; /* how many DWARF register numbers are followed */
	unsigned sp, fp, ra;      /* DWARF numbers: stack, frame pointer, return address column */
	unsigned pc;              /* that of the pc, which is `ra` where a call pushes it */
	unsigned address_bits;    /* of user addresses, at most */
	/* Registers by DWARF number, of a capture; false if the size does not fit. */
	bool (*registers)(const void *raw, size_t size, uint64_t *dwarf_ret, uint64_t *pc_ret);
	/* Of system calls that others have under other numbers; see snap_arch_syscall_name(). */
	const char *const *syscall_names;
	size_t syscall_name_count;
	/* Callee-saved registers other than sp, in the order in which rows number them. */
	const uint8_t *saved;
	unsigned saved_count;
	uint16_t machine;       /* e_machine of ELF */
	bool has_link_register; /* a leaf's return address may still be in register `ra` */
	/*
	 * Return addresses may be signed in the bits above all addresses of the process: those are no
	 * part of them.
	 */
	bool signs_addresses;
	uint8_t return_bytes, stub_bytes; /* what the following look at, at most */
	/* The SNAP_CALL_BYTES before `end` as a call whose return address is `address`. */
	struct snap_call (*call_before)(const uint8_t *end, uint64_t address);
	/* `size` bytes of a function, SNAP_PROLOGUE_BYTES at most; *ret is zeroed. */
	void (*read_prologue)(const uint8_t *code, size_t size, struct snap_prologue *ret);
	/* Whether the instruction returns to the caller. */
	bool (*is_return)(const uint8_t *code);
	/* Whether the code jumps to where a word of data says, as the stubs of a PLT do. */
	bool (*is_jump_stub)(const uint8_t *code);
	/* Of the place `at` in `code`; NULL: linkers write CFI for stubs. */
	enum snap_stub (*stub_at)(const uint8_t *code, size_t size, size_t at);
	/* Whether this is the code that returns from a signal handler. */
	bool (*is_signal_return)(const uint8_t code[SNAP_SIGNAL_RETURN_BYTES]);
	/* Whether they begin what makecontext(3) puts under a function: glibc's __start_context. */
	bool (*is_context_start)(const uint8_t code[SNAP_SIGNAL_RETURN_BYTES]);
	/*
	 * Whether the four bytes are the instruction that makes a system call; NULL: registers say
	 * whether a thread is in one.
	 */
	bool (*is_system_call)(const uint8_t *code);
	/* Offsets from sp, there, of the interrupted registers by DWARF number, and of the pc. */
	const uint16_t *signal_context;
	uint16_t signal_pc;
};

/*
 * x86_length.c: how many bytes an instruction of x86-64 has; 0: `size` bytes do not hold all of it,
 * or no processor has it.
 */
size_t snap_x86_length(const uint8_t *code, size_t size);

extern const struct snap_arch_ops snap_arch_x86_64;
extern const struct snap_arch_ops snap_arch_aarch64;

/* NULL: an architecture that is not supported. */
static inline const struct snap_arch_ops *snap_arch_ops(enum snap_arch arch)
{
	switch (arch) {
	case SNAP_ARCH_X86_64:
		return &snap_arch_x86_64;
	case SNAP_ARCH_AARCH64:
		return &snap_arch_aarch64;
	case SNAP_ARCH_UNKNOWN:
		return NULL;
	}
	return NULL;
}

/* The name of a system call; NULL: it is unknown. */
const char *snap_arch_syscall_name(const struct snap_arch_ops *arch, int number);
