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
