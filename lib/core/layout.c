/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processors and the notes of their cores: see layout.h. To add one: a row. */
#include "core/layout.h"

#include <elf.h>

static const struct snap_core_layout layouts[] = {
	/* struct user_regs_struct: 27 words, rsp is the 20th, fs_base the 22nd */
	{ EM_X86_64, SNAP_ARCH_X86_64, "x86_64", 27 * 8, 19 * 8, 21 * 8 },
	/* struct user_pt_regs: x0 to x30, sp, pc, pstate; tpidr_el0 is a note of its own */
	{ EM_AARCH64, SNAP_ARCH_AARCH64, "aarch64", 34 * 8, 31 * 8, 0 },
};

const struct snap_core_layout *snap_core_layout(uint16_t machine)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(layouts); i++)
		if (layouts[i].machine == machine)
			return &layouts[i];
	return NULL;
}

const struct snap_core_layout *snap_core_layout_of(enum snap_arch arch)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(layouts); i++)
		if (layouts[i].arch == arch)
			return &layouts[i];
	return NULL;
}
