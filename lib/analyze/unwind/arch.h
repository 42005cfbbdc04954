/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is special to one architecture: registers, the registers that rows follow, syscall names.
 *
 * To add one: write unwind/arch_NAME.c with one struct snap_arch_ops, add it to the switch in
 * snap_arch_ops(), add the enum value in model/capture.h and its recognition in capture/tracer.c.
 */
#ifndef SNAP_ANALYZE_ARCH_H
#define SNAP_ANALYZE_ARCH_H

#include "model/capture.h"

enum { SNAP_MAX_DWARF_REGISTERS = 33 };

struct snap_arch_ops {
	unsigned dwarf_registers; /* how many DWARF register numbers are followed */
	unsigned sp, fp, ra;      /* DWARF numbers: stack, frame pointer, return address column */
	/* Registers by DWARF number from raw NT_PRSTATUS; false if the size does not fit. */
	bool (*registers)(const void *raw, size_t size, uint64_t *dwarf_ret, uint64_t *pc_ret);
	/* The system call that the thread is in, -1: none. */
	int (*syscall_number)(const void *raw, size_t size);
	/* Its name, NULL unknown. */
	const char *(*syscall_name)(int number);
};

/* NULL: an architecture that is not supported. */
const struct snap_arch_ops *snap_arch_ops(enum snap_arch arch);

#endif
