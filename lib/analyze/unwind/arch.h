/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is special to one architecture: registers, the registers that rows follow, syscall names.
 *
 * To add one: write unwind/arch_NAME.c with one struct snap_arch_ops, add it to the switch in
 * snap_arch_ops(), add the enum value in model/capture.h and its recognition in stop/tracer.c.
 */
#ifndef SNAP_ANALYZE_UNWIND_ARCH_H
#define SNAP_ANALYZE_UNWIND_ARCH_H

#include "model/capture.h"

enum {
	SNAP_MAX_DWARF_REGISTERS = 33,
	SNAP_MAX_SAVED = 12,      /* registers that a row may restore, beside the pc */
	SNAP_CALL_BYTES = 7,      /* the longest call instruction */
	SNAP_PROLOGUE_BYTES = 16, /* how far a function is looked at */
	SNAP_MAX_PUSHED = 16,     /* registers that it pushes there */
	SNAP_RETURN_BYTES = 2,
	SNAP_STUB_BYTES = 7,
	SNAP_SIGNAL_RETURN_BYTES = 16, /* what is_signal_return() looks at */
};

/* What instruction there can be before a return address: bytes may be read in two ways. */
struct snap_call {
	bool is_direct, is_indirect;
	uint64_t target; /* of the direct one */
};

/* What the first instructions of a function do. */
struct snap_prologue {
	bool sets_frame_pointer;         /* it is pushed, and is then sp */
	uint8_t pushed[SNAP_MAX_PUSHED]; /* DWARF numbers of what is pushed first, in order */
	unsigned pushed_count;
};

struct snap_arch_ops {
	unsigned dwarf_registers; /* how many DWARF register numbers are followed */
	unsigned sp, fp, ra;      /* DWARF numbers: stack, frame pointer, return address column */
	/* Registers by DWARF number from raw NT_PRSTATUS; false if the size does not fit. */
	bool (*registers)(const void *raw, size_t size, uint64_t *dwarf_ret, uint64_t *pc_ret);
	/* The system call that the thread is in, -1: none. */
	int (*syscall_number)(const void *raw, size_t size);
	/* Its name, NULL unknown. */
	const char *(*syscall_name)(int number);
	/* Callee-saved registers other than sp, in the order in which rows number them. */
	const uint8_t *saved;
	unsigned saved_count;
	uint16_t machine;       /* e_machine of ELF */
	bool has_link_register; /* a leaf's return address may still be in register `ra` */
	/* The SNAP_CALL_BYTES before `end` as a call whose return address is `address`. */
	struct snap_call (*call_before)(const uint8_t *end, uint64_t address);
	/* `size` bytes from the beginning of a function; *ret is zeroed. */
	void (*read_prologue)(const uint8_t *code, size_t size, struct snap_prologue *ret);
	/* Whether the instruction returns to the caller. */
	bool (*is_return)(const uint8_t code[SNAP_RETURN_BYTES]);
	/* Whether the code jumps to where a word of data says, as the stubs of a PLT do. */
	bool (*is_jump_stub)(const uint8_t code[SNAP_STUB_BYTES]);
	/* Whether this is the code that returns from a signal handler. */
	bool (*is_signal_return)(const uint8_t code[SNAP_SIGNAL_RETURN_BYTES]);
	/* Offsets from sp, there, of the interrupted registers by DWARF number. */
	const uint16_t *signal_context;
};

extern const struct snap_arch_ops snap_arch_x86_64;

/* NULL: an architecture that is not supported. */
static inline const struct snap_arch_ops *snap_arch_ops(enum snap_arch arch)
{
	switch (arch) {
	case SNAP_ARCH_X86_64:
		return &snap_arch_x86_64;
	case SNAP_ARCH_AARCH64:
	case SNAP_ARCH_UNKNOWN:
		return NULL;
	}
	return NULL;
}

#endif
