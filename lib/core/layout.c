/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processors and the notes of their cores: see layout.h. To add one: a row. */
#include "core/layout.h"

#include "model/arch/registers.h"

#include <elf.h>

static const struct snap_core_layout layouts[] = {
	{ EM_X86_64, SNAP_ARCH_X86_64, "x86_64", sizeof(struct snap_x86_64_registers) },
	/* The thread pointer is a note of its own. */
	{ EM_AARCH64, SNAP_ARCH_AARCH64, "aarch64",
	  offsetof(struct snap_aarch64_registers, thread_pointer) },
};

const struct snap_core_layout *snap_core_layout(uint16_t machine)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(layouts); i++)
		if (layouts[i].machine == machine)
			return &layouts[i];
	return NULL;
}

const char *snap_core_machine_name(uint16_t machine)
{
	/* as `uname -m` says it */
	static const struct {
		uint16_t machine;
		const char *name;
	} names[] = {
		{ EM_386, "i386" },        { EM_ARM, "arm" },       { EM_PPC, "ppc" },
		{ EM_PPC64, "ppc64" },     { EM_S390, "s390x" },    { EM_MIPS, "mips" },
		{ EM_SPARCV9, "sparc64" }, { EM_RISCV, "riscv64" }, { EM_LOONGARCH, "loongarch64" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(names); i++)
		if (names[i].machine == machine)
			return names[i].name;
	return NULL;
}
