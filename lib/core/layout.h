/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How notes of a core are laid out, by the processor: a row of a table each. Numbers are those of
 * struct elf_prstatus and elf_prpsinfo of linux/elfcore.h. Knows nothing of what is done with them.
 */
#pragma once

#include "model/capture.h"

/* All kernels of 64 bits have these in common. */
enum {
	SNAP_PRSTATUS_SIGNAL = 12, /* pr_cursig, 16 bits */
	SNAP_PRSTATUS_TID = 32,    /* pr_pid, 32 bits */
	SNAP_PRSTATUS_REGISTERS = 112,
	SNAP_PRPSINFO_STATE = 1, /* pr_sname */
	SNAP_PRPSINFO_UID = 16,
	SNAP_PRPSINFO_PID = 24,
	SNAP_PRPSINFO_PPID = 28,
	SNAP_PRPSINFO_PGRP = 32,
	SNAP_PRPSINFO_NAME = 40, /* pr_fname, 16 bytes */
	SNAP_PRPSINFO_ARGS = 56, /* pr_psargs, 80 bytes */
	SNAP_PRPSINFO_SIZE = 136,
};

enum { SNAP_CORE_MOST_REGISTERS = 34 * 8 }; /* bytes, of any row */

struct snap_core_layout {
	uint16_t machine; /* e_machine */
	enum snap_arch arch;
	const char *name;        /* as uname(2) has it */
	uint32_t registers_size; /* bytes */
};

/* NULL: cores of this processor are not read. */
const struct snap_core_layout *snap_core_layout(uint16_t machine);
/* What a machine of an ELF header (e_machine) is called; NULL: not known. Static. */
const char *snap_core_machine_name(uint16_t machine);
