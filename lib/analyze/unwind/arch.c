/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of architectures: see arch.h. Knows their names only. */
#include "analyze/unwind/arch.h"

const struct snap_arch_ops *snap_arch_ops(enum snap_arch arch)
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
